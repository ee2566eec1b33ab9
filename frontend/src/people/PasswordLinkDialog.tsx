import { Button, Modal } from "@mantine/core";
import { useClipboard } from "@mantine/hooks";
import { useMutation } from "@tanstack/react-query";

import { client, unwrap } from "../api/client";
import type { PasswordLink, User } from "../api/types";
import { Time } from "../ui/Time";

/** Makes a link with which a person sets their password, and shows it this once. */
export function PasswordLinkDialog({ user, onClose }: { user: User | null; onClose: () => void }) {
  const make = useMutation({
    mutationFn: (of: User) =>
      unwrap(client.POST("/api/v1/users/{user_id}/password-link", { params: { path: { user_id: of.id } } })),
  });
  const close = () => {
    make.reset();
    onClose();
  };
  return (
    <Modal
      opened={user !== null}
      onClose={close}
      title={`Password link for ${user?.login ?? ""}`}
      closeButtonProps={{ "aria-label": "Close" }}
    >
      <div className="stack">
        {make.data ? (
          <MadeLink made={make.data} />
        ) : (
          <>
            <p>
              With the link, {user?.name} sets a new password, once, within an hour. An earlier link stops working; sessions
              end when the password is set.
            </p>
            {make.error && (
              <p className="bad-text" role="alert">
                {make.error.message}
              </p>
            )}
          </>
        )}
        <div className="inline end">
          <Button variant="default" onClick={close} data-autofocus>
            {make.data ? "Close" : "Back"}
          </Button>
          {!make.data && (
            <Button loading={make.isPending} onClick={() => user && make.mutate(user)}>
              Make the link
            </Button>
          )}
        </div>
      </div>
    </Modal>
  );
}

/** A link that was just made: where it was mailed to, or the link itself. */
export function MadeLink({ made }: { made: Pick<PasswordLink, "user" | "link" | "sent_to" | "expires_at"> }) {
  const clipboard = useClipboard({ timeout: 2000 });
  if (made.link === null) {
    return (
      <p role="status">
        {made.sent_to === null
          ? `The link for ${made.user} was shown before. Make a new one.`
          : `The link for ${made.user} was mailed to ${made.sent_to}.`}
      </p>
    );
  }
  const address = `${globalThis.location.origin}${made.link}`;
  return (
    <div className="stack" role="status">
      <p>
        Hand this link to {made.user}. It is shown this once and works once, until <Time at={made.expires_at} show="both" />.
      </p>
      <code className="breaks">{address}</code>
      <div>
        <Button variant="default" size="xs" onClick={() => clipboard.copy(address)}>
          {clipboard.copied ? "Copied" : "Copy"}
        </Button>
      </div>
    </div>
  );
}

import { Button } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";

import { client, unwrap } from "../api/client";
import { sessionQuery } from "../api/queries";
import type { Session } from "../api/types";
import { Card } from "../ui/Card";
import { toastError } from "../ui/toast";
import { usePageTitle } from "../ui/usePageTitle";
import { PasswordForm } from "./PasswordForm";
import "./login.css";

/** In the place of every page while my password is one that an administrator chose. */
export function FirstPassword({ session }: { session: Session }) {
  usePageTitle("Choose a password");
  const queryClient = useQueryClient();
  const signOut = useMutation({
    mutationFn: () => unwrap(client.DELETE("/api/v1/session")),
    onSuccess: () => queryClient.setQueryData(sessionQuery.queryKey, null),
    onError: toastError,
  });
  return (
    <main className="login">
      <Card className="stack narrow">
        <div>
          <div className="brand">
            <span aria-hidden="true">≋</span> Tidegate
          </div>
          <h1>Choose a password</h1>
          <p className="sub breaks">
            An administrator chose the password of {session.user.login}. Choose your own to go on.
          </p>
        </div>
        <PasswordForm login={session.user.login} onChanged={() => undefined} />
        <div>
          <Button variant="default" size="xs" loading={signOut.isPending} onClick={() => signOut.mutate()}>
            Sign out
          </Button>
        </div>
      </Card>
    </main>
  );
}

import { Button, Modal, Select } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { OVERLAPS } from "../access/lifetimes";
import { client, unwrap } from "../api/client";
import type { NewScimToken, ScimToken, TreeNode } from "../api/types";
import { Confirm } from "../ui/Confirm";
import { DataTable } from "../ui/DataTable";
import { useNowMs } from "../ui/now";
import { Empty, Lines, QueryView } from "../ui/states";
import { Time } from "../ui/Time";
import { toastDone, toastError } from "../ui/toast";
import { scimTokensQuery } from "./queries";

/** The tokens for SCIM of an organization: listed, replaced, ended. */
export function ScimTokens({
  organization,
  onReplaced,
}: {
  organization: TreeNode;
  onReplaced: (token: NewScimToken) => void;
}) {
  const queryClient = useQueryClient();
  const now = useNowMs();
  const query = scimTokensQuery(organization.id);
  const tokens = useQuery(query);
  const [ending, setEnding] = useState<ScimToken | null>(null);
  const [replaced, setReplaced] = useState<ScimToken | null>(null);
  const end = useMutation({
    mutationFn: ({ id }: ScimToken) =>
      unwrap(client.DELETE("/api/v1/scim-tokens/{scim_token_id}", { params: { path: { scim_token_id: id } } })),
    onSuccess: (_, token) => {
      toastDone(`Token ${token.name} no longer works`);
      void queryClient.invalidateQueries({ queryKey: query.queryKey });
    },
    onError: toastError,
    onSettled: () => setEnding(null),
  });
  const isLive = (token: ScimToken) => token.revoked_at === null && Date.parse(token.expires_at) > now;
  return (
    <>
      <QueryView query={tokens} loading={<Lines count={3} label="Loading the tokens" />}>
        {(items) =>
          items.length === 0 ? (
            <Empty>No tokens for SCIM yet.</Empty>
          ) : (
            <DataTable
              label="Tokens for SCIM"
              rows={items}
              rowKey={({ id }) => id}
              columns={[
                { header: "Token", isHeading: true, className: "breaks", cell: ({ name }) => name },
                { header: "Begins with", cell: ({ prefix }) => <code>{prefix}…</code> },
                {
                  header: "Expires",
                  cell: (token) =>
                    isLive(token) ? (
                      <Time at={token.expires_at} />
                    ) : (
                      <span className="pill bad">{token.revoked_at === null ? "expired" : "ended"}</span>
                    ),
                },
                {
                  header: "Last used",
                  only: "wide",
                  cell: (token) => (token.last_used_at ? <Time at={token.last_used_at} /> : "never"),
                },
                {
                  header: <span className="visually-hidden">Actions</span>,
                  isRight: true,
                  cell: (token) =>
                    isLive(token) && (
                      <span className="inline end">
                        <Button variant="default" size="xs" onClick={() => setReplaced(token)}>
                          Replace…
                        </Button>
                        <Button variant="default" size="xs" c="var(--bad)" onClick={() => setEnding(token)}>
                          End…
                        </Button>
                      </span>
                    ),
                },
              ]}
            />
          )
        }
      </QueryView>
      <Modal
        opened={replaced !== null}
        onClose={() => setReplaced(null)}
        title={`Replace ${replaced?.name ?? ""}`}
        closeButtonProps={{ "aria-label": "Close" }}
      >
        {replaced && (
          <Replacing
            token={replaced}
            onReplaced={(token) => {
              void queryClient.invalidateQueries({ queryKey: query.queryKey });
              onReplaced(token);
              setReplaced(null);
            }}
          />
        )}
      </Modal>
      <Confirm
        isOpen={ending !== null}
        title={`End ${ending?.name ?? ""}?`}
        isBusy={end.isPending}
        isDangerous
        confirmLabel="End it"
        onConfirm={() => ending && end.mutate(ending)}
        onClose={() => setEnding(null)}
      >
        The identity provider cannot push with it any more, at once. People, groups and roles stay as they are.
      </Confirm>
    </>
  );
}

function Replacing({ token, onReplaced }: { token: ScimToken; onReplaced: (token: NewScimToken) => void }) {
  const [overlap, setOverlap] = useState("86400");
  const replace = useMutation({
    mutationFn: () =>
      unwrap(
        client.POST("/api/v1/scim-tokens/{scim_token_id}/replace", {
          params: { path: { scim_token_id: token.id } },
          body: { overlap_s: Number(overlap) },
        }),
      ),
    onSuccess: onReplaced,
  });
  return (
    <form
      className="stack"
      onSubmit={(event) => {
        event.preventDefault();
        replace.mutate();
      }}
    >
      <p>The new token has the same name and lifetime. Enter it at the identity provider before the old one ends.</p>
      <Select
        label="The old token ends"
        allowDeselect={false}
        data={OVERLAPS}
        value={overlap}
        onChange={(value) => value && setOverlap(value)}
      />
      {replace.error && (
        <p className="bad-text" role="alert">
          {replace.error.message}
        </p>
      )}
      <div className="inline end">
        <Button type="submit" loading={replace.isPending}>
          Replace
        </Button>
      </div>
    </form>
  );
}

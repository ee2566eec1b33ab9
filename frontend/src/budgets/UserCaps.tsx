import { Button } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { client, unwrap } from "../api/client";
import type { Pool, TreeNode, UserCap } from "../api/types";
import { Card } from "../ui/Card";
import { CliLine } from "../ui/CliLine";
import { Confirm } from "../ui/Confirm";
import { DataTable } from "../ui/DataTable";
import { Empty, Lines, QueryView } from "../ui/states";
import { toastDone, toastError } from "../ui/toast";
import { formatGpus } from "../ui/units";
import { CapDialog, ownerText } from "./CapDialog";
import { userCapsQuery } from "./queries";

type Asked = { kind: "form"; cap: UserCap | null } | { kind: "remove"; cap: UserCap } | null;

/** How many GPUs each user of a team, or one person, may use at once. `teams` are those whose caps the reader sets. */
export function UserCaps({
  scope,
  teams,
  pools,
}: {
  scope: string | undefined;
  teams: readonly TreeNode[];
  pools: readonly Pool[];
}) {
  const caps = useQuery(userCapsQuery);
  const [asked, setAsked] = useState<Asked>(null);
  const close = () => setAsked(null);
  return (
    <Card label="Caps for users">
      <div className="inline spread">
        <h2>Caps for users</h2>
        {teams.length > 0 && (
          <Button size="xs" variant="default" onClick={() => setAsked({ kind: "form", cap: null })}>
            New cap…
          </Button>
        )}
      </div>
      <QueryView query={caps} loading={<Lines count={2} label="Loading caps" />}>
        {(found) => {
          const here = found.filter(({ team }) => scope === undefined || `${team}/`.startsWith(`${scope}/`));
          return here.length === 0 ? (
            <Empty>No caps yet. A user may use as many GPUs as the team.</Empty>
          ) : (
            <CapTable caps={here} onAsk={setAsked} />
          );
        }}
      </QueryView>
      <p className="small faint">
        GPUs at once inside a team. The cap of a person comes before that of each user. Jobs beyond it wait; running jobs go on.
      </p>
      <CliLine command="tidegate caps list" />
      {asked?.kind === "form" && <CapDialog cap={asked.cap} teams={teams} pools={pools} onClose={close} />}
      {asked?.kind === "remove" && <RemoveDialog cap={asked.cap} onClose={close} />}
    </Card>
  );
}

function CapTable({ caps, onAsk }: { caps: readonly UserCap[]; onAsk: (asked: Asked) => void }) {
  return (
    <DataTable
      label="Caps for users"
      className="budgets"
      rows={caps}
      rowKey={(row) => row.id}
      columns={[
        {
          header: "User",
          isHeading: true,
          headClass: "budget-name",
          title: ownerText,
          cell: (row) => (
            <>
              <b>{row.user ?? "Each user"}</b>
              <span className="small dim budget-owner">
                {row.team} · {row.pool ?? "all pools"}
              </span>
            </>
          ),
        },
        { header: "At once", isRight: true, cell: (row) => (row.cap_mgpu === null ? "no cap" : formatGpus(row.cap_mgpu)) },
        caps.some((row) => row.can_edit) && {
          header: <span className="visually-hidden">Actions</span>,
          isRight: true,
          cell: (row) =>
            row.can_edit && (
              <span className="budget-actions">
                <Button
                  size="compact-sm"
                  variant="default"
                  aria-label={`Change the cap of ${ownerText(row)}`}
                  onClick={() => onAsk({ kind: "form", cap: row })}
                >
                  Change…
                </Button>
                <Button
                  size="compact-sm"
                  variant="default"
                  aria-label={`Remove the cap of ${ownerText(row)}`}
                  onClick={() => onAsk({ kind: "remove", cap: row })}
                >
                  Remove…
                </Button>
              </span>
            ),
        },
      ]}
    />
  );
}

function RemoveDialog({ cap, onClose }: { cap: UserCap; onClose: () => void }) {
  const queryClient = useQueryClient();
  const remove = useMutation({
    mutationFn: () =>
      unwrap(
        client.DELETE("/api/v1/user-caps/{cap_id}", {
          params: { path: { cap_id: cap.id }, header: { "If-Match": `"v${cap.version}"` } },
        }),
      ),
    onSuccess: () => toastDone(`The cap of ${ownerText(cap)} is removed`),
    onError: toastError,
    onSettled: () => {
      onClose();
      return queryClient.invalidateQueries({ queryKey: userCapsQuery.queryKey });
    },
  });
  return (
    <Confirm
      title={`Remove the cap of ${ownerText(cap)}?`}
      isOpen
      isBusy={remove.isPending}
      confirmLabel="Remove"
      isDangerous
      onConfirm={() => remove.mutate()}
      onClose={onClose}
    >
      <p>Jobs that wait for it may start at once.</p>
    </Confirm>
  );
}

import { Button, Modal, Select, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
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
import { useReturnFocus } from "../ui/useReturnFocus";
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

function ownerText({ team, user, pool }: UserCap): string {
  return `${user ?? "each user"} in ${team}${pool === null ? "" : ` · ${pool}`}`;
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

/** Milli-GPU that a person typed, null for none, undefined for what is no number of GPUs. */
function readCap(text: string, user: string): number | null | undefined {
  const plain = text.trim();
  if (plain === "none" && user.trim() !== "") return null;
  return /^\d+(\.\d{1,3})?$/.test(plain) ? Math.round(Number(plain) * 1_000) : undefined;
}

function CapDialog({
  cap,
  teams,
  pools,
  onClose,
}: {
  cap: UserCap | null;
  teams: readonly TreeNode[];
  pools: readonly Pool[];
  onClose: () => void;
}) {
  useReturnFocus();
  const queryClient = useQueryClient();
  const form = useForm({
    initialValues: {
      team: cap?.team ?? teams[0]?.path ?? "",
      user: cap?.user ?? "",
      pool: cap?.pool ?? "",
      most: cap === null ? "" : cap.cap_mgpu === null ? "none" : String(cap.cap_mgpu / 1_000),
    },
    validate: {
      most: (most, { user }) =>
        readCap(most, user) === undefined ? "Give a number of GPUs, such as 8; for one user also none." : null,
    },
  });
  const { values } = form;
  const save = useMutation({
    mutationFn: () => {
      const body = { cap_mgpu: readCap(values.most, values.user) ?? null };
      if (cap !== null) {
        return unwrap(
          client.PATCH("/api/v1/user-caps/{cap_id}", {
            params: { path: { cap_id: cap.id }, header: { "If-Match": `"v${cap.version}"` } },
            body,
          }),
        );
      }
      return unwrap(
        client.POST("/api/v1/user-caps", {
          body: { ...body, team: values.team, user: values.user.trim() || null, pool: values.pool || null },
        }),
      );
    },
    onSuccess: (saved) => {
      void queryClient.invalidateQueries({ queryKey: userCapsQuery.queryKey });
      toastDone(`The cap of ${ownerText(saved)} is set`);
      onClose();
    },
  });
  const only = `${values.user.trim() && ` --user ${values.user.trim()}`}${values.pool && ` --pool ${values.pool}`}`;
  return (
    <Modal
      opened
      onClose={onClose}
      size="lg"
      title={cap === null ? "New cap" : `Cap of ${ownerText(cap)}`}
      closeButtonProps={{ "aria-label": "Close" }}
    >
      <form className="stack" onSubmit={form.onSubmit(() => save.mutate())}>
        {cap === null && (
          <>
            <Select
              label="Team"
              searchable
              allowDeselect={false}
              data={teams.map((node) => node.path)}
              {...form.getInputProps("team")}
            />
            <div className="budget-pair">
              <TextInput label="User" placeholder="each user" {...form.getInputProps("user")} />
              <Select
                label="Pool"
                data={[{ value: "", label: "All pools together" }, ...pools.map(({ name }) => ({ value: name, label: name }))]}
                allowDeselect={false}
                {...form.getInputProps("pool")}
              />
            </div>
          </>
        )}
        <TextInput label="GPUs at once" data-autofocus inputMode="decimal" {...form.getInputProps("most")} />
        {save.error && (
          <p className="bad-text" role="alert">
            {save.error.message}
          </p>
        )}
        <CliLine command={`tidegate caps set ${values.most || "GPUS"} --team ${values.team}${only}`} />
        <div className="inline end">
          <Button variant="default" onClick={onClose}>
            Back
          </Button>
          <Button type="submit" loading={save.isPending}>
            {cap === null ? "Set cap" : "Save"}
          </Button>
        </div>
      </form>
    </Modal>
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

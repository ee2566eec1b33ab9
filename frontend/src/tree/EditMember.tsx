import { Button, Modal } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";

import { client, unwrap } from "../api/client";
import type { Member } from "../api/types";
import { toastDone } from "../ui/toast";
import { formatGpus } from "../ui/units";
import { endOfDay, lastDayOf, RoleFields, type RoleChoice } from "./RoleFields";
import { roleWords } from "./use";
import { useNode } from "./useNode";

/** The roles of a member that the reader may change: another role, an end, or none at all. */
export function EditMember({ member, onClose }: { member: Member; onClose: () => void }) {
  const node = useNode();
  const roles = member.roles.filter(({ may_change: isMine }) => isMine);
  const usedMgpu = member.use.reduce((sum, use) => sum + use.guaranteed_mgpu + use.borrowed_mgpu, 0);
  return (
    <Modal opened onClose={onClose} title={`Roles of ${member.user.login}`} closeButtonProps={{ "aria-label": "Close" }}>
      <div className="stack">
        {roles.map((role) => (
          <RoleForm key={role.id} role={role} member={member} onDone={onClose} />
        ))}
        <p className="small dim">
          {usedMgpu > 0
            ? `Jobs of ${member.user.login} use ${formatGpus(usedMgpu)} here. Jobs that run or wait go on when a role ends. `
            : "Jobs that run or wait go on when a role ends. "}
          <Link to="/jobs" search={{ scope: node.path, user: member.user.username }}>
            Jobs of {member.user.username}
          </Link>
        </p>
      </div>
    </Modal>
  );
}

function RoleForm({ role, member, onDone }: { role: Member["roles"][number]; member: Member; onDone: () => void }) {
  const queryClient = useQueryClient();
  const [isRemoving, setRemoving] = useState(false);
  const first: RoleChoice = { role: role.role, lastDay: lastDayOf(role.expires_at) };
  const [choice, setChoice] = useState(first);
  const params = { path: { grant_id: role.id } };
  const done = (words: string) => {
    toastDone(words);
    void queryClient.invalidateQueries({ queryKey: ["users"] });
    onDone();
  };
  const change = useMutation({
    mutationFn: () =>
      unwrap(
        client.PATCH("/api/v1/role-grants/{grant_id}", {
          params: { ...params, header: { "If-Match": `"v${role.version}"` } },
          body: {
            ...(choice.role === first.role ? {} : { role: choice.role }),
            ...(choice.lastDay === first.lastDay ? {} : { expires_at: endOfDay(choice.lastDay) }),
          },
        }),
      ),
    onSuccess: (made) => done(`${member.user.login} is ${roleWords(made.role)} in ${made.node ?? "the platform"}`),
  });
  const remove = useMutation({
    mutationFn: () => unwrap(client.DELETE("/api/v1/role-grants/{grant_id}", { params })),
    onSuccess: () => done(`${member.user.login} is no longer ${roleWords(role.role)} in ${role.node ?? "the platform"}`),
  });
  const error = change.error ?? remove.error;
  const isSame = choice.role === first.role && choice.lastDay === first.lastDay;
  return (
    <form
      className="stack"
      aria-label={`${roleWords(role.role)} in ${role.node ?? ""}`}
      onSubmit={(event) => {
        event.preventDefault();
        change.mutate();
      }}
    >
      <h2>{role.node}</h2>
      <RoleFields value={choice} onChange={setChoice} />
      {error && (
        <p className="bad-text breaks" role="alert">
          {error.message}
        </p>
      )}
      <div className="inline end">
        {isRemoving ? (
          <>
            <span className="small">Remove the role {roleWords(role.role)}?</span>
            <Button variant="default" onClick={() => setRemoving(false)}>
              Back
            </Button>
            <Button color="red" loading={remove.isPending} onClick={() => remove.mutate()}>
              Remove the role
            </Button>
          </>
        ) : (
          <>
            <Button variant="default" c="var(--bad)" onClick={() => setRemoving(true)}>
              Remove…
            </Button>
            <Button type="submit" disabled={isSame} loading={change.isPending}>
              Save
            </Button>
          </>
        )}
      </div>
    </form>
  );
}

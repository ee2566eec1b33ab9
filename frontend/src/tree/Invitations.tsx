import { Button, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { ApiError, client, unwrap } from "../api/client";
import type { Invitation, SentInvitation } from "../api/types";
import { Card } from "../ui/Card";
import { CliLine } from "../ui/CliLine";
import { Confirm } from "../ui/Confirm";
import { DataTable } from "../ui/DataTable";
import { useNowMs } from "../ui/now";
import { Lines, QueryView } from "../ui/states";
import { Time } from "../ui/Time";
import { toastDone, toastError } from "../ui/toast";
import { invitationsQuery } from "./queries";
import { endOfDay, RoleFields, type RoleChoice } from "./RoleFields";
import { roleWords } from "./use";
import { useNode } from "./useNode";

/** Open invitations to the node, and the form that invites a person without an account. */
export function Invitations() {
  const node = useNode();
  const invitations = useQuery(invitationsQuery(node.id));
  const [sent, setSent] = useState<SentInvitation | null>(null);
  return (
    <Card>
      <div className="spread">
        <h2>Invitations</h2>
        <span className="small faint">for people without an account</span>
      </div>
      {sent && <Sent invitation={sent} onDone={() => setSent(null)} />}
      <QueryView query={invitations} loading={<Lines count={2} label="Loading invitations" />}>
        {(items) => (items.length === 0 ? null : <OpenTable invitations={items} onSent={setSent} />)}
      </QueryView>
      <details>
        <summary>Invite by mail address</summary>
        <InviteForm onSent={setSent} />
      </details>
    </Card>
  );
}

/** The address that the invitation went to, or its link, this once. */
function Sent({ invitation, onDone }: { invitation: SentInvitation; onDone: () => void }) {
  const address = `${globalThis.location.origin}${invitation.link ?? ""}`;
  return (
    <div className="stack" role="status" style={{ marginBottom: 12 }}>
      {invitation.link === null ? (
        <p>The invitation was mailed to {invitation.email}.</p>
      ) : (
        <>
          <p>
            Hand this link to {invitation.email}. It is shown this once and works until{" "}
            <Time at={invitation.expires_at} show="both" />.
          </p>
          <CliLine command={address} />
        </>
      )}
      <div>
        <Button variant="default" size="xs" onClick={onDone}>
          I have it
        </Button>
      </div>
    </div>
  );
}

function OpenTable({
  invitations,
  onSent,
}: {
  invitations: readonly Invitation[];
  onSent: (sent: SentInvitation) => void;
}) {
  const node = useNode();
  const now = useNowMs();
  const queryClient = useQueryClient();
  const [leaving, setLeaving] = useState<Invitation | null>(null);
  const changed = () => queryClient.invalidateQueries({ queryKey: invitationsQuery(node.id).queryKey });
  const resend = useMutation({
    mutationFn: (id: string) =>
      unwrap(client.POST("/api/v1/invitations/{invitation_id}/resend", { params: { path: { invitation_id: id } } })),
    onError: toastError,
    onSuccess: (again) => {
      onSent(again);
      void changed();
    },
  });
  const withdraw = useMutation({
    mutationFn: (id: string) =>
      unwrap(client.DELETE("/api/v1/invitations/{invitation_id}", { params: { path: { invitation_id: id } } })),
    onError: toastError,
    onSuccess: () => {
      toastDone("The invitation is withdrawn");
      setLeaving(null);
      void changed();
    },
  });
  return (
    <>
      <DataTable
        label="Invitations"
        rows={invitations}
        rowKey={({ id }) => id}
        columns={[
          {
            header: "Address",
            isHeading: true,
            className: "breaks",
            cell: (each) => (
              <>
                {each.email}
                <div className="small faint">as {each.username}</div>
              </>
            ),
          },
          { header: "Role", only: "wide", cell: (each) => roleWords(each.role) },
          {
            header: "Sent by",
            only: "wide",
            className: "breaks",
            cell: (each) => (
              <>
                {each.invited_by} · <Time at={each.created_at} />
              </>
            ),
          },
          {
            header: "Expires",
            cell: (each) =>
              Date.parse(each.expires_at) <= now ? <span className="pill bad">expired</span> : <Time at={each.expires_at} />,
          },
          {
            header: <span className="visually-hidden">Actions</span>,
            isRight: true,
            cell: (each) => (
              <span className="inline end">
                <Button
                  variant="default"
                  size="xs"
                  aria-label={`Send again to ${each.email}`}
                  loading={resend.isPending && resend.variables === each.id}
                  onClick={() => resend.mutate(each.id)}
                >
                  Send again
                </Button>
                <Button
                  variant="default"
                  size="xs"
                  c="var(--bad)"
                  aria-label={`Withdraw the invitation of ${each.email}`}
                  loading={withdraw.isPending && withdraw.variables === each.id}
                  onClick={() => setLeaving(each)}
                >
                  Withdraw…
                </Button>
              </span>
            ),
          },
        ]}
      />
      {leaving && (
        <Confirm
          title="Withdraw the invitation?"
          isOpen
          isBusy={withdraw.isPending}
          confirmLabel="Withdraw"
          isDangerous
          onConfirm={() => withdraw.mutate(leaving.id)}
          onClose={() => setLeaving(null)}
        >
          <p className="breaks">The link sent to {leaving.email} stops working.</p>
        </Confirm>
      )}
    </>
  );
}

function InviteForm({ onSent }: { onSent: (sent: SentInvitation) => void }) {
  const node = useNode();
  const queryClient = useQueryClient();
  const form = useForm({ initialValues: { email: "", name: "", username: "" } });
  const [choice, setChoice] = useState<RoleChoice>({ role: "researcher", lastDay: "" });
  const { email, name, username } = form.values;
  const invite = useMutation({
    mutationFn: () =>
      unwrap(
        client.POST("/api/v1/tree/{tree_node_id}/invitations", {
          params: { path: { tree_node_id: node.id } },
          body: {
            email,
            role: choice.role,
            role_expires_at: endOfDay(choice.lastDay),
            ...(name === "" ? {} : { name }),
            ...(username === "" ? {} : { username }),
          },
        }),
      ),
    onSuccess: (made) => {
      form.reset();
      onSent(made);
      void queryClient.invalidateQueries({ queryKey: invitationsQuery(node.id).queryKey });
    },
  });
  const refusals = invite.error instanceof ApiError ? invite.error.fieldErrors : {};
  return (
    <form className="stack" style={{ marginTop: 10 }} onSubmit={form.onSubmit(() => invite.mutate())}>
      <div className="even top">
        <TextInput label="Mail address" required {...form.getInputProps("email")} error={refusals.email} />
        <TextInput label="Name" {...form.getInputProps("name")} error={refusals.name} />
        <TextInput
          label="User name"
          description="Empty: made from the address."
          spellCheck={false}
          autoCapitalize="none"
          {...form.getInputProps("username")}
          error={refusals.username}
        />
        <RoleFields value={choice} onChange={setChoice} />
      </div>
      {invite.error && (
        <p className="bad-text breaks" role="alert">
          {invite.error.message}
        </p>
      )}
      <div className="inline end">
        <Button type="submit" disabled={email === ""} loading={invite.isPending}>
          Invite
        </Button>
      </div>
    </form>
  );
}

import { Button, Modal } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { Tokens } from "../access/tokens";
import { client, unwrap } from "../api/client";
import type { Member, MemberTotals } from "../api/types";
import { DeactivateDialog } from "../people/DeactivateDialog";
import { may } from "../session/access";
import { useSession } from "../session/useSession";
import { Card } from "../ui/Card";
import { DataTable } from "../ui/DataTable";
import { Empty } from "../ui/states";
import { Time } from "../ui/Time";
import { toastDone, toastError } from "../ui/toast";
import { formatGpuHours, formatGpus } from "../ui/units";
import { EditMember } from "./EditMember";
import { MemberBar } from "./MemberBar";
import { MemberCap } from "./MemberCap";
import { Roles } from "./MemberTable";
import { NewServiceAccount } from "./NewServiceAccount";
import { scaleOf, sumOf, memberUse } from "./use";
import { useNode } from "./useNode";

/** The service accounts of a node, with their live tokens. */
export function ServiceAccounts({
  members,
  totals,
  pool,
}: {
  members: readonly Member[];
  totals: MemberTotals;
  pool: string | undefined;
}) {
  const [opened, setOpened] = useState<Member | null>(null);
  const [edited, setEdited] = useState<Member | null>(null);
  const [isMaking, setMaking] = useState(false);
  const [ending, setEnding] = useState<Member | null>(null);
  const node = useNode();
  const session = useSession();
  const uses = members.map((member) => memberUse(member, pool));
  const scaleMgpu = scaleOf(uses);
  const mayManage = (member: Member) => member.roles.some(({ may_change: isMine }) => isMine);
  return (
    <Card>
      <div className="spread">
        <h2>Service accounts</h2>
        <span className="inline">
          <span className="small faint">a token never has more rights than its account</span>
          {may(session, "manage_members", node.path) && node.archived_at === null && (
            <Button variant="default" size="xs" onClick={() => setMaking(true)}>
              New service account
            </Button>
          )}
        </span>
      </div>
      {members.length === 0 ? (
        <Empty>No service account has a role here yet.</Empty>
      ) : (
        <DataTable
          label="Service accounts"
          rows={members}
          rowKey={({ user }) => user.id}
          totals={[{ ...sumOf(uses), month: totals.service_accounts_month_mgpu_s }]}
          columns={[
            {
              header: "Account",
              isHeading: true,
              className: "breaks",
              cell: ({ user }) => (
                <>
                  {user.login} {!user.is_active && <span className="pill bad">deactivated</span>}
                </>
              ),
              total: () => "Service accounts, total",
            },
            { header: "Role", only: "wide", cell: (member) => <Roles member={member} /> },
            { header: "Live tokens", only: "wide", cell: (member) => <LiveTokens member={member} /> },
            {
              header: "In use against cap",
              only: "wide",
              cell: (member) => <MemberBar use={memberUse(member, pool)} scaleMgpu={scaleMgpu} />,
            },
            {
              header: "In use",
              isRight: true,
              only: "wide",
              cell: (member) => formatGpus(sumOf([memberUse(member, pool)]).inUseMgpu),
              total: ({ inUseMgpu }) => formatGpus(inUseMgpu),
            },
            { header: "Cap", isRight: true, only: "wide", cell: (member) => <MemberCap member={member} pool={pool} mgpu={memberUse(member, pool).capMgpu} /> },
            {
              header: "GPU-h this month",
              isRight: true,
              only: "wide",
              cell: (member) => formatGpuHours(member.month_mgpu_s),
              total: ({ month }) => formatGpuHours(month),
            },
            {
              header: <span className="visually-hidden">Actions</span>,
              isRight: true,
              cell: (member) =>
                mayManage(member) && (
                  <span className="inline end">
                    <Button
                      variant="default"
                      size="xs"
                      aria-label={`Tokens of ${member.user.login}`}
                      onClick={() => setOpened(member)}
                    >
                      Tokens
                    </Button>
                    <Button
                      variant="default"
                      size="xs"
                      aria-label={`Edit ${member.user.login}`}
                      onClick={() => setEdited(member)}
                    >
                      Edit
                    </Button>
                    {member.user.is_active ? (
                      <Button
                        variant="default"
                        size="xs"
                        c="var(--bad)"
                        aria-label={`Deactivate ${member.user.login}`}
                        onClick={() => setEnding(member)}
                      >
                        Deactivate
                      </Button>
                    ) : (
                      <Reactivate member={member} />
                    )}
                  </span>
                ),
            },
          ]}
        />
      )}
      <Modal
        opened={opened !== null}
        onClose={() => setOpened(null)}
        size="xl"
        title={`Tokens of ${opened?.user.login ?? ""}`}
        closeButtonProps={{ "aria-label": "Close" }}
      >
        {opened && (
          <Tokens
            title="Tokens"
            user={opened.user.login}
            canMake
            cli={`tidegate token ls --user ${opened.user.login}`}
          />
        )}
      </Modal>
      {edited && <EditMember member={edited} onClose={() => setEdited(null)} />}
      {isMaking && <NewServiceAccount onClose={() => setMaking(false)} />}
      {ending && <DeactivateDialog user={ending.user} onClose={() => setEnding(null)} />}
    </Card>
  );
}

function Reactivate({ member: { user } }: { member: Member }) {
  const queryClient = useQueryClient();
  const reactivate = useMutation({
    mutationFn: () =>
      unwrap(client.PATCH("/api/v1/users/{user_id}", { params: { path: { user_id: user.id } }, body: { is_active: true } })),
    onSuccess: () => {
      toastDone(`${user.login} is active`);
      void queryClient.invalidateQueries({ queryKey: ["users"] });
    },
    onError: toastError,
  });
  return (
    <Button
      variant="default"
      size="xs"
      aria-label={`Reactivate ${user.login}`}
      loading={reactivate.isPending}
      onClick={() => reactivate.mutate()}
    >
      Reactivate
    </Button>
  );
}

function LiveTokens({ member: { tokens } }: { member: Member }) {
  if (tokens.length === 0) return <span className="faint">none</span>;
  return tokens.map((token) => (
    <div key={token.id} className="small">
      {token.name} · {token.last_used_at === null ? "never used" : <>used <Time at={token.last_used_at} /></>} · expires{" "}
      <Time at={token.expires_at} />
    </div>
  ));
}

import { Button } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { useState } from "react";

import type { Member, MemberTotals } from "../api/types";
import { DataTable } from "../ui/DataTable";
import { Empty } from "../ui/states";
import { Time } from "../ui/Time";
import { formatGpuHours, formatGpus, formatShare } from "../ui/units";
import { EditMember } from "./EditMember";
import { MemberBar, MemberLegend } from "./MemberBar";
import { MemberCap } from "./MemberCap";
import { roleWords, scaleOf, sumOf, memberUse } from "./use";
import { useNode } from "./useNode";

/** People with a role at or below the node, or with use there. */
export function PeopleTable({
  members,
  totals,
  pool,
}: {
  members: readonly Member[];
  totals: MemberTotals;
  pool: string | undefined;
}) {
  const [edited, setEdited] = useState<Member | null>(null);
  if (members.length === 0) return <Empty>No person has a role here yet.</Empty>;
  const uses = members.map((member) => memberUse(member, pool));
  const scaleMgpu = scaleOf(uses);
  const month = members.reduce((sum, member) => sum + member.month_mgpu_s, 0);
  return (
    <>
      <DataTable
        label="People"
        rows={members}
        rowKey={({ user }) => user.id}
        totals={[{ ...sumOf(uses), month }]}
        columns={[
          {
            header: "Person",
            isHeading: true,
            className: "breaks",
            sortBy: ({ user }) => user.login,
            cell: ({ user }) => (
              <>
                {user.login} {!user.is_active && <span className="pill bad">deactivated</span>}
                <div className="small faint">{user.email || user.name}</div>
              </>
            ),
            total: () => "People, total",
          },
          { header: "Role", cell: (member) => <Roles member={member} /> },
          { header: "Last active", only: "wide", cell: (member) => <LastActive member={member} /> },
          {
            header: "In use against cap",
            only: "wide",
            cell: (member) => <MemberBar use={memberUse(member, pool)} scaleMgpu={scaleMgpu} />,
          },
          {
            header: "In use",
            isRight: true,
            sortBy: (member) => sumOf([memberUse(member, pool)]).inUseMgpu,
            cell: (member) => formatGpus(sumOf([memberUse(member, pool)]).inUseMgpu),
            total: ({ inUseMgpu }) => formatGpus(inUseMgpu),
          },
          { header: "Cap", isRight: true, only: "wide", cell: (member) => <MemberCap member={member} pool={pool} mgpu={memberUse(member, pool).capMgpu} /> },
          {
            header: "GPU-h this month",
            isRight: true,
            only: "wide",
            sortBy: (member) => member.month_mgpu_s,
            cell: (member) => formatGpuHours(member.month_mgpu_s),
            total: (sums) => formatGpuHours(sums.month),
          },
          {
            header: "Share",
            isRight: true,
            only: "wide",
            cell: (member) => <Share part={member.month_mgpu_s} whole={totals.node_month_mgpu_s} />,
            total: (sums) => <Share part={sums.month} whole={totals.node_month_mgpu_s} />,
          },
          {
            header: <span className="visually-hidden">Actions</span>,
            isRight: true,
            cell: (member) =>
              member.roles.some(({ may_change: isMine }) => isMine) && (
                <Button
                  variant="default"
                  size="xs"
                  aria-label={`Edit ${member.user.login}`}
                  onClick={() => setEdited(member)}
                >
                  Edit
                </Button>
              ),
          },
        ]}
      />
      <MemberLegend />
      {edited && <EditMember member={edited} onClose={() => setEdited(null)} />}
    </>
  );
}

/** The roles of a member, with the node of each that is set elsewhere. */
export function Roles({ member }: { member: Member }) {
  const node = useNode();
  if (member.roles.length === 0) return <span className="faint">no role</span>;
  return member.roles.map((role) => (
    <div key={role.id}>
      {roleWords(role.role)}
      {role.node !== node.path && (
        <span className="small dim">
          {" "}
          in{" "}
          <Link to="/tree/$nodeId/members" params={{ nodeId: role.node_id }}>
            {role.node}
          </Link>
        </span>
      )}
      {role.group !== "" && (
        <div className="small">
          <span className="pill">from group {role.group}</span>
        </div>
      )}
      {role.expires_at !== null && (
        <div className="small">
          <span className="pill borrow">
            expires <Time at={role.expires_at} />
          </span>
        </div>
      )}
    </div>
  ));
}

function LastActive({ member }: { member: Member }) {
  return member.last_active_at === null ? <span className="faint">never</span> : <Time at={member.last_active_at} />;
}

function Share({ part, whole }: { part: number; whole: number }) {
  return whole === 0 ? <span className="faint">none</span> : formatShare(part, whole);
}

/** Members whose roles are all set above the node. */
export function InheritedTable({ members }: { members: readonly Member[] }) {
  return (
    <DataTable
      label="Inherited roles"
      rows={members}
      rowKey={({ user }) => user.id}
      columns={[
        {
          header: "Account",
          isHeading: true,
          className: "breaks",
          cell: ({ user }) => user.login,
        },
        { header: "Role", cell: (member) => <Roles member={member} /> },
        { header: "Last active", only: "wide", cell: (member) => <LastActive member={member} /> },
      ]}
    />
  );
}

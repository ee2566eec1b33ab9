import { Button, SegmentedControl } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useState } from "react";

import type { Member, MemberTotals } from "../api/types";
import { may } from "../session/access";
import { useSession } from "../session/useSession";
import { Card } from "../ui/Card";
import { CliLine } from "../ui/CliLine";
import { shellQuote } from "../ui/command";
import { Lines, QueryView } from "../ui/states";
import { formatGpuHours, formatGpus } from "../ui/units";
import { AddMember } from "./AddMember";
import { Invitations } from "./Invitations";
import { InheritedTable, PeopleTable } from "./MemberTable";
import { memberTotalsQuery, membersQuery } from "./queries";
import { ServiceAccounts } from "./ServiceAccounts";
import { poolsOf, sumOf, memberUse } from "./use";
import { useNode } from "./useNode";

/** The people and service accounts of a node: roles, use, caps and tokens. */
export function MembersTab() {
  const node = useNode();
  const session = useSession();
  const isReader = may(session, "manage_members", node.path) || may(session, "view_audit", node.path);
  if (!isReader) {
    return (
      <Card>
        <p>The members of {node.path} are shown to those who manage them, and to auditors.</p>
      </Card>
    );
  }
  return <Members />;
}

function Members() {
  const node = useNode();
  const members = useQuery(membersQuery(node.id));
  const totals = useQuery(memberTotalsQuery(node.id));
  return (
    <QueryView
      query={members}
      loading={
        <Card>
          <Lines count={8} label="Loading members" />
        </Card>
      }
    >
      {(found) => (
        <QueryView query={totals}>{(sums) => <MemberCards members={found} totals={sums} />}</QueryView>
      )}
    </QueryView>
  );
}

function MemberCards({ members, totals }: { members: readonly Member[]; totals: MemberTotals }) {
  const node = useNode();
  const session = useSession();
  const { pool: chosen } = useSearch({ from: "/shell/tree/$nodeId/members" });
  const navigate = useNavigate({ from: "/tree/$nodeId/members" });
  const [isAdding, setAdding] = useState(false);
  const pools = poolsOf(members, totals);
  const pool = chosen ?? pools[0];
  const isAbove = ({ source, use, month_mgpu_s: month }: Member) => source === "above" && use.length === 0 && month === 0;
  const inherited = members.filter(isAbove);
  const own = members.filter((member) => !isAbove(member));
  const people = own.filter(({ user }) => user.kind === "person");
  const services = own.filter(({ user }) => user.kind === "service");
  const { inUseMgpu, borrowedMgpu } = sumOf(own.map((member) => memberUse(member, pool)));
  const mayManage = may(session, "manage_members", node.path);
  return (
    <div className="rows">
      <div className="spread">
        <p className="sub">
          {pool && <>pool {pool} · </>}
          {people.length} {people.length === 1 ? "person" : "people"}, {services.length} service{" "}
          {services.length === 1 ? "account" : "accounts"}
          {pool && (
            <>
              {" "}
              · {formatGpus(inUseMgpu)} in use, {formatGpus(borrowedMgpu)} of them borrowed
            </>
          )}
        </p>
        <div className="inline end">
          {pools.length > 1 && (
            <SegmentedControl
              aria-label="Pool"
              size="xs"
              data={pools}
              value={pool}
              onChange={(next) => void navigate({ search: (before) => ({ ...before, pool: next }) })}
            />
          )}
          {mayManage && <Button onClick={() => setAdding(true)}>Add a member</Button>}
          <Button component="a" variant="default" href={`/api/v1/tree/${node.id}/members?format=csv`} download>
            CSV
          </Button>
        </div>
      </div>
      <Card>
        <div className="spread">
          <h2>People</h2>
          <span className="small faint">
            <Link to="/budgets" search={{ scope: node.path }}>
              Caps of members
            </Link>
          </span>
        </div>
        <PeopleTable members={people} totals={totals} pool={pool} />
      </Card>
      {mayManage && <Invitations />}
      <ServiceAccounts members={services} totals={totals} pool={pool} />
      {inherited.length > 0 && (
        <Card className="inherited">
          <div className="spread">
            <h2>Inherited roles</h2>
            <span className="small faint">set above {node.slug}, read-only here</span>
          </div>
          <InheritedTable members={inherited} />
        </Card>
      )}
      <Check totals={totals} pool={pool} />
      <p className="sub">
        <CliLine command={`tidegate members list ${shellQuote(node.path)}`} />
      </p>
      {isAdding && <AddMember members={members} onClose={() => setAdding(false)} />}
    </div>
  );
}

/** The sums of the members beside the use of the node, which they must equal. */
function Check({ totals, pool }: { totals: MemberTotals; pool: string | undefined }) {
  const node = useNode();
  const found = totals.pools.find((each) => each.pool === pool);
  const { people_month_mgpu_s: people, service_accounts_month_mgpu_s: services } = totals;
  return (
    <p className="small dim">
      {found && (
        <>
          People {formatGpus(found.people_mgpu)} + service accounts {formatGpus(found.service_accounts_mgpu)} ={" "}
          {formatGpus(found.people_mgpu + found.service_accounts_mgpu)} in use ·{" "}
        </>
      )}
      {formatGpuHours(people)} + {formatGpuHours(services)} = {formatGpuHours(people + services)} GPU-h this month{" "}
      {totals.is_equal ? (
        <span className="good-text">✓ equals the usage of {node.slug}</span>
      ) : (
        <span className="stale-text">
          ▲ differs from the scheduler's sums for {node.slug}. Reload in a minute. If the difference stays, tell an
          administrator.
        </span>
      )}
    </p>
  );
}

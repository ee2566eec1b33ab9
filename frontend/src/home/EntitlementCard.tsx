import { Select } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState, type ReactNode } from "react";

import type { Entitlement, PoolEntitlement, Quota, Session, SizeStart, SizeWaits } from "../api/types";
import { lastPart } from "../jobs/words";
import { QuotaBar, QuotaLegend } from "../quotas/QuotaBar";
import { commonScale, type QuotaUse } from "../quotas/use";
import { may } from "../session/access";
import { levelText } from "../shares/levels";
import { roleWords } from "../tree/use";
import { Card } from "../ui/Card";
import { CliLine } from "../ui/CliLine";
import { DataTable } from "../ui/DataTable";
import { Fact, Facts } from "../ui/Facts";
import { Empty, Lines, QueryView } from "../ui/states";
import { Countdown } from "../ui/Time";
import { DEVICE_HEADS, formatCount, formatDuration, formatGpuCount, formatGpus } from "../ui/units";
import { entitlementQuery } from "./queries";

/** The amounts of the reader's team in a pool, what could start now, and whom to talk to. */
export function EntitlementCard({
  session,
  quotas,
  isUseShown,
}: {
  session: Session;
  /** The bars of my teams. */
  quotas: readonly Quota[];
  /** Whether the page shows the use of the team above. */
  isUseShown: boolean;
}) {
  const [asked, setAsked] = useState<string | null>(null);
  const teams = [...new Set(quotas.map(({ node }) => node))].filter((team) => may(session, "submit_jobs", team));
  const team = asked !== null && teams.includes(asked) ? asked : teams[0];
  if (team === undefined) return null;
  return <TeamCard team={team} teams={teams} onTeam={setAsked} isUseShown={isUseShown} />;
}

function TeamCard({
  team,
  teams,
  onTeam,
  isUseShown,
}: {
  team: string;
  teams: readonly string[];
  onTeam: (team: string) => void;
  isUseShown: boolean;
}) {
  const query = useQuery(entitlementQuery(team));
  const [asked, setAsked] = useState<string | null>(null);
  const pools = query.data?.pools ?? [];
  const pool = pools.find((each) => each.pool === asked) ?? pools.find((each) => each.guaranteed_mgpu > 0) ?? pools[0];
  return (
    <Card label="Entitlement" tone={!isUseShown && pool !== undefined && pool.reclaimed.jobs > 0 ? "warn" : undefined}>
      <div className="spread">
        <h2>Entitlement of {lastPart(team)}</h2>
        <div className="inline">
          {teams.length > 1 && (
            <Select
              aria-label="Team"
              size="xs"
              searchable
              allowDeselect={false}
              data={teams}
              value={team}
              onChange={(next) => next !== null && onTeam(next)}
            />
          )}
          {pools.length > 1 && pool !== undefined && (
            <Select
              aria-label="Pool"
              size="xs"
              allowDeselect={false}
              data={pools.map((each) => each.pool)}
              value={pool.pool}
              onChange={setAsked}
            />
          )}
        </div>
      </div>
      <QueryView query={query} loading={<Lines count={5} label="Loading the entitlement" />}>
        {(found) => (pool === undefined ? <Empty>Your organization has no quota in any pool.</Empty> : <InPool found={found} pool={pool} isUseShown={isUseShown} />)}
      </QueryView>
    </Card>
  );
}

function barOf(pool: PoolEntitlement): QuotaUse {
  const { guaranteed_mgpu: guaranteed, in_use_mgpu: used, borrowed_mgpu: borrowed, lent_mgpu: lent } = pool;
  return {
    device: pool.device,
    guaranteedMgpu: guaranteed,
    inUseMgpu: used,
    solidMgpu: used - borrowed,
    borrowedMgpu: borrowed,
    lentMgpu: lent,
    idleMgpu: Math.max(0, guaranteed - used - lent),
    waitingMgpu: pool.waiting_mgpu,
    ceilingMgpu: pool.borrow_limit_mgpu === null ? null : guaranteed + pool.borrow_limit_mgpu,
  };
}

function InPool({ found, pool, isUseShown }: { found: Entitlement; pool: PoolEntitlement; isUseShown: boolean }) {
  return (
    <>
      {!isUseShown && <UseInPool pool={pool} />}
      <div className="entitlement">
        <div>
          <h3>What could start now</h3>
          <SizeTable pool={pool} />
          <p className="small dim">
            The scheduler decides each size as if that job alone were submitted. Nothing is reserved. Waits are those of
            the team's jobs of the last four weeks.
          </p>
        </div>
        <div>
          <h3>Now</h3>
          <Amounts pool={pool} />
          <h3>Whom to talk to</h3>
          <Contacts found={found} pool={pool} />
        </div>
      </div>
      <div className="spread more">
        <Link to="/requests" search={{ ask: "guarantee", node: found.team, pool: pool.pool }}>
          Ask for more
        </Link>
        <CliLine command={`tidegate entitlement ${found.team} --pool ${pool.pool}`} />
      </div>
    </>
  );
}

function UseInPool({ pool }: { pool: PoolEntitlement }) {
  const use = barOf(pool);
  const { reclaimed, device } = pool;
  return (
    <>
      <p className="sentence">
        {pool.sentence}
        {reclaimed.jobs > 0 && (
          <>
            {" "}
            <b>{formatGpuCount(reclaimed.mgpu, device)}</b> of{" "}
            {reclaimed.jobs === 1 ? "1 job" : `${formatCount(reclaimed.jobs)} jobs`} are being reclaimed
            {reclaimed.until !== null && (
              <>
                , the first within <Countdown until={reclaimed.until} />
              </>
            )}
            .
          </>
        )}
      </p>
      <QuotaBar use={use} scaleMgpu={commonScale([use])} />
      <QuotaLegend />
    </>
  );
}

function Amounts({ pool }: { pool: PoolEntitlement }) {
  const { fair_share: share } = pool;
  return (
    <Facts label="Amounts">
      <Fact name="Guaranteed">{formatGpus(pool.guaranteed_mgpu)}</Fact>
      <Fact name="In use">{formatGpus(pool.in_use_mgpu)}</Fact>
      <Fact name="Borrowed">{formatGpus(pool.borrowed_mgpu)}</Fact>
      <Fact name="At risk of reclaim">{formatGpus(pool.at_risk_mgpu)}</Fact>
      <Fact name="Lent">{formatGpus(pool.lent_mgpu)}</Fact>
      <Fact name="Fair share (1 = even)">{levelText(share.level_permille)}</Fact>
      <Fact name="Place among siblings">
        {share.place} of {share.siblings}
      </Fact>
    </Facts>
  );
}

interface SizeRow {
  devices: number;
  start: SizeStart | undefined;
  waits: SizeWaits | undefined;
}

function SizeTable({ pool }: { pool: PoolEntitlement }) {
  const starts = new Map((pool.starts ?? []).map((each) => [each.devices, each]));
  const waits = new Map(pool.waits.map((each) => [each.devices, each]));
  const sizes = [...new Set([...starts.keys(), ...waits.keys()])].sort((a, b) => a - b);
  if (sizes.length === 0)
    return <Empty>{pool.starts === null ? "Not computed now. The page asks again in a minute." : "The pool has no nodes."}</Empty>;
  return (
    <DataTable
      label="What could start now"
      rows={sizes.map((devices): SizeRow => ({ devices, start: starts.get(devices), waits: waits.get(devices) }))}
      rowKey={({ devices }) => String(devices)}
      columns={[
        {
          header: DEVICE_HEADS[pool.device],
          isHeading: true,
          cell: ({ devices, start }) => (
            <>
              {formatCount(devices)}
              {start !== undefined && start.nodes > 1 && <span className="small faint hide"> on {formatCount(start.nodes)} nodes</span>}
            </>
          ),
        },
        { header: "Start", title: ({ start }) => start?.sentence, cell: ({ start }) => (start ? <Outcome start={start} /> : "unknown") },
        { header: "Wait p50", isRight: true, cell: (row) => waitCell(row, (each) => formatDuration(each.p50_s)) },
        { header: "p95", isRight: true, only: "wide", cell: (row) => waitCell(row, (each) => formatDuration(each.p95_s)) },
        { header: "Jobs", isRight: true, only: "wide", cell: ({ waits: found }) => formatCount(found?.jobs ?? 0) },
      ]}
    />
  );
}

function waitCell({ waits }: SizeRow, text: (waits: SizeWaits) => string): ReactNode {
  return waits === undefined ? <span className="faint">no data</span> : text(waits);
}

const OUTCOMES: Record<SizeStart["kind"], { words: string; tone: string }> = {
  guaranteed: { words: "now, guaranteed", tone: "pill run" },
  borrowed: { words: "now, borrowed", tone: "pill borrow" },
  reclaim: { words: "after a reclaim", tone: "pill wait" },
  waits: { words: "waits", tone: "pill wait" },
  refused: { words: "refused", tone: "pill bad" },
};

function Outcome({ start }: { start: SizeStart }) {
  const { words, tone } = OUTCOMES[start.kind];
  return <span className={tone}>{words}</span>;
}

function Contacts({ found, pool }: { found: Entitlement; pool: PoolEntitlement }) {
  const rows: [string, ReactNode][] = [
    ...found.contacts.map(({ username, name, role, node }): [string, ReactNode] => [
      name || username,
      <span key={username} title={node}>
        {roleWords(role)} of {lastPart(node)}
      </span>,
    ]),
    ...pool.borrowers.map(({ node, mgpu }): [string, ReactNode] => [node, `borrows ${formatGpus(mgpu)} from ${lastPart(found.team)}`]),
    ...pool.lenders.map(({ node, mgpu }): [string, ReactNode] => [node, `lends ${formatGpus(mgpu)} to ${lastPart(found.team)}`]),
  ];
  if (rows.length === 0) return <Empty>Nobody else manages this team.</Empty>;
  return (
    <Facts label="Whom to talk to" isLeft>
      {rows.map(([name, what], at) => (
        <Fact key={`${name} ${String(at)}`} name={name} className="breaks">
          {what}
        </Fact>
      ))}
    </Facts>
  );
}

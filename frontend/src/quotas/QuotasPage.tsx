import { Button, SegmentedControl, Select } from "@mantine/core";
import { useQueries, useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useState } from "react";

import { clustersQuery, comparePaths, poolsQuery, quotasQuery, someJobsQuery, treeQuery } from "../api/queries";
import type { Cluster, Job, Pool, Quota } from "../api/types";
import { Card } from "../ui/Card";
import { CliLine } from "../ui/CliLine";
import { Kpi } from "../ui/Kpi";
import { Page } from "../ui/Page";
import { useNowMs } from "../ui/now";
import { Empty, Lines, QueryView } from "../ui/states";
import { Time } from "../ui/Time";
import { DEVICE_HEADS, DEVICE_WORDS, formatCount, formatDuration, formatGpuCount, formatGpus, headOf } from "../ui/units";
import { isWithin } from "../session/access";
import { summariesQuery } from "../shares/queries";
import { NodeDrawer } from "./NodeDrawer";
import { QuotaDrawer } from "./QuotaDrawer";
import { QuotaTable, WithoutQuota } from "./QuotaTable";
import { closedAtFirst, inTreeOrder, peersOf, rootsOf } from "./tree";
import { formatLent, guaranteedDemand, startable, startableTogether } from "./use";

const WAITING_SHOWN = 200;
/** Of so many trees the table has fair-share, credits and the last week. */
const TREES_MAX = 10;

export function QuotasPage() {
  const { pool: chosen, scope } = useSearch({ from: "/shell/quotas" });
  const pools = useQuery(poolsQuery);
  const first = pools.data?.find((each) => each.archived_at === null) ?? pools.data?.[0];
  const pool = chosen ?? first?.name;
  const isArchived = typeof pools.data?.find(({ name }) => name === pool)?.archived_at === "string";
  return (
    <Page
      title={pool ? `Quotas · ${pool}` : "Quotas"}
      heading={
        <>
          Quotas{pool && ` · pool ${pool}`} {isArchived && <span className="pill">archived</span>}
        </>
      }
      actions={pools.data && pool && <PoolSwitcher pools={pools.data} pool={pool} />}
    >
      {pool ? (
        <QuotasOfPool pool={pool} scope={scope} />
      ) : (
        <QueryView query={pools} loading={<Lines count={8} />}>
          {() => (
            <Card>
              <Empty>
                No pool is registered yet. A platform administrator adds one together with the first
                cluster.
              </Empty>
            </Card>
          )}
        </QueryView>
      )}
    </Page>
  );
}

function PoolSwitcher({ pools, pool }: { pools: readonly Pool[]; pool: string }) {
  const navigate = useNavigate({ from: "/quotas" });
  const choose = (next: string) =>
    void navigate({ search: (before) => ({ ...before, pool: next, node: undefined }) });
  const names = pools.map(({ name }) => name);
  if (names.length < 2 && names[0] === pool) return null;
  if (!names.includes(pool)) names.unshift(pool);
  return names.length <= 4 ? (
    <SegmentedControl aria-label="Pool" size="xs" data={names} value={pool} onChange={choose} />
  ) : (
    <Select
      aria-label="Pool"
      size="xs"
      searchable
      allowDeselect={false}
      data={names}
      value={pool}
      onChange={(next) => next && choose(next)}
    />
  );
}

function QuotasOfPool({ pool, scope }: { pool: string; scope?: string }) {
  const { node } = useSearch({ from: "/shell/quotas" });
  const navigate = useNavigate({ from: "/quotas" });
  const quotas = useQuery(quotasQuery({ pool, ...(scope ? { subtree: scope } : {}) }));
  const clusters = useQuery(clustersQuery);
  const pools = useQuery(poolsQuery);
  const waiting = useQuery(
    someJobsQuery({ state: ["queued"], pool, ...(scope ? { team: scope } : {}) }, WAITING_SHOWN),
  );
  const tree = useQuery(treeQuery);
  const tops = rootsOf(quotas.data ?? []).slice(0, TREES_MAX);
  const summaries = useQueries({
    queries: tops.map((top) => summariesQuery(top.node, pool)),
    combine: (answers) => new Map(answers.flatMap(({ data }) => data?.nodes ?? []).map((each) => [each.node, each])),
  });
  const [chosen, setChosen] = useState<ReadonlySet<string> | null>(null);
  const show = (node?: string) => void navigate({ search: (before) => ({ ...before, node }) });
  const close = () => show();
  return (
    <QueryView
      query={quotas}
      loading={
        <Card>
          <Lines count={9} label="Loading quotas" />
        </Card>
      }
    >
      {(unordered) => {
        const items = inTreeOrder(unordered, comparePaths);
        const closed = chosen ?? closedAtFirst(items, node);
        const toggle = (path: string) => {
          const next = new Set(closed);
          if (!next.delete(path)) next.add(path);
          setChosen(next);
        };
        const open = items.find((quota) => quota.node === node);
        const having = new Set(items.map((quota) => quota.node));
        const nodes = (tree.data ?? []).filter(({ path }) => scope === undefined || isWithin(path, scope));
        const without = nodes.filter(({ path }) => !having.has(path));
        const archived = new Set(nodes.flatMap((each) => (each.archived_at === null ? [] : [each.path])));
        const openNode = without.find(({ path }) => path === node);
        const top = scope ?? rootsOf(items)[0]?.node ?? "ORGANIZATION";
        const command = `tidegate quota get ${top} --subtree --pool ${pool}`;
        return (
          <>
            <Summary
              pool={pools.data?.find(({ name }) => name === pool)}
              clusters={clusters.data}
              quotas={items}
            />
            {items.length === 0 ? (
              <Card>
                <Empty
                  cli={command}
                  action={
                    scope ? (
                      <Link to="/quotas" search={{ pool, scope: undefined }}>
                        Show everything
                      </Link>
                    ) : undefined
                  }
                >
                  No quota of pool {pool} is set {scope ? `at or below ${scope}` : "anywhere you can see"}.
                </Empty>
              </Card>
            ) : (
              <>
                <Figures
                  pool={pool}
                  quotas={items}
                  clusters={clusters.data}
                  waiting={waiting.data?.items ?? []}
                />
                <Card>
                  {closed.size > 0 && (
                    <div className="spread">
                      <span className="small faint">
                        {formatCount(items.length)} nodes; {formatCount(closed.size)} of them are closed.
                      </span>
                      <Button size="compact-sm" variant="default" onClick={() => setChosen(new Set())}>
                        Open all
                      </Button>
                    </div>
                  )}
                  <QuotaTable quotas={items} summaries={summaries} archived={archived} closed={closed} onToggle={toggle} />
                </Card>
                <p className="sub inline" style={{ marginTop: 14 }}>
                  {items.some((quota) => quota.can_edit.length > 0) && (
                    <>
                      <Link to="/quota-changes/new" search={{ pool }} className="button-like">
                        Change quotas…
                      </Link>
                      <span>or choose a node to change it at once.</span>
                    </>
                  )}
                  <Link to="/quota-changes">Planned changes</Link>
                  <CliLine command={command} />
                </p>
              </>
            )}
            <WithoutQuota nodes={without} pool={pool} />
            {openNode && (
              <NodeDrawer
                key={openNode.id}
                node={openNode}
                pool={pool}
                device={pools.data?.find(({ name }) => name === pool)?.device ?? headOf(items)}
                parent={items.find((quota) => quota.node === openNode.parent) ?? null}
                onMoved={(path) => show(path)}
                onClose={close}
              />
            )}
            {open && (
              <QuotaDrawer
                quota={open}
                parent={items.find((quota) => quota.node === open.parent) ?? null}
                isArchived={archived.has(open.node)}
                onMoved={(path) => show(path)}
                onClose={close}
              />
            )}
          </>
        );
      }}
    </QueryView>
  );
}

function healthyIn(clusters: readonly Cluster[], pool: string) {
  const members = clusters.flatMap((cluster) =>
    cluster.is_enabled ? cluster.pools.filter((each) => each.pool === pool) : [],
  );
  return {
    clusters: members.length,
    silent: clusters.filter(
      (cluster) =>
        cluster.is_enabled &&
        cluster.state === "unreachable" &&
        cluster.seen_at !== null &&
        cluster.pools.some((each) => each.pool === pool),
    ),
    healthyMgpu: members.reduce((sum, each) => sum + each.healthy_mgpu, 0),
    outsideMgpu: members.reduce((sum, each) => sum + each.outside_mgpu, 0),
  };
}

/** One sentence: how many GPUs there are, whether all are spoken for, and how old this is. */
function Summary({
  pool,
  clusters,
  quotas,
}: {
  pool: Pool | undefined;
  clusters: readonly Cluster[] | undefined;
  quotas: readonly Quota[];
}) {
  const device = pool?.device ?? headOf(quotas);
  const [asOf] = rootsOf(quotas)
    .flatMap(({ use }) => use.as_of ?? [])
    .sort()
    .reverse();
  const fleet = pool && clusters && healthyIn(clusters, pool.name);
  const guaranteed = pool?.guaranteed_mgpu ?? null;
  return (
    <p className="sub">
      {fleet && (
        <>
          {formatGpus(fleet.healthyMgpu)} healthy {DEVICE_WORDS[device]} on {fleet.clusters}{" "}
          {fleet.clusters === 1 ? "cluster" : "clusters"}
          {fleet.silent.map((cluster) => (
            <span key={cluster.id} className="bad-text">
              {" "}
              ▲ {cluster.name} as of <Time at={cluster.seen_at ?? ""} show="both" />
            </span>
          ))}
          {" · "}
        </>
      )}
      {pool?.is_overcommitted && (
        <>
          <b className="bad-text">▲ overcommitted: more is guaranteed than exists</b>
          {" · "}
        </>
      )}
      {fleet && guaranteed !== null && !pool.is_overcommitted && (
        <>
          {guaranteed >= fleet.healthyMgpu
            ? `every ${DEVICE_WORDS[device].slice(0, -1)} is guaranteed to somebody`
            : `${formatGpus(fleet.healthyMgpu - guaranteed)} not guaranteed`}
          {" · "}
        </>
      )}
      {asOf ? (
        <>
          last change <Time at={asOf} />
        </>
      ) : (
        "no decision yet"
      )}
    </p>
  );
}

function names(quotas: readonly Quota[]): string {
  return quotas.length <= 2
    ? quotas.map((quota) => quota.node_name).join(" and ")
    : `${quotas.length} ${quotas[0]?.node_kind ?? "node"}s`;
}

function Figures({
  pool,
  quotas,
  clusters,
  waiting,
}: {
  pool: string;
  quotas: readonly Quota[];
  clusters: readonly Cluster[] | undefined;
  waiting: readonly Job[];
}) {
  const sum = (of: readonly Quota[], value: (quota: Quota) => number) =>
    of.reduce((total, quota) => total + value(quota), 0);
  const roots = rootsOf(quotas);
  const peers = peersOf(quotas);
  // One pool's quotas are all of one kind.
  const devices = DEVICE_HEADS[headOf(quotas)];
  const inUse = sum(roots, (quota) => quota.use.in_use_mgpu);
  const guaranteed = sum(roots, (quota) => quota.guaranteed_mgpu);
  const borrowed = sum(peers, (quota) => quota.use.borrowed_mgpu);
  const borrowers = peers.filter((quota) => quota.use.borrowed_mgpu > 0);
  const lenders = peers.filter((quota) => quota.use.lent_mgpu > 0);
  // What they lend may be in use elsewhere (another organization), and what they borrow may come from there.
  const lent = sum(peers, (quota) => quota.use.lent_mgpu);
  const isAmongPeers = peers.length > 1 && lent === borrowed;
  const waitingMgpu = sum(roots, (quota) => quota.use.waiting_mgpu);
  const isWhole = roots.every((quota) => quota.parent === null);
  const fleet = isWhole && clusters ? healthyIn(clusters, pool) : null;
  const healthy = fleet?.healthyMgpu ?? null;
  const entitled = guaranteedDemand(quotas, waiting);
  return (
    <div className="kpis">
      <Kpi
        value={formatGpus(inUse)}
        label={`${devices} in use`}
        context={
          healthy !== null ? `of ${formatGpus(healthy)} healthy` : `of ${formatGpus(guaranteed)} guaranteed`
        }
      />
      <Kpi
        tone={borrowed > 0 ? "borrow" : undefined}
        value={formatGpus(borrowed)}
        label={
          isAmongPeers ? `borrowed between ${peers[0]?.node_kind ?? "node"}s` : "borrowed from others"
        }
        context={
          borrowers.length > 0
            ? `${names(borrowers)}${lenders.length > 0 && isAmongPeers ? ` from ${names(lenders)}` : ""}`
            : lent > 0
              ? `${names(lenders)}: ${formatLent(lent)} lent to others`
              : "everyone is inside the guarantee"
        }
      />
      <Kpi
        tone={waitingMgpu > 0 ? "wait" : undefined}
        value={formatGpus(waitingMgpu)}
        label={`${devices} waiting`}
        context={
          waitingMgpu === 0
            ? "no job waits"
            : entitled > 0
              ? `${formatGpus(entitled)} of them guaranteed`
              : "none of them guaranteed"
        }
      />
      <Returning
        waiting={waiting}
        roots={roots}
        // Only a reader of every organization knows what is free in the whole pool.
        freeMgpu={fleet && roots.length > 1 ? fleet.healthyMgpu - fleet.outsideMgpu - inUse : null}
      />
    </div>
  );
}

/** While GPUs are being given back: to whom, and how long at most. Else what is free. */
function Returning({
  waiting,
  roots,
  freeMgpu,
}: {
  waiting: readonly Job[];
  roots: readonly Quota[];
  freeMgpu: number | null;
}) {
  const now = useNowMs();
  const reclaiming = waiting.flatMap((job) => {
    const deadlines = (job.explanation?.victims ?? []).flatMap(({ grace_until }) =>
      grace_until === null ? [] : [new Date(grace_until).getTime()],
    );
    return job.explanation?.code === "waiting_for_reclaim" && deadlines.length > 0
      ? [{ job, untilMs: Math.max(...deadlines) }]
      : [];
  });
  reclaiming.sort((a, b) => a.untilMs - b.untilMs);
  const [next] = reclaiming;
  if (next === undefined) return <Startable roots={roots} freeMgpu={freeMgpu} />;
  const leftS = Math.ceil((next.untilMs - now) / 1000);
  const team = next.job.team.split("/").at(-1) ?? next.job.team;
  return (
    <Kpi
      value={formatDuration(leftS)}
      label={
        <>
          until {team} has its {formatGpuCount(next.job.mgpu, next.job.device)}
        </>
      }
      context={
        <>
          <Link to="/jobs/$jobId" params={{ jobId: next.job.id }}>
            {next.job.name}
          </Link>
          {": reclaim in progress, at most"}
        </>
      }
    />
  );
}

/** What could start now. Nodes that share free devices do not add up. */
function Startable({ roots, freeMgpu }: { roots: readonly Quota[]; freeMgpu: number | null }) {
  const devices = DEVICE_HEADS[headOf(roots)];
  const [first, ...others] = roots;
  if (first !== undefined && others.length === 0) {
    const { startMgpu, overMgpu } = startable(first);
    return (
      <Kpi
        value={formatGpus(startMgpu)}
        label={`${devices} that could start now`}
        context={overMgpu > 0 ? `${formatGpus(overMgpu)} over the limit` : "inside all limits, placement permitting"}
      />
    );
  }
  const kind = first?.node_kind ?? "node";
  const over = roots.filter((quota) => startable(quota).overMgpu > 0);
  const shared = freeMgpu === null ? `each ${kind} draws on the same free ${devices}` : "inside all limits, placement permitting";
  return (
    <Kpi
      value={formatGpus(startableTogether(roots, freeMgpu))}
      label={freeMgpu === null ? `${devices} that one ${kind} could start now` : `${devices} that could start now`}
      context={over.length > 0 ? `${names(over)} over the limit` : shared}
    />
  );
}

import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";

import { clustersQuery, poolsQuery, quotasQuery } from "../api/queries";
import type { Cluster, Pool, Quota } from "../api/types";
import { rootsOf } from "../quotas/tree";
import { FreshnessBadge } from "../shell/Freshness";
import { Card } from "../ui/Card";
import { CliLine } from "../ui/CliLine";
import { DataTable } from "../ui/DataTable";
import { Empty, Lines, QueryView } from "../ui/states";
import { Time } from "../ui/Time";
import { countUnder, headOf } from "../ui/units";

/** Pools and clusters of the whole platform, for its administrators. */
export function Fleet() {
  const pools = useQuery(poolsQuery);
  const clusters = useQuery(clustersQuery);
  const quotas = useQuery(quotasQuery({}));
  return (
    <Card label="Fleet">
      <h2>Fleet</h2>
      <QueryView query={pools} loading={<Lines count={3} label="Loading the fleet" />}>
        {(items) =>
          items.length === 0 ? (
            <Empty action={<Link to="/add-cluster">Add a cluster</Link>}>No pools yet.</Empty>
          ) : (
            <PoolTable pools={items} clusters={clusters.data ?? []} quotas={quotas.data} />
          )
        }
      </QueryView>
      <ul className="key" aria-label="Clusters">
        {(clusters.data ?? []).map((cluster) => (
          <li key={cluster.id}>
            <Link to="/clusters/$name" params={{ name: cluster.name }}>
              {cluster.name}
            </Link>{" "}
            {cluster.is_enabled ? (
              <FreshnessBadge cluster={cluster} showName={false} />
            ) : cluster.archived_at === null ? (
              "disabled"
            ) : (
              "archived"
            )}
          </li>
        ))}
      </ul>
      <div className="spread more">
        <Link to="/clusters">All clusters</Link>
        <CliLine command="tidegate clusters" />
      </div>
    </Card>
  );
}

function PoolTable({
  pools,
  clusters,
  quotas,
}: {
  pools: readonly Pool[];
  clusters: readonly Cluster[];
  quotas: readonly Quota[] | undefined;
}) {
  const head = headOf(pools);
  const sum = (values: readonly number[]) => values.reduce((total, each) => total + each, 0);
  const ofPool = (name: string) => {
    const parts = clusters.flatMap((cluster) =>
      cluster.is_enabled ? cluster.pools.filter(({ pool }) => pool === name) : [],
    );
    const roots = rootsOf((quotas ?? []).filter(({ pool }) => pool === name));
    return {
      inUseMgpu: sum(roots.map(({ use }) => use.in_use_mgpu)),
      out: sum(parts.map(({ nodes, nodes_healthy }) => nodes - nodes_healthy)),
      nodes: sum(parts.map(({ nodes }) => nodes)),
    };
  };
  return (
    <DataTable
      label="Pools of the fleet"
      rows={pools.map((pool) => ({ pool, ...ofPool(pool.name) }))}
      rowKey={({ pool }) => pool.id}
      columns={[
        {
          header: "Pool",
          isHeading: true,
          cell: ({ pool }) => (
            <>
              <Link to="/quotas" search={{ pool: pool.name }}>
                {pool.name}
              </Link>
              {pool.archived_at !== null && <div className="small dim">archived</div>}
              {pool.is_overcommitted && <div className="small bad-text">▲ overcommitted</div>}
            </>
          ),
        },
        {
          header: "In use",
          isRight: true,
          cell: ({ pool, inUseMgpu }) => (quotas === undefined ? "…" : countUnder(head, inUseMgpu, pool.device)),
        },
        {
          header: "Healthy",
          isRight: true,
          cell: ({ pool }) => (
            <>
              {countUnder(head, pool.capacity_mgpu, pool.device)}
              {pool.capacity_as_of !== null && (
                <div className="small stale-text">
                  as of <Time at={pool.capacity_as_of} />
                </div>
              )}
            </>
          ),
        },
        {
          header: "Guaranteed",
          isRight: true,
          only: "wide",
          cell: ({ pool }) =>
            pool.guaranteed_mgpu === null ? "–" : countUnder(head, pool.guaranteed_mgpu, pool.device),
        },
        {
          header: "Nodes out of service",
          isRight: true,
          tone: ({ out }) => (out > 0 ? "bad-text" : undefined),
          cell: ({ out, nodes }) => `${out} of ${nodes}`,
        },
      ]}
    />
  );
}

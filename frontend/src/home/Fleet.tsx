import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";

import { clustersQuery, poolsQuery, quotasQuery } from "../api/queries";
import type { Cluster, Pool, Quota } from "../api/types";
import { rootsOf } from "../quotas/tree";
import { FreshnessBadge } from "../shell/Freshness";
import { CliLine } from "../ui/CliLine";
import { Empty, Lines, QueryView } from "../ui/states";
import { Time } from "../ui/Time";
import { countUnder, headOf } from "../ui/units";

/** Pools and clusters of the whole platform, for its administrators. */
export function Fleet() {
  const pools = useQuery(poolsQuery);
  const clusters = useQuery(clustersQuery);
  const quotas = useQuery(quotasQuery({}));
  return (
    <section className="card" aria-label="Fleet">
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
    </section>
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
  return (
    <table aria-label="Pools of the fleet">
      <thead>
        <tr>
          <th scope="col">Pool</th>
          <th scope="col" className="n">
            In use
          </th>
          <th scope="col" className="n">
            Healthy
          </th>
          <th scope="col" className="n hide">
            Guaranteed
          </th>
          <th scope="col" className="n">
            Nodes out of service
          </th>
        </tr>
      </thead>
      <tbody>
        {pools.map((pool) => {
          const parts = clusters.flatMap((cluster) =>
            cluster.is_enabled ? cluster.pools.filter((each) => each.pool === pool.name) : [],
          );
          const roots = rootsOf((quotas ?? []).filter((quota) => quota.pool === pool.name));
          const out = sum(parts.map(({ nodes, nodes_healthy }) => nodes - nodes_healthy));
          return (
            <tr key={pool.id}>
              <th scope="row">
                <Link to="/quotas" search={{ pool: pool.name }}>
                  {pool.name}
                </Link>
                {pool.archived_at !== null && <div className="small dim">archived</div>}
                {pool.is_overcommitted && <div className="small bad-text">▲ overcommitted</div>}
              </th>
              <td className="n">
                {quotas === undefined ? "…" : countUnder(head, sum(roots.map(({ use }) => use.in_use_mgpu)), pool.device)}
              </td>
              <td className="n">
                {countUnder(head, pool.capacity_mgpu, pool.device)}
                {pool.capacity_as_of !== null && (
                  <div className="small stale-text">
                    as of <Time at={pool.capacity_as_of} />
                  </div>
                )}
              </td>
              <td className="n hide">
                {pool.guaranteed_mgpu === null ? "–" : countUnder(head, pool.guaranteed_mgpu, pool.device)}
              </td>
              <td className={out > 0 ? "n bad-text" : "n"}>
                {out} of {sum(parts.map(({ nodes }) => nodes))}
              </td>
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}

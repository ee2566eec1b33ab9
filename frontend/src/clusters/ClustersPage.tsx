import { Button } from "@mantine/core";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { Link, useSearch } from "@tanstack/react-router";

import { clusterNodesQuery, clustersQuery } from "../api/queries";
import type { Cluster } from "../api/types";
import { FreshnessBadge, freshnessOf } from "../shell/Freshness";
import { useNowMs } from "../ui/now";
import { Empty, Lines, QueryView } from "../ui/states";
import { Time } from "../ui/Time";
import { formatGpus } from "../ui/units";
import { usePageTitle } from "../ui/usePageTitle";
import "../quotas/quota-bar.css";

export function ClustersPage() {
  usePageTitle("Clusters");
  const { cluster: chosen } = useSearch({ from: "/shell/clusters" });
  const clusters = useQuery(clustersQuery);
  return (
    <>
      <h1>Clusters</h1>
      <p className="sub">What each cluster last said about itself, and when.</p>
      <QueryView
        query={clusters}
        loading={
          <div className="card">
            <Lines count={5} label="Loading clusters" />
          </div>
        }
      >
        {(items) => (
          <div className="rows">
            {items.length === 0 ? (
              <div className="card">
                <Empty>No cluster is registered yet. A platform administrator adds the first one.</Empty>
              </div>
            ) : (
              <div className="even">
                {items.map((cluster) => (
                  <ClusterCard key={cluster.id} cluster={cluster} isChosen={cluster.name === chosen} />
                ))}
              </div>
            )}
            {chosen !== undefined && items.some(({ name }) => name === chosen) && <Nodes cluster={chosen} />}
          </div>
        )}
      </QueryView>
    </>
  );
}

function ClusterCard({ cluster, isChosen }: { cluster: Cluster; isChosen: boolean }) {
  const now = useNowMs();
  const { isFresh } = freshnessOf(cluster, now);
  const tone = !cluster.is_enabled ? "" : isFresh ? "mark good" : "mark warn";
  return (
    <section className={`card ${tone}`} aria-label={`Cluster ${cluster.name}`}>
      <div className="spread">
        <h2>
          {cluster.name} <span className="pill">{cluster.kind}</span>{" "}
          {!cluster.is_enabled && <span className="pill bad">disabled</span>}
        </h2>
        <span className="dim">
          <FreshnessBadge cluster={cluster} showName={false} />
        </span>
      </div>
      {!isFresh && (
        <p className="dim">
          {cluster.seen_at === null ? (
            "It has never answered."
          ) : (
            <>
              Last heard <Time at={cluster.seen_at} show="both" />. The numbers below are from then.
            </>
          )}
        </p>
      )}
      {cluster.message && <p className={isFresh ? "dim" : ""}>{cluster.message}</p>}
      {cluster.pools.length === 0 ? (
        <p className="dim">It has not said yet which GPUs it has.</p>
      ) : (
        <table aria-label={`Pools of ${cluster.name}`}>
          <thead>
            <tr>
              <th scope="col">Pool</th>
              <th scope="col">Healthy</th>
              <th scope="col" className="n">
                GPUs
              </th>
              <th scope="col" className="n">
                Nodes
              </th>
            </tr>
          </thead>
          <tbody>
            {cluster.pools.map((pool) => (
              <tr key={pool.pool}>
                <th scope="row">{pool.pool}</th>
                <td>
                  <span
                    className="bar"
                    style={{ minWidth: 70 }}
                    role="img"
                    aria-label={`${formatGpus(pool.healthy_mgpu)} of ${formatGpus(pool.capacity_mgpu)} GPUs healthy`}
                  >
                    <i className="e" style={{ left: 0, width: "100%" }} />
                    <i
                      className="g"
                      style={{
                        left: 0,
                        width: `${pool.capacity_mgpu > 0 ? ((pool.healthy_mgpu / pool.capacity_mgpu) * 100).toFixed(3) : 0}%`,
                      }}
                    />
                  </span>
                </td>
                <td className="n">
                  {formatGpus(pool.healthy_mgpu)}
                  <span className="faint"> of {formatGpus(pool.capacity_mgpu)}</span>
                </td>
                <td className="n">
                  {pool.nodes_healthy}
                  <span className="faint"> of {pool.nodes}</span>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      <p style={{ margin: "10px 0 0" }}>
        {isChosen ? (
          <Link to="/clusters" search={{ cluster: undefined }}>
            Hide the nodes
          </Link>
        ) : (
          <Link to="/clusters" search={{ cluster: cluster.name }}>
            Show the nodes
          </Link>
        )}
      </p>
    </section>
  );
}

function Nodes({ cluster }: { cluster: string }) {
  const nodes = useInfiniteQuery(clusterNodesQuery(cluster));
  return (
    <section className="card" aria-label={`Nodes of ${cluster}`}>
      <h2>Nodes of {cluster}</h2>
      <QueryView query={nodes}>
        {(data) => {
          const items = data.pages.flatMap((page) => page.items);
          return items.length === 0 ? (
            <Empty>This cluster has not reported a node yet.</Empty>
          ) : (
            <>
              <table aria-label={`Nodes of ${cluster}`}>
                <thead>
                  <tr>
                    <th scope="col">Node</th>
                    <th scope="col">State</th>
                    <th scope="col" className="hide">
                      Pool
                    </th>
                    <th scope="col" className="n">
                      GPUs
                    </th>
                    <th scope="col" className="n hide">
                      Seen
                    </th>
                  </tr>
                </thead>
                <tbody>
                  {items.map((node) => (
                    <tr key={node.id}>
                      <th scope="row">{node.name}</th>
                      <td>
                        <span className={`pill ${node.is_schedulable ? "run" : "bad"}`}>
                          {node.is_schedulable ? node.state || "schedulable" : node.state || "not schedulable"}
                        </span>
                      </td>
                      <td className="hide">{node.pool}</td>
                      <td className="n">{formatGpus(node.capacity_mgpu)}</td>
                      <td className="n hide">{node.seen_at ? <Time at={node.seen_at} /> : "never"}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
              {nodes.hasNextPage && (
                <p style={{ margin: "12px 0 0" }}>
                  <Button
                    variant="default"
                    size="xs"
                    loading={nodes.isFetchingNextPage}
                    onClick={() => void nodes.fetchNextPage()}
                  >
                    Show more
                  </Button>
                </p>
              )}
            </>
          );
        }}
      </QueryView>
    </section>
  );
}

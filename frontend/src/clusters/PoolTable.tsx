import type { Cluster } from "../api/types";
import { freshnessOf } from "../shell/Freshness";
import { DataTable } from "../ui/DataTable";
import { useNowMs } from "../ui/now";
import { Time } from "../ui/Time";
import { countUnder, DEVICE_HEADS, DEVICE_WORDS, formatGpus, headOf } from "../ui/units";
import "../quotas/quota-bar.css";

/** What a cluster has of each pool, and how much of it can be used now. */
export function PoolTable({ cluster }: { cluster: Cluster }) {
  const { isFresh } = freshnessOf(cluster, useNowMs());
  if (cluster.pools.length === 0) return <p className="dim">The cluster has not reported its pools yet.</p>;
  const head = headOf(cluster.pools);
  return (
    <DataTable
      label={`Pools of ${cluster.name}`}
      rows={cluster.pools}
      rowKey={(pool) => pool.pool}
      columns={[
        { header: "Pool", isHeading: true, cell: (pool) => pool.pool },
        {
          header: (
            <>
              Healthy
              {!isFresh && cluster.seen_at !== null && (
                <span className="faint">
                  {" "}
                  as of <Time at={cluster.seen_at} show="both" />
                </span>
              )}
            </>
          ),
          cell: (pool) => (
            <span
              className="bar"
              style={{ minWidth: 70 }}
              role="img"
              aria-label={`${formatGpus(pool.healthy_mgpu)} of ${formatGpus(pool.capacity_mgpu)} ${DEVICE_WORDS[pool.device]} healthy`}
            >
              <i className="e" style={{ left: 0, width: "100%" }} />
              <i className="g" style={{ left: 0, width: percent(pool.healthy_mgpu, pool.capacity_mgpu) }} />
            </span>
          ),
        },
        {
          header: DEVICE_HEADS[head],
          isRight: true,
          cell: (pool) => (
            <>
              {formatGpus(pool.healthy_mgpu)}
              <span className="faint"> of {countUnder(head, pool.capacity_mgpu, pool.device)}</span>
            </>
          ),
        },
        {
          header: "Nodes",
          isRight: true,
          cell: (pool) => (
            <>
              {pool.nodes_healthy}
              <span className="faint"> of {pool.nodes}</span>
            </>
          ),
        },
      ]}
    />
  );
}

function percent(part: number, whole: number): string {
  return whole > 0 ? `${((part / whole) * 100).toFixed(3)}%` : "0%";
}

import type { Cluster } from "../api/types";
import { freshnessOf } from "../shell/Freshness";
import { useNowMs } from "../ui/now";
import { Time } from "../ui/Time";

/** When a cluster was last heard, if that is long ago, and what it or its connector says. */
export function ClusterHealth({ cluster }: { cluster: Cluster }) {
  const { isFresh } = freshnessOf(cluster, useNowMs());
  return (
    <>
      {!isFresh && (
        <p className="dim">
          {cluster.seen_at === null ? (
            "It has never answered."
          ) : (
            <>
              Last heard <Time at={cluster.seen_at} show="both" />. The numbers below are from then; nothing new starts
              on it.
            </>
          )}
        </p>
      )}
      {cluster.message && <p className={isFresh ? "dim" : ""}>{cluster.message}</p>}
    </>
  );
}

/** The kind, the API version where there are several, and whether it is switched off. */
export function ClusterPills({ cluster }: { cluster: Cluster }) {
  return (
    <>
      <span className="pill">{cluster.kind}</span>{" "}
      {cluster.api_version && (
        <span className="pill" title="REST API version that is spoken with it">
          {cluster.api_version}
        </span>
      )}{" "}
      {!cluster.is_enabled && <span className="pill bad">disabled</span>}
    </>
  );
}

/** The edge of a cluster's card: good, stale, or none while it is switched off. */
export function markOf(cluster: Cluster, isFresh: boolean): string {
  if (!cluster.is_enabled) return "";
  return isFresh ? "mark good" : "mark warn";
}

import type { Cluster } from "../api/types";
import { freshnessOf } from "../shell/Freshness";
import type { CardTone } from "../ui/Card";
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
      {cluster.isolation && <p className="dim">{cluster.isolation}</p>}
      {cluster.message && <p>{cluster.message}</p>}
    </>
  );
}

/** The kind, the API version where there are several, and whether it is switched off. */
export function ClusterPills({ cluster }: { cluster: Cluster }) {
  return (
    <>
      <span className="pill">{cluster.kind_label}</span>{" "}
      {cluster.api_version && (
        <span className="pill" title="Version that is spoken with it">
          {cluster.api_version}
        </span>
      )}{" "}
      {cluster.words.variant && (
        <span className="pill" title="Its scheduler">
          {cluster.words.variant}
        </span>
      )}{" "}
      {!cluster.is_enabled && <span className="pill bad">{cluster.archived_at === null ? "disabled" : "archived"}</span>}
    </>
  );
}

/** The edge of a cluster's card: good, stale or with something to see to, or none while it is switched off. */
export function toneOf(cluster: Cluster, isFresh: boolean): CardTone | undefined {
  if (!cluster.is_enabled) return undefined;
  return isFresh && !cluster.message ? "good" : "warn";
}

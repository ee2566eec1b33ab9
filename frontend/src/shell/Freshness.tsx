import { useQuery } from "@tanstack/react-query";

import { clustersQuery, schedulerQuery } from "../api/queries";
import type { Cluster } from "../api/types";
import { useNowMs } from "../ui/now";
import { formatDuration } from "../ui/units";

export interface FreshnessOf {
  isFresh: boolean;
  /** For people: "4 s", "stale 6 min", "unreachable 6 min", "never seen". */
  words: string;
}

/** How old is what we know of this cluster? Past its own limit, or unreachable, it is stale. */
export function freshnessOf(cluster: Cluster, nowMs: number): FreshnessOf {
  if (cluster.seen_at === null || cluster.state === "never_seen") {
    return { isFresh: false, words: "never seen" };
  }
  const ageS = Math.max(0, Math.floor((nowMs - new Date(cluster.seen_at).getTime()) / 1000));
  const age = ageS < 60 ? `${ageS} s` : ageS < 3600 ? `${Math.floor(ageS / 60)} min` : formatDuration(ageS);
  if (cluster.state === "unreachable") return { isFresh: false, words: `unreachable ${age}` };
  if (ageS > cluster.stale_after_s) return { isFresh: false, words: `stale ${age}` };
  return { isFresh: true, words: age };
}

/** One cluster: a green dot, or an amber triangle where the numbers are old. */
export function FreshnessBadge({ cluster, showName = true }: { cluster: Cluster; showName?: boolean }) {
  const now = useNowMs();
  const { isFresh, words } = freshnessOf(cluster, now);
  const title = isFresh
    ? `${cluster.name}: seen ${words} ago`
    : `${cluster.name}: ${words}. Its numbers may be old. ${cluster.message}`.trim();
  return (
    <span className={isFresh ? "fresh" : "fresh old"} title={title}>
      {showName && <span className="fresh-name">{cluster.name}</span>} {words}
    </span>
  );
}

/** A line on every page while nothing is decided, or no cluster is looked after. */
export function SchedulerLine() {
  const { data } = useQuery(schedulerQuery);
  const now = useNowMs();
  if (data === undefined || !(data.is_late || data.is_observer_late)) return null;
  const ago = (at: string | null) =>
    at === null ? "so far" : `for ${formatDuration(Math.max(0, Math.floor((now - new Date(at).getTime()) / 1000)))}`;
  return (
    <p className="late" role="status">
      {data.is_late
        ? `No scheduling decision ${ago(data.last_cycle_at)}. Running jobs continue; no job is started.`
        : `No cluster was checked ${ago(data.last_observation_at)}. Job states and free GPUs may be old.`}
    </p>
  );
}

/** All clusters, in the header of every page. On a phone only what is stale. */
export function Freshness() {
  const clusters = useQuery(clustersQuery);
  const now = useNowMs();
  if (clusters.data === undefined) {
    return clusters.error ? <span className="fresh old">clusters unknown</span> : null;
  }
  const enabled = clusters.data.filter((cluster) => cluster.is_enabled);
  const isAllFresh = enabled.every((cluster) => freshnessOf(cluster, now).isFresh);
  return (
    <>
      {enabled.map((cluster) => (
        <span key={cluster.id} className={freshnessOf(cluster, now).isFresh ? "hide" : undefined}>
          <FreshnessBadge cluster={cluster} />
        </span>
      ))}
      {isAllFresh && enabled.length > 0 && <span className="fresh only-phone">all fresh</span>}
    </>
  );
}

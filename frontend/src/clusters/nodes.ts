import type { ClusterNode, Placement } from "../api/types";

/** A job on one node. */
export interface JobOnNode {
  id: string;
  name: string;
  mgpu: number;
}

/** What runs on each node, by its name. A job with several ranks on one node is there once. */
export function jobsByNode(placements: readonly Placement[]): Map<string, JobOnNode[]> {
  const found = new Map<string, Map<string, JobOnNode>>();
  for (const { job, name, slots } of placements) {
    for (const { node, mgpu } of slots) {
      const jobs = found.get(node) ?? new Map<string, JobOnNode>();
      found.set(node, jobs);
      const before = jobs.get(job);
      jobs.set(job, { id: job, name, mgpu: mgpu + (before?.mgpu ?? 0) });
    }
  }
  return new Map([...found].map(([node, jobs]) => [node, [...jobs.values()]]));
}

/** Where a node stands, in words: "block b1, rack r7". */
export function placeOf(node: ClusterNode): string {
  return ["block", "rack", "nvlink"]
    .filter((level) => node.domains[level])
    .map((level) => `${level === "nvlink" ? "NVLink" : level} ${node.domains[level] ?? ""}`)
    .join(", ");
}

/** The nodes whose name, place, state, reason or feature has the text, in any case. */
export function matching(nodes: readonly ClusterNode[], text: string): ClusterNode[] {
  const wanted = text.trim().toLowerCase();
  if (wanted === "") return [...nodes];
  return nodes.filter((node) =>
    [node.name, node.pool, node.state, node.reason, placeOf(node), ...node.features].some((word) =>
      word.toLowerCase().includes(wanted),
    ),
  );
}

/** Has this node been taken out by hand? Then it can be let in again. */
export function isOut(node: ClusterNode): boolean {
  return /drain|down|fail|schedulingdisabled/.test(node.state.toLowerCase());
}

/** What an evicted Pod that is no job of ours gets at most, seconds. */
export const EVICT_GRACE_S = 300;

/** What becomes of everything on a node when it is emptied; `jobs` is null while they are not known. */
export function whatEvictionDoes(jobs: number | null): string[] {
  const whole = "on all of its nodes";
  const after = "the grace of its priority class, and queues again at its old place as its next attempt";
  const others =
    `Everything else on it that is not a DaemonSet's or the node's own is evicted, as disruption budgets allow, ` +
    `and gets at most ${EVICT_GRACE_S / 60} minutes to end.`;
  if (jobs === 0) return ["No job runs on it now. One that starts meanwhile gets its notice and queues again.", others];
  const who = jobs === null ? "Every job on it" : jobs === 1 ? "The job on it" : `Each of the ${jobs} jobs on it`;
  return [
    `${who} gets its notice, is stopped ${whole} after ${after}. One that may not be queued again fails.`,
    others,
  ];
}

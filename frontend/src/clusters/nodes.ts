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

/** The nodes whose name, state, reason or feature has the text, in any case. */
export function matching(nodes: readonly ClusterNode[], text: string): ClusterNode[] {
  const wanted = text.trim().toLowerCase();
  if (wanted === "") return [...nodes];
  return nodes.filter((node) =>
    [node.name, node.pool, node.state, node.reason, ...node.features].some((word) =>
      word.toLowerCase().includes(wanted),
    ),
  );
}

/** Has this node been taken out by hand? Then it can be let in again. */
export function isOut(node: ClusterNode): boolean {
  return /drain|down|fail/.test(node.state.toLowerCase());
}

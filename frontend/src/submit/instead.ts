import type { JobAlternatives } from "../api/types";
import { limitText, LEVELS, memoryText, span, spanText, type Draft } from "./draft";

type Changes = JobAlternatives["items"][number]["changes"];

/** What an alternative asks for otherwise than its job, for an address: "pool:a100,features:". */
export function insteadText(changes: Changes): string {
  return Object.entries(changes)
    .map(([member, value]) => `${member}:${typeof value === "string" || typeof value === "number" ? value : ""}`)
    .join(",");
}

/**
 * The draft of a job with such changes. The job's size is said by node, as it was tried, and what it
 * has waited for already is left out. Members that no alternative changes are passed over, since
 * anybody may write an address.
 */
export function insteadOf(draft: Draft, text: string): Draft {
  const changes = new Map(
    text.split(",").map((part) => {
      const [member = "", ...value] = part.split(":");
      return [member, value.join(":")];
    }),
  );
  const changed: Draft = {
    ...draft,
    shape: draft.shape === "cores" ? "cores" : "per_node",
    nodes: changedNodes(draft.nodes, changes),
    // A job that becomes one of several nodes, or of one again, is of another type.
    type: draft.type === "training" || draft.type === "distributed" ? null : draft.type,
    dependsOn: "",
  };
  const set = (member: string, change: (value: string) => Partial<Draft>) => {
    const value = changes.get(member);
    if (value !== undefined) Object.assign(changed, change(value));
  };
  set("gpus_per_node", (gpusPerNode) => ({ gpusPerNode }));
  set("cpus_per_node", (cpus) => ({ cpus }));
  set("memory_mib_per_node", (mib) => ({ memory: numberOr(mib, memoryText) }));
  set("time_limit_s", (seconds) => ({ timeLimit: numberOr(seconds, limitText) }));
  set("priority_class", (name) => ({ priorityClass: name || null }));
  set("pool", (pool) => ({ pool: pool || null }));
  set("pools", () => ({ otherPools: [] }));
  set("cluster", (name) => ({ cluster: name || null }));
  set("features", () => ({ features: [] }));
  set("required_topology", () => ({ together: null, mustBeTogether: false }));
  set("preferred_topology", (level) => ({ together: LEVELS.find((each) => each === level) ?? null }));
  return changed;
}

/** Nodes as they are typed, "2..8", with another number of them at most or at least. */
function changedNodes(text: string, changes: ReadonlyMap<string, string>): string {
  const { least, most } = span(text);
  const changedMost = changes.get("nodes") || most;
  return spanText(changes.get("nodes_min") || (changes.has("nodes_min") ? changedMost : (least ?? changedMost)), changedMost);
}

function numberOr(text: string, words: (number: number) => string): string {
  return /^[1-9]\d{0,8}$/.test(text) ? words(Number(text)) : "";
}

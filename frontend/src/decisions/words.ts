import type { Cycle, Decision, DecisionLine, Difference } from "../api/types";
import { codeWords } from "../jobs/words";
import { formatDuration, formatGpuCount, formatGpus, inWordsOf, type Device } from "../ui/units";

const KIND_WORDS: Record<string, string> = {
  started: "started",
  claimed: "GPUs kept for it",
  stopped: "preempted",
  claim_dropped: "claim given up",
  waits: "left as it is",
};

export function kindWords(kind: string, device: Device = "gpu"): string {
  return inWordsOf(device, KIND_WORDS[kind] ?? kind.replaceAll("_", " "));
}

export function kindTone(kind: Decision["decision"]): "run" | "borrow" | "wait" | "" {
  if (kind === "started") return "run";
  if (kind === "stopped") return "borrow";
  return kind === "claimed" ? "wait" : "";
}

const RIGHT_WORDS: Record<string, string> = {
  borrowed: "its GPUs were borrowed",
  borrowed_above: "its department had borrowed",
  priority: "lower priority class",
  preemptible: "submitted as preemptible",
};

/** By what right a job was stopped. */
export function rightWords(right: string, device: Device): string {
  return inWordsOf(device, RIGHT_WORDS[right] ?? right.replaceAll("_", " "));
}

/** Of what is not a stop: from whom the GPUs come, or what of a start is borrowed. */
export function partWords(line: DecisionLine): string {
  if (line.decision === "claimed") {
    if (line.victims === 0) return "from jobs that were being stopped already";
    const jobs = line.victims === 1 ? "1 job" : `${line.victims} jobs`;
    return `from ${jobs} with ${formatGpuCount(line.victims_mgpu, line.device)}`;
  }
  if (line.decision !== "started" || line.guaranteed_mgpu === null) return "";
  const borrowed = line.mgpu - line.guaranteed_mgpu;
  return borrowed === 0 ? "inside its team's guarantee" : `${formatGpus(borrowed)} borrowed`;
}

/** What a cycle did, in counts: "2 started, 1 preempted". */
export function cycleWords(cycle: Cycle): string {
  const counts: [number, string][] = [
    [cycle.started, "started"],
    [cycle.claimed, cycle.claimed === 1 ? "has room kept for it" : "have room kept for them"],
    [cycle.stopped, "preempted"],
    [cycle.claims_dropped, cycle.claims_dropped === 1 ? "claim given up" : "claims given up"],
  ];
  return counts
    .filter(([count]) => count > 0)
    .map(([count, word]) => `${count} ${word}`)
    .join(", ");
}

/** What a plan does with a job, in a few words. */
export function fateWords(fate: Difference["then"]): string {
  const parts = [fate.code === null ? kindWords(fate.decision) : codeWords(fate.code)];
  if (fate.cluster !== null) parts.push(`on ${fate.cluster}`);
  if (fate.other_jobs.length > 0) {
    const names = fate.other_jobs.map((job) => job.name ?? job.team ?? "another's");
    parts.push(fate.decision === "stopped" ? `for ${names.join(", ")}` : `stopping ${names.join(", ")}`);
  }
  if (fate.grace_s !== null) parts.push(`in ${formatDuration(fate.grace_s)}`);
  return parts.join(" ");
}

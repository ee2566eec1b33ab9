import type { Attempt, Explanation, Job, JobDetail, JobState } from "../api/types";
import { formatCount, formatDuration, formatGpuCount, formatGpus, inWordsOf } from "../ui/units";

export const JOB_STATES: readonly JobState[] = [
  "queued",
  "held",
  "starting",
  "running",
  "preempting",
  "succeeded",
  "failed",
  "cancelled",
  "timed_out",
];
/** The states in a comma-separated list; what is none is left out. */
export function parseStates(list: string | undefined): JobState[] {
  const asked = new Set(list?.split(","));
  return JOB_STATES.filter((state) => asked.has(state));
}

/** Where a job runs or ran, and what it accepts where that is more: "h100, else a100" before its first start. */
export function poolsText(job: Pick<Job, "pool" | "pools" | "attempt">): string {
  const accepted = job.pools.join(", else ");
  if (job.pools.length === 1 || job.attempt === 0) return accepted;
  return `${job.pool} (of ${accepted})`;
}

const ENDED: ReadonlySet<JobState> = new Set(["succeeded", "failed", "cancelled", "timed_out"]);

export function isEnded(state: JobState): boolean {
  return ENDED.has(state);
}

/** Whether it ended because of what it ran, or of the time that it took. */
export function hasFailed(state: JobState): boolean {
  return state === "failed" || state === "timed_out";
}

const STATE_WORDS: Record<JobState, string> = {
  queued: "queued",
  held: "held",
  starting: "starting",
  running: "running",
  preempting: "preempting",
  succeeded: "succeeded",
  failed: "failed",
  cancelled: "cancelled",
  timed_out: "timed out",
};

export function stateWord(state: JobState): string {
  return STATE_WORDS[state];
}

export type PillTone = "wait" | "run" | "borrow" | "bad" | "";

export function stateTone(state: JobState): PillTone {
  switch (state) {
    case "queued":
    case "held":
      return "wait";
    case "starting":
    case "running":
      return "run";
    case "preempting":
      return "borrow";
    case "failed":
    case "timed_out":
      return "bad";
    case "succeeded":
    case "cancelled":
      return "";
  }
}

/** What a job that waits for another asks of it. */
export const CONDITION_WORDS = { succeeded: "has succeeded", ended: "has ended", failed: "has ended without success" };

/** What people call a domain of a level of the topology. */
export const LAUNCH_WORDS = { per_node: "once on every node", batch: "once, on the first node" };

/** How the script of a batch job runs: "once, on the first node · 16 tasks, 8 on each node". */
export function batchText({ ntasks, ntasks_per_node: each }: JobDetail): string {
  const tasks = ntasks === null ? [] : [ntasks === 1 ? "1 task" : `${ntasks} tasks`];
  if (each !== null) tasks.push(tasks.length === 0 ? `${each} tasks on each node` : `${each} on each node`);
  return tasks.length === 0 ? LAUNCH_WORDS.batch : `${LAUNCH_WORDS.batch} · ${tasks.join(", ")}`;
}

export const LEVEL_WORDS = { node: "node", nvlink: "NVLink domain", rack: "rack", block: "block" };

/** The type checker asks for a word for each code of the API. */
const CODE_WORDS: Record<Explanation["code"], string> & Record<string, string> = {
  never_fits: "can never fit",
  waiting_for_guarantee: "waiting for the team's guarantee",
  borrow_limit_reached: "borrow limit reached",
  parent_limit_reached: "limit above the team reached",
  waiting_for_free_gpus: "waiting for free GPUs",
  waiting_for_reclaim: "waiting for reclaim",
  behind_higher_priority: "behind higher priority",
  behind_credits: "behind a team with more credits",
  behind_fair_share: "behind fair share",
  reserved_for_larger_job: "GPUs are reserved for a larger job",
  topology_fragmented: "free GPUs are too scattered",
  class_cap_reached: "cap of the priority class reached",
  held_by_user: "held",
  not_yet_decided: "not decided yet",
  not_waiting: "not waiting",
  would_start: "would start now",
  dependency: "waiting for another job",
  singleton: "waiting for a job of its name",
  array_limit_reached: "waiting for tasks of its array",
  begin_time: "begin time not reached",
  budget_exhausted: "budget used up",
  user_cap_reached: "cap of its user reached",
  team_archived: "its team is archived",
  user_deactivated: "its user is deactivated",
  cluster_archived: "its cluster is archived",
  pool_archived: "its pool is archived",
  cluster_unavailable: "cluster unavailable",
  maintenance: "maintenance ahead",
  dispatching: "being sent to the cluster",
};

/** Of a job that waits for jobs, not for GPUs: the arbiter is not offered it, and nobody is ahead of it. */
export const WAITS_FOR_JOBS: ReadonlySet<string> = new Set([
  "dependency",
  "singleton",
  "array_limit_reached",
  "begin_time",
  "budget_exhausted",
  "user_cap_reached",
  "team_archived",
  "user_deactivated",
  "cluster_archived",
  "pool_archived",
]);

const NO_FUTURE: ReadonlySet<string> = new Set([...WAITS_FOR_JOBS, "held_by_user", "never_fits"]);

/** Whether the arbiter can be played on until a job starts that waits for this reason. */
export function hasFuture(code: string): boolean {
  return !NO_FUTURE.has(code);
}

/** What is known of a start for which there is no range: what it hangs on, and never more than that. */
export function withoutEstimate(
  { code, jobs_ahead: ahead }: Pick<Explanation, "code" | "jobs_ahead">,
  canLookAhead: boolean,
): string {
  switch (code) {
    case "dependency":
      return "Unknown: not before the others are done.";
    case "singleton":
      return "Unknown: not before the others of its name are done.";
    case "array_limit_reached":
      return "Unknown: not before another task of its array has ended.";
    case "cluster_archived":
      return "Unknown: not before its cluster is restored.";
    case "pool_archived":
      return "Unknown: not before its pool is restored.";
    case "user_deactivated":
      return "Unknown: not before its user is reactivated.";
    case "team_archived":
      return "Unknown: not before its team is restored.";
    case "budget_exhausted":
      return "Unknown: not before its budget has room.";
    case "user_cap_reached":
      return "Unknown: not before another job of its user has ended.";
    case "begin_time":
      return "Not before that time.";
    case "held_by_user":
      return "Unknown: not before the job is released.";
    case "not_yet_decided":
      return "Unknown: the scheduler has not decided about this job yet.";
    case "maintenance":
      return "Not before the end of the maintenance, unless its time limit or its clusters change.";
    case "cluster_unavailable":
      return "Unknown: it depends on when the cluster accepts jobs again.";
  }
  const line = ahead === 0 ? "" : ahead === 1 ? ": 1 job comes before it" : `: ${formatCount(ahead)} jobs come before it`;
  return `Start time unknown${line}.${canLookAhead ? " Run a look-ahead to simulate it." : ""}`;
}

type Size = Pick<Job, "mgpu" | "mgpu_min" | "node_count" | "node_count_min" | "device">;

/** "16 GPUs", or "4 to 16 GPUs" of an elastic job. */
export function gpuSpan(job: Size): string {
  const most = formatGpuCount(job.mgpu, job.device);
  return job.node_count_min < job.node_count ? `${formatGpus(job.mgpu_min)} to ${most}` : most;
}

/** The GPUs that it has, "12 of 4 to 16" of an elastic job, or those that it asks for. */
export function gpusOf(job: Size & Pick<Job, "current_attempt">): string {
  if (job.node_count_min === job.node_count) return formatGpus(job.mgpu);
  const asked = `${formatGpus(job.mgpu_min)} to ${formatGpus(job.mgpu)}`;
  return job.current_attempt === null ? asked : `${formatGpus(job.current_attempt.mgpu)} of ${asked}`;
}

/** "4", or "1 to 4" of an elastic job. */
export function nodeSpan(job: Size): string {
  return job.node_count_min < job.node_count ? `${job.node_count_min} to ${job.node_count}` : String(job.node_count);
}

/** The category of an explanation in words. An unknown code is shown as it is, never guessed. */
export function codeWords(code: string, device: Job["device"] = "gpu"): string {
  return inWordsOf(device, CODE_WORDS[code] ?? code.replaceAll("_", " "));
}

/** What a job's pill says: why it waits if that is known, that it is stopped before it ran, else its state. */
export function jobPill(job: Pick<Job, "state" | "explanation" | "device" | "current_attempt">): {
  text: string;
  tone: PillTone;
} {
  if (job.state === "starting" && job.current_attempt?.state === "stopping") return { text: "being stopped", tone: "wait" };
  if (job.state === "queued" && job.explanation) {
    return { text: codeWords(job.explanation.code, job.device), tone: "wait" };
  }
  return { text: stateWord(job.state), tone: stateTone(job.state) };
}

const METHOD_WORDS: Record<string, string> = {
  reclaim: "from the grace periods of preempted jobs",
  time_limits: "from the time limits of what runs",
  look_ahead: "the arbiter, played on from this moment",
};

/** How an estimated start came about, in words; an unknown method by its own name. */
export function methodWords(method: string): string {
  return METHOD_WORDS[method] ?? method.replaceAll("_", " ");
}

/** Why a job is expected to save its work. */
export const HANDLING_WORDS = {
  reports_checkpoints: "saves: reports checkpoints",
  has_checkpoint_path: "saves: has a checkpoint path",
  asks_for_signal: "saves: asked for a signal",
};

/** How what runs counts against the quota: the two shapes of the bars, in words. */
export function usageClass(job: Pick<Job, "current_attempt">): "guaranteed" | "borrowed" | "partly borrowed" | null {
  const attempt = job.current_attempt;
  if (attempt === null || attempt.state === "ended") return null;
  if (attempt.borrowed_mgpu === 0) return "guaranteed";
  return attempt.guaranteed_mgpu === 0 ? "borrowed" : "partly borrowed";
}

/**
 * The last moment at which a reclaim's GPUs are free, or null when nobody is giving back, or should
 * have before. Where those who give back were already asked for somebody else, the estimate has it.
 */
export function reclaimDeadline(explanation: Explanation): string | null {
  if ("overdue_s" in explanation.numbers) {
    return null;
  }
  const deadlines = explanation.victims.flatMap(({ grace_until }) => (grace_until === null ? [] : [grace_until]));
  if (deadlines.length === 0) {
    return explanation.code === "waiting_for_reclaim" ? (explanation.estimated_start?.latest ?? null) : null;
  }
  return deadlines.reduce((last, each) => (new Date(each) > new Date(last) ? each : last));
}

/**
 * The sentence before and after the time left, which it says as it was when decided and which the page counts down.
 * The whole sentence alone where it says no such time. A grace period is at most a day.
 */
export function aroundTimeLeft({ sentence, numbers }: Explanation): [before: string, after?: string] {
  const { grace_left_s: left } = numbers;
  const words = left === undefined ? "" : formatDuration(left);
  const at = words === "" ? -1 : sentence.indexOf(` ${words}.`);
  return at < 0 ? [sentence] : [sentence.slice(0, at + 1), sentence.slice(at + 1 + words.length)];
}

const CLUSTERS_OWN_ENDS = new Set(["lost", "node_failed", "start_failed", "not_started"]);

/**
 * How an attempt ended, in the words of the job's states: the cluster only knows that it was stopped or
 * that its ranks failed, not that somebody cancelled or requeued the job or took its GPUs back.
 */
export function attemptWord(
  attempt: Pick<Attempt, "number" | "state" | "stop_reason" | "outcome" | "notice_at" | "ended_at">,
  job: Pick<Job, "state" | "attempt" | "ended_at">,
): string {
  if (attempt.state !== "ended") return attempt.state;
  const { outcome, notice_at: noticeAt, ended_at: endedAt } = attempt;
  const isJobsEnd = attempt.number === job.attempt && endedAt === job.ended_at;
  if (job.state === "cancelled" && isJobsEnd) return "cancelled";
  if (outcome !== null && CLUSTERS_OWN_ENDS.has(outcome)) return outcome.replaceAll("_", " ");
  // What ended before its notice ended by itself; after it, even exit code 0 means "saved", not "done".
  if (noticeAt !== null && endedAt !== null && Date.parse(endedAt) >= Date.parse(noticeAt)) {
    if (attempt.stop_reason === "cost_cap") return "stopped at its cost cap";
    return attempt.stop_reason === "requeued" ? "requeued" : "preempted";
  }
  if (outcome === "stopped") return "stopped on the cluster";
  return (outcome ?? "ended").replaceAll("_", " ");
}

/** The last part of a path: "ai-company/research/nlp" -> "nlp". */
export function lastPart(path: string): string {
  return path.split("/").at(-1) ?? path;
}

/** The end of a UUIDv7, where it differs from its neighbours: enough to tell jobs apart by eye. */
export function shortId(id: string): string {
  return id.slice(-4);
}

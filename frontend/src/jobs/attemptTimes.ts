/** Times of attempts, for their picture and their comparison. */
import type { Attempt, Job } from "../api/types";

export interface AttemptSpan {
  attempt: Attempt;
  /** From when the job waited for this attempt, in ms: its submission, or the end of the attempt before. */
  waitedFromMs: number;
  /** When it started; null while it waits for its cluster. */
  startMs: number | null;
  /** When it ended, or now. */
  endMs: number;
}

/** The attempts by number, each with its wait and its run. */
export function spansOf(attempts: readonly Attempt[], job: Pick<Job, "submitted_at">, nowMs: number): AttemptSpan[] {
  let waitedFromMs = Date.parse(job.submitted_at);
  return [...attempts]
    .sort((a, b) => a.number - b.number)
    .map((attempt) => {
      const endMs = attempt.ended_at === null ? nowMs : Date.parse(attempt.ended_at);
      const span = {
        attempt,
        waitedFromMs,
        startMs: attempt.started_at === null ? null : Date.parse(attempt.started_at),
        endMs,
      };
      waitedFromMs = endMs;
      return span;
    });
}

/** Seconds that the job waited before this attempt started, or until it ended without a start. */
export function waitedS({ waitedFromMs, startMs, endMs }: AttemptSpan): number {
  return Math.max(0, ((startMs ?? endMs) - waitedFromMs) / 1000);
}

/** Seconds that the attempt ran; null if it never started. */
export function ranS({ startMs, endMs }: AttemptSpan): number | null {
  return startMs === null ? null : Math.max(0, (endMs - startMs) / 1000);
}

/** Seconds of work that a stop at its end lost: since its last checkpoint, or since its start. */
export function unsavedS({ attempt, startMs, endMs }: AttemptSpan): number | null {
  if (startMs === null) return null;
  const savedMs = attempt.checkpoint_at === null ? startMs : Math.max(startMs, Date.parse(attempt.checkpoint_at));
  return Math.max(0, (endMs - savedMs) / 1000);
}

/** The nodes of an attempt, each once. */
export function nodesOf(attempt: Pick<Attempt, "slots">): string[] {
  return [...new Set(attempt.slots.map(({ node }) => node))].sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
}

/** "a-09", or "a-09 … a-16 (8 nodes)". */
export function nodesText(nodes: readonly string[]): string {
  const [first, last] = [nodes[0], nodes.at(-1)];
  if (first === undefined || last === undefined) return "–";
  return nodes.length === 1 ? first : `${first} … ${last} (${nodes.length} nodes)`;
}

const MINUTE_MS = 60_000;
const STEPS_MS = [1, 5, 10, 30, 60, 120, 360, 720, 1440, 2880, 10_080, 43_200].map((minutes) => minutes * MINUTE_MS);
const TICKS_MAX = 7;

/** Moments for the lines of an axis: at most `TICKS_MAX`, on whole steps of the reader's time. */
export function ticksBetween(fromMs: number, toMs: number): number[] {
  const step = STEPS_MS.find((each) => (toMs - fromMs) / each <= TICKS_MAX) ?? (toMs - fromMs) / TICKS_MAX;
  const zoneMs = new Date(fromMs).getTimezoneOffset() * MINUTE_MS;
  const first = Math.ceil((fromMs - zoneMs) / step) * step + zoneMs;
  const ticks = [];
  for (let at = first; at <= toMs && ticks.length <= TICKS_MAX; at += step) ticks.push(at);
  return ticks;
}

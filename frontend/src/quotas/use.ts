import type { Job, Quota } from "../api/types";
import { WAITS_FOR_JOBS } from "../jobs/words";
import { DEVICE_WORDS, formatGpus, formatRatio, type Device } from "../ui/units";

/** What a quota bar draws, in milli-GPU. */
export interface QuotaUse {
  /** What is counted. */
  device: Device;
  guaranteedMgpu: number;
  inUseMgpu: number;
  /** In use inside the guarantee: solid. */
  solidMgpu: number;
  /** In use above it: hatched, may be reclaimed. */
  borrowedMgpu: number;
  /** Guaranteed here, idle here, in use by others: dashed. */
  lentMgpu: number;
  /** Guaranteed and idle: grey. */
  idleMgpu: number;
  waitingMgpu: number;
  /** Guarantee plus borrow limit; null where nothing limits borrowing here. */
  ceilingMgpu: number | null;
}

/** The only place that knows how the API spells a quota's use. */
export function quotaUse(quota: Quota): QuotaUse {
  const { guaranteed_mgpu: guaranteed, borrow_limit_mgpu: borrowLimit, use } = quota;
  const lent = Math.max(0, Math.min(use.lent_mgpu, guaranteed - use.in_use_mgpu));
  return {
    device: quota.device,
    guaranteedMgpu: guaranteed,
    inUseMgpu: use.in_use_mgpu,
    solidMgpu: Math.max(0, use.in_use_mgpu - use.borrowed_mgpu),
    borrowedMgpu: use.borrowed_mgpu,
    lentMgpu: lent,
    idleMgpu: Math.max(0, guaranteed - use.in_use_mgpu - lent),
    waitingMgpu: use.waiting_mgpu,
    ceilingMgpu: borrowLimit === null ? null : guaranteed + borrowLimit,
  };
}

/** The quota of an archived node, as the arbiter counts it: nothing is guaranteed, so all in use is borrowed. */
export function notInForce(quota: Quota): Quota {
  const { use } = quota;
  return {
    ...quota,
    guaranteed_mgpu: 0,
    borrow_limit_mgpu: null,
    use: { ...use, lent_mgpu: 0, available_mgpu: 0, borrowed_mgpu: use.in_use_mgpu },
  };
}

/**
 * The common right end of a table's bars, in milli-GPU. Borrow limits count only up to the
 * largest root guarantee or use, so that a limit of "a million" does not flatten every bar.
 */
export function commonScale(uses: readonly QuotaUse[]): number {
  const held = Math.max(1, ...uses.map((use) => Math.max(use.guaranteedMgpu, use.inUseMgpu, use.waitingMgpu)));
  const ceilings = uses.map((use) => use.ceilingMgpu ?? 0).filter((ceiling) => ceiling <= 2 * held);
  return Math.max(held, ...ceilings);
}

/** The bar's numbers in words, for those who cannot see it. */
export function describeUse(use: QuotaUse): string {
  const parts = [
    `${formatGpus(use.inUseMgpu)} of ${formatGpus(use.guaranteedMgpu)} guaranteed ${DEVICE_WORDS[use.device]} in use`,
  ];
  if (use.borrowedMgpu > 0) parts.push(`${formatGpus(use.borrowedMgpu)} borrowed`);
  if (use.lentMgpu > 0) parts.push(`${formatLent(use.lentMgpu)} lent`);
  if (use.idleMgpu > 0) parts.push(`${formatGpus(use.idleMgpu)} idle`);
  if (use.waitingMgpu > 0) parts.push(`${formatGpus(use.waitingMgpu)} waiting`);
  if (use.ceilingMgpu !== null) parts.push(`at most ${formatGpus(use.ceilingMgpu)} with borrowing`);
  return parts.join(", ");
}

/** What a lead must know of the number of borrowed GPUs before relying on the rest. */
export const BORROWED_HINT =
  "what is in use beyond the guarantee. A job that does not fit whole in the guarantee can be reclaimed whole.";

/** What could start at one node now and, where it holds more than its limits allow, how much more; milli-GPU. */
export function startable(quota: Quota): { startMgpu: number; overMgpu: number } {
  const room = quota.use.available_mgpu;
  return { startMgpu: Math.max(0, room), overMgpu: Math.max(0, -room) };
}

/**
 * What could start now at several nodes that draw on the same free devices, in milli-GPU.
 *
 * With `freeMgpu`, what is free in the whole pool, all nodes together. Without it what they share is
 * unknown, so it is the most that one of them could start.
 */
export function startableTogether(quotas: readonly Quota[], freeMgpu: number | null): number {
  const starts = quotas.map((quota) => startable(quota).startMgpu);
  if (freeMgpu === null) return Math.max(0, ...starts);
  return Math.min(
    starts.reduce((sum, each) => sum + each, 0),
    Math.max(0, freeMgpu),
  );
}

/**
 * Of the GPUs waiting, in milli-GPU, those of jobs that fit whole into what is left of their team's
 * guarantee. As in a quota's `waiting_mgpu`, jobs count that the arbiter looked at: none that waits
 * for other jobs, and none that was not decided on yet.
 */
export function guaranteedDemand(
  quotas: readonly Quota[],
  waiting: readonly Pick<Job, "team" | "mgpu" | "submitted_at" | "explanation">[],
): number {
  const left = new Map(
    quotas.map((quota) => [quota.node, quota.guaranteed_mgpu - quota.use.protected_mgpu]),
  );
  let demand = 0;
  const lookedAt = waiting.filter(({ explanation }) => explanation && !WAITS_FOR_JOBS.has(explanation.code));
  for (const job of lookedAt.sort((a, b) => (a.submitted_at < b.submitted_at ? -1 : 1))) {
    const room = left.get(job.team) ?? 0;
    if (job.mgpu > room) continue;
    left.set(job.team, room - job.mgpu);
    demand += job.mgpu;
  }
  return demand;
}

/** Lent GPUs. Who of several idle nodes lent which is a matter of shares, so parts of a GPU mean little. */
export function formatLent(lentMgpu: number): string {
  return lentMgpu % 1000 === 0 ? formatGpus(lentMgpu) : `≈${formatRatio(lentMgpu, 1000n, 0, false)}`;
}

/** A length on the scale of a bar, at most the whole bar. */
export function barPercent(mgpu: number, scaleMgpu: number): string {
  return `${Math.min(100, (mgpu / scaleMgpu) * 100).toFixed(3)}%`;
}

import type { PlannedChange, PlannedEdit, PlannedStatus, QuotaPreview } from "../api/types";
import type { PillTone } from "../jobs/words";
import { describeValue } from "../quotas/changes";
import { DEVICE_WORDS, DEVICES, deviceTime, formatGpuHours, type Device } from "../ui/units";

const STATUS_WORDS: Record<PlannedStatus, string> = {
  draft: "draft",
  scheduled: "scheduled",
  applied: "applied",
  reverted: "reverted",
  kept: "kept",
  cancelled: "cancelled",
  expired: "expired",
  failed: "failed",
};

/** What a status is called. An applied change that will be reverted says so. */
export function statusWord(change: Pick<PlannedChange, "status" | "revert_at">): string {
  if (change.status === "applied" && change.revert_at !== null) return "applied for a time";
  return STATUS_WORDS[change.status];
}

export function statusTone(status: PlannedStatus): PillTone {
  switch (status) {
    case "draft":
    case "scheduled":
      return "wait";
    case "applied":
    case "kept":
      return "run";
    case "failed":
      return "bad";
    case "reverted":
    case "cancelled":
    case "expired":
      return "";
  }
}

export const EDIT_FIELDS = [
  ["guaranteed_mgpu", "Guaranteed"],
  ["guaranteed_percent", "Percent of parent"],
  ["borrow_limit_mgpu", "Borrow limit"],
  ["lend_limit_mgpu", "Lend limit"],
  ["weight", "Weight"],
] as const;
type Field = (typeof EDIT_FIELDS)[number][0];

const SHORT: Record<Field, string> = {
  guaranteed_mgpu: "",
  guaranteed_percent: "",
  borrow_limit_mgpu: "borrow limit ",
  lend_limit_mgpu: "lend limit ",
  weight: "weight ",
};

/** An edit in a few words, a line for each figure: "nlp 200 → 220", "nlp borrow limit none → 40". */
export function describeEdit(edit: PlannedEdit, isApplied: boolean): string[] {
  const name = edit.node.split("/").at(-1) ?? edit.node;
  const from = isApplied ? edit.before : edit.current;
  return EDIT_FIELDS.filter(([field]) => field in edit.set).map(
    ([field]) =>
      `${name} ${SHORT[field]}${describeValue(field, from[field])} → ${describeValue(field, edit.set[field])}`,
  );
}

/** Whether its figures stand, or stood, in the quotas. */
export function wasApplied({ status }: Pick<PlannedChange, "status">): boolean {
  return status === "applied" || status === "kept" || status === "reverted";
}

/** What a preview adds up to, over the teams that I may see. */
export interface PreviewSums {
  sooner: number;
  later: number;
  reclaimed: number;
  spared: number;
  /** Of each kind of devices that there is: hours of cores and GPUs do not add up. */
  atRisk: { device: Device; mgpuS: number }[];
  /** Null where no cost may be seen or is known. */
  costBeforeNano: number | null;
  costAfterNano: number | null;
}

export function previewSums(preview: QuotaPreview): PreviewSums {
  const sum = (value: (team: QuotaPreview["teams"][number]) => number) =>
    preview.teams.reduce((total, team) => total + value(team), 0);
  const priced = preview.teams.filter((team) => team.cost_before_nano !== null && team.cost_after_nano !== null);
  const isPriced = priced.length > 0 && priced.length === preview.teams.length && preview.currency !== null;
  return {
    sooner: sum((team) => team.jobs_sooner),
    later: sum((team) => team.jobs_later),
    reclaimed: sum((team) => team.jobs_reclaimed),
    spared: sum((team) => team.jobs_spared),
    atRisk: DEVICES.filter((device) => preview.teams.some((team) => team.device === device)).map((device) => ({
      device,
      mgpuS: sum((team) => (team.device === device ? team.at_risk_mgpu_s : 0)),
    })),
    costBeforeNano: isPriced ? sum((team) => team.cost_before_nano ?? 0) : null,
    costAfterNano: isPriced ? sum((team) => team.cost_after_nano ?? 0) : null,
  };
}

function jobs(count: number): string {
  return count === 1 ? "1 job" : `${count} jobs`;
}

function devicesOf(sums: PreviewSums): string {
  return sums.atRisk.map(({ device }) => DEVICE_WORDS[device]).join(" or ") || DEVICE_WORDS.gpu;
}

/** "16.00 GPU-hours", "16.00 GPU-hours and 2.00 core-hours": of what is at risk, or where nothing is. */
export function atRiskWords({ atRisk }: PreviewSums): string {
  const some = atRisk.filter(({ mgpuS }) => mgpuS > 0);
  return (some.length > 0 ? some : atRisk.slice(0, 1))
    .map(({ device, mgpuS }) => `${formatGpuHours(mgpuS)} ${deviceTime(device, "hours")}`)
    .join(" and ");
}

/** The preview in one sentence: what matters to who is about to decide. */
export function previewSentence(sums: PreviewSums): string {
  const parts: string[] = [];
  if (sums.sooner > 0) parts.push(`${jobs(sums.sooner)} would start sooner`);
  if (sums.later > 0) parts.push(`${jobs(sums.later)} later`);
  if (sums.reclaimed > 0) {
    parts.push(
      `${jobs(sums.reclaimed)} would be told to give ${devicesOf(sums)} back, with ${atRiskWords(sums)} of work at risk`,
    );
  }
  if (sums.spared > 0) parts.push(`${jobs(sums.spared)} would be spared from giving ${devicesOf(sums)} back`);
  if (parts.length === 0) return "No start would move, and no job would be preempted because of the change.";
  const last = parts.pop() ?? "";
  const told = parts.length === 0 ? last : `${parts.join(", ")}, and ${last}`;
  return `${told.charAt(0).toUpperCase()}${told.slice(1)}.`;
}

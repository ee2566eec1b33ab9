import type { PlannedEditRequest, Quota, QuotaChange, QuotaValues } from "../api/types";
import { formatGpus, percentWords } from "../ui/units";

/** The settings of a quota in words, by their names in the API. */
export const LABELS: Record<string, string> = {
  guaranteed_mgpu: "guaranteed",
  guaranteed_percent: "percent of parent",
  borrow_limit_mgpu: "borrow limit",
  lend_limit_mgpu: "lend limit",
  weight: "weight",
};

/** A quota field's value as people read it. */
export function describeValue(field: string, value: unknown): string {
  if (value === null || value === undefined) return "none";
  if (typeof value === "number") return field.endsWith("_mgpu") ? formatGpus(value) : String(value);
  if (typeof value === "string") return field.endsWith("_percent") ? percentWords(value) : value;
  return JSON.stringify(value);
}

/** What differs between two states of a quota, one line a field: "guaranteed 200 → 180". */
export function describeChange(
  before: Readonly<Record<string, unknown>> | null,
  after: Readonly<Record<string, unknown>>,
): string[] {
  return Object.keys(LABELS)
    .filter((field) => field in after && (before === null || before[field] !== after[field]))
    .map((field) => {
      const to = describeValue(field, after[field]);
      const label = LABELS[field] ?? field;
      return before === null ? `${label} ${to}` : `${label} ${describeValue(field, before[field])} → ${to}`;
    });
}

/** What sets a quota back to what it was before a change: the fields that the change set, where they differ now. */
export function undoOf(quota: Quota, { before, after }: Pick<QuotaChange, "before" | "after">): PlannedEditRequest | null {
  if (before === null) return null;
  const edit: PlannedEditRequest = { quota: quota.id };
  const differs = (field: keyof QuotaValues) => before[field] !== after[field] && before[field] !== quota[field];
  // GPUs that a percentage comes to follow the parent: only a guarantee that was written is set back.
  if (before.guaranteed_percent !== null) {
    if (differs("guaranteed_percent")) edit.guaranteed_percent = before.guaranteed_percent;
  } else if (differs("guaranteed_mgpu") || differs("guaranteed_percent")) {
    edit.guaranteed_mgpu = before.guaranteed_mgpu;
  }
  if (differs("borrow_limit_mgpu")) edit.borrow_limit_mgpu = before.borrow_limit_mgpu;
  if (differs("lend_limit_mgpu")) edit.lend_limit_mgpu = before.lend_limit_mgpu;
  if (differs("weight")) edit.weight = before.weight;
  return Object.keys(edit).length > 1 ? edit : null;
}

const REASON_MAX = 500;

/** The reason of a change that takes another one back. */
export function undoReason({ reason, at }: Pick<QuotaChange, "reason" | "at">): string {
  const text = `Undo the change of ${at.slice(0, 16).replace("T", " ")} UTC: ${reason}`;
  return text.length > REASON_MAX ? `${text.slice(0, REASON_MAX - 1)}…` : text;
}

import { formatGpus, percentWords } from "../ui/units";

const LABELS: Record<string, string> = {
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

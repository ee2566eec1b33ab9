import type { GroupedReport, GroupRow } from "./groupQueries";
import { usedMgpuS } from "./totals";

/** The most series of a chart; the rest of the groups is one more. */
export const SERIES_MAX = 5;
export const OTHERS = "others";

/** What the bars of a chart are of. */
export const MEASURES = {
  hours: { title: "GPU-hours", of: (row: GroupRow) => (row.device === "gpu" ? BigInt(usedMgpuS(row)) : 0n) },
  cores: { title: "Core-hours", of: (row: GroupRow) => (row.device === "cpu" ? BigInt(usedMgpuS(row)) : 0n) },
  cost: { title: "Cost", of: (row: GroupRow) => BigInt(row.cost_nano) },
  showback: { title: "Showback", of: (row: GroupRow) => BigInt(row.showback_nano) },
} as const;
export type Measure = keyof typeof MEASURES;

export interface Stack {
  /** The names of the series, the largest first, then "others". */
  series: readonly string[];
  /** By bucket of time: its label, and each series in milli-GPU-seconds or nano-currency. */
  bars: readonly { label: string; values: readonly bigint[] }[];
}

/** A measure of a report by a dimension and a time, as stacked bars. */
export function stackOf(
  report: Pick<GroupedReport, "by" | "rows" | "buckets">,
  name: string,
  time: string,
  measure: Measure,
): Stack {
  const { of } = MEASURES[measure];
  const rows = report.rows.filter((row) => of(row) !== 0n);
  const sums = new Map<string, bigint>();
  for (const row of rows) sums.set(keyOf(row, name), (sums.get(keyOf(row, name)) ?? 0n) + of(row));
  const ordered = [...sums].sort(([a, one], [b, other]) => (one === other ? (a < b ? -1 : 1) : one > other ? -1 : 1));
  const largest = ordered.slice(0, SERIES_MAX).map(([key]) => key);
  const series = ordered.length > SERIES_MAX ? [...largest, OTHERS] : largest;
  const place = new Map(largest.map((key, i) => [key, i]));
  return {
    series,
    bars: report.buckets.map(({ label }) => {
      const values = series.map(() => 0n);
      for (const row of rows.filter(({ keys }) => keys[time] === label)) {
        const at = place.get(keyOf(row, name)) ?? series.length - 1;
        values[at] = (values[at] ?? 0n) + of(row);
      }
      return { label, values };
    }),
  };
}

export function keyOf(row: Pick<GroupRow, "keys">, name: string): string {
  return row.keys[name]?.replace(/^top_up$/, "top-up") || "(none)";
}

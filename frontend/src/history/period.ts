import { toIso } from "../billing/period";
import type { HistorySearch, Range } from "./search";

export const RANGE_LABELS: Record<Range, string> = {
  day: "24 h",
  week: "7 d",
  month: "30 d",
  quarter: "90 d",
  year: "1 y",
};

const HOUR_MS = 3_600_000;
const HOURS: Record<Range, number> = { day: 24, week: 168, month: 720, quarter: 2160, year: 8760 };

/** The period of the address. A range ends with the present hour, so that it is asked for once an hour. */
export function periodOf({ range = "week", from, to }: HistorySearch, nowMs: number): { start: string; end: string } {
  if (from !== undefined && to !== undefined) return { start: from, end: to };
  const end = (Math.floor(nowMs / HOUR_MS) + 1) * HOUR_MS;
  return { start: toIso(end - HOURS[range] * HOUR_MS), end: toIso(end) };
}

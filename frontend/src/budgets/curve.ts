import type { BudgetDetail } from "../api/types";
import { UNITS } from "./amounts";

/** A day of a budget's window. Amounts are in the integers of the API, at the end of the day. */
export interface CurveDay {
  /** "2026-11-25". */
  day: string;
  /** The use on this day; null for a day to come. */
  used: number | null;
  /** The use since the window began; null for a day to come. */
  total: number | null;
  /** The straight line from the last counted day to the forecast; null before it, and without a forecast. */
  forecast: number | null;
  /** The use by then if it were even. */
  even: number;
}

const DAY_MS = 86_400_000;

/** The days of a budget's window, those to come included. Empty before the first count. */
export function curveOf({ days, limit, rolling_days: rolling, state }: BudgetDetail): CurveDay[] {
  const [first] = days;
  if (first === undefined) return [];
  const length = Math.max(
    days.length,
    rolling ?? Math.round((Date.parse(state.window_end) - Date.parse(state.window_start)) / DAY_MS),
  );
  const last = days.length - 1;
  let sum = 0;
  const totals = days.map(({ used }) => (sum += used));
  const { forecast } = state;
  return Array.from({ length }, (_, at) => ({
    day: new Date(Date.parse(first.day) + at * DAY_MS).toISOString().slice(0, 10),
    used: days[at]?.used ?? null,
    total: totals[at] ?? null,
    forecast:
      forecast === null || at < last || last === length - 1 ? null : sum + ((forecast - sum) * (at - last)) / (length - 1 - last),
    even: (limit * (at + 1)) / length,
  }));
}

/** "Day 21 of 30: 85 % is used. Even use would be at 70 %." */
export function curveSentence(curve: readonly CurveDay[], limit: number, formatShare: (part: number, whole: number) => string): string {
  const at = curve.findLastIndex(({ total }) => total !== null);
  const today = curve[at];
  if (today?.total == null) return "";
  return (
    `Day ${String(at + 1)} of ${String(curve.length)}: ${formatShare(today.total, limit)} is used. ` +
    `Even use would be at ${formatShare(Math.round(today.even), limit)}.`
  );
}

/** An amount of a budget in its unit, for the scale of a chart. */
export function inUnits(amount: number | null, measure: BudgetDetail["measure"]): number | null {
  return amount === null ? null : amount / UNITS[measure];
}

/** "Wed 25 Nov" of "2026-11-25". */
export function dayName(day: string): string {
  return new Intl.DateTimeFormat("en-GB", { timeZone: "UTC", weekday: "short", day: "numeric", month: "short" })
    .format(Date.parse(day))
    .replace(",", "");
}

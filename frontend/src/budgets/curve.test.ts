import { describe, expect, it } from "vitest";

import { aBudget } from "../../mock/budgets";
import type { Budget, BudgetDetail } from "../api/types";
import { curveOf, curveSentence } from "./curve";

const HOUR = 3_600_000;

function detail(used: number[], change: Parameters<typeof aBudget>[1] = {}, state: Partial<Budget["state"]> = {}): BudgetDetail {
  const window = { window_start: "2026-11-01T00:00:00Z", window_end: "2026-11-05T00:00:00Z" };
  return {
    ...aBudget(1, { limit: 20 * HOUR, ...change, state: { ...window, ...state } }),
    days: used.map((hours, at) => ({ day: `2026-11-0${String(at + 1)}`, used: hours * HOUR })),
  };
}

describe("the curve of a budget", () => {
  // Planted: the even use of the days so far alone.
  it("adds up what was used, and goes on to the forecast at the end of the window", () => {
    expect(curveOf(detail([2, 6], {}, { forecast: 16 * HOUR }))).toEqual([
      { day: "2026-11-01", used: 2 * HOUR, total: 2 * HOUR, forecast: null, even: 5 * HOUR },
      { day: "2026-11-02", used: 6 * HOUR, total: 8 * HOUR, forecast: 8 * HOUR, even: 10 * HOUR },
      { day: "2026-11-03", used: null, total: null, forecast: 12 * HOUR, even: 15 * HOUR },
      { day: "2026-11-04", used: null, total: null, forecast: 16 * HOUR, even: 20 * HOUR },
    ]);
  });

  it("has no line to a forecast on the last day and without one", () => {
    for (const curve of [curveOf(detail([1, 1, 1, 1], {}, { forecast: 4 * HOUR })), curveOf(detail([1], {}, { forecast: null }))]) {
      expect(curve.map(({ forecast }) => forecast)).toEqual([null, null, null, null]);
    }
  });

  it("ends today where the window rolls", () => {
    const curve = curveOf(detail([3, 1, 0], { window: "rolling", rolling_days: 3 }, { forecast: null }));
    expect(curve.map(({ day, total, even }) => [day, total, Math.round(even)])).toEqual([
      ["2026-11-01", 3 * HOUR, 24_000_000],
      ["2026-11-02", 4 * HOUR, 48_000_000],
      ["2026-11-03", 4 * HOUR, 20 * HOUR],
    ]);
  });

  it("is empty before the first count", () => {
    expect(curveOf(detail([]))).toEqual([]);
  });

  it("keeps the days of a month whose clocks change", () => {
    // October of Berlin has 31 days and an hour.
    const month = { window_start: "2026-09-30T22:00:00Z", window_end: "2026-10-31T23:00:00Z" };
    expect(curveOf(detail([1], {}, month))).toHaveLength(31);
  });

  it("says in a sentence how much is used, and how much an even use would be", () => {
    const curve = curveOf(detail([2, 6]));
    expect(curveSentence(curve, 20 * HOUR, (part, whole) => `${String((100 * part) / whole)} %`)).toBe(
      "Day 2 of 4: 40 % is used. Even use would be at 50 %.",
    );
  });
});

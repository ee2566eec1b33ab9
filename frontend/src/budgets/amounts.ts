/** Amounts of budgets in the unit of their measure. */
import type { Budget } from "../api/types";
import { formatMoney, formatRatio, type Quantity } from "../ui/units";

type Measured = Pick<Budget, "measure" | "currency">;

/** What one unit is in the integers of the API. */
export const UNITS: Record<Budget["measure"], number> = {
  gpu_hours: 3_600_000,
  credits: 3_600_000_000,
  money: 1_000_000_000,
};

export const MEASURE_WORDS: Record<Budget["measure"], string> = {
  gpu_hours: "GPU-hours",
  credits: "Credits",
  money: "Money",
};

export const MEASURES = Object.entries(MEASURE_WORDS).map(([value, label]) => ({ value, label }));

export const POLICY_WORDS: Record<Budget["policy"], string> = {
  notify: "notify",
  stop_borrowing: "stop borrowing",
  stop_starts: "stop starts",
};

/** "1,234.5", or "€1,234.50". */
export function formatAmount(amount: Quantity, { measure, currency }: Measured): string {
  if (measure === "money") return formatMoney(amount, currency ?? "");
  return formatRatio(amount, BigInt(UNITS[measure]), 1, true);
}

/** "1,234.5 GPU-hours", or "€1,234.50". */
export function formatWithUnit(amount: Quantity, budget: Measured): string {
  const text = formatAmount(amount, budget);
  return budget.measure === "money" ? text : `${text} ${budget.measure === "credits" ? "credits" : "GPU-hours"}`;
}

/** "120.0 of 500.0 GPU-hours": what a budget has left after a job. */
export function leftAfter(budget: Measured & { left_after: number; limit: number }): string {
  return `${formatAmount(budget.left_after, budget)} of ${formatWithUnit(budget.limit, budget)}`;
}

/** The limit as a person would type it. */
export function plainAmount(budget: Measured & Pick<Budget, "limit">): string {
  const amount = budget.limit / UNITS[budget.measure];
  return Number.isInteger(amount) ? String(amount) : formatAmount(budget.limit, budget).replace(/[^\d.]/g, "");
}

/** "month", "30 days". */
export function windowText({ window, rolling_days: days }: Pick<Budget, "window" | "rolling_days">): string {
  return window === "rolling" ? `${days} days` : window;
}

/** Parts of a bar in percent of its length: the limit, or what is used and on hold where that is more. */
export interface Parts {
  used: number;
  onHold: number;
  limit: number;
  forecast: { from: number; to: number } | null;
}

export function partsOf({ limit, state }: Pick<Budget, "limit" | "state">): Parts {
  const { used, on_hold: onHold, forecast_low: low, forecast_high: high } = state;
  const length = Math.max(limit, used + onHold);
  const percent = (amount: number) => Math.min(100, (amount / length) * 100);
  return {
    used: percent(used),
    onHold: percent(onHold),
    limit: percent(limit),
    forecast: low === null || high === null ? null : { from: percent(low), to: percent(high) },
  };
}

/** The amount that a person typed in the API's integers; null unless it is a number above 0. */
export function readAmount(text: string, measure: Budget["measure"]): number | null {
  const plain = text.replaceAll(",", "").trim();
  if (!/^\d+(\.\d+)?$/.test(plain)) return null;
  const amount = Math.round(Number(plain) * UNITS[measure]);
  return amount > 0 && amount <= 1e18 ? amount : null;
}

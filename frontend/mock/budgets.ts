/** Budgets of the made-up company, with their alerts. */
import type { Budget, BudgetAlert } from "../src/api/types";
import { iso, ORGANIZATION } from "./company.ts";

const GPU_HOUR = 3_600_000;
const EURO = 1_000_000_000;
const DAY_MS = 86_400_000;

export function aBudget(number: number, change: Partial<Omit<Budget, "state">> & { state?: Partial<Budget["state"]> } = {}): Budget {
  const now = Date.now();
  const limit = change.limit ?? 50_000 * GPU_HOUR;
  const used = change.state?.used ?? Math.round(limit * 0.6);
  const onHold = change.state?.on_hold ?? Math.round(limit * 0.15);
  return {
    id: `01935000-0000-7000-8000-${(0xb000 + number).toString(16).padStart(12, "0")}`,
    name: "Training",
    node: `${ORGANIZATION}/research/nlp`,
    user: null,
    pool: null,
    measure: "gpu_hours",
    limit,
    currency: null,
    window: "month",
    rolling_days: null,
    policy: "stop_starts",
    can_edit: true,
    version: 1,
    ...change,
    state: {
      as_of: iso(now - 12_000),
      window_start: iso(now - 20 * DAY_MS),
      window_end: iso(now + 10 * DAY_MS),
      used,
      on_hold: onHold,
      left: limit - used - onHold,
      room_at: iso(now + 10 * DAY_MS),
      forecast_low: Math.round(limit * 0.82),
      forecast: Math.round(limit * 0.9),
      forecast_high: Math.round(limit * 0.97),
      ...change.state,
    },
  };
}

export function theBudgets(): Budget[] {
  return [
    aBudget(1),
    aBudget(2, {
      name: "Money of the whole research department in the fourth quarter, with a long name",
      node: `${ORGANIZATION}/research`,
      measure: "money",
      currency: "EUR",
      limit: 250_000 * EURO,
      window: "quarter",
      policy: "stop_borrowing",
      state: { used: 231_400 * EURO, on_hold: 24_000 * EURO, left: -5_400 * EURO, forecast: 318_000 * EURO, forecast_high: 340_000 * EURO },
    }),
    aBudget(3, {
      name: "Experiments of Bob",
      user: "bob",
      pool: "h100",
      limit: 800 * GPU_HOUR,
      window: "rolling",
      rolling_days: 30,
      policy: "notify",
      can_edit: false,
      state: { forecast: null, forecast_low: null, forecast_high: null },
    }),
  ];
}

export function theBudgetAlerts(): BudgetAlert[] {
  const [training, money] = theBudgets() as [Budget, Budget];
  const alert = (id: number, budget: Budget, percent: number, kind: BudgetAlert["kind"], daysAgo: number): BudgetAlert => ({
    id,
    budget: budget.id,
    at: iso(Date.now() - daysAgo * DAY_MS),
    window_start: budget.state.window_start,
    kind,
    percent,
    amount: Math.round((budget.limit * percent) / 100),
    limit: budget.limit,
  });
  return [
    alert(5, money, 100, "used", 1),
    alert(4, money, 100, "forecast", 6),
    alert(3, money, 90, "used", 7),
    alert(2, training, 50, "used", 9),
  ];
}

/** Budgets of the made-up company, with their alerts. */
import type { Budget, BudgetAlert, BudgetDefault, BudgetDetail, JobPlan, UserCap } from "../src/api/types";
import { iso, ORGANIZATION } from "./company.ts";
import type { MockAnswer, MockRequest } from "./http.ts";

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
    not_held_on: ["slurm-a"],
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

/** The budget with its use by day, which grows from day to day and sums to what is used. */
export function aBudgetDetail(budget: Budget): BudgetDetail {
  const { as_of: asOf, window_start: start, used } = budget.state;
  const last = Math.floor((Date.parse(asOf) - Date.parse(start)) / DAY_MS);
  const before = (at: number) => Math.round((used * at * (at + 1)) / ((last + 1) * (last + 2)));
  return {
    ...budget,
    days: Array.from({ length: last + 1 }, (_, at) => ({
      day: iso(Date.parse(start) + at * DAY_MS).slice(0, 10),
      used: before(at + 1) - before(at),
    })),
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
      not_held_on: [],
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

export function aCap(number: number, change: Partial<UserCap> = {}): UserCap {
  return {
    id: `01935000-0000-7000-8000-${(0xc000 + number).toString(16).padStart(12, "0")}`,
    team: `${ORGANIZATION}/research/nlp`,
    user: null,
    pool: null,
    cap_mgpu: 32_000,
    can_edit: true,
    version: 1,
    ...change,
  };
}

/** Lists, makes, changes and removes caps for users; nothing is kept. */
export function userCaps(request: MockRequest, id: string | undefined): MockAnswer {
  const found = [aCap(1), aCap(2, { user: "bob", pool: "h100", cap_mgpu: null, can_edit: false })];
  if (request.method === "DELETE") return { status: 204 };
  if (request.method === "POST") return { status: 201, body: aCap(3, request.body as Partial<UserCap>) };
  if (request.method === "PATCH") {
    return { status: 200, body: { ...found.find((one) => one.id === id), ...(request.body as Partial<UserCap>) } };
  }
  return { status: 200, body: { items: found, next: null } };
}

export function aDefault(number: number, change: Partial<BudgetDefault> = {}): BudgetDefault {
  return {
    id: `01935000-0000-7000-8000-${(0xd000 + number).toString(16).padStart(12, "0")}`,
    name: "start",
    node: `${ORGANIZATION}/research`,
    measure: "gpu_hours",
    limit: 5_000 * GPU_HOUR,
    currency: null,
    window: "month",
    rolling_days: null,
    policy: "stop_starts",
    can_edit: true,
    version: 1,
    ...change,
  };
}

/** What is left of two budgets after a job that needs this part of each. */
export function budgetEffects(part: number): JobPlan["budgets"] {
  return theBudgets()
    .slice(0, 2)
    .map(({ id, name, node, measure, currency, policy, limit, state }) => ({
      id,
      name,
      node,
      measure,
      currency,
      policy,
      limit,
      needed: limit / part,
      left_after: state.left - limit / part,
      room_at: state.room_at,
    }));
}

/** Lists, makes, changes and removes default budgets; nothing is kept. */
export function budgetDefaults(request: MockRequest, id: string | undefined): MockAnswer {
  const ofAll = aDefault(2, {
    name: "default of the whole company",
    node: ORGANIZATION,
    measure: "money",
    currency: "EUR",
    limit: 2_500 * EURO,
    window: "rolling",
    rolling_days: 30,
    policy: "notify",
    can_edit: false,
  });
  const found = [aDefault(1), ofAll];
  if (request.method === "DELETE") return { status: 204 };
  if (request.method === "POST") return { status: 201, body: aDefault(3, request.body as Partial<BudgetDefault>) };
  if (request.method === "PATCH") {
    return { status: 200, body: { ...found.find((one) => one.id === id), ...(request.body as Partial<BudgetDefault>) } };
  }
  return { status: 200, body: { items: found, next: null } };
}

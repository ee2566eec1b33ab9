/** Made-up charges: a month by team, the same by other groups, what moved, and idle time. */
import type { GroupedReport, GroupRow, Idle, MonthCheck, Moves } from "../src/billing/groupQueries";
import { GPU, iso, NO_CHARGES, ORGANIZATION } from "./company.ts";

const DAY_MS = 86_400_000;
const HOUR = 3600;
const NANO = 1_000_000_000;
const AMOUNTS = [
  "guaranteed_mgpu_s", "borrowed_mgpu_s", "unpaid_mgpu_s", "fault_mgpu_s",
  "guaranteed_cost_nano", "borrowed_cost_nano", "unpaid_cost_nano", "cost_nano", "unpriced_mgpu_s",
  "commitment_mgpu_s", "commitment_cost_nano", "top_up_mgpu_s", "top_up_cost_nano", "showback_nano",
] as const;

function midnight(day: string): string {
  return day.length === 10 ? `${day}T00:00:00Z` : day;
}

function split(row: GroupRow, days: readonly string[]): GroupRow[] {
  return days.map((day, i) => {
    const part = { ...row, keys: { ...row.keys, day } };
    for (const name of AMOUNTS) {
      const each = Math.floor(row[name] / days.length);
      part[name] = i === 0 ? row[name] - each * (days.length - 1) : each;
    }
    return part;
  });
}

/** A month of use that adds up, by all dimensions but times. `start` and `end` as asked. */
export function aChargeback(start: string, end: string): GroupedReport {
  const row = (name: string, guaranteed: number, borrowed: number, jobs: number): GroupRow => ({
    keys: keysOf(name),
    device: "gpu",
    currency: "EUR",
    guaranteed_mgpu_s: guaranteed * HOUR * GPU,
    borrowed_mgpu_s: borrowed * HOUR * GPU,
    unpaid_mgpu_s: 0,
    fault_mgpu_s: 0,
    ...NO_CHARGES,
    unpaid_cost_nano: 0,
    guaranteed_cost_nano: guaranteed * 2 * NANO,
    borrowed_cost_nano: borrowed * 1.5 * NANO,
    cost_nano: guaranteed * 2 * NANO + borrowed * 1.5 * NANO,
    unpriced_mgpu_s: 0,
    jobs,
  });
  const rows = [
    row("exploration/sandbox", 98_200, 14_700, 312),
    row("production/inference", 150_100, 118_900, 88),
    row("production/training", 62_300, 0, 41),
    row("research/nlp", 71_000, 1_000, 129),
    row("research/vision", 72_800, 1_100, 164),
  ];
  return {
    by: ["team", "pool"],
    start: midnight(start),
    end: midnight(end),
    as_of: iso(Math.min(Date.parse(midnight(end)), Date.now())),
    time_zone: "Europe/Berlin",
    currency: "EUR",
    rows,
    ...sumsOf(rows),
    by_currency: [{ currency: "EUR", organizations: [ORGANIZATION], ...sumsOf(rows) }],
    buckets: [],
    corrections: [],
    priced_at: null,
  };
}

/** The totals of rows of GPUs, and a check that agrees. */
export function sumsOf(rows: readonly GroupRow[]): Pick<GroupedReport["by_currency"][number], "totals" | "totals_by_device" | "check"> {
  const totals = Object.fromEntries(
    [...AMOUNTS, "jobs" as const].map((name) => [name, rows.reduce((sum, row) => sum + row[name], 0)]),
  ) as Omit<GroupRow, "keys" | "device" | "currency">;
  const used = totals.guaranteed_mgpu_s + totals.borrowed_mgpu_s + totals.unpaid_mgpu_s + totals.fault_mgpu_s;
  return {
    totals,
    totals_by_device: [{ ...totals, device: "gpu" }],
    check: { segments_mgpu_s: used, rows_mgpu_s: used, is_equal: true },
  };
}

/** Each team has one user, uses one cluster, and runs jobs of one type. */
export function keysOf(path: string, organization: string = ORGANIZATION): GroupRow["keys"] {
  const [department = "", team = ""] = path.split("/");
  return {
    organization,
    department: `${organization}/${department}`,
    team: `${organization}/${path}`,
    user: `${team}-lead`,
    pool: "h100",
    cluster: "slurm-a",
    usage_class: "guaranteed",
    priority_class: "normal",
    job_type: "training",
    cost_centre: department === "research" ? "4711" : "8000",
    project_code: "(none)",
  };
}

/** Charges by dimensions, in their order. Days and months are the only times. */
export function theGroups(start: string, end: string, by: string[], chargeback = aChargeback): GroupedReport {
  const whole = chargeback(start, end);
  const count = Math.max(1, Math.round((Date.parse(whole.end) - Date.parse(whole.start)) / DAY_MS));
  const days = Array.from({ length: count }, (_, i) => iso(Date.parse(whole.start) + i * DAY_MS).slice(0, 10));
  const month = whole.start.slice(0, 7);
  const teams = whole.rows.map((row): GroupRow => ({ ...row, keys: { ...row.keys, month } }));
  const parts = by.includes("day") ? teams.flatMap((row) => split(row, days)) : teams;
  const rows = new Map<string, GroupRow>();
  for (const part of parts) {
    const keys = Object.fromEntries(by.map((name) => [name, part.keys[name] ?? ""]));
    const name = [...Object.values(keys), part.device, part.currency].join(" ");
    const sum = rows.get(name);
    if (sum === undefined) rows.set(name, { ...part, keys });
    else {
      for (const amount of AMOUNTS) sum[amount] += part[amount];
      sum.jobs += part.jobs;
    }
  }
  return {
    ...whole,
    by: by as GroupedReport["by"],
    rows: [...rows].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, row]) => row),
    buckets: by.includes("day")
      ? days.map((label) => ({ label, start: `${label}T00:00:00Z`, end: iso(Date.parse(label) + DAY_MS) }))
      : [],
  };
}

/** Idle time of a pool in which a tenth of the capacity is idle, and as much spare. */
export function theIdle(start: string, end: string, share: string): Idle {
  const { as_of, time_zone, totals, rows } = aChargeback(start, end);
  const used = totals.guaranteed_mgpu_s + totals.borrowed_mgpu_s;
  const unused = used / 8;
  const pool = { pool: "h100", device: "gpu" as const };
  const whole = rows.reduce((sum, row) => sum + row.guaranteed_mgpu_s, 0);
  const parts = rows.map((row) => ({
    ...pool,
    team: row.keys.team ?? "",
    mgpu_s: Math.floor((unused * row.guaranteed_mgpu_s) / whole),
  }));
  const shared = parts.reduce((sum, { mgpu_s }) => sum + mgpu_s, 0);
  return {
    start: midnight(start),
    end: midnight(end),
    as_of,
    time_zone,
    share: share as Idle["share"],
    pools: [
      {
        ...pool,
        capacity_mgpu_s: used + 2 * unused,
        in_use_mgpu_s: used,
        outside_mgpu_s: 0,
        over_mgpu_s: 0,
        idle_mgpu_s: unused,
        spare_mgpu_s: unused,
      },
    ],
    rows: share === "none" ? [] : [...parts, { ...pool, team: null, mgpu_s: -shared }],
    withheld: [],
  };
}

/** Costs of a month beside those of the one before: inference used more, sandbox is new. */
export function theMoves(start: string, end: string): Moves {
  const none = { before_nano: 0, after_nano: 0, change_nano: 0, price_nano: 0, volume_nano: 0, usage_class_nano: 0, new_nano: 0, ended_nano: 0 };
  const inference = { before_nano: 400_000, after_nano: 478_550, change_nano: 78_550, price_nano: 20_000, volume_nano: 60_000, usage_class_nano: -1_450 };
  const sandbox = { after_nano: 20_000, change_nano: 20_000, new_nano: 20_000 };
  const move = (...parts: Partial<typeof none>[]) =>
    Object.fromEntries(
      Object.keys(none).map((name) => [
        name,
        parts.reduce((sum, part) => sum + (part[name as keyof typeof none] ?? 0), 0) * NANO,
      ]),
    ) as typeof none;
  const [from, to] = [Date.parse(midnight(start)), Date.parse(midnight(end))];
  return {
    before: { start: iso(from - (to - from)), end: iso(from) },
    after: { start: iso(from), end: iso(to) },
    as_of: iso(to),
    time_zone: "Europe/Berlin",
    rows: [
      { team: "ai-company/production/inference", currency: "EUR", ...move(inference) },
      { team: "ai-company/exploration/sandbox", currency: "EUR", ...move(sandbox) },
    ],
    totals: [{ currency: "EUR", ...move(inference, sandbox) }],
  };
}

/** October 2026, closed, if the period has all of it. */
export function theClosedMonths(start: string, end: string): { months: MonthCheck[] } {
  if (midnight(start) > "2026-10-01T00:00:00Z" || midnight(end) < "2026-11-01T00:00:00Z") return { months: [] };
  return { months: [aMonthCheck()] };
}

export function aMonthCheck(changes: Partial<MonthCheck> = {}): MonthCheck {
  const { totals } = aChargeback("2026-10-01", "2026-11-01");
  const mgpu_s = totals.guaranteed_mgpu_s + totals.borrowed_mgpu_s;
  const nano = totals.cost_nano ?? 0;
  return {
    organization: ORGANIZATION,
    month: "2026-10",
    currency: "EUR",
    closed_at: "2026-11-05T09:00:00Z",
    report_mgpu_s: mgpu_s,
    billed_mgpu_s: mgpu_s,
    report_nano: nano,
    billed_nano: nano,
    corrections_nano: 0,
    difference_nano: 0,
    is_as_billed: true,
    statements_nano: nano,
    ledger_nano: nano,
    is_posted: true,
    advice: "",
    ...changes,
  };
}

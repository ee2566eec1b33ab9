/** Made-up charges by groups, from those by team: their sums are the same. */
import type { GroupedReport, GroupRow, Moves } from "../src/billing/groupQueries";
import { aChargeback, iso } from "./company.ts";

const DAY_MS = 86_400_000;
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

/** Charges by dimensions, in their order. Each team has one user and uses one cluster; days are the only times. */
export function theGroups(start: string, end: string, by: string[], chargeback = aChargeback): GroupedReport {
  const whole = chargeback(midnight(start), midnight(end));
  const count = Math.max(1, Math.round((Date.parse(whole.end) - Date.parse(whole.start)) / DAY_MS));
  const days = Array.from({ length: count }, (_, i) => iso(Date.parse(whole.start) + i * DAY_MS).slice(0, 10));
  const teams: GroupRow[] = whole.rows.map((row) => {
    const { node, pool } = row;
    const [organization = "", department = "", team = ""] = node.split("/");
    const keys = {
      organization,
      department: `${organization}/${department}`,
      team: node,
      user: `${team}-lead`,
      pool,
      cluster: "slurm-a",
      usage_class: "guaranteed",
      priority_class: "normal",
      month: whole.start.slice(0, 7),
    };
    return { ...row, keys };
  });
  const parts = by.includes("day") ? teams.flatMap((row) => split(row, days)) : teams;
  const rows = new Map<string, GroupRow>();
  for (const part of parts) {
    const keys = Object.fromEntries(by.map((name) => [name, part.keys[name] ?? ""]));
    const name = Object.values(keys).join(" ");
    const sum = rows.get(name);
    if (sum === undefined) rows.set(name, { ...part, keys });
    else {
      for (const amount of AMOUNTS) sum[amount] += part[amount];
      sum.jobs += part.jobs;
    }
  }
  return {
    by: by as GroupedReport["by"],
    start: whole.start,
    end: whole.end,
    as_of: whole.as_of,
    time_zone: "Europe/Berlin",
    currency: whole.currency,
    rows: [...rows].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, row]) => row),
    by_currency: whole.by_currency,
    totals: whole.totals,
    totals_by_device: whole.totals_by_device,
    check: whole.check,
    buckets: by.includes("day")
      ? days.map((label) => ({ label, start: `${label}T00:00:00Z`, end: iso(Date.parse(label) + DAY_MS) }))
      : [],
    corrections: [],
    priced_at: null,
  };
}

/** Costs of a month beside those of the one before: inference used more, sandbox is new. */
export function theMoves(start: string, end: string): Moves {
  const NANO = 1_000_000_000;
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

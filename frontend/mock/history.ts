/** Made-up histories: four hours around each shape that charts have. Use adds up along the tree. */
import type { HistoryLevels, HistorySeries, PreemptionHistory, UseHistory, WaitHistory } from "../src/api/types";
import { GPU, TREE } from "./company.ts";

const HOUR_MS = 3_600_000;
const HOUR = 3600 * GPU;
const NAMES = [
  "guaranteed_mgpu_s", "borrowed_mgpu_s", "unpaid_mgpu_s", "fault_mgpu_s",
  "waiting_mgpu_s", "guarantee_mgpu_s", "within_mgpu_s", "lent_mgpu_s",
] as const;
/** Guarantees in GPUs. */
const GUARANTEES: Record<string, number> = {
  "ai-company": 1000, "ai-company/research": 400, "ai-company/research/nlp": 200, "ai-company/research/vision": 120,
  "ai-company/research/speech": 80, "ai-company/production": 400, "ai-company/production/inference": 280,
  "ai-company/production/training": 120, "ai-company/exploration": 200, "ai-company/exploration/sandbox": 200,
};
const HOURS_MAX = 720;

/** In use in an hour, in GPUs: a working day that differs by team and outgrows the guarantee at times. */
function usedBy(path: string, hour: number): number {
  const guarantee = GUARANTEES[path] ?? 10;
  const phase = path.length % 7;
  const day = Math.sin(((hour - 8 + phase) / 24) * 2 * Math.PI);
  const week = Math.sin((hour / 168) * 2 * Math.PI + phase);
  return Math.max(0, Math.round(guarantee * (0.6 + 0.3 * day + 0.35 * week)));
}

function aSeries(node: string, hours: number): HistorySeries {
  const teams = TREE.filter(({ kind, path }) => kind === "team" && (path === node || path.startsWith(`${node}/`)));
  const rows = Array.from({ length: hours }, (_, hour): HistoryLevels => {
    const guarantee = GUARANTEES[node] ?? 10;
    let guaranteed = 0;
    let borrowed = 0;
    for (const { path } of teams) {
      const used = usedBy(path, hour);
      const own = Math.min(used, GUARANTEES[path] ?? 10);
      guaranteed += own;
      borrowed += used - own;
    }
    const within = Math.min(guarantee, guaranteed + borrowed);
    return {
      guaranteed_mgpu_s: guaranteed * HOUR,
      borrowed_mgpu_s: borrowed * HOUR,
      unpaid_mgpu_s: 0,
      fault_mgpu_s: 0,
      waiting_mgpu_s: (within === guarantee ? 12 * teams.length : 0) * HOUR,
      guarantee_mgpu_s: guarantee * HOUR,
      within_mgpu_s: within * HOUR,
      lent_mgpu_s: Math.round((guarantee - within) / 3) * HOUR,
    };
  });
  const of = <T>(pick: (name: (typeof NAMES)[number]) => T) =>
    Object.fromEntries(NAMES.map((name) => [name, pick(name)])) as Record<(typeof NAMES)[number], T>;
  return {
    node,
    sums: of((name) => rows.reduce((sum, row) => sum + row[name], 0)),
    steps: of((name) => rows.map((row) => row[name])),
  };
}

function scopeOf(query: URLSearchParams) {
  const [start, end] = ["start", "end"].map((name) => Date.parse(query.get(name) ?? ""));
  const hours = Math.min(HOURS_MAX, Math.max(1, Math.round(((end ?? 0) - (start ?? 0)) / HOUR_MS)));
  const iso = (ms: number) => new Date(ms).toISOString().replace(".000Z", "Z");
  const first = start ?? 0;
  return {
    hours,
    scope: {
      node: query.get("node") ?? "ai-company",
      pool: query.get("pool") ?? "h100",
      device: "gpu" as const,
      start: iso(first),
      end: iso(end ?? 0),
      as_of: iso(end ?? 0),
      time_zone: "Europe/Berlin",
    },
    edges: Array.from({ length: hours + 1 }, (_, hour) => iso(first + hour * HOUR_MS)),
  };
}

function aUseHistory(query: URLSearchParams): UseHistory {
  const { hours, scope, edges } = scopeOf(query);
  const series = aSeries(scope.node, hours);
  const children = TREE.filter(({ parent }) => parent === scope.node).map(({ path }) => aSeries(path, hours));
  const above = children.map(({ node, sums }) => ({
    node,
    mgpuS: sums.guaranteed_mgpu_s + sums.borrowed_mgpu_s - sums.within_mgpu_s,
  }));
  const lender = children.at(-1)?.node ?? "(outside)";
  const pairs = [
    ...above.map(({ node, mgpuS }) => ({ borrower: node, lender: node === lender ? "(outside)" : lender, mgpu_s: mgpuS })),
    { borrower: "(outside)", lender: "(reserve)", mgpu_s: children.length > 0 ? series.sums.lent_mgpu_s : 0 },
  ].filter(({ mgpu_s }) => mgpu_s > 0);
  return {
    ...scope,
    step: "hour",
    edges,
    series,
    children,
    pairs: pairs.sort((a, b) => b.mgpu_s - a.mgpu_s),
    week: Array.from({ length: Math.min(168, hours) }, (_, hour) => ({
      weekday: Math.floor(hour / 24),
      hour: hour % 24,
      used_mgpu_s: usedBy(scope.node, hour) * HOUR,
      guarantee_mgpu_s: (GUARANTEES[scope.node] ?? 10) * HOUR,
    })),
    capacity: { sum_mgpu_s: 1000 * HOUR * hours, steps_mgpu_s: edges.slice(1).map(() => 1000 * HOUR) },
  };
}

function aWaitHistory(query: URLSearchParams): WaitHistory {
  const { hours, scope, edges } = scopeOf(query);
  const days = Math.max(1, Math.floor(hours / 24));
  const classes = [
    { usage_class: "guaranteed" as const, jobs: 412, p50_s: 14, p95_s: 260 },
    { usage_class: "borrowed" as const, jobs: 96, p50_s: 660, p95_s: 3480 },
  ];
  const teams = TREE.filter(({ kind, path }) => kind === "team" && (path === scope.node || path.startsWith(`${scope.node}/`)));
  return {
    ...scope,
    step: "day",
    edges: edges.filter((_, hour) => hour % 24 === 0 || hour === hours).slice(0, days + 1),
    totals: classes,
    teams: teams.flatMap(({ path }, place) => classes.map((each) => ({ ...each, team: path, p95_s: each.p95_s + place }))),
    steps: classes.flatMap((each) =>
      Array.from({ length: days }, (_, step) => ({ ...each, step, p50_s: each.p50_s + step, p95_s: each.p95_s - 7 * (step % 9) })),
    ),
  };
}

function aPreemptionHistory(query: URLSearchParams): PreemptionHistory {
  const { scope } = scopeOf(query);
  const teams = TREE.filter(({ kind, path }) => kind === "team" && (path === scope.node || path.startsWith(`${scope.node}/`)));
  const rows = teams.slice(0, 1).map(({ path }) => ({
    team: path, for_team: "ai-company/production/inference", preemptions: 7, jobs: 3, lost_mgpu_s: 91 * HOUR,
  }));
  return { ...scope, preemptions: 7, lost_mgpu_s: 91 * HOUR, rows };
}

/** The answer of a history by its name; null for an unknown one. */
export function aHistory(name: string, query: URLSearchParams): UseHistory | WaitHistory | PreemptionHistory | null {
  if (name === "use") return aUseHistory(query);
  if (name === "waits") return aWaitHistory(query);
  return name === "preemptions" ? aPreemptionHistory(query) : null;
}

/** Reconciled days of two clusters: one agrees, one does not. */
import type { components } from "../src/api/schema";

type Schemas = components["schemas"];
type Day = Schemas["Reconciliation"];
type Difference = Schemas["ReconciliationDifference"];

const GPU_HOUR = 3_600_000;

function aDay(id: string, day: string, cluster: string, changes: Partial<Day> = {}): Day {
  const { metered_mgpu_s = 1_200 * GPU_HOUR, accounted_mgpu_s = 1_200 * GPU_HOUR } = changes;
  return {
    id,
    cluster,
    day,
    status: "green",
    is_complete: true,
    as_of: `${day}T23:59:59Z`,
    until: `${day}T23:59:59Z`,
    is_requested: false,
    next_at: null,
    acknowledgement: null,
    message: "",
    metered_mgpu_s,
    accounted_mgpu_s,
    by_device: [{ device: "gpu", metered_mgpu_s, accounted_mgpu_s }],
    difference_count: 0,
    ...changes,
  };
}

export function theReconciliations(): Day[] {
  return [
    aDay("r1", "2026-11-21", "alpha", { is_complete: false }),
    aDay("r2", "2026-11-20", "alpha", {
      status: "red",
      accounted_mgpu_s: 1_199 * GPU_HOUR,
      difference_count: 2,
    }),
    aDay("r3", "2026-11-20", "beta"),
    aDay("r4", "2026-11-19", "alpha", { status: "pending", as_of: null, until: null }),
    aDay("r5", "2026-11-19", "beta", {
      status: "unavailable",
      as_of: null,
      until: null,
      message: "the accounting's database does not answer",
      next_at: "2026-11-21T15:00:00Z",
    }),
  ];
}

function aDifference(changes: Partial<Difference>): Difference {
  return {
    cause: "end_differs",
    mgpu_s: -8_000,
    job: null,
    attempt: null,
    native_id: "4711",
    user: "eve",
    state: "COMPLETED",
    metered_start: "2026-11-20T10:00:00Z",
    metered_end: "2026-11-20T11:00:00Z",
    metered_mgpu: 8_000,
    accounted_start: "2026-11-20T10:00:00Z",
    accounted_end: "2026-11-20T10:59:59Z",
    accounted_mgpu: 8_000,
    ...changes,
  };
}

export function aReconciliation(id: string): Schemas["ReconciliationDetail"] {
  const day = theReconciliations().find((each) => each.id === id) ?? aDay(id, "2026-11-18", "alpha");
  const account = {
    account: "ai-company_research_nlp",
    team: "ai-company/research/nlp",
    pool: "h100",
    device: "gpu" as const,
    is_green: false,
    metered_mgpu_s: 100 * GPU_HOUR,
    accounted_mgpu_s: 100 * GPU_HOUR - 8_000,
    difference_count: 1,
    differences: [aDifference({ job: "01a1fd00-0000-7000-8000-000000000001" })],
    cut_count: 0,
    cut_mgpu_s: 0,
  };
  const physics = {
    ...account,
    account: "physics",
    team: null,
    is_green: true,
    differences: [
      aDifference({
        cause: "native_unmapped",
        mgpu_s: 500,
        metered_start: null,
        metered_end: null,
        metered_mgpu: null,
      }),
    ],
    cut_count: 3,
  };
  return { ...day, accounts: day.status === "red" ? [account, physics] : [] };
}

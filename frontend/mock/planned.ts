/** Planned changes of quotas in the company's story, and what they would do. */
import type {
  PlannedChange,
  PlannedChangeRequest,
  PlannedEdit,
  PlannedEditRequest,
  Quota,
  QuotaPreview,
  QuotaValues,
} from "../src/api/types";
import type { Company } from "./answer.ts";
import { aProblem, page, type MockAnswer, type MockRequest } from "./http.ts";
import { iso, theQuotas } from "./company.ts";

const GPU = 1000;
const HOUR_S = 3600;

function planId(n: number): string {
  return `01935000-0000-7000-8000-00000000f${n.toString(16).padStart(3, "0")}`;
}

function valuesOf(quota: Quota): QuotaValues {
  const { guaranteed_mgpu, guaranteed_percent, borrow_limit_mgpu, lend_limit_mgpu, weight } = quota;
  return { guaranteed_mgpu, guaranteed_percent, borrow_limit_mgpu, lend_limit_mgpu, weight };
}

export function aPlannedChange(
  n: number,
  edits: [string, Omit<PlannedEditRequest, "quota">][],
  change: Partial<PlannedChange> = {},
): PlannedChange {
  const now = Date.now();
  const quotas = theQuotas();
  return {
    id: planId(n),
    node: "ai-company/research",
    reason: "camera-ready deadline of nlp",
    status: "draft",
    created_by: "ana@ai-company",
    created_at: iso(now - 600_000),
    expires_at: iso(now + 6 * 86_400_000),
    apply_at: null,
    revert_after_s: null,
    decided_by: null,
    decided_at: null,
    applied_at: null,
    revert_at: null,
    ended_at: null,
    note: "",
    can_manage: true,
    can_preview: true,
    can_apply: true,
    edits: edits.flatMap(([node, set]): PlannedEdit[] => {
      const quota = quotas.find((each) => each.node === node);
      if (quota === undefined) return [];
      const values = valuesOf(quota);
      return [{ quota: quota.id, node, pool: quota.pool, device: quota.device, before: values, current: values, is_stale: false, set }];
    }),
    ...change,
  };
}

const MOVED: [string, Omit<PlannedEditRequest, "quota">][] = [
  ["ai-company/research/nlp", { guaranteed_mgpu: 220 * GPU }],
  ["ai-company/research/vision", { guaranteed_mgpu: 100 * GPU }],
];

export function thePlannedChanges(): PlannedChange[] {
  const now = Date.now();
  const decided = { decided_by: "olga@ai-company", decided_at: iso(now - 7_000_000), can_apply: false } as const;
  return [
    aPlannedChange(1, MOVED, { revert_after_s: 3 * 86_400 }),
    aPlannedChange(2, [["ai-company/production/inference", { borrow_limit_mgpu: 500 * GPU }]], {
      ...decided,
      node: "ai-company/production/inference",
      reason: "launch week",
      status: "scheduled",
      apply_at: iso(now + 2 * 86_400_000),
      revert_after_s: 7 * 86_400,
      created_at: iso(now - 86_400_000),
    }),
    aPlannedChange(3, [["ai-company/research/speech", { lend_limit_mgpu: 40 * GPU }]], {
      ...decided,
      node: "ai-company/research/speech",
      reason: "keep half for the demo",
      status: "applied",
      applied_at: iso(now - 7_000_000),
      revert_after_s: 86_400,
      revert_at: iso(now + 79_000_000),
      created_at: iso(now - 2 * 86_400_000),
    }),
    aPlannedChange(4, [["ai-company/exploration", { guaranteed_percent: "25.00" }]], {
      ...decided,
      node: "ai-company/exploration",
      reason: "more room for exploration",
      status: "failed",
      note: "ai-company/production in h100 has changed since this change was decided.",
      can_manage: false,
      apply_at: iso(now - 8_000_000),
      ended_at: iso(now - 8_000_000),
      created_at: iso(now - 4 * 86_400_000),
    }),
  ];
}

export function aPreview(change: Partial<QuotaPreview> = {}): QuotaPreview {
  const now = Date.now();
  const team = (name: string, numbers: Partial<QuotaPreview["teams"][number]>) => ({
    team: `ai-company/${name}`,
    pool: "h100",
    device: "gpu" as const,
    use_now_mgpu: 0,
    use_before_mgpu: 0,
    use_after_mgpu: 0,
    guaranteed_before_mgpu_s: 0,
    guaranteed_after_mgpu_s: 0,
    borrowed_before_mgpu_s: 0,
    borrowed_after_mgpu_s: 0,
    cost_before_nano: 0,
    cost_after_nano: 0,
    jobs_sooner: 0,
    jobs_later: 0,
    jobs_reclaimed: 0,
    at_risk_mgpu_s: 0,
    jobs_spared: 0,
    ...numbers,
  });
  const hours = (gpuHours: number) => gpuHours * HOUR_S * GPU;
  const euros = (amount: number) => amount * 1_000_000_000;
  const quotas = theQuotas();
  return {
    as_of: iso(now - 3_000),
    until: iso(now + 86_397_000),
    asked_until: iso(now + 86_397_000),
    is_cut: false,
    precision_s: 1728,
    assumed_ends: 2,
    refusal: "",
    quotas: quotas
      .filter(({ node }) => node.endsWith("/nlp") || node.endsWith("/vision"))
      .map((quota) => ({
        quota: quota.id,
        node: quota.node,
        pool: quota.pool,
        device: quota.device,
        before: valuesOf(quota),
        after: {
          ...valuesOf(quota),
          guaranteed_percent: null,
          guaranteed_mgpu: quota.node.endsWith("/nlp") ? 220 * GPU : 100 * GPU,
        },
      })),
    pools: [{ pool: "h100", device: "gpu", capacity_mgpu: 1000 * GPU, guaranteed_mgpu: null, is_overcommitted: false }],
    starts: [
      {
        job: "01935000-0000-7000-8000-000000008f2c",
        name: "pretrain-13b",
        team: "ai-company/research/nlp",
        user: "ana",
        pool: "h100",
        device: "gpu",
        mgpu: 200 * GPU,
        before: iso(now + 18_000_000),
        after: iso(now + 240_000),
        sooner_s: 17_760,
        is_at_least: false,
      },
      {
        job: "01935000-0000-7000-8000-000000008f2d",
        name: "serve-llama-9",
        team: "ai-company/production/inference",
        user: "ivo",
        pool: "h100",
        device: "gpu",
        mgpu: 24 * GPU,
        before: iso(now + 10_800_000),
        after: null,
        sooner_s: -75_600,
        is_at_least: true,
      },
    ],
    reclaimed: [
      {
        job: "01935000-0000-7000-8000-000000009001",
        name: "segment-anything",
        team: "ai-company/research/vision",
        user: "ana",
        pool: "h100",
        device: "gpu",
        mgpu: 20 * GPU,
        noticed_at: iso(now + 60_000),
        at_risk_mgpu_s: hours(41.5),
        beneficiary: "01935000-0000-7000-8000-000000008f2c",
      },
    ],
    spared: [],
    teams: [
      team("production/inference", {
        use_now_mgpu: 700 * GPU,
        use_before_mgpu: 560 * GPU,
        use_after_mgpu: 536 * GPU,
        guaranteed_before_mgpu_s: hours(6720),
        guaranteed_after_mgpu_s: hours(6720),
        borrowed_before_mgpu_s: hours(7100),
        borrowed_after_mgpu_s: hours(6650),
        cost_before_nano: euros(24_090),
        cost_after_nano: euros(23_415),
        jobs_later: 2,
      }),
      team("research/nlp", {
        use_before_mgpu: 200 * GPU,
        use_after_mgpu: 220 * GPU,
        guaranteed_before_mgpu_s: hours(3900),
        guaranteed_after_mgpu_s: hours(4800),
        cost_before_nano: euros(7_800),
        cost_after_nano: euros(9_600),
        jobs_sooner: 3,
      }),
      team("research/vision", {
        use_now_mgpu: 100 * GPU,
        use_before_mgpu: 100 * GPU,
        use_after_mgpu: 100 * GPU,
        guaranteed_before_mgpu_s: hours(2400),
        guaranteed_after_mgpu_s: hours(2380),
        cost_before_nano: euros(4_800),
        cost_after_nano: euros(4_760),
        jobs_reclaimed: 1,
        at_risk_mgpu_s: hours(41.5),
      }),
    ],
    currency: "EUR",
    ...change,
  };
}

/** The state of a change and of the quotas around it, as the server tells it. */
function etagOf(company: Company, change: PlannedChange): string {
  const versions = company.quotas.reduce((sum, quota) => sum + quota.version, 0);
  return `"${change.id.slice(-3)}-${change.status}-${versions}"`;
}

/** The change with its quotas as they are now. */
function shown(company: Company, change: PlannedChange): PlannedChange {
  const edits = change.edits.map((edit): PlannedEdit => {
    const quota = company.quotas.find((each) => each.id === edit.quota);
    if (quota === undefined) return edit;
    const current = valuesOf(quota);
    const isStale = change.status === "draft" && JSON.stringify(current) !== JSON.stringify(edit.before);
    return { ...edit, current, is_stale: isStale };
  });
  return { ...change, edits };
}

export function plannedChanges(
  company: Company,
  request: MockRequest,
  id?: string,
  action?: string,
): MockAnswer {
  const { method, query } = request;
  const told = (change: PlannedChange, status = 200): MockAnswer => ({
    status,
    body: shown(company, change),
    headers: { ETag: etagOf(company, change) },
  });
  if (id === undefined && method === "POST") {
    const made = drafted(company, request.body as PlannedChangeRequest);
    company.planned.unshift(made);
    return told(made, 201);
  }
  if (id === undefined) {
    const status = query.get("status");
    const found = company.planned.filter((each) => status === null || each.status === status);
    return page(found.map((each) => shown(company, each)), query);
  }
  const change = company.planned.find((each) => each.id === id);
  if (change === undefined) return aProblem(404, "not_found", "It does not exist, or you may not see it.");
  const now = Date.now();
  switch (action) {
    case "preview":
      return { status: 200, body: aPreview(), headers: { ETag: etagOf(company, change) } };
    case "cancel":
      Object.assign(change, {
        status: change.status === "applied" ? "kept" : "cancelled",
        ended_at: iso(now),
        can_apply: false,
      });
      return told(change);
    case "apply":
      if (request.headers["if-match"] !== etagOf(company, change)) {
        return aProblem(412, "precondition_failed", "The change or a related quota has changed since you looked.", {
          current: shown(company, change),
        });
      }
      Object.assign(change, {
        status: change.apply_at === null ? "applied" : "scheduled",
        decided_by: company.session?.user.login ?? null,
        decided_at: iso(now),
        can_apply: false,
      });
      if (change.status === "applied") {
        change.applied_at = iso(now);
        change.revert_at = change.revert_after_s === null ? null : iso(now + change.revert_after_s * 1000);
        for (const { quota, set } of change.edits) {
          const found = company.quotas.find((each) => each.id === quota);
          if (found) Object.assign(found, set, { version: found.version + 1 });
        }
      }
      return told(change);
  }
  return told(change);
}

function drafted(company: Company, body: PlannedChangeRequest): PlannedChange {
  const edits = body.edits.flatMap(({ quota, ...set }): [string, Omit<PlannedEditRequest, "quota">][] => {
    const found = company.quotas.find((each) => each.id === quota);
    return found === undefined ? [] : [[found.node, set]];
  });
  return aPlannedChange(100 + company.planned.length, edits, {
    node: edits.length === 1 ? edits[0]?.[0] : "ai-company",
    reason: body.reason,
    apply_at: body.apply_at ?? null,
    revert_after_s: body.revert_after_s ?? null,
    created_at: iso(Date.now()),
  });
}

/** Requests in the made-up company. */
import type { ChangeRequest, ChangeRequestDetail, NewChangeRequest } from "../src/api/types";
import { iso, ORGANIZATION } from "./company.ts";
import { aProblem, page, type MockAnswer, type MockRequest } from "./http.ts";
import { aPreview } from "./planned.ts";

const GPU = 1000;
const MINUTE_MS = 60_000;
const DAY_MS = 86_400_000;

export function aRequest(number: number, change: Partial<ChangeRequestDetail> = {}): ChangeRequestDetail {
  const now = Date.now();
  return {
    id: `01935000-0000-7000-8000-${(0xa5c00 + number).toString(16).padStart(12, "0")}`,
    kind: "guarantee",
    title: "nlp +60 GPUs of h100 until 2026-11-27 18:00 UTC",
    node: `${ORGANIZATION}/research/nlp`,
    pool: "h100",
    lender: null,
    target: null,
    role: "",
    amount: 60 * GPU,
    amount_text: "60 GPUs",
    unit: "mgpu",
    begin: null,
    until: iso(now + 2 * DAY_MS),
    reason: "rlhf-3 must finish before the review on Friday.",
    status: "pending",
    asked_by: `leo@${ORGANIZATION}`,
    asked_at: iso(now - 21 * MINUTE_MS),
    expires_at: iso(now + 2 * DAY_MS),
    decided_by: null,
    decided_at: null,
    note: "",
    planned: null,
    planned_status: null,
    can_decide: true,
    is_yours: false,
    is_emergency: false,
    version: 1,
    write: null,
    offers: [],
    comments: [
      {
        id: "01935000-0000-7000-8000-00000000cc01",
        author: `mira@${ORGANIZATION}`,
        at: iso(now - 9 * MINUTE_MS),
        text: "vision can spare 16 until Friday. Not 20: seg-train needs its 8.",
      },
    ],
    supply: {
      guaranteed_mgpu: 200 * GPU,
      borrow_limit_mgpu: null,
      in_use_mgpu: 232 * GPU,
      reserve_mgpu: 4 * GPU,
      sources: [
        { node: `${ORGANIZATION}/research/vision`, guaranteed_mgpu: 120 * GPU, in_use_mgpu: 104 * GPU, offered_mgpu: 16 * GPU },
        { node: `${ORGANIZATION}/research/speech`, guaranteed_mgpu: 80 * GPU, in_use_mgpu: 40 * GPU, offered_mgpu: 0 },
      ],
    },
    ...change,
  };
}

export function theRequests(): ChangeRequestDetail[] {
  const now = Date.now();
  const decided = { can_decide: false, supply: null, comments: [], decided_by: `dora@${ORGANIZATION}`, decided_at: iso(now - DAY_MS) };
  return [
    aRequest(1),
    aRequest(2, {
      kind: "loan",
      title: "vision lends 16 GPUs of h100 to nlp until 2026-11-27 18:00 UTC",
      lender: `${ORGANIZATION}/research/vision`,
      amount: 16 * GPU,
      amount_text: "16 GPUs",
      asked_by: `mira@${ORGANIZATION}`,
      reason: "seg-train is done on Wednesday.",
      comments: [],
    }),
    aRequest(3, {
      kind: "role",
      title: "Role team_lead on nlp",
      pool: null,
      amount: null,
      amount_text: "",
      unit: "",
      until: null,
      role: "team_lead",
      asked_by: `ana@${ORGANIZATION}`,
      reason: "leo is on leave until January.",
      supply: null,
      comments: [],
    }),
    aRequest(4, {
      is_yours: true,
      can_decide: false,
      status: "countered",
      title: "nlp +24 GPUs of h100",
      until: null,
      offers: [
        {
          number: 1,
          title: "nlp +16 GPUs of h100 until 2026-11-27 18:00 UTC",
          amount: 16 * GPU,
          until: iso(now + 2 * DAY_MS),
          sources: [{ node: `${ORGANIZATION}/research/vision`, amount_mgpu: 16 * GPU }],
          note: "16 are free until Friday.",
          made_by: `dora@${ORGANIZATION}`,
          made_at: iso(now - 5 * MINUTE_MS),
          is_open: true,
        },
      ],
    }),
    aRequest(5, {
      ...decided,
      kind: "budget",
      title: "Budget nlp in 2026 +4000.00",
      pool: null,
      unit: "money",
      until: null,
      amount: 4_000_000_000_000,
      amount_text: "4000.00",
      status: "approved",
      asked_by: `sam@${ORGANIZATION}`,
      note: "one month only",
    }),
    aRequest(6, { ...decided, title: "a100-80g +8 GPUs", status: "rejected", note: "not while vision trains" }),
  ];
}

/** A change of a quota that waits for a second person. */
export function aWrite(change: Partial<ChangeRequestDetail> = {}): ChangeRequestDetail {
  const quota = { borrow_limit_mgpu: null, guaranteed_bp: null, lend_limit_mgpu: null, weight: 100 };
  const title = "vision in h100: 120 to 80";
  return aRequest(40, {
    kind: "write",
    title,
    node: `${ORGANIZATION}/research`,
    pool: null,
    amount: null,
    amount_text: "",
    unit: "",
    until: null,
    reason: "The review moved to December.",
    asked_by: `dora@${ORGANIZATION}`,
    supply: null,
    comments: [],
    write: {
      operation: "quota.change",
      measured_at: iso(Date.now() - 21 * MINUTE_MS),
      stopped_jobs: 3,
      moved_mgpu: 40 * GPU,
      stopped: [{ team: `${ORGANIZATION}/research/vision`, pool: "h100", jobs: 3, at_risk_mgpu_s: 36_000 * GPU }],
      quotas: [
        {
          node: `${ORGANIZATION}/research/vision`,
          pool: "h100",
          before: { ...quota, guaranteed_mgpu: 120 * GPU },
          after: { ...quota, guaranteed_mgpu: 80 * GPU },
        },
      ],
      rules: [],
      may_override: false,
    },
    ...change,
  });
}

/** Answers for the requests of `rows`, which change. */
export function requests(rows: ChangeRequestDetail[], asked: MockRequest, id?: string, action?: string): MockAnswer {
  const { method, query } = asked;
  if (id === "counts") {
    return {
      status: 200,
      body: { to_decide: inView(rows, "to_decide").length, to_answer: 1, mine: inView(rows, "mine").length, decided: inView(rows, "decided").length },
    };
  }
  if (id === undefined && method === "POST") {
    const body = asked.body as NewChangeRequest;
    const made = aRequest(90 + rows.length, { kind: body.kind, reason: body.reason, title: "nlp +8 GPUs of h100", is_yours: true, can_decide: false, comments: [] });
    rows.unshift(made);
    return { status: 201, body: made };
  }
  if (id === undefined) return page(inView(rows, query.get("view")), query);
  const found = rows.find((each) => each.id === id);
  if (found === undefined) return aProblem(404, "not_found", "It does not exist, or you may not see it.");
  const tag = { ETag: `"${found.id.slice(-2)}-${found.version}"` };
  if (action === "preview") return { status: 200, body: aPreview(), headers: tag };
  if (action === "comments") {
    const text = (asked.body as { text: string }).text;
    const made = { id: `01935000-0000-7000-8000-00000000cd${String(found.comments.length).padStart(2, "0")}`, author: "you", at: iso(Date.now()), text };
    found.comments.push(made);
    return { status: 201, body: made };
  }
  if (method === "POST") {
    const status = ({ approve: "approved", override: "approved", counter: "countered", reject: "rejected", withdraw: "withdrawn", offers: "approved" } as Record<string, ChangeRequest["status"]>)[action ?? ""];
    if (status !== undefined) Object.assign(found, { status, can_decide: status === "countered", version: found.version + 1 });
  }
  return { status: 200, body: found, headers: tag };
}

function inView(rows: readonly ChangeRequestDetail[], view: string | null): ChangeRequest[] {
  const isOpen = (row: ChangeRequest) => row.status === "pending" || row.status === "countered";
  if (view === "to_decide") return rows.filter((row) => row.status === "pending" && row.can_decide);
  if (view === "mine") return rows.filter((row) => row.is_yours && isOpen(row));
  return view === "decided" ? rows.filter((row) => !isOpen(row)) : [...rows];
}

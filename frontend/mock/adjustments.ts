/** Adjustments of the made-up company, and disputes about its charges. */
import type { Adjustment, AdjustmentPolicy, Dispute } from "../src/api/types";
import { iso, ORGANIZATION } from "./company.ts";
import type { MockAnswer, MockRequest } from "./http.ts";

const EURO = 1_000_000_000;
const DAY_MS = 86_400_000;

export function anAdjustment(number: number, change: Partial<Adjustment> = {}): Adjustment {
  const now = Date.now();
  return {
    id: `01935000-0000-7000-8000-${(0xad00 + number).toString(16).padStart(12, "0")}`,
    organization: ORGANIZATION,
    team: `${ORGANIZATION}/research/nlp`,
    user: null,
    pool: null,
    month: "2026-11",
    effective_at: iso(now - DAY_MS),
    amount_nano: 2_400 * EURO,
    currency: "EUR",
    reason: "storage of October",
    dispute: null,
    is_correction: false,
    status: "pending",
    asked_by: `fay@${ORGANIZATION}`,
    asked_at: iso(now - DAY_MS),
    expires_at: iso(now + 6 * DAY_MS),
    decided_by: null,
    decided_at: null,
    note: "",
    may_approve: true,
    may_withdraw: false,
    ...change,
  };
}

export function theAdjustments(): Adjustment[] {
  const over = { may_approve: false, expires_at: null, decided_at: iso(Date.now() - DAY_MS) };
  return [
    anAdjustment(3),
    anAdjustment(2, { ...over, amount_nano: -48 * EURO, status: "done", user: `bob@${ORGANIZATION}`, is_correction: true, reason: "Refund of bert, attempt 1", dispute: aDispute(1).id }),
    anAdjustment(1, { ...over, amount_nano: -40 * EURO, status: "approved", decided_by: `gus@${ORGANIZATION}`, note: "agreed", reason: "goodwill" }),
  ];
}

/** The threshold, which fay raised; a change is answered, but not remembered. */
export function thresholds({ method, body }: MockRequest): MockAnswer {
  const policy: AdjustmentPolicy = {
    organization: ORGANIZATION,
    threshold_nano: 2_000 * EURO,
    your_threshold_nano: 1_000 * EURO,
    changed_by: `fay@${ORGANIZATION}`,
    changed_at: iso(Date.now() - DAY_MS),
    version: 2,
  };
  const change = method === "PATCH" ? (body as Partial<AdjustmentPolicy>) : {};
  return { status: 200, body: { ...policy, ...change } };
}

export function aDispute(number: number, change: Partial<Dispute> = {}): Dispute {
  const now = Date.now();
  return {
    id: `01935000-0000-7000-8000-${(0xd100 + number).toString(16).padStart(12, "0")}`,
    organization: ORGANIZATION,
    team: `${ORGANIZATION}/research/nlp`,
    job: "01935000-0000-7000-8000-000000009001",
    subject: "bert, attempt 1",
    attempt: "01935000-0000-7000-8000-00000000a001",
    pool: null,
    month: null,
    charged_nano: 48 * EURO,
    refund_nano: null,
    currency: "EUR",
    reason: "the node was broken",
    status: "open",
    asked_by: `bob@${ORGANIZATION}`,
    asked_at: iso(now - DAY_MS),
    decided_by: null,
    decided_at: null,
    note: "",
    may_decide: true,
    may_withdraw: false,
    ...change,
  };
}

export function theDisputes(): Dispute[] {
  const decided = { may_decide: false, decided_by: `fay@${ORGANIZATION}`, decided_at: iso(Date.now()) };
  return [
    aDispute(3),
    aDispute(4, { subject: "h100 in 2026-10", job: null, attempt: null, pool: "h100", month: "2026-10", charged_nano: 12_480 * EURO, asked_by: `lena@${ORGANIZATION}`, reason: "two weeks of a broken rack", may_decide: false }),
    aDispute(2, { ...decided, subject: "eval-suite, attempt 2", status: "declined", note: "the node was fine" }),
    aDispute(1, { ...decided, status: "accepted", refund_nano: 48 * EURO }),
  ];
}

/** Months and statements of the made-up company: one of each state. */
import type { AccountingCode, Period, PeriodDetail, Statement } from "../src/api/types";
import { ORGANIZATION } from "./company.ts";
import { aProblem, type MockAnswer, type MockRequest } from "./http.ts";

const GPU_HOUR = 3_600_000;
const EURO = 1_000_000_000;

export function aPeriod(month: string, change: Partial<Period> = {}): Period {
  const [year = 2026, number = 1] = month.split("-").map(Number);
  const end = new Date(Date.UTC(year, number, 1));
  return {
    organization: ORGANIZATION,
    month,
    start: `${month}-01T00:00:00Z`,
    end: end.toISOString().replace(".000Z", "Z"),
    time_zone: "UTC",
    state: "open",
    due_at: new Date(end.getTime() + 72 * 3_600_000).toISOString().replace(".000Z", "Z"),
    unconfirmed: [],
    closed_at: null,
    closed_by: null,
    reason: null,
    currency: null,
    row_count: null,
    digest: null,
    ...change,
  };
}

/** Newest first: open, due with red days, and closed. */
export function thePeriods(): Period[] {
  return [
    aPeriod("2026-12"),
    aPeriod("2026-11", {
      state: "due",
      unconfirmed: [
        { cluster: "alpha", day: "2026-11-20", status: "red" },
        { cluster: "forge", day: "2026-11-21", status: null },
      ],
    }),
    aPeriod("2026-10", {
      state: "closed",
      closed_at: "2026-11-04T09:00:00Z",
      closed_by: "fiona@ai-company",
      reason: "Ticket 12: the account of alpha was restored",
      currency: "EUR",
      row_count: 1_240,
      digest: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    }),
  ];
}

function charge(team: string, hours: number, price: number, change: object = {}): PeriodDetail["charges"][number] {
  return {
    team: `${ORGANIZATION}/${team}`,
    pool: "h100",
    device: "gpu",
    usage_class: "guaranteed",
    is_correction: false,
    mgpu_s: hours * GPU_HOUR,
    unpriced_mgpu_s: 0,
    extra_mgpu_s: 0,
    cost_nano: hours * price * EURO,
    ...change,
  };
}

function detailOf(period: Period): PeriodDetail {
  const charges = [
    charge("production/inference", 121_000, 2),
    charge("research/nlp", 98_500, 2),
    charge("research/nlp", 14_200, 1, { usage_class: "borrowed" }),
    charge("research/vision", 640, 0, { usage_class: "fault" }),
    charge("research/vision", -12, 2, { is_correction: true }),
  ];
  const isClosed = period.state === "closed";
  return { ...period, charges: isClosed ? charges : [], adjustments_nano: isClosed ? -250_000_000_000 : 0 };
}

export function aStatement(number: number, change: Partial<Statement> = {}): Statement {
  return {
    id: `01935000-0000-7000-8000-${(0x57a0 + number).toString(16).padStart(12, "0")}`,
    number: `2026-${String(number).padStart(5, "0")}`,
    kind: "statement",
    month: "2026-10",
    unit: `${ORGANIZATION}/research`,
    unit_name: "Research",
    organization_name: "AI Company",
    provider: "Tidegate",
    currency: "EUR",
    total_cents: 21_117_600,
    line_count: 4,
    issued_at: "2026-11-04T10:00:00Z",
    issued_by: "fiona@ai-company",
    due_on: "2026-12-04",
    terms: "30 days net",
    credits: null,
    credited_by: null,
    reason: "",
    ...change,
  };
}

/** One that stands, and one with its credit note. */
export function theStatements(): Statement[] {
  return [
    aStatement(1, { unit: `${ORGANIZATION}/production`, unit_name: "Production", total_cents: 24_200_000 }),
    aStatement(2, { credited_by: "2026-00003" }),
    aStatement(3, { kind: "credit_note", credits: "2026-00002", total_cents: -21_117_600, due_on: null, reason: "wrong unit" }),
  ];
}

/** Answers `organizations/ID/periods` and what is below it. */
export function periods({ method, path }: MockRequest): MockAnswer {
  const [, month, part] = /periods(?:\/([^/]+))?(?:\/(.+))?$/.exec(path) ?? [];
  if (month === undefined) return { status: 200, body: { items: thePeriods(), next: null } };
  const period = thePeriods().find((one) => one.month === month);
  if (period === undefined) return aProblem(404, "not_found", `There is no month ${month}.`);
  if (part === "statements") {
    const items = method === "POST" ? [aStatement(4)] : period.state === "closed" ? theStatements() : [];
    return { status: method === "POST" ? 201 : 200, body: { items, next: null } };
  }
  return { status: 200, body: detailOf(part === "close" ? { ...period, state: "closed" } : period) };
}

/** Answers `statements/ID` and its credit note. */
export function statements(id: string | undefined, action: string | undefined): MockAnswer {
  const found = theStatements().find((one) => one.id === id) ?? aStatement(1);
  const detail = { ...found, digest: "9f86d081", lines: [] };
  if (action !== "credit") return { status: 200, body: detail };
  return { status: 201, body: { ...detail, number: "2026-00004", kind: "credit_note", credits: found.number } };
}

export function aCode(number: number, change: Partial<AccountingCode> = {}): AccountingCode {
  return {
    id: `01935000-0000-7000-8000-${(0xc0de0 + number).toString(16).padStart(12, "0")}`,
    node: `${ORGANIZATION}/research`,
    kind: "cost_centre",
    code: "4711",
    start: "2026-10",
    end: null,
    set_at: "2026-10-02T09:00:00Z",
    set_by: "fiona@ai-company",
    ...change,
  };
}

/** A cost centre with the one before it, and the project code of a team. */
export function theCodes(): AccountingCode[] {
  return [
    aCode(3, { node: `${ORGANIZATION}/research/nlp`, kind: "project_code", code: "P-12", start: "2026-12", end: "2027-04" }),
    aCode(2),
    aCode(1, { code: "4700", start: "2026-01", end: "2026-10" }),
  ];
}

/** Answers `organizations/ID/accounting-codes` and `accounting-codes/ID`. */
export function codes({ method }: MockRequest): MockAnswer {
  if (method === "DELETE") return { status: 204, body: undefined };
  if (method === "PATCH") return { status: 200, body: aCode(2) };
  return { status: 200, body: { items: method === "POST" ? [aCode(4)] : theCodes(), next: null } };
}

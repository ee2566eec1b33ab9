/** Notices of the mock's company, newest first, and reading them. */
import type { Mail, Notice, NoticePreferences, NoticePreferencesChange } from "../src/api/types";
import { EVENTS } from "../src/notices/words.ts";
import { aProblem, page, type MockAnswer, type MockRequest } from "./http.ts";

const MINUTE_MS = 60_000;
const JOB = "01935000-0000-7000-8000-000000009001";
const NLP = "01935000-0000-7000-8000-000000000013";
const WEEK = "pool=h100&from=2026-11-16&to=2026-11-23";

export function aNotice(number: number, minutesAgo: number, change: Partial<Notice>): Notice {
  const at = Date.now() - minutesAgo * MINUTE_MS;
  return {
    id: `01935000-0000-7000-8000-0000000bb${String(999 - number).padStart(3, "0")}`,
    event: "job_failed",
    subject_kind: "job",
    subject_id: JOB,
    sentence: "llm-finetune failed with an exit code other than 0.",
    link: `/jobs/${JOB}`,
    at: new Date(at).toISOString(),
    deadline: null,
    read_at: null,
    figures: [],
    ...change,
  };
}

/** Read notices are those of the second half. */
export function theNotices(): Notice[] {
  const inFourMinutes = new Date(Date.now() + 4 * MINUTE_MS).toISOString();
  const inFiveDays = new Date(Date.now() + 5 * 1440 * MINUTE_MS).toISOString();
  return [
    aNotice(1, 1, {
      event: "job_preempting",
      sentence: "llm-finetune is being preempted. Save its work before it stops.",
      deadline: inFourMinutes,
    }),
    aNotice(2, 12, {
      event: "decision_waiting",
      subject_kind: "adjustment",
      subject_id: "01935000-0000-7000-8000-0000000ad001",
      sentence: "The adjustment about 2,000.00 EUR of ai-company/research/nlp waits for a decision.",
      link: "/adjustments",
      deadline: inFiveDays,
    }),
    aNotice(3, 95, {
      event: "budget_alert",
      subject_kind: "budget",
      subject_id: "01935000-0000-7000-8000-0000000bd001",
      sentence: "The budget nlp in November of ai-company/research/nlp has reached 80 % of its limit.",
      link: "/budgets?scope=ai-company/research/nlp",
    }),
    aNotice(6, 200, {
      event: "week_summary",
      subject_kind: "node",
      subject_id: NLP,
      sentence: "ai-company/research/nlp used 8,412.250 GPU-hours in the week of 2026-11-16 to 2026-11-22.",
      link: `/tree/${NLP}/history?from=2026-11-16&to=2026-11-23`,
      figures: [
        { title: "Used, h100", value: "8,412.250 GPU-hours", link: `/tree/${NLP}/history?${WEEK}` },
        { title: "Waited, h100, guaranteed (p95 of 212 jobs)", value: "41m20s", link: `/tree/${NLP}/history?${WEEK}` },
        { title: "Cost, h100", value: "16,824.50 EUR", link: "/chargeback/jobs?node=ai-company/research/nlp" },
      ],
      read_at: new Date(Date.now() - 190 * MINUTE_MS).toISOString(),
    }),
    aNotice(4, 300, { read_at: new Date(Date.now() - 200 * MINUTE_MS).toISOString() }),
    aNotice(5, 1500, {
      event: "credits_expiring",
      subject_kind: "team",
      subject_id: "01935000-0000-7000-8000-000000000013",
      sentence: "1,204.5 GPU-hours of credits of ai-company/research/nlp in pool h100 expire within 7 days.",
      link: "/credits?team=ai-company/research/nlp&pool=h100",
      deadline: inFiveDays,
      read_at: new Date(Date.now() - 1400 * MINUTE_MS).toISOString(),
    }),
  ];
}

const MAILED: ReadonlySet<string> = new Set(["job_failed", "job_preempting", "decision_waiting", "budget_alert"]);

/** Everything by default, but mail of starts; quiet at night. */
export function thePreferences(): NoticePreferences {
  return {
    version: 3,
    email: "alice@ai-company.example",
    is_mail_configured: true,
    time_zone: "Europe/Berlin",
    digest: "none",
    quiet_hours: { start: "22:00", end: "07:00" },
    events: EVENTS.map((event) => ({
      event,
      portal: true,
      mail: MAILED.has(event) || event === "job_started",
      portal_default: true,
      mail_default: MAILED.has(event),
    })),
  };
}

function theMails(): Mail[] {
  const at = new Date(Date.now() - 12 * MINUTE_MS).toISOString();
  const sent: Mail = {
    id: "01935000-0000-7000-8000-0000000e0002",
    subject: "3 notices: llm-finetune failed with an exit code other than 0.",
    notice_count: 3,
    address: "alice@ai-company.example",
    state: "sent",
    attempts: 1,
    error: "",
    created_at: at,
    next_at: null,
    ended_at: at,
  };
  const failed: Mail = {
    ...sent,
    id: "01935000-0000-7000-8000-0000000e0001",
    subject: "llm-finetune is being preempted. Save its work before it stops.",
    state: "failed",
    attempts: 6,
    error: "The mail server answered 550: 5.1.1 The mailbox alice@ai-company.example does not exist",
  };
  return [sent, failed];
}

function changePreferences(found: NoticePreferences, body: NoticePreferencesChange): MockAnswer {
  const { events = [], ...times } = body;
  Object.assign(found, times, { version: found.version + 1 });
  for (const change of events) Object.assign(found.events.find(({ event }) => event === change.event) ?? {}, change);
  return { status: 200, body: found };
}

/** Lists and counts notices, and marks them as read in the company. */
export function answerNotices(
  { method, query, body }: MockRequest,
  { notices, noticePreferences }: { notices: Notice[]; noticePreferences: NoticePreferences },
  id: string | undefined,
): MockAnswer {
  if (id === "mails") return page(theMails(), query);
  if (id === "preferences" && method === "PATCH") {
    return changePreferences(noticePreferences, body as NoticePreferencesChange);
  }
  if (id === "preferences") return { status: 200, body: noticePreferences };
  const now = new Date().toISOString();
  const unread = () => notices.filter((notice) => notice.read_at === null);
  if (id === "unread") return { status: 200, body: { unread: unread().length } };
  if (method === "POST" && id === "read") {
    const through = (body as { through?: string } | null)?.through ?? "";
    for (const notice of unread()) if (through === "" || notice.id <= through) notice.read_at = now;
    return { status: 200, body: { unread: unread().length } };
  }
  if (method === "POST") {
    const notice = notices.find((each) => each.id === id);
    if (notice === undefined) return aProblem(404, "not-found", "You have no such notice.");
    notice.read_at ??= now;
    return { status: 200, body: notice };
  }
  const events = query.get("event")?.split(",");
  const wanted = notices.filter(
    (notice) =>
      (events === undefined || events.includes(notice.event)) &&
      (!query.has("subject_kind") || notice.subject_kind === query.get("subject_kind")) &&
      (!query.has("subject_id") || notice.subject_id === query.get("subject_id")) &&
      (query.get("unread") !== "true" || notice.read_at === null),
  );
  return page(wanted, query);
}

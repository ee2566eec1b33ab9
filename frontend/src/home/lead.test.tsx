import { screen, waitFor, within } from "@testing-library/react";
import { describe, expect, it } from "vitest";

import { aCompany } from "../../mock/answer";
import { aBudget } from "../../mock/budgets";
import { aSession } from "../../mock/company";
import { aJob, anAttempt, anExplanation } from "../../mock/jobs";
import { theUnused } from "../../mock/metrics";
import { theDay } from "../../mock/today";
import type { Budget, Job, Today } from "../api/types";
import { accessibilityFaults, open, type Override } from "../test/render";

const EURO = 1_000_000_000;
const NLP = "ai-company/research/nlp";
const VISION = "ai-company/research/vision";

function aLead() {
  return aSession({
    grants: [{ role: "team_lead", node_path: NLP }],
    permissions: { [NLP]: ["view_tree", "view_jobs", "submit_jobs", "manage_jobs"] },
  });
}

function withJobs(state: string, items: readonly Job[]): Override {
  return ({ path, query }) =>
    path === "/api/v1/jobs" && query.get("state") === state && query.get("user") === null
      ? { status: 200, body: { items, next: null } }
      : undefined;
}

describe("home of a lead", () => {
  it("has the bar of a single team at its top, once, and what to do beside its title", async () => {
    const { container } = open("/", { company: aCompany({ session: aLead() }) });
    const now = await screen.findByRole("region", { name: "My teams now" });
    expect(await within(now).findByRole("list", { name: "Legend" })).toBeInTheDocument();
    expect(screen.getAllByRole("list", { name: "Legend" })).toHaveLength(1);
    expect(screen.queryByRole("region", { name: "GPUs of my teams" })).toBeNull();
    expect(screen.getByRole("link", { name: "Submit a job" })).toHaveAttribute("href", "/submit");
    expect(screen.getByRole("link", { name: "Ask for more…" })).toHaveAttribute("href", `/requests?ask=guarantee&node=${NLP}&pool=h100`);
    expect(await accessibilityFaults(container)).toEqual([]);
  });

  // Against: the work at risk is counted from the start where a checkpoint was reported.
  it("says of a job on notice for whom it stops, and how much work is at risk", async () => {
    const now = Date.now();
    const ago = (minutes: number) => new Date(now - 60_000 * minutes).toISOString();
    const attempt = anAttempt({
      state: "stopping",
      borrowed_mgpu: 32_000,
      started_at: ago(600),
      notice_at: new Date(now - 48_000).toISOString(),
      checkpoint_at: ago(30),
      grace_until: new Date(now + 252_000).toISOString(),
      made_room_for: { job: null, name: null, team: "ai-company/research/speech", mgpu: 64_000, user: null } as never,
    });
    const job = aJob({ name: "ablate-9", user: "iris", state: "preempting", mgpu: 32_000, attempt: 1, is_requeueable: true, notice_handling: "asks_for_signal", current_attempt: attempt });
    open("/", { company: aCompany({ session: aLead() }), override: withJobs("preempting", [job]) });
    const card = await screen.findByRole("region", { name: "Preemption notices" });
    expect(card).toHaveTextContent("1 job · 32 GPUs");
    const [, row] = within(card).getAllByRole("row");
    expect(row).toHaveTextContent(
      /^ablate-9iris · borrowed · then attempt 232a job of speech \(64 GPUs\)saves: asked for a signal30 min ago16\.0\d GPU-h4:1\d$/,
    );
    // 252 s are left of a grace of 300 s.
    const width = row?.querySelector<HTMLElement>(".grace-bar i")?.style.width ?? "";
    expect(Math.round(parseFloat(width))).toBe(84);
    expect(within(card).getByText("Open log")).toBeInTheDocument();
    expect(within(card).getByRole("link", { name: "Open log of ablate-9" })).toHaveAttribute("href", `/jobs/${job.id}?tab=log`);
    expect(within(card).getByRole("link", { name: "Stop another job…" })).toHaveAttribute(
      "href",
      "/jobs?state=running&scope=ai-company/research/vision&pool=h100&sort=-started_at",
    );
    expect(card).toHaveTextContent("A notice is final. GPUs of another job that you stop can go to the next attempt.");
  });

  it("has no log of a job on notice for readers who may not read it", async () => {
    const attempt = anAttempt({ state: "stopping", notice_at: new Date().toISOString(), grace_until: new Date(Date.now() + 60_000).toISOString() });
    const job = aJob({ name: "ablate-9", state: "preempting", current_attempt: attempt, can: ["cancel"] });
    open("/", { company: aCompany({ session: aLead() }), override: withJobs("preempting", [job, { ...job, id: "own", name: "own", can: ["logs"] }]) });
    const card = await screen.findByRole("region", { name: "Preemption notices" });
    expect(within(card).getAllByRole("row")[1]).toHaveTextContent(/not known.*:\d\d$/);
    const [link, ...others] = within(card).getAllByRole("link", { name: /^Open log/ });
    expect([link?.textContent, others]).toEqual(["Open log of own", []]);
  });

  it("leads from the reader's own job on notice to its log and to other jobs", async () => {
    const attempt = anAttempt({ state: "stopping", grace_until: new Date(Date.now() + 252_000).toISOString() });
    const job = aJob({ name: "ablate-9", state: "preempting", attempt: 1, current_attempt: attempt });
    const session = aLead();
    const company = aCompany({ session });
    open("/", {
      company,
      override: ({ path, query }) =>
        path === "/api/v1/jobs" && query.get("state") === "preempting" && query.get("user") === session.user.username
          ? { status: 200, body: { items: [job], next: null } }
          : undefined,
    });
    const card = await screen.findByRole("region", { name: "Notices" });
    await waitFor(() =>
      expect(card).toHaveTextContent(/ablate-9 must give back 8 GPUs: 4:1\d left to save its work\. Then it is requeued as attempt 2\./),
    );
    expect(within(card).getByRole("link", { name: "Open log of ablate-9" })).toHaveAttribute("href", `/jobs/${job.id}?tab=log`);
    expect(within(card).getByRole("link", { name: "Stop another job…" })).toHaveAttribute(
      "href",
      `/jobs?state=running&scope=ai-company/research/vision&pool=h100&user=${session.user.username}&sort=-started_at`,
    );
  });

  it("says what idle GPUs and lost work cost, as billed and beside it, and leads to the jobs", async () => {
    const { requests } = open("/", { company: aCompany({ session: aLead() }) });
    const table = await screen.findByRole("table", { name: "Waste" });
    await within(table).findByRole("row", { name: /^notebook/ });
    const rows = within(table).getAllByRole("row").map((row) => row.textContent);
    expect(rows).toEqual([
      "JobWhatGPU-hCostActions",
      "notebooknlp · leo8 GPUs idle for 45 minno process uses them6.00€12.00Open",
      "probe-long-contextnlp · anafailed 3 timeswork lost since its start: no checkpoint40.00€80.00Open",
      "tokenizer-ablationnlp · sampreemptedwork lost since its checkpoint18.00€8.00; covered by the commitment: €28.00Open",
      "Lost work in all1 % of 5,568.00 GPU-h that ended58.00€88.00; covered by the commitment: €28.00",
    ]);
    const [loss] = theDay(null).waste;
    expect(within(table).getByRole("link", { name: "Open probe-long-context" })).toHaveAttribute("href", `/jobs/${loss?.id ?? ""}?tab=attempts`);
    expect(within(table).getByRole("link", { name: "Open notebook" }).getAttribute("href")).toMatch(/\?tab=metrics$/);
    expect(requests.filter(({ path }) => path === "/api/v1/unused-resources").map(({ query }) => query.get("node"))).toEqual([NLP]);
  });

  function withDay(body: Today): Override {
    return ({ path }) =>
      path === "/api/v1/today" ? { status: 200, body } : path === "/api/v1/unused-resources" ? { status: 200, body: { ...theUnused(NLP), idle_gpus: [] } } : undefined;
  }

  // Planted: the total has the cost of the listed rows where there are more.
  it.each([
    ["showback", [{ cost_nano: 0, unbilled_nano: 80 * EURO, price_mode: "showback" }, null], 40, /40\.00showback: not billed \(would cost €80\.00\)Open/, "–"],
    ["more losses than are listed", [{ cost_nano: EURO }, { cost_nano: EURO }], 59, /40\.00€1\.00Open/, "–"],
    ["two currencies", [{ cost_nano: EURO }, { cost_nano: EURO, currency: "USD" }], 58, /40\.00€1\.00Open/, "–"],
    [
      "billed beside showback",
      [{ cost_nano: EURO }, { unbilled_nano: 80 * EURO, price_mode: "showback" }],
      58,
      /40\.00€1\.00Open/,
      "€1.00; showback, not billed: €80.00",
    ],
    [
      "showback beside a commitment",
      [{ unbilled_nano: EURO, price_mode: "commitment" }, { unbilled_nano: 80 * EURO, price_mode: "showback" }],
      58,
      /40\.00€0\.00; covered by the commitment: €1\.00Open/,
      "€0.00; not billed: €81.00",
    ],
    ["all of one", [{ cost_nano: EURO }, { cost_nano: 2 * EURO }], 58, /40\.00€1\.00Open/, "€3.00"],
  ] as [string, (Partial<NonNullable<Today["waste"][number]["cost"]>> | null)[], number, RegExp, string][])(
    "sums the cost of lost work only where it is whole: %s",
    async (_, costs, lostHours, first, total) => {
      const day = theDay(null);
      const body: Today = {
        ...day,
        totals: day.totals.map((each) => ({ ...each, lost_mgpu_s: lostHours * 3_600_000 })),
        waste: day.waste.map((loss, at) => {
          const cost = costs[at];
          return { ...loss, cost: cost == null ? null : { cost_nano: 0, unbilled_nano: 0, price_mode: "pay_per_use", currency: "EUR", ...cost } };
        }),
      };
      open("/", { company: aCompany({ session: aLead() }), override: withDay(body) });
      const rows = within(await screen.findByRole("table", { name: "Waste" })).getAllByRole("row");
      expect(rows[1]).toHaveTextContent(first);
      expect(within(rows[3] as HTMLElement).getAllByRole("cell").at(-2)).toHaveTextContent(total);
    },
  );

  it("asks a lead of two teams to choose one for idle GPUs, and shows the lost work of both", async () => {
    const grants = [NLP, VISION].map((path) => ({ role: "team_lead" as const, node_path: path }));
    const permissions = { ...aLead().permissions, [VISION]: aLead().permissions[NLP] ?? [] };
    const { requests } = open("/", { company: aCompany({ session: aSession({ grants, permissions }) }) });
    const card = await screen.findByRole("region", { name: "Waste" });
    await within(card).findByRole("row", { name: /^probe-long-context/ });
    expect(card).toHaveTextContent("Choose a team above to see GPUs that are idle now.");
    expect(card).not.toHaveTextContent("idle now, and");
    expect(requests.filter(({ path }) => path === "/api/v1/unused-resources")).toEqual([]);
  });

  it("says that idle GPUs cannot be shown where the server does not answer", async () => {
    open("/", {
      company: aCompany({ session: aLead() }),
      override: ({ path }) => (path === "/api/v1/unused-resources" ? { status: 403, body: { detail: "No." } } : undefined),
    });
    const card = await screen.findByRole("region", { name: "Waste" });
    await waitFor(() => expect(card).toHaveTextContent("GPUs that are idle now cannot be shown"));
  });

  it("has no costs for readers who may not see them", async () => {
    const day = theDay(null);
    const withoutCost = <Row extends object>(row: Row) => ({ ...row, cost: null });
    const body: Today = { ...day, waste: day.waste.map(withoutCost), ends: day.ends.map(withoutCost) };
    open("/", { company: aCompany({ session: aLead() }), override: withDay(body) });
    const table = await screen.findByRole("table", { name: "Waste" });
    expect(within(table).queryByRole("columnheader", { name: "Cost" })).toBeNull();
    expect(within(table).getAllByRole("row")[1]).toHaveTextContent(/40\.00Open$/);
    expect(screen.getByRole("region", { name: "Since yesterday" })).not.toHaveTextContent("€");
  });

  it("says what an ended job cost", async () => {
    open("/", { company: aCompany({ session: aLead() }) });
    const card = await screen.findByRole("region", { name: "Since yesterday" });
    await waitFor(() => expect(card).toHaveTextContent("nlp · sam · 40 GPUs × 20 h · €1,600.00"));
  });

  it("says why a job waits, for how long it has, and when it is expected to start", async () => {
    const explanation = anExplanation({
      code: "waiting_for_free_gpus",
      sentence: "It needs 64 GPUs; 8 are free.",
      jobs_ahead: 2,
      estimated_start: null,
    });
    const job = aJob({ name: "rlhf-3", user: "noor", state: "queued", mgpu: 64_000, explanation, submitted_at: new Date(Date.now() - 9_600_000).toISOString() });
    open("/", { company: aCompany({ session: aLead() }), override: withJobs("queued", [job, aJob({ id: "other", name: "new", state: "queued", explanation: null })]) });
    const table = await screen.findByRole("table", { name: "Waiting jobs, the oldest first" });
    const rows = within(table).getAllByRole("row");
    expect(rows[1]).toHaveTextContent(/^rlhf-3noor · \w+64It needs 64 GPUs; 8 are free\.waiting for free GPUs · 2 jobs ahead2 h 40 min( \d s)?unknown$/);
    expect(rows[2]).toHaveTextContent("not decided yet");
  });

  it.each([
    [["manage_quota"], ["/budgets?scope=ai-company/research/nlp"]],
    [[], []],
  ] as ["manage_quota"[], string[]][])("leads from a job at its user's cap to the caps, with the right to change them: %o", async (rights, links) => {
    const session = aSession({
      grants: [{ role: "team_lead", node_path: NLP }],
      permissions: { [NLP]: ["view_tree", "view_jobs", "submit_jobs", "manage_jobs", ...rights] },
    });
    const explanation = anExplanation({ code: "user_cap_reached", sentence: "The user uses 16 of 24 GPUs.", jobs_ahead: 0 });
    const job = aJob({ team: NLP, state: "queued", explanation });
    open("/", { company: aCompany({ session }), override: withJobs("queued", [job]) });
    const table = await screen.findByRole("table", { name: "Waiting jobs, the oldest first" });
    expect(within(table).queryAllByRole("link", { name: "Raise the cap" }).map((link) => link.getAttribute("href"))).toEqual(links);
  });

  it.each([
    [{ limit: 100_000, state: { used: 60_000, forecast: 110_000, left: 40_000 } }, /The budget runs out .+: \d+ .+ before the month ends\./],
    [{ limit: 100_000, state: { used: 60_000, forecast: 90_000, left: 40_000 } }, "The budget lasts until the month ends."],
    [{ limit: 100_000, state: { used: 60_000, forecast: null, left: 40_000 } }, "There is no forecast yet."],
    [{ limit: 100_000, state: { used: 100_000, left: 0 } }, /The budget is used up\. There is room again by .+ at the latest\./],
  ] as [Parameters<typeof aBudget>[1], string | RegExp][])("shows the fullest budget of the team: %o", async (change, sentence) => {
    const budgets: Budget[] = [aBudget(1, { name: "half", limit: 100_000, state: { used: 50_000 } }), aBudget(2, { name: "fullest", can_edit: false, ...change })];
    open("/", {
      company: aCompany({ session: aLead() }),
      override: ({ path }) => (path === "/api/v1/budgets" ? { status: 200, body: { items: budgets, next: null } } : undefined),
    });
    const card = await screen.findByRole("region", { name: "Budget" });
    expect(within(card).getByRole("heading", { name: "Budget · fullest" })).toBeInTheDocument();
    expect(card).toHaveTextContent(sentence);
    expect(within(card).getByRole("link", { name: "All 2 budgets" })).toHaveAttribute("href", "/budgets");
    expect(within(card).getByRole("link", { name: "Ask for budget…" })).toBeInTheDocument();
  });

  it("shows the use of the budget by day, as a chart and as a table", async () => {
    const budget = aBudget(1, {
      limit: 30 * 3_600_000,
      state: { used: 9 * 3_600_000, window_start: "2026-11-01T00:00:00Z", window_end: "2026-12-01T00:00:00Z", as_of: "2026-11-03T12:00:00Z" },
    });
    const days = [2, 3, 4].map((hours, at) => ({ day: `2026-11-0${String(at + 1)}`, used: hours * 3_600_000 }));
    const { user, container } = open("/", {
      company: aCompany({ session: aLead() }),
      override: ({ path }) =>
        path === "/api/v1/budgets"
          ? { status: 200, body: { items: [budget], next: null } }
          : path === `/api/v1/budgets/${budget.id}`
            ? { status: 200, body: { ...budget, days } }
            : undefined,
    });
    const card = await screen.findByRole("region", { name: "Budget" });
    const sentence = "Day 3 of 30: 30 % is used. Even use would be at 10 %.";
    expect(await within(card).findByRole("img", { name: `Use of Training by day. ${sentence} The table has each day.` })).toBeInTheDocument();
    expect(card).toHaveTextContent(sentence);
    expect(within(card).getByRole("row", { name: /^Used on/ })).toHaveTextContent("Used on Mon 2 Nov3.0");
    await user.click(within(card).getByRole("button", { name: "Show as table" }));
    const rows = within(within(card).getByRole("table", { name: "Use by day" })).getAllByRole("row");
    expect(rows.map((row) => row.textContent)).toEqual([
      "DayUsedIn allEven use",
      "Sun 1 Nov2.02.01.0",
      "Mon 2 Nov3.05.02.0",
      "Tue 3 Nov4.09.03.0",
    ]);
    expect(within(card).queryByRole("img", { name: /^Use of/ })).toBeNull();
    expect(await accessibilityFaults(container)).toEqual([]);
  });

  it("has no place for budgets and requests where there are none", async () => {
    open("/", {
      company: aCompany({ session: aLead(), requests: [] }),
      override: ({ path }) => (path === "/api/v1/budgets" ? { status: 200, body: { items: [], next: null } } : undefined),
    });
    await screen.findByRole("region", { name: "Waiting jobs" });
    await waitFor(() => expect(screen.queryByRole("region", { name: "Pending requests" })).toBeNull());
    expect(screen.queryByRole("region", { name: "Budget" })).toBeNull();
  });
});

describe("a waiting job", () => {
  it("says by what its team is ordered", async () => {
    const job = (await import("../../mock/jobs")).theJobs().find(({ name }) => name === "pretrain-13b");
    open(`/jobs/${job?.id ?? ""}`);
    const card = await screen.findByRole("region", { name: "Order among teams" });
    expect(card).toHaveTextContent("nlp uses of its guarantee0 %");
    expect(card).toHaveTextContent("Place among siblings3 of 3");
    expect(within(card).getByRole("link")).toHaveAttribute("href", `/fair-share?node=${NLP}&pool=h100`);
  });
});

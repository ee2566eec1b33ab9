import { screen, waitFor, within } from "@testing-library/react";
import { describe, expect, it } from "vitest";

import { aCompany } from "../../mock/answer";
import { aBudget } from "../../mock/budgets";
import { aSession } from "../../mock/company";
import { aJob, anAttempt, anExplanation } from "../../mock/jobs";
import type { Budget, Job } from "../api/types";
import { accessibilityFaults, open, type Override } from "../test/render";

const NLP = "ai-company/research/nlp";

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
      checkpoint_at: ago(30),
      grace_until: new Date(now + 252_000).toISOString(),
      made_room_for: { job: null, name: null, team: "ai-company/research/speech", mgpu: 64_000, user: null } as never,
    });
    const job = aJob({ name: "ablate-9", user: "iris", state: "preempting", mgpu: 32_000, attempt: 1, is_requeueable: true, current_attempt: attempt });
    open("/", { company: aCompany({ session: aLead() }), override: withJobs("preempting", [job]) });
    const card = await screen.findByRole("region", { name: "Preemption notices" });
    expect(card).toHaveTextContent("1 job · 32 GPUs");
    const [, row] = within(card).getAllByRole("row");
    expect(row).toHaveTextContent(/^ablate-9iris · borrowed · then attempt 232a job of speech \(64 GPUs\)30 min ago16\.0\d GPU-h4:1\d$/);
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

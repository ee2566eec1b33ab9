import { act, screen, waitFor, within } from "@testing-library/react";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import { aLogSummary } from "../../mock/answer.ts";
import { aProblem } from "../../mock/http.ts";
import { aJob, anAttempt, anExplanation, theJobs } from "../../mock/jobs.ts";
import type { Attempt, Job, JobArray, LogChunk } from "../api/types";
import { accessibilityFaults, open, type Override } from "../test/render";
import { describeDetail } from "./history";
import { exitCodeWords } from "./AttemptTable";
import {
  attemptWord,
  codeWords,
  gpusOf,
  gpuSpan,
  hasFuture,
  jobPill,
  reclaimDeadline,
  usageClass,
  withoutEstimate,
} from "./words";

const WAITING = theJobs().find(({ name }) => name === "pretrain-13b")?.id ?? "";
const RUNNING = theJobs().find(({ name }) => name === "serve-llama-6")?.id ?? "";

function aChunk(change: Partial<LogChunk> = {}): LogChunk {
  return {
    attempt: 1,
    rank: 0,
    stream: "stdout",
    offset: 0,
    next_offset: 5,
    text: "hello",
    is_final: false,
    is_truncated: false,
    ranks: 1,
    times: [],
    ...change,
  };
}

afterEach(() => {
  vi.useRealTimers();
});

describe("words", () => {
  it("calls a waiting job by its reason, and an unknown reason by its own name", () => {
    expect(jobPill(aJob({ state: "queued", explanation: anExplanation() }))).toEqual({
      text: "waiting for reclaim",
      tone: "wait",
    });
    expect(codeWords("some_new_reason")).toBe("some new reason");
    const stopping = { ...anAttempt(), state: "stopping" as const };
    expect(jobPill(aJob({ state: "starting", current_attempt: stopping }))).toEqual({ text: "being stopped", tone: "wait" });
    expect(jobPill(aJob({ state: "timed_out" }))).toEqual({ text: "timed out", tone: "bad" });
  });

  it("tells guaranteed from borrowed, and nothing of what has ended", () => {
    const running = aJob();
    const attempt = running.current_attempt;
    if (attempt === null) throw new Error("a running job has an attempt");
    const uses = (change: Partial<typeof attempt>) => usageClass({ current_attempt: { ...attempt, ...change } });
    expect(uses({ guaranteed_mgpu: 8000, borrowed_mgpu: 0 })).toBe("guaranteed");
    expect(uses({ guaranteed_mgpu: 0, borrowed_mgpu: 8000 })).toBe("borrowed");
    expect(uses({ guaranteed_mgpu: 4000, borrowed_mgpu: 4000 })).toBe("partly borrowed");
    expect(uses({ state: "ended" })).toBeNull();
  });

  it("waits for the slowest of those who give back", () => {
    const explanation = anExplanation();
    expect(reclaimDeadline(explanation)).toBe(explanation.victims[2]?.grace_until);
    expect(reclaimDeadline(anExplanation({ victims: [] }))).toBe(explanation.estimated_start?.latest);
    expect(reclaimDeadline(anExplanation({ victims: [], code: "waiting_for_free_gpus" }))).toBeNull();
    expect(reclaimDeadline(anExplanation({ numbers: { need_mgpu: 8_000, overdue_s: 90 } }))).toBeNull();
  });

  it("tells what an elastic job asks for, and what it was granted", () => {
    const asked = { node_count: 4, node_count_min: 1, mgpu: 16_000, mgpu_min: 4_000 };
    expect(gpusOf(aJob({ ...asked, current_attempt: null }))).toBe("4 to 16");
    expect(gpusOf(aJob({ ...asked, current_attempt: anAttempt({ mgpu: 12_000 }) }))).toBe("12 of 4 to 16");
    expect(gpusOf(aJob({ mgpu: 12_000 }))).toBe("12");
    expect([gpuSpan(aJob(asked)), gpuSpan(aJob({ mgpu: 1_000 }))]).toEqual(["4 to 16 GPUs", "1 GPU"]);
  });

  it("tells an event's data in a few words, and leaves out bare ids", () => {
    const detail = { attempt: 1, cluster: "01935000-0000-7000-8000-000000008f2c", grace_s: 300, mgpu: 8000, held_mgpu: 500 };
    expect(describeDetail(detail, "gpu")).toBe("attempt 1 · grace 5 min · 8 GPUs · held 0.5");
    expect(describeDetail({ mgpu: 8000 }, "cpu")).toBe("8 cores");
    const waited = { waited_for: null, waited_for_name: "prepare", condition: "succeeded", state: "timed_out" };
    expect(describeDetail(waited, "gpu")).toBe("prepare has succeeded");
    expect(describeDetail({ ...waited, reason: "dependency_never_met" }, "gpu")).toBe(
      "dependency never met: it waited until prepare has succeeded, which is timed out",
    );
    expect(describeDetail({ waited_for: null, condition: "failed", state: "failed" }, "gpu")).toBe(
      "a job that you may not see has ended without success",
    );
    const because = "slurm_a did not answer within 20 s, so the start was withdrawn.";
    expect(describeDetail({ attempt: 1, because }, "gpu")).toBe(`attempt 1 · ${because}`);
    expect(describeDetail({ what: "time_limit", is_final: true, gone: null }, "gpu")).toBe("what time limit · is final yes");
  });

  it("says of an attempt how it ended for the job, not what its cluster saw", () => {
    const ended = anAttempt({ state: "ended", outcome: "failed", ended_at: "2026-11-21T12:05:00Z" });
    const word = (attempt: Partial<Attempt>, job: Partial<Job> = {}) =>
      attemptWord({ ...ended, ...attempt }, aJob({ state: "failed", attempt: 1, ended_at: ended.ended_at, ...job }));
    const noticed = { notice_at: "2026-11-21T12:05:00Z" };
    const cancelled = { state: "cancelled" } as const;
    expect(word({ state: "stopping", outcome: null, ended_at: null })).toBe("stopping");
    expect(word({})).toBe("failed");
    expect(word({ outcome: "timed_out" })).toBe("timed out");
    expect(word({ ...noticed, outcome: "stopped" }, cancelled)).toBe("cancelled");
    expect(word(noticed, cancelled)).toBe("cancelled");
    expect(word({ ...noticed, outcome: "succeeded" }, { state: "queued", ended_at: null })).toBe("preempted");
    expect(word({ ...noticed, stop_reason: "requeued", outcome: "failed" }, { state: "queued", ended_at: null })).toBe("requeued");
    // Preempted, queued again, and only then cancelled.
    expect(word(noticed, { ...cancelled, ended_at: "2026-11-21T13:00:00Z" })).toBe("preempted");
    expect(word(noticed, { ...cancelled, attempt: 2 })).toBe("preempted");
    // It ended by itself before the notice.
    expect(word({ outcome: "succeeded", notice_at: "2026-11-21T12:05:01Z" })).toBe("succeeded");
    expect(word({ outcome: "stopped" })).toBe("stopped on the cluster");
    expect(word({ ...noticed, outcome: "lost" }, { state: "queued", ended_at: null })).toBe("lost");
    expect(word({ outcome: "node_failed" })).toBe("node failed");
    expect(word({ ...noticed, outcome: "not_started" }, { state: "queued", ended_at: null })).toBe("not started");
  });

  it("names the ranks that failed", () => {
    expect(exitCodeWords({})).toBe("–");
    expect(exitCodeWords({ "0": 0, "1": 0 })).toBe("0");
    expect(exitCodeWords({ "0": 137 })).toBe("137");
    expect(exitCodeWords({ "0": 0, "3": 1 })).toBe("1 on rank 3");
    expect(exitCodeWords({ "0": -9 })).toBe("signal 9");
    expect(exitCodeWords({ "0": -9, "1": -9, "2": -9 })).toBe("signal 9 on all 3 ranks");
    expect(exitCodeWords({ "0": 1, "1": -9, "2": 0 })).toBe("1 on rank 0, signal 9 on rank 1");
    expect(exitCodeWords({ "0": 1, "1": 2, "2": 3, "3": 4, "4": 5 })).toBe("1 on rank 0, 2 on rank 1, 3 on rank 2 and 2 more");
  });
});

describe("the job page of a job that waits for others", () => {
  it("says which, how each must end, and nothing of those that one may not see", async () => {
    const job = aJob({
      id: WAITING,
      state: "queued",
      current_attempt: null,
      explanation: anExplanation({
        code: "dependency",
        sentence: "It waits until prepare has succeeded (it is running) and 1 other job is done.",
        numbers: { jobs_waited_for: 2 },
        victims: [],
        estimated_start: null,
      }),
      depends_on: [
        { job: RUNNING, array: null, name: "prepare", state: "running", condition: "succeeded", is_met: null },
        { job: null, array: null, name: null, state: null, condition: "failed", is_met: null },
      ],
    });
    const { container } = open(`/jobs/${WAITING}`, {
      override: ({ path }) => (path === `/api/v1/jobs/${WAITING}` ? { status: 200, body: job } : undefined),
    });
    const card = await screen.findByRole("region", { name: "Starts after" });
    const seen = within(card).getByRole("row", { name: /prepare/ });
    expect(seen).toHaveTextContent("preparehas succeededrunningnot yet");
    expect(within(seen).getByRole("link")).toHaveAttribute("href", `/jobs/${RUNNING}`);
    expect(within(card).getByRole("row", { name: /may not see/ })).toHaveTextContent("has ended without success");
    const why = screen.getByRole("region", { name: "Why is it waiting?" });
    expect(why).toHaveTextContent("waiting for another job");
    expect(why).toHaveTextContent("Unknown: not before the others are done.");
    expect(await accessibilityFaults(container)).toEqual([]);
  });
});

const ARRAY = "0193508e-2f4c-7000-8000-00000000aaaa";

function anArray(change: Partial<JobArray> = {}): JobArray {
  return {
    id: ARRAY,
    name: "sweep",
    team: "ai-company/research/vision",
    user: "ana",
    organization: "ai-company",
    pools: ["h100", "a100"],
    indices: "0-9",
    size: 10,
    max_running: 3,
    submitted_at: "2026-11-21T12:00:00Z",
    counts: { held: 0, queued: 5, starting: 0, running: 3, succeeded: 2, failed: 0 },
    first_started_at: "2026-11-21T12:01:00Z",
    first_ended_at: "2026-11-21T12:02:00Z",
    last_ended_at: "2026-11-21T12:03:00Z",
    can: ["cancel"],
    ...change,
  };
}

describe("an array", () => {
  const task = aJob({ id: WAITING, name: "sweep[4]", array: { id: ARRAY, index: 4, size: 10 } });
  let stored = anArray();
  const override: Override = ({ method, path }) => {
    if (path === `/api/v1/jobs/${WAITING}`) return { status: 200, body: task };
    if (method === "POST" && path === `/api/v1/job-arrays/${ARRAY}/cancel`) {
      stored = anArray({ counts: { cancelled: 8, succeeded: 2 }, can: [] });
    }
    if (path.startsWith(`/api/v1/job-arrays/${ARRAY}`)) return { status: 200, body: stored };
    return undefined;
  };

  beforeEach(() => {
    stored = anArray();
  });

  it("is counted on the page of its task, with the way to all of them", async () => {
    const { container } = open(`/jobs/${WAITING}`, { override });
    const card = await screen.findByRole("region", { name: "Array" });
    expect(await within(card).findByText("Array sweep[0-9]")).toBeInTheDocument();
    expect(card).toHaveTextContent("Index 4 · 10 tasks, at most 3 at once · h100, else a100");
    const counts = within(within(card).getByRole("list", { name: "Tasks by state" })).getAllByRole("link");
    expect(counts.map((link) => link.textContent)).toEqual(["5 queued", "3 running", "2 succeeded"]);
    expect(counts[1]).toHaveAttribute("href", `/jobs?array=${ARRAY}&state=running`);
    expect(within(card).getByRole("link", { name: "All tasks" })).toHaveAttribute("href", `/jobs?array=${ARRAY}`);
    expect(await accessibilityFaults(container)).toEqual([]);
  });

  it("is cancelled whole, after a question", async () => {
    const { user, requests } = open(`/jobs?array=${ARRAY}`, { override });
    const card = await screen.findByRole("region", { name: "Array" });
    await user.click(await within(card).findByRole("button", { name: "Cancel all" }));
    expect(requests.some(({ method }) => method === "POST")).toBe(false);
    await user.click(await screen.findByRole("button", { name: "Cancel them" }));
    await waitFor(() => expect(card).toHaveTextContent("8 cancelled"));
    expect(requests.filter(({ method }) => method === "POST").map(({ path }) => path)).toEqual([
      `/api/v1/job-arrays/${ARRAY}/cancel`,
    ]);
  });

  it("narrows the list, and lets one out again", async () => {
    const { user, requests, router } = open(`/jobs?array=${ARRAY}`, { override });
    const asked = () => requests.filter(({ path }) => path === "/api/v1/jobs").at(-1)?.query.get("array");
    await waitFor(() => expect(asked()).toBe(ARRAY));
    await user.click(await screen.findByRole("button", { name: "Show other jobs too" }));
    await waitFor(() => expect(asked()).toBeNull());
    expect(router.state.location.search).not.toHaveProperty("array");
  });

  it("that one cannot see is said to be none", async () => {
    open(`/jobs?array=${ARRAY}`, { override: ({ path }) => (path.includes("job-arrays") ? aProblem(404, "not_found", "No.") : undefined) });
    expect(await screen.findByText("There is no such array that you can see.")).toBeInTheDocument();
  });
});

describe("the job page of a waiting job", () => {
  it("says why first, then the numbers, who gives back, and when it starts", async () => {
    const { container } = open(`/jobs/${WAITING}`);
    const card = await screen.findByRole("region", { name: "Why is it waiting?" });
    expect(card).toHaveTextContent(/Your team is entitled to these 200 GPUs\..* being reclaimed, within 4:1\d\./);
    expect(within(card).getByText("Needs")).toBeInTheDocument();
    const givers = within(card).getAllByRole("row", { name: /serve-llama|eval-sweep/ });
    expect(givers).toHaveLength(3);
    expect(within(card).getByRole("row", { name: /^Total held/ })).toHaveTextContent(/^Total held by these jobs200300\.00 GPU-h$/);
    expect(card).toHaveTextContent("from the grace periods of preempted jobs");
    expect(await accessibilityFaults(container)).toEqual([]);
  });

  // Planted: what follows the time left out; the time not found in the sentence.
  it("keeps what the sentence says after the time left", async () => {
    const sentence = "24 GPUs are being reclaimed for it, within 1 min 49 s. 8 GPUs are already available.";
    const job = aJob({
      id: WAITING,
      state: "queued",
      attempt: 0,
      current_attempt: null,
      explanation: anExplanation({ sentence, numbers: { need_mgpu: 32_000, grace_left_s: 109 } }),
    });
    open(`/jobs/${WAITING}`, {
      override: ({ path }) => (path === `/api/v1/jobs/${WAITING}` ? { status: 200, body: job } : undefined),
    });
    expect(await screen.findByRole("region", { name: "Why is it waiting?" })).toHaveTextContent(
      /being reclaimed for it, within 4:1\d\. 8 GPUs are already available\./,
    );
  });

  it("counts down while one looks", async () => {
    vi.useFakeTimers({ shouldAdvanceTime: true });
    open(`/jobs/${WAITING}`);
    const card = await screen.findByRole("region", { name: "Why is it waiting?" });
    const left = () => within(card).getAllByRole("timer").at(-1)?.textContent ?? "";
    const before = left();
    act(() => {
      vi.advanceTimersByTime(3000);
    });
    await waitFor(() => expect(left()).not.toBe(before));
  });

  it.each([
    [0, "Start time unknown. Run a look-ahead to simulate it."],
    [1, "Start time unknown: 1 job comes before it. Run a look-ahead to simulate it."],
    [1_200, "Start time unknown: 1,200 jobs come before it. Run a look-ahead to simulate it."],
  ])("says of an unknown start with %i jobs ahead what is known alone", async (jobs_ahead, told) => {
    // Planted: that nothing which runs says when it ends, which nobody has told.
    const job = aJob({
      id: WAITING,
      state: "queued",
      attempt: 0,
      current_attempt: null,
      explanation: anExplanation({ victims: [], estimated_start: null, code: "waiting_for_free_gpus", jobs_ahead }),
    });
    open(`/jobs/${WAITING}`, {
      override: ({ path }) =>
        path.endsWith("/estimate")
          ? aProblem(429, "too_many", "Another look-ahead is being computed.")
          : path === `/api/v1/jobs/${WAITING}`
            ? { status: 200, body: job }
            : undefined,
    });
    expect(await screen.findByText(told)).toBeInTheDocument();
    expect(screen.getByRole("button", { name: "Look ahead" })).toBeInTheDocument();
  });

  // Planted: the GPUs of the job as the amount of a budget.
  it.each([
    ["waiting_for_guarantee", "Ask for more guaranteed GPUs…", "32"],
    ["borrow_limit_reached", "Ask for a higher borrow limit…", "32"],
    ["class_cap_reached", "Ask for a higher cap…", null],
    ["budget_exhausted", "Ask for a larger budget…", null],
  ] as const)("leads a job that waits with %s to a request, with its size only for quotas", async (code, name, gpus) => {
    const explanation = anExplanation({ victims: [], estimated_start: null, code });
    const job = aJob({ id: WAITING, state: "queued", attempt: 0, current_attempt: null, mgpu: 32_000, explanation });
    open(`/jobs/${WAITING}`, {
      override: ({ path }) => (path === `/api/v1/jobs/${WAITING}` ? { status: 200, body: job } : undefined),
    });
    const link = await screen.findByRole("link", { name });
    const address = new URL(link.getAttribute("href") ?? "", "http://portal.example");
    expect(address.searchParams.get("gpus")).toBe(gpus);
  });

  it("names the team with more credits, and both balances in days", async () => {
    // Against: tenths of a day as they are; the team under "Decided at".
    const numbers = { need_mgpu: 8_000, credits_tenths: -20, ahead_credits_tenths: 305 };
    const job = aJob({
      id: WAITING,
      state: "queued",
      attempt: 0,
      current_attempt: null,
      explanation: anExplanation({
        victims: [],
        estimated_start: null,
        code: "behind_credits",
        node: "acme/research/vision",
        numbers,
      }),
    });
    open(`/jobs/${WAITING}`, {
      override: ({ path }) => (path === `/api/v1/jobs/${WAITING}` ? { status: 200, body: job } : undefined),
    });
    const card = await screen.findByRole("region", { name: "Why is it waiting?" });
    const facts = within(card)
      .getAllByRole("term")
      .map((term) => `${term.textContent}: ${term.nextElementSibling?.textContent}`);
    expect(facts).toEqual(
      expect.arrayContaining([
        "Cause: behind a team with more credits What helps",
        "Credits, in days of guarantee: -2 d",
        "Credits of the team ahead: 30.5 d",
        "Comes first: vision",
      ]),
    );
  });

  it("points to no button that is not there", () => {
    // Planted: a plan, or a job that is held, is told to look ahead.
    const why = { code: "behind_fair_share", jobs_ahead: 2 } as const;
    expect(withoutEstimate(why, false)).toBe(
      "Start time unknown: 2 jobs come before it.",
    );
    expect(withoutEstimate({ code: "held_by_user", jobs_ahead: 0 }, false)).toBe("Unknown: not before the job is released.");
    expect([hasFuture("behind_fair_share"), hasFuture("held_by_user"), hasFuture("begin_time")]).toEqual([true, false, false]);
  });

  it("says what an unknown start hangs on", async () => {
    const job = aJob({
      id: WAITING,
      state: "queued",
      attempt: 0,
      current_attempt: null,
      explanation: anExplanation({ victims: [], estimated_start: null, code: "cluster_unavailable" }),
    });
    open(`/jobs/${WAITING}`, {
      override: ({ path }) =>
        path.endsWith("/estimate")
          ? aProblem(429, "too_many", "Another look-ahead is being computed.")
          : path === `/api/v1/jobs/${WAITING}`
            ? { status: 200, body: job }
            : undefined,
    });
    expect(await screen.findByText("Unknown: it depends on when the cluster accepts jobs again.")).toBeInTheDocument();
  });

  it("tells the work at risk, and whether the jobs save it", async () => {
    open(`/jobs/${WAITING}`);
    const card = await screen.findByRole("region", { name: "Why is it waiting?" });
    const row = (name: RegExp) => within(card).getByRole("row", { name }).textContent;
    expect(row(/serve-llama-7/)).toMatch(/^serve-llama-7inference6496\.00 GPU-hsaves: reports checkpoints/);
    expect(row(/eval-sweep/)).toMatch(/^eval-sweepinference72108\.00 GPU-hnot known/);
  });

  it("looks ahead by itself where the start is unknown, and its range stands there", async () => {
    // Planted: it says "unknown" until somebody presses the button; it looks although the start is foreseen.
    const job = aJob({
      id: WAITING,
      state: "queued",
      attempt: 0,
      current_attempt: null,
      explanation: anExplanation({ victims: [], estimated_start: null, code: "waiting_for_free_gpus" }),
    });
    const { requests, unmount } = open(`/jobs/${WAITING}`, {
      override: ({ path }) => (path === `/api/v1/jobs/${WAITING}` ? { status: 200, body: job } : undefined),
    });
    expect(await screen.findByText(/the arbiter, played on from this moment/)).toBeInTheDocument();
    expect(screen.queryByText(/^Unknown/)).toBeNull();
    expect(requests.filter(({ path }) => path.endsWith("/estimate"))).toHaveLength(1);
    unmount();
    const foreseen = open(`/jobs/${WAITING}`);
    await screen.findByRole("button", { name: "Look ahead" });
    expect(foreseen.requests.filter(({ path }) => path.endsWith("/estimate"))).toEqual([]);
  });

  it("names nobody that the reader may not see", async () => {
    const hidden = { job: null, name: null, team: null, mgpu: 64_000, notice_at: null, grace_until: null, at_risk_mgpu_s: null, notice_handling: null };
    const job = aJob({
      id: WAITING,
      state: "queued",
      attempt: 0,
      current_attempt: null,
      explanation: anExplanation({ victims: [hidden, hidden] }),
    });
    open(`/jobs/${WAITING}`, {
      override: ({ path }) => (path === `/api/v1/jobs/${WAITING}` ? { status: 200, body: job } : undefined),
    });
    expect(await screen.findAllByText("a job that you may not see")).toHaveLength(2);
    expect(screen.getByRole("row", { name: /^Total held/ })).toHaveTextContent(/^Total held by these jobs128$/);
  });

  it("tells what comes back for it from what those who give back hold", async () => {
    const numbers = { need_mgpu: 180_000, earmarked_mgpu: 80_000, coming_back_mgpu: 100_000 };
    const job = aJob({
      id: WAITING,
      state: "queued",
      attempt: 0,
      current_attempt: null,
      explanation: anExplanation({ numbers }),
    });
    open(`/jobs/${WAITING}`, {
      override: ({ path }) => (path === `/api/v1/jobs/${WAITING}` ? { status: 200, body: job } : undefined),
    });
    const card = await screen.findByRole("region", { name: "Why is it waiting?" });
    expect(within(card).getByText("Being reclaimed").parentElement).toHaveTextContent(/^Being reclaimed100$/);
    expect(within(card).getByRole("row", { name: /^Total held/ })).toHaveTextContent(
      /^Total held by these jobsthis job needs 100200300\.00 GPU-h$/,
    );
  });

  it("asks before it cancels", async () => {
    const { user, requests } = open(`/jobs/${WAITING}`);
    await user.click(await screen.findByRole("button", { name: "Cancel" }));
    const dialog = await screen.findByRole("dialog");
    expect(dialog).toHaveTextContent("It leaves the queue.");
    expect(requests.filter(({ method }) => method === "POST")).toEqual([]);
    await user.click(within(dialog).getByRole("button", { name: "Cancel it" }));
    await waitFor(() =>
      expect(requests.find(({ method }) => method === "POST")?.path).toBe(`/api/v1/jobs/${WAITING}/cancel`),
    );
  });

  it("shows the plan before it extends", async () => {
    const running = theJobs().find(({ can }) => can.includes("extend"));
    if (running === undefined) throw new Error("the story has one");
    const { user, requests } = open(`/jobs/${running.id}`);
    await user.click(await screen.findByRole("button", { name: "Extend" }));
    const dialog = await screen.findByRole("dialog");
    const posts = () => requests.filter(({ method }) => method === "POST").map(({ path, body }) => [path.split("/").pop(), body]);
    expect(within(dialog).getByRole("button", { name: "Extend it" })).toBeDisabled();
    const field = within(dialog).getByRole("textbox", { name: "Longer" });
    await user.clear(field);
    await user.type(field, "2");
    expect(dialog).toHaveTextContent("'2' has no unit. Write 2s, 2m or 2h.");
    expect(within(dialog).getByRole("button", { name: "Show the plan" })).toBeDisabled();
    await user.clear(field);
    await user.type(field, "+3d");
    await user.click(within(dialog).getByRole("button", { name: "Show the plan" }));
    expect(await within(dialog).findByText(/^It would delay 1 waiting job that you may not manage/)).toBeInTheDocument();
    expect(within(dialog).getByText(/^The look-ahead covers 4 d, and the new end is later/)).toBeInTheDocument();
    expect(within(dialog).getByRole("button", { name: "Extend it" })).toBeDisabled();
    await user.clear(field);
    await user.type(field, "+2h");
    expect(within(dialog).queryByRole("table")).toBeNull();
    await user.click(within(dialog).getByRole("button", { name: "Show the plan" }));
    expect(await within(dialog).findByRole("row", { name: /^Time limit/ })).toHaveTextContent(/^Time limit74 h was 72 h$/);
    expect(within(dialog).getAllByRole("row", { name: /^Budget / })[0]).toHaveTextContent(
      "BudgetTraining: 12,250.0 of 50,000.0 GPU-hours left after it",
    );
    expect(dialog).toHaveTextContent("Budget Training of ai-company/research has too little left and would be exceeded.");
    expect(dialog).toHaveTextContent(`tidegate extend ${running.id} +2h`);
    expect(await accessibilityFaults(dialog)).toEqual([]);
    await user.click(within(dialog).getByRole("button", { name: "Extend it" }));
    await waitFor(() =>
      expect(posts()).toEqual([
        ["extension-plan", { by_s: 259_200 }],
        ["extension-plan", { by_s: 7_200 }],
        ["extend", { time_limit_s: 266_400 }],
      ]),
    );
  });

  it("does not tell a foreign job from an absent one", async () => {
    open("/jobs/01935000-0000-7000-8000-00000000ffff");
    expect(await screen.findByRole("heading", { name: "No such job" })).toBeInTheDocument();
  });
});

describe("the job page of a job that was placed", () => {
  it("says what the cluster says of one that does not start yet", async () => {
    const job = theJobs().find(({ id }) => id === RUNNING);
    const message = "The cluster does not start it: its image cannot be drawn (ImagePullBackOff).";
    open(`/jobs/${RUNNING}`, {
      override: ({ path }) =>
        path === `/api/v1/jobs/${RUNNING}`
          ? {
              status: 200,
              body: { ...job, script: null, state: "starting", current_attempt: anAttempt({ cluster: "kube-b", message }) },
            }
          : undefined,
    });
    const said = await screen.findByRole("region", { name: "What the cluster says" });
    expect(said).toHaveTextContent(`What kube-b says${message}`);
  });

  const page = (change: Parameters<typeof aJob>[0]) =>
    open(`/jobs/${RUNNING}?tab=attempts`, {
      override: ({ path }) => {
        const job = aJob({ id: RUNNING, ...change });
        if (path === `/api/v1/jobs/${RUNNING}`) return { status: 200, body: job };
        const items = job.current_attempt === null ? [] : [job.current_attempt];
        return path.endsWith("/attempts") ? { status: 200, body: { items, next: null } } : undefined;
      },
    });
  const cluster = async () => {
    const plan = await screen.findByRole("region", { name: "How it runs" });
    return within(within(plan).getByRole("row", { name: /^Cluster/ })).getByRole("cell").textContent;
  };

  it("says when its work was saved, and how a job tells that", async () => {
    const saved = () => screen.findByRole("row", { name: /^Last checkpoint/ });
    const told = anAttempt({ checkpoint_at: new Date(Date.now() - 120_000).toISOString() });
    const { unmount } = page({ state: "running", current_attempt: told });
    expect(within(await saved()).getByText(/^2 min ago/)).toBeInTheDocument();
    unmount();
    page({ state: "running", current_attempt: anAttempt() });
    expect(await saved()).toHaveTextContent("none reported");
  });

  it("names the cluster where it runs", async () => {
    page({ cluster: null, current_attempt: anAttempt({ cluster: "kube-b" }) });
    expect(await cluster()).toBe("kube-b");
  });

  it("names the cluster that it is bound to while it waits, else any", async () => {
    const waiting = { state: "queued", attempt: 0, current_attempt: null } as const;
    const { unmount } = page({ ...waiting, cluster: "slurm-a" });
    expect(await cluster()).toBe("slurm-a");
    unmount();
    page({ ...waiting, cluster: null });
    expect(await cluster()).toBe("any");
  });

  it("says that it is being stopped, and until when, while its cluster still runs it", async () => {
    const now = Date.now();
    const current_attempt = anAttempt({
      state: "stopping",
      notice_at: new Date(now - 5.5 * 60_000).toISOString(),
      grace_until: new Date(now + 65.5 * 60_000).toISOString(),
    });
    page({ state: "running", current_attempt });
    const card = await screen.findByRole("region", { name: "Being stopped" });
    expect(card).toHaveTextContent(/^It is being stoppedIt was told to end 5 min ago\. It is stopped by force in 1:05:[0-9]{2} unless it ends by itself\.$/);
  });

  it.each([
    [{ job: WAITING, name: "pretrain", team: "ai-company/research/nlp", mgpu: 200_000 }, "for pretrain of nlp (200 GPUs)"],
    [{ job: null, name: null, team: "ai-company/research/nlp", mgpu: 200_000 }, "for a job of nlp (200 GPUs)"],
    [{ job: null, name: null, team: null, mgpu: null }, "for a job of another team"],
  ])("names the job that gets its GPUs as far as the reader may see it", async (made_room_for, told) => {
    page({ state: "preempting", current_attempt: anAttempt({ state: "stopping", made_room_for }) });
    const card = await screen.findByRole("region", { name: "Giving back" });
    expect(card).toHaveTextContent(`8 GPUs were asked back ${told}.`);
    expect(await screen.findByRole("table", { name: "Attempts" })).toHaveTextContent(told);
  });

  it("calls giving back what is stopped for another job, and not being stopped", async () => {
    page({ state: "preempting", current_attempt: anAttempt({ state: "stopping" }) });
    expect(await screen.findByRole("region", { name: "Giving back" })).toBeInTheDocument();
    expect(screen.queryByRole("region", { name: "Being stopped" })).toBeNull();
  });

  it("marks what was submitted beside the portal, which has no log here and no clone", async () => {
    const { user } = page({ origin: "native", script: "", can: ["cancel"] });
    expect(await screen.findByText("native")).toBeInTheDocument();
    expect(screen.queryByRole("link", { name: "Clone" })).toBeNull();
    expect(screen.queryByRole("tab", { name: "Script" })).toBeNull();
    await user.click(screen.getByRole("tab", { name: "Log" }));
    expect(await screen.findByText(/given to its cluster beside the portal/)).toBeInTheDocument();
  });

  it("calls the attempt of a cancelled job cancelled", async () => {
    const at = "2026-11-21T12:05:00Z";
    page({
      state: "cancelled",
      ended_at: at,
      end_reason: "cancelled_by_user",
      exit_code: -15,
      exit_code_meaning: "killed by SIGTERM: asked to end",
      current_attempt: anAttempt({ state: "ended", outcome: "failed", notice_at: at, ended_at: at, exit_codes: { "0": -15 } }),
    });
    const table = await screen.findByRole("table", { name: "Attempts" });
    expect(within(table).getByRole("cell", { name: "cancelled" })).toBeInTheDocument();
    expect(screen.getByRole("region", { name: "How it ended" })).toHaveTextContent(/^How it endedCancelled [^:(]*\(killed by SIGTERM: asked to end\)\.$/);
  });
});

describe("the job page of a failed job", () => {
  const at = "2026-11-21T12:05:00Z";
  const failed = (change: Partial<Job> = {}, attempt: Partial<Attempt> = {}) =>
    aJob({
      id: RUNNING,
      state: "failed",
      ended_at: at,
      end_reason: "exit_code",
      exit_code: 127,
      exit_code_meaning: "command not found",
      current_attempt: anAttempt({
        state: "ended",
        outcome: "failed",
        started_at: "2026-11-21T12:00:00Z",
        ended_at: at,
        exit_codes: { "0": 0, "3": 127 },
        ...attempt,
      }),
      ...change,
    });
  const summary = aLogSummary({
    rank: 3,
    node: "a-18",
    streams: [
      { stream: "stdout", has_output: false },
      { stream: "stderr", has_output: true },
    ],
    error_stream: "stderr",
    error_lines: ["Traceback", "train.sh: line 1: pyton: command not found"],
  });
  const page = (job: Job, found = summary, query = "") =>
    open(`/jobs/${RUNNING}${query}`, {
      override: ({ path }) => {
        if (path === `/api/v1/jobs/${RUNNING}`) return { status: 200, body: job };
        if (path.endsWith("/log-summary")) return { status: 200, body: found };
        return undefined;
      },
    });

  it("says what its exit code means, and its last error lines", async () => {
    const { container } = page(failed());
    const card = await screen.findByRole("region", { name: "How it ended" });
    expect(card).toHaveTextContent(/^How it endedFailed .* with exit code 127 \(command not found\)\./);
    expect(card).toHaveTextContent("Exit code127 on rank 3Meaningcommand not found");
    const lines = await within(card).findByLabelText("Last error lines", { selector: "pre" });
    expect(lines).toHaveTextContent("Traceback train.sh: line 1: pyton: command not found");
    expect(card).toHaveTextContent("Nodea-18Ran for5 min");
    expect(card).toHaveTextContent("stderr of rank 3 on a-18");
    expect(await accessibilityFaults(container)).toEqual([]);
  });

  it("opens the log at the rank and the stream with the error, and marks what is not empty", async () => {
    // Planted: the log of a failed job opens at stdout of rank 0.
    const { requests, user, router } = page(failed());
    expect(await screen.findByRole("log", { name: "stderr of rank 3, attempt 1" })).toBeInTheDocument();
    expect(screen.getByRole("radio", { name: "stderr, has output" })).toBeChecked();
    expect(screen.getByRole("radio", { name: "stdout" })).not.toBeChecked();
    const reads = () => requests.filter(({ path }) => path.endsWith("/logs")).map(({ query }) => query.get("stream"));
    expect(reads()).toEqual(["stderr"]);
    await user.click(screen.getByRole("radio", { name: "merged" }));
    expect(await screen.findByRole("log", { name: "stdout and stderr of rank 3, attempt 1" })).toBeInTheDocument();
    await waitFor(() => expect(reads()).toEqual(["stderr", "stdout", "stderr"]));
    expect(router.state.location.searchStr).toBe("?rank=3&stream=merged");
  });

  it("opens what the address asks for", async () => {
    page(failed(), summary, "?stream=stdout&rank=0");
    expect(await screen.findByRole("log", { name: "stdout of rank 0, attempt 1" })).toBeInTheDocument();
  });

  it("says that a silent job wrote nothing", async () => {
    page(failed(), aLogSummary({ error_stream: null, error_lines: [] }));
    expect(await screen.findByText("It wrote nothing to stdout or stderr.")).toBeInTheDocument();
  });

  it("says that it ignored its notice", async () => {
    // Planted: whoever was stopped by force looks as if it had ended by itself.
    const ignored = {
      outcome: "stopped",
      ignored_notice: true,
      notice_at: "2026-11-21T12:04:30Z",
      grace_until: at,
    };
    page(failed({ state: "cancelled", end_reason: "cancelled_by_user", exit_code: null, exit_code_meaning: null }, ignored));
    const card = await screen.findByRole("region", { name: "How it ended" });
    expect(card).toHaveTextContent(
      "It ignored its notice. It was still running 30 s after SIGTERM, so it was stopped by force. Work since its last checkpoint is lost.",
    );
  });
});

describe("the log", () => {
  it("shows one stream alone where a cluster keeps no other", async () => {
    open(`/jobs/${RUNNING}?stream=merged`, {
      override: ({ path, query }) => {
        if (!path.endsWith("/logs")) return undefined;
        if (query.get("stream") === "stderr") return aProblem(404, "not_found", "There is no stderr.");
        return { status: 200, body: aChunk({ text: "hello\n", is_final: true }) };
      },
    });
    const log = await screen.findByRole("log");
    await waitFor(() => expect(log).toHaveTextContent(/^outhello$/));
    expect(screen.queryByText("There is no stderr.")).toBeNull();
  });

  it("follows by offset until the stream is final, and can be paused", async () => {
    vi.useFakeTimers({ shouldAdvanceTime: true });
    const offsets: string[] = [];
    const chunks: LogChunk[] = [
      aChunk({ text: "step 1\n", next_offset: 7, ranks: 12 }),
      aChunk({ text: "step 2\n", offset: 7, next_offset: 14, ranks: 12 }),
      aChunk({ text: "", offset: 14, next_offset: 14, is_final: true, ranks: 12 }),
    ];
    const override: Override = ({ path, query }) => {
      if (!path.endsWith("/logs")) return undefined;
      offsets.push(query.get("offset") ?? "");
      return { status: 200, body: chunks.shift() ?? aChunk({ text: "", is_final: true }) };
    };
    open(`/jobs/${RUNNING}`, { override });
    const log = await screen.findByRole("log");
    await waitFor(() => expect(log).toHaveTextContent("step 1"));
    await act(() => vi.advanceTimersByTimeAsync(1100));
    await waitFor(() => expect(log).toHaveTextContent("step 1 step 2"));
    await act(() => vi.advanceTimersByTimeAsync(1100));
    expect(await screen.findByText("complete")).toBeInTheDocument();
    await act(() => vi.advanceTimersByTimeAsync(5000));
    expect(offsets).toEqual(["-262144", "7", "14"]);
    expect(screen.getByRole("combobox", { name: "Ranks" })).toBeInTheDocument();
  });

  it("does not call a log empty that could not be read", async () => {
    open(`/jobs/${RUNNING}`, {
      override: ({ path }) =>
        path.endsWith("/logs") ? aProblem(503, "cluster_away", "The cluster does not answer.") : undefined,
    });
    expect(await screen.findByText("The cluster does not answer.")).toBeInTheDocument();
    expect(screen.getByRole("log")).toHaveTextContent(/^Not read yet\.$/);
  });

  it("stops asking while paused", async () => {
    vi.useFakeTimers({ shouldAdvanceTime: true });
    const { user, requests } = open(`/jobs/${RUNNING}`);
    const reads = () => requests.filter(({ path }) => path.endsWith("/logs")).length;
    await screen.findByRole("log");
    await user.click(screen.getByRole("button", { name: "Pause" }));
    expect(await screen.findByText("paused")).toBeInTheDocument();
    const before = reads();
    await act(() => vi.advanceTimersByTimeAsync(5000));
    expect(reads()).toBe(before);
    await user.click(screen.getByRole("button", { name: "Continue" }));
    await waitFor(() => expect(reads()).toBeGreaterThan(before));
  });
});

describe("the jobs list", () => {
  it("keeps its filters in the address and asks the server", async () => {
    const { user, router, requests } = open("/jobs?state=queued,running");
    await screen.findByRole("link", { name: "pretrain-13b" });
    expect(screen.queryByRole("link", { name: "tokenizer-ablation" })).toBeNull();
    await user.type(screen.getByRole("textbox", { name: "Name, user or ID" }), "pre");
    await waitFor(() => expect(router.state.location.search).toMatchObject({ q: "pre" }));
    await waitFor(() => expect(screen.queryByRole("link", { name: "serve-llama-9" })).toBeNull());
    const last = requests.filter(({ path }) => path === "/api/v1/jobs").at(-1);
    expect(last?.query.get("state")).toBe("queued,running");
    expect(last?.query.get("q")).toBe("pre");
    expect(last?.query.get("sort")).toBe("-submitted_at");
  });

  it("opens a job by the end of its id, and lists what may be meant", async () => {
    const { router } = open(`/jobs/${WAITING.slice(-6).toUpperCase()}`);
    await waitFor(() => expect(router.state.location.pathname).toBe(`/jobs/${WAITING}`));
    expect(await screen.findByRole("heading", { level: 1, name: /^pretrain-13b/ })).toBeInTheDocument();
    await router.navigate({ to: "/jobs/$jobId", params: { jobId: "0bad" } });
    await waitFor(() => expect(router.state.location.search).toMatchObject({ q: "0bad" }));
    expect(await screen.findByText("No job matches these filters.")).toBeInTheDocument();
  });

  it("says that nothing matches, and offers all jobs", async () => {
    const { user, router, container } = open("/jobs?q=nothing-is-called-so&scope=ai-company/research");
    expect(await screen.findByText("No job matches these filters.")).toBeInTheDocument();
    expect(screen.getByText("tidegate ls --team ai-company/research --search nothing-is-called-so")).toBeInTheDocument();
    expect(await accessibilityFaults(container)).toEqual([]);
    await user.click(screen.getByRole("button", { name: "Show all jobs" }));
    await screen.findByRole("link", { name: "pretrain-13b" });
    expect(router.state.location.search).toEqual({});
  });

  it("shows the API's words when it is refused", async () => {
    open("/jobs", {
      override: ({ path }) => (path === "/api/v1/jobs" ? aProblem(403, "forbidden", "You may not see jobs.") : undefined),
    });
    expect(await screen.findByText("You may not see jobs.")).toBeInTheDocument();
  });
});

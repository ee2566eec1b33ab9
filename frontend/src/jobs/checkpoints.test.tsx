import { screen, waitFor, within } from "@testing-library/react";
import { describe, expect, it } from "vitest";

import { uuid } from "../../mock/company";
import { aJob, anAttempt } from "../../mock/jobs";
import type { Attempt, JobDetail } from "../api/types";
import { accessibilityFaults, open } from "../test/render";
import { formatExact } from "../ui/units";

const ID = uuid(0x7d41);

/** An attempt on 8 GPUs that started `startH` hours after midnight and ran for `hours`; its checkpoint came `savedH` after its start. */
function attempt(number: number, startH: number, hours: number, savedH: number | null): Attempt {
  const at = (hour: number) => new Date(Date.UTC(2026, 10, 24, 0, Math.round(60 * hour))).toISOString();
  return anAttempt({
    id: uuid(0x7000 + number),
    number,
    state: "ended",
    outcome: "failed",
    granted_at: at(startH),
    started_at: at(startH),
    ended_at: at(startH + hours),
    checkpoint_at: savedH === null ? null : at(startH + savedH),
  });
}

function openJob(attempts: readonly Attempt[], change: Partial<JobDetail>) {
  const job = aJob({
    id: ID,
    name: "finetune-70b",
    state: "failed",
    attempt: attempts.length,
    current_attempt: attempts.at(-1) ?? null,
    checkpoint_path: "/shared/nlp/finetune-70b/ckpt",
    ...change,
  });
  return open(`/jobs/${ID}?tab=timeline`, {
    override: ({ path }) =>
      path === `/api/v1/jobs/${ID}`
        ? { status: 200, body: job }
        : path === `/api/v1/jobs/${ID}/attempts`
          ? { status: 200, body: { items: attempts } }
          : undefined,
  });
}

describe("the checkpoints of a failed job", () => {
  // Planted: the first attempt as the latest.
  it("are the last ones of its attempts, with the latest and the work lost after each", async () => {
    const attempts = [attempt(1, 7, 2.5, 2.5), attempt(2, 10, 1.5, 1), attempt(3, 12, 6, null)];
    const { container } = openJob(attempts, {});
    const card = await screen.findByRole("region", { name: "Checkpoints" });
    const rows = within(card).getAllByRole("row");
    const saved = (at: number) => formatExact(new Date(attempts[at]?.checkpoint_at ?? ""));
    expect(rows.map((row) => row.textContent)).toEqual([
      "AttemptSavedLost after it",
      `2 latest${saved(1)}4.00 GPU-h`,
      `1 ${saved(0)}0.00 GPU-h`,
    ]);
    expect(card).toHaveTextContent("A clone of the job can resume from the latest one.");
    expect(card).toHaveTextContent("/shared/nlp/finetune-70b/ckpt");
    expect(within(card).getByRole("link", { name: "2" })).toHaveAttribute("href", `/jobs/${ID}?tab=log&attempt=2&rank=0`);
    expect(await accessibilityFaults(container)).toEqual([]);
  });

  it("say which attempt resumes from the latest where the job waits again", async () => {
    openJob([attempt(1, 7, 2, 1)], { state: "queued", current_attempt: null, checkpoint_path: null });
    const card = await screen.findByRole("region", { name: "Checkpoints" });
    expect(card).toHaveTextContent("The next attempt can resume from the latest one.");
    expect(card).toHaveTextContent("The job names no checkpoint path: its script finds the checkpoint.");
  });

  it("are five, with a link to the others", async () => {
    openJob(Array.from({ length: 8 }, (_, at) => attempt(at + 1, 2 * at, 1, 0.5)), {});
    const card = await screen.findByRole("region", { name: "Checkpoints" });
    expect(within(card).getAllByRole("row")).toHaveLength(6);
    expect(within(card).getByRole("link", { name: "3 more" })).toHaveAttribute("href", `/jobs/${ID}?tab=attempts`);
  });

  it("are said to be missing only where the job has a checkpoint path", async () => {
    const { unmount } = openJob([attempt(1, 7, 2, null)], {});
    const card = await screen.findByRole("region", { name: "Checkpoints" });
    expect(card).toHaveTextContent("None reported. Run tidegate checkpoint inside the job to report one.");
    unmount();
    const { queryClient } = openJob([attempt(1, 7, 2, null)], { checkpoint_path: null });
    await screen.findByRole("region", { name: "How it ended" });
    await waitFor(() => expect(queryClient.getQueryData(["jobs", "attempts", ID])).toHaveLength(1));
    await waitFor(() => expect(queryClient.isFetching()).toBe(0));
    expect(screen.queryByRole("region", { name: "Checkpoints" })).toBeNull();
  });

  it.each(["running", "succeeded"] as const)("have no place on the page of a job that is %s", async (state) => {
    const { requests } = openJob([attempt(1, 7, 2, 1)], { state });
    await screen.findByRole("region", { name: "How it runs" });
    expect(screen.queryByRole("region", { name: "Checkpoints" })).toBeNull();
    expect(requests.filter(({ path }) => path.endsWith("/attempts"))).toEqual([]);
  });
});

describe("the plan of a waiting job", () => {
  const plan: JobDetail["plan"] = {
    seconds: 72 * 3600,
    cost_nano: 28_800_000_000_000,
    unbilled_nano: 0,
    price_mode: "pay_per_use",
    currency: "EUR",
    budgets: [
      {
        id: uuid(0xb001),
        name: "Training",
        node: "ai-company/research/nlp",
        measure: "money",
        currency: "EUR",
        policy: "stop_starts",
        limit: 250_000_000_000_000,
        needed: 28_800_000_000_000,
        left_after: 97_500_000_000_000,
        room_at: "2026-12-01T00:00:00Z",
      },
    ],
  };
  const waiting = { state: "queued", attempt: 0, current_attempt: null, mgpu: 200_000, checkpoint_path: null } as const;

  it("says what it costs at most, and what budgets have left after it", async () => {
    openJob([], { ...waiting, plan });
    const card = await screen.findByRole("region", { name: "How it runs" });
    expect(within(card).getByRole("row", { name: /^At most / })).toHaveTextContent("At most14,400.00 GPU-h · €28,800.00");
    expect(within(card).getByRole("row", { name: /^Budget / })).toHaveTextContent(
      "BudgetTraining: €97,500.00 of €250,000.00 left after this job, at its time limit",
    );
  });

  it.each([
    [{ time_limit_s: null }, { seconds: 3600, cost_nano: 400_000_000_000 }, "Cost per hour", "Cost per hourat most €400.00"],
    [
      {},
      { cost_nano: 0, unbilled_nano: 28_800_000_000_000, price_mode: "showback" },
      "At most",
      "At most14,400.00 GPU-h · showback: not billed (would cost €28,800.00)",
    ],
    [{}, { cost_nano: null, unbilled_nano: null, price_mode: null, currency: null, budgets: [] }, "At most", /^At most14,400\.00 GPU-h$/],
  ] as [Partial<JobDetail>, Partial<NonNullable<JobDetail["plan"]>>, string, string | RegExp][])(
    "says no more than the reader may see: %o %o",
    async (change, costs, name, text) => {
      openJob([], { ...waiting, ...change, plan: { ...plan, ...costs } });
      const card = await screen.findByRole("region", { name: "How it runs" });
      expect(within(card).getByRole("row", { name: new RegExp(`^${name}`) })).toHaveTextContent(text);
      expect(within(card).queryAllByRole("row", { name: /^Budget / })).toHaveLength((costs.budgets ?? plan.budgets).length);
    },
  );
});

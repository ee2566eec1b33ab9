import { screen, within } from "@testing-library/react";
import { describe, expect, it } from "vitest";

import { aJob, anAttempt } from "../../mock/jobs.ts";
import type { AttemptCosts } from "../api/types";
import { accessibilityFaults, open } from "../test/render";
import { nodesText, ranS, spansOf, ticksBetween, unsavedS, waitedS } from "./attemptTimes";

const JOB = aJob({ state: "failed", attempt: 2, submitted_at: "2026-11-24T06:45:00Z", ended_at: "2026-11-24T12:00:00Z", exit_code: 137 });
const FIRST = anAttempt({
  id: "01935000-0000-7000-8000-000000000001",
  number: 1,
  state: "ended",
  outcome: "node_failed",
  started_at: "2026-11-24T07:00:00Z",
  checkpoint_at: "2026-11-24T08:00:00Z",
  ended_at: "2026-11-24T09:30:00Z",
  slots: [{ node: "a-09", mgpu: 8000 }, { node: "a-10", mgpu: 8000 }],
  exit_codes: {},
});
const SECOND = anAttempt({
  ...FIRST,
  id: "01935000-0000-7000-8000-000000000002",
  number: 2,
  outcome: "failed",
  started_at: "2026-11-24T10:00:00Z",
  checkpoint_at: null,
  ended_at: "2026-11-24T12:00:00Z",
  slots: [{ node: "a-10", mgpu: 8000 }, { node: "a-11", mgpu: 8000 }],
  exit_codes: { "0": 137 },
});

/** An attempt without use has no cost. */
const COSTS: AttemptCosts = {
  currency: "EUR",
  items: [{ attempt: FIRST.id, mgpu_s: 144_000_000, cost_nano: 80_000_000_000 }],
};

describe("the times of attempts", () => {
  it("have each wait from the end of the attempt before, and the work that was lost", () => {
    const [one, other] = spansOf([SECOND, FIRST], JOB, 0);
    if (one === undefined || other === undefined) throw new Error("there are two attempts");
    expect([waitedS(one), ranS(one), unsavedS(one)]).toEqual([900, 9000, 5400]);
    expect([waitedS(other), ranS(other), unsavedS(other)]).toEqual([1800, 7200, 7200]);
    const [waiting] = spansOf([{ ...FIRST, started_at: null, ended_at: null }], JOB, Date.parse("2026-11-24T06:46:00Z"));
    if (waiting === undefined) throw new Error("there is an attempt");
    expect([waitedS(waiting), ranS(waiting), unsavedS(waiting)]).toEqual([60, null, null]);
  });

  it("have an axis of a few whole steps, however long it is", () => {
    const from = Date.parse("2026-11-24T06:45:00Z");
    const hour = 3_600_000;
    expect(ticksBetween(from, from + 5 * hour).map((at) => new Date(at).toISOString().slice(11, 16))).toEqual([
      "07:00",
      "08:00",
      "09:00",
      "10:00",
      "11:00",
    ]);
    for (const hours of [0.01, 1, 24, 24 * 400]) expect(ticksBetween(from, from + hours * hour).length).toBeLessThan(9);
  });

  it("name few nodes, and the ends of many", () => {
    expect([nodesText([]), nodesText(["a"]), nodesText(["a", "b", "c"])]).toEqual(["–", "a", "a … c (3 nodes)"]);
  });
});

describe("the attempts of a failed job", () => {
  const override = ({ path }: { path: string }) =>
    path === `/api/v1/jobs/${JOB.id}`
      ? { status: 200, body: { ...JOB, current_attempt: SECOND } }
      : path === `/api/v1/jobs/${JOB.id}/attempts`
        ? { status: 200, body: { items: [FIRST, SECOND], next: null } }
        : path === `/api/v1/jobs/${JOB.id}/attempt-costs`
          ? { status: 200, body: COSTS }
          : undefined;

  it("are drawn over time, in figures, and side by side", async () => {
    const { container } = open(`/jobs/${JOB.id}?tab=attempts`, { override });
    const picture = await screen.findByRole("figure", { name: "Attempts over time" });
    expect(within(picture).getByText("waited 15 min · ran 2 h 30 min · node failed")).toBeInTheDocument();
    expect(within(picture).getByText("waited 30 min · ran 2 h · failed")).toBeInTheDocument();
    const table = screen.getByRole("table", { name: "Comparison" });
    const rows = within(table).getAllByRole("row").map((row) => row.textContent);
    expect(rows).toContain("Endednode failedfaileddiffers");
    expect(rows).toContain("Nodesa-09 … a-10 (2 nodes)a-10 … a-11 (2 nodes)in common: a-10");
    expect(rows).toContain("Work since the last checkpoint1 h 30 min2 hdiffers");
    expect(rows).toContain("Cost€80.00–differs");
    const attempts = screen.getByRole("table", { name: "Attempts" });
    expect(within(attempts).getByRole("row", { name: /^1 node failed/ })).toHaveTextContent("40.00€80.00");
    expect(await accessibilityFaults(container)).toEqual([]);
  });

  it("are compared with the attempt before in a sentence", async () => {
    open(`/jobs/${JOB.id}`, { override });
    const outcome = await screen.findByRole("region", { name: "How it ended" });
    expect(await within(outcome).findByText(/Attempt 1 before it: node failed after 2 h 30 min, on the same node a-10/)).toBeInTheDocument();
    expect(within(outcome).getByRole("link", { name: "Compare" })).toHaveAttribute("href", expect.stringContaining("tab=attempts"));
  });
});

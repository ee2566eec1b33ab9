import { screen, within } from "@testing-library/react";
import { describe, expect, it } from "vitest";

import { uuid } from "../../mock/company.ts";
import { accessibilityFaults, open } from "../test/render";
import { labelled, stepLabel } from "./labels";
import { levelsOf, stepsOf, topOf } from "./levels";
import { durationScale } from "./option";
import { periodOf } from "./period";

const RESEARCH = uuid(104);
const NLP = uuid(105);
const WEEK = "from=2026-10-26T00:00:00Z&to=2026-11-02T00:00:00Z";

describe("the history of a node", () => {
  // Against: the tab keeps no pool in its address; a chart has no sentence.
  it("says its numbers, and that they add up", async () => {
    const { container, requests } = open(`/tree/${RESEARCH}/history?pool=h100&${WEEK}`);
    const card = within(await screen.findByRole("region", { name: "GPUs in use" }));
    expect(card.getByRole("img", { name: /^ai-company\/research: .* GPU-hours within the guarantee/ })).toBeInTheDocument();
    expect(card.getByText("✓")).toBeInTheDocument();
    const tabs = within(screen.getByRole("navigation", { name: "Pages of ai-company/research" }));
    expect(tabs.getByRole("link", { name: "History" })).toHaveAttribute("aria-current", "page");
    const asked = requests.find(({ path }) => path === "/api/v1/history/use");
    expect(Object.fromEntries(asked?.query ?? [])).toEqual({
      node: "ai-company/research",
      pool: "h100",
      start: "2026-10-26T00:00:00Z",
      end: "2026-11-02T00:00:00Z",
    });
    for (const [table, address] of [
      ["steps", "use?"],
      ["pairs", "use?"],
      ["week", "use?"],
      ["waits", "waits?"],
      ["preemptions", "preemptions?"],
    ] as const) {
      const link = await screen.findByRole("link", { name: `Save ${table} as CSV` });
      expect(link).toHaveAttribute("href", expect.stringContaining(`/api/v1/history/${address}`));
      expect(link).toHaveAttribute("href", expect.stringContaining("format=csv"));
    }
    expect(
      screen.getByText("tidegate history ai-company/research --pool h100 --from 2026-10-26T00:00:00Z --to 2026-11-02T00:00:00Z"),
    ).toBeInTheDocument();
    expect(await accessibilityFaults(container)).toEqual([]);
  });

  it("has a chart of each child on one scale, and who borrowed from whom", async () => {
    open(`/tree/${RESEARCH}/history?${WEEK}`);
    for (const team of ["nlp", "vision", "speech"]) {
      expect(await screen.findByRole("region", { name: `ai-company/research/${team}` })).toBeInTheDocument();
    }
    const pairs = within(screen.getByRole("region", { name: "Borrowing by lender" }));
    expect(pairs.getAllByRole("row").length).toBeGreaterThan(2);
    expect(pairs.getByText("✓")).toBeInTheDocument();
  });

  it("shows the chart as a table, with a row for each step", async () => {
    const { user } = open(`/tree/${NLP}/history?${WEEK}`);
    const card = within(await screen.findByRole("region", { name: "GPUs in use" }));
    await user.click(card.getByRole("button", { name: "Show as table" }));
    expect(card.getAllByRole("row")).toHaveLength(1 + 168);
    expect(card.getByRole("rowheader", { name: "Mon, 26 Oct 2026, 01:00" })).toBeInTheDocument();
  });

  it("tells waits by class and team, preemptions, and the week by hour", async () => {
    const { user } = open(`/tree/${RESEARCH}/history?${WEEK}`);
    const waits = within(await screen.findByRole("region", { name: "Waits before start" }));
    expect(waits.getByText(/^Guaranteed demand: p50/)).toHaveTextContent("p50 14 s, p95 4 min 20 s · 412 jobs");
    await user.click(waits.getByRole("button", { name: "Show as table" }));
    expect(waits.getAllByRole("row")).toHaveLength(1 + 6);
    const preemptions = within(await screen.findByRole("region", { name: "Preemptions" }));
    expect(preemptions.getByRole("row", { name: /nlp ai-company\/production\/inference 7/ })).toBeInTheDocument();
    const week = within(screen.getByRole("region", { name: "Week by hour" }));
    expect(week.getAllByRole("rowheader")).toHaveLength(7);
  });

  it("keeps the range in the address", async () => {
    const { user, router } = open(`/tree/${NLP}/history?pool=h100&${WEEK}`);
    await user.click(await screen.findByRole("radio", { name: "30 d" }));
    expect(router.state.location.search).toEqual({ pool: "h100", range: "month" });
  });
});

describe("the steps of a history", () => {
  // Against: averages divide by an hour; idle is the guarantee less what was used.
  it("are averages over their own length", () => {
    const sums = {
      guaranteed_mgpu_s: 600, borrowed_mgpu_s: 300, unpaid_mgpu_s: 0, fault_mgpu_s: 300,
      waiting_mgpu_s: 60, guarantee_mgpu_s: 1200, within_mgpu_s: 900, lent_mgpu_s: 120,
    };
    expect(levelsOf(sums)).toEqual({ used: 1200, within: 900, above: 300, lent: 120, idle: 180, guarantee: 1200, waiting: 60 });
    const steps = Object.fromEntries(Object.entries(sums).map(([name, value]) => [name, [value]]));
    const [step] = stepsOf({ node: "a", sums, steps: steps as never }, ["2026-11-01T00:00:00Z", "2026-11-01T00:01:00Z"]);
    expect(step?.levels).toMatchObject({ used: 20, within: 15, idle: 3, waiting: 1 });
    const wide = { ...step, levels: { ...step?.levels, guarantee: 200_000, above: 13_200 } } as NonNullable<typeof step>;
    expect(topOf([[wide]])).toBe(250_000);
  });

  it("have labels at the starts of days of the zone, no more than fit", () => {
    const starts = Array.from({ length: 96 }, (_, hour) => new Date(Date.UTC(2026, 9, 26, hour)).toISOString());
    expect([...labelled(starts, "Europe/Berlin", "hour", 10)]).toEqual([0, 23, 47, 71, 95]);
    expect([...labelled(starts, "Europe/Berlin", "hour", 2)]).toEqual([0, 71]);
    expect(stepLabel(starts[23] ?? "", "Europe/Berlin", "hour")).toBe("Tue 27 Oct");
    expect(stepLabel(starts[1] ?? "", "Europe/Berlin", "5m")).toBe("02:00");
    expect(stepLabel(starts[1] ?? "", "Europe/Berlin", "hour", 24)).toBe("02:00");
  });

  it("of waits have round lines", () => {
    expect(durationScale(260)).toEqual({ interval: 300, max: 300 });
    expect(durationScale(3480)).toEqual({ interval: 900, max: 3600 });
    expect(durationScale(0)).toEqual({ interval: 1, max: 1 });
  });

  it("of a range end with the present hour", () => {
    const now = Date.parse("2026-11-21T12:34:56Z");
    expect(periodOf({ range: "day" }, now)).toEqual({ start: "2026-11-20T13:00:00Z", end: "2026-11-21T13:00:00Z" });
    expect(periodOf({ from: "2026-11-01", to: "2026-12-01" }, now)).toEqual({ start: "2026-11-01", end: "2026-12-01" });
  });
});

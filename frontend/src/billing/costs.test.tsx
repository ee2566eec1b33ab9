import { screen, within } from "@testing-library/react";
import { describe, expect, it } from "vitest";

import { theGroups } from "../../mock/groups.ts";
import { aChargebackWithTerms } from "../../mock/terms.ts";
import { accessibilityFaults, open, show, type Override } from "../test/render";
import { GroupsCheck } from "./GroupsTable";
import { costColumns, costsAgree, type Costs } from "./costs";
import { stackOf } from "./stacks";

const OCTOBER = ["2026-10-01", "2026-11-01"] as const;
const TIMES = ["2026-10-01T00:00:00Z", "2026-11-01T00:00:00Z"] as const;

const withTerms: Override = ({ path, query }) => {
  const [start, end] = [query.get("start") ?? "", query.get("end") ?? ""];
  if (path === "/api/v1/reports/chargeback") {
    return { status: 200, body: theGroups(start, end, (query.get("by") ?? "").split(","), aChargebackWithTerms) };
  }
  return undefined;
};

function cellsOf(table: HTMLElement, name: RegExp): (string | null)[] {
  return within(within(table).getByRole("row", { name }))
    .getAllByRole("cell")
    .map((cell) => cell.textContent);
}

describe("costs of a report with terms", () => {
  // Planted: no column of top-ups.
  it("have a column for each part, and the columns sum to the cost", async () => {
    const { container } = open("/chargeback?period=last-month", { override: withTerms });
    const table = await screen.findByRole("table", { name: "Use and cost by team" });
    const heads = within(table).getAllByRole("columnheader").map((head) => head.textContent);
    expect(heads.slice(-5)).toEqual(["Use", "Commitments", "Top-ups", "Cost ↕", "Showback, not billed"]);
    expect(cellsOf(table, /inference/).slice(-5)).toEqual(["€178,350.00", "€320,000.00", "€0.00", "€498,350.00", "€0.00"]);
    expect(cellsOf(table, /training/).slice(-5)).toEqual(["€124,600.00", "€0.00", "€200.00", "€124,800.00", "€0.00"]);
    expect(cellsOf(table, /nlp/).slice(-5)).toEqual(["€0.00", "€0.00", "€0.00", "€0.00", "€143,500.00"]);
    expect(cellsOf(table, /^Total/).slice(-5)).toEqual([
      "€668,650.00",
      "€320,000.00",
      "€200.00",
      "€988,850.00",
      "€143,500.00",
    ]);
    expect(screen.getByText("GPU-hours committed, used or not")).toBeInTheDocument();
    expect(screen.getByText("GPU-hours of minimums and increments")).toBeInTheDocument();
    expect(screen.getByText("not billed")).toBeInTheDocument();
    expect(await accessibilityFaults(container)).toEqual([]);
  });

  it("have charts of costs and of showback", async () => {
    const { user, container } = open("/chargeback?period=last-month&by=team", { override: withTerms });
    await user.click(await screen.findByRole("radio", { name: "Cost" }));
    expect(screen.getByRole("img", { name: /^Cost by team and day: ai-company\/production\/inference/ })).toBeInTheDocument();
    await user.click(screen.getByRole("radio", { name: "Showback" }));
    expect(screen.getByRole("img", { name: /^Showback, not billed, by team and day: ai-company\/research\/nlp\./ })).toBeInTheDocument();
    expect(await accessibilityFaults(container)).toEqual([]);
  });

  // Planted: costs of the chart without commitments.
  it.each([
    ["cost", 988_850n],
    ["showback", 143_500n],
  ] as const)("sum in the chart to the table: %s", (measure, units) => {
    const chart = stackOf(theGroups(...OCTOBER, ["team", "day"], aChargebackWithTerms), "team", "day", measure);
    const bars = chart.bars.flatMap(({ values }) => values);
    expect(bars.reduce((sum, value) => sum + value, 0n)).toBe(units * 1_000_000_000n);
  });

  // Against: a check of use alone, and of costs without their parts.
  it("are checked: one nano that a row lacks, or its part, is seen", () => {
    const { rows: all, totals } = aChargebackWithTerms(...TIMES);
    expect(costsAgree(all, totals as Costs)).toBe(true);
    for (const name of ["commitment_cost_nano", "top_up_cost_nano", "cost_nano", "showback_nano"] as const) {
      const rows = all.map((row, i) => (i === 1 ? { ...row, [name]: row[name] - 1 } : row));
      expect(costsAgree(rows, totals as Costs)).toBe(false);
      const report = theGroups(...OCTOBER, ["team"], aChargebackWithTerms);
      const [row] = report.rows;
      if (row) row[name] -= 1;
      const { unmount } = show(<GroupsCheck report={report} />);
      expect(screen.getByRole("alert")).toHaveTextContent("Do not bill from this");
      unmount();
    }
  });

  it("have no columns without terms", () => {
    const none = { ...aChargebackWithTerms(...TIMES).by_currency[0]?.totals, commitment_cost_nano: 0, top_up_cost_nano: 0, showback_nano: 0 };
    expect(costColumns([none as Parameters<typeof costColumns>[0][number]])).toEqual({ parts: [], shown: [] });
  });

  it("by user say to whom commitments belong", () => {
    show(<GroupsCheck report={theGroups(...OCTOBER, ["user"], aChargebackWithTerms)} />);
    expect(screen.getByText(/commitments belong to teams/)).toBeInTheDocument();
  });
});

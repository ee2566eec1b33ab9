import { screen, waitFor, within } from "@testing-library/react";
import { describe, expect, it } from "vitest";

import { aSession } from "../../mock/company.ts";
import { theGroups } from "../../mock/groups.ts";
import { accessibilityFaults, open, show } from "../test/render";
import { byDevice, GroupsCheck } from "./GroupsTable";
import { jobsOf } from "./JobsLink";
import { asDays, resolvePeriod } from "./period";
import { OTHERS, SERIES_MAX, stackOf } from "./stacks";

const OCTOBER = ["2026-10-01", "2026-11-01"] as const;
const ASKED = { period: "last-month" };

describe("the groups of a report", () => {
  it("have rows, totals and the check, and lead to their jobs", async () => {
    const { container, user, router } = open("/chargeback?period=last-month&by=user&and=pool");
    const table = await screen.findByRole("table", { name: "Use and cost by user and pool" });
    const row = within(table).getByRole("row", { name: /inference-lead/ });
    expect(within(row).getAllByRole("cell").map((cell) => cell.textContent)).toEqual([
      "h100",
      "150,100.00",
      "118,900.00",
      "269,000.00",
      "88",
      "€478,550.00",
    ]);
    expect(within(table).getByRole("row", { name: /^Total/ })).toHaveTextContent("454,400.00135,700.00590,100.00734€1,112,350.00");
    expect(screen.getByText(/^Sum of classes 590,100\.00 h = segments 590,100\.00 h/)).toHaveTextContent(
      "equal · days of Europe/Berlin",
    );
    expect(await accessibilityFaults(container)).toEqual([]);
    await user.click(within(row).getByRole("link", { name: "118,900.00: the jobs behind it" }));
    await screen.findByRole("table", { name: "Jobs behind the charge" });
    expect(router.state.location.search).toMatchObject({
      node: "ai-company",
      user: "inference-lead",
      pool: "h100",
      usage: "borrowed",
    });
  });

  it("are asked by days, so that the organization's time zone decides", async () => {
    const { requests } = open("/chargeback?period=custom&start=2026-10-01T00:00:00Z&end=2026-11-01T00:00:00Z&by=department");
    await screen.findByRole("table", { name: "Use and cost by department" });
    const asked = requests.find(({ path }) => path.endsWith("/reports/chargeback"));
    expect([asked?.query.get("start"), asked?.query.get("end"), asked?.query.get("by")]).toEqual([...OCTOBER, "department"]);
    const link = screen.getByRole("link", { name: "Download CSV" });
    expect(Object.fromEntries(new URL(link.getAttribute("href") ?? "", "http://localhost").searchParams)).toEqual({
      by: "department",
      start: "2026-10-01",
      end: "2026-11-01",
      format: "csv",
    });
  });

  it("change with the choice, which the address keeps", async () => {
    const { user, router } = open(`/chargeback?period=${ASKED.period}`);
    await user.click(await screen.findByRole("combobox", { name: "and by" }));
    await user.click(await screen.findByRole("option", { name: "cluster" }));
    await screen.findByRole("table", { name: "Use and cost by team and cluster" });
    expect(router.state.location.search).toMatchObject({ and: "cluster" });
  });

  // Against: a check that compares the server's two sums and not the rows on the page.
  it("see one milli-GPU-second that is missing", () => {
    const report = theGroups(...OCTOBER, ["team"]);
    const [row] = report.rows;
    if (row) row.borrowed_mgpu_s -= 1;
    show(<GroupsCheck report={report} />);
    expect(screen.getByRole("alert")).toHaveTextContent("Do not bill from this");
  });
});

describe("the chart of the groups", () => {
  it.each(["team", "department", "usage_class"])("has the same numbers as the table: by %s", (name) => {
    const table = theGroups(...OCTOBER, [name]);
    const chart = stackOf(theGroups(...OCTOBER, [name, "day"]), name, "day", "hours");
    const [total] = byDevice(table.rows);
    const sums = chart.series.map((_, at) => chart.bars.reduce((sum, { values }) => sum + (values[at] ?? 0n), 0n));
    expect(sums.reduce((sum, each) => sum + each, 0n)).toBe(total?.sums.all);
    for (const row of table.rows) {
      const [whole] = byDevice([row]);
      expect(sums[chart.series.indexOf(row.keys[name] ?? "")]).toBe(whole?.sums.all);
    }
    expect(chart.bars).toHaveLength(31);
  });

  // Against: groups after the largest five left out.
  it("has the rest of many groups as one series", () => {
    const report = theGroups(...OCTOBER, ["team", "day"]);
    const [first] = report.rows;
    if (!first) throw new Error("the mock has use");
    const more = ["x", "y"].map((team) => ({ ...first, keys: { ...first.keys, team }, guaranteed_mgpu_s: 5, borrowed_mgpu_s: 0 }));
    const stack = stackOf({ ...report, rows: [...report.rows, ...more] }, "team", "day", "hours");
    expect(stack.series).toHaveLength(SERIES_MAX + 1);
    expect(stack.series.at(-1)).toBe(OTHERS);
    expect(stack.bars[0]?.values.at(-1)).toBe(10n);
  });
});

describe("the jobs behind a cell", () => {
  const session = aSession();

  it("are those of its time, user, cluster and class", () => {
    const report = theGroups(...OCTOBER, ["cluster", "day"]);
    const row = { keys: { cluster: "slurm-a", day: "2026-10-02" } };
    expect(jobsOf(report, row, session, { usage_class: "borrowed", pool: "h100" })).toMatchObject({
      start: "2026-10-02T00:00:00Z",
      end: "2026-10-03T00:00:00Z",
      node: "ai-company",
      cluster: "slurm-a",
      pool: "h100",
      usage: "borrowed",
    });
  });

  it("are of the deepest node, and nowhere where none covers them or the reader may not see it", () => {
    const report = theGroups(...OCTOBER, ["department"]);
    const row = { keys: { department: "ai-company/research" } };
    expect(jobsOf(report, row, session, {})?.node).toBe("ai-company/research");
    expect(jobsOf(report, row, session, { node: "ai-company/research/nlp" })?.node).toBe("ai-company/research/nlp");
    expect(jobsOf(report, { keys: { department: "" } }, session, {})).toBeNull();
    expect(jobsOf(report, row, aSession({ permissions: {} }), {})).toBeNull();
    expect(jobsOf(report, { keys: {} }, session, {})?.node).toBe("ai-company");
    const admin = aSession({ permissions: { "ai-company/research": ["view_costs"] } });
    expect(jobsOf(report, { keys: {} }, admin, {})?.node).toBe("ai-company/research");
    const two = aSession({ permissions: { "ai-company/research": ["view_costs"], "ai-company/production": ["view_costs"] } });
    expect(jobsOf(report, { keys: {} }, two, {})).toBeNull();
    const users = theGroups(...OCTOBER, ["user"]);
    expect(jobsOf(users, { keys: { user: "(commitment)" } }, session, {})).toBeNull();
  });
});

describe("what moved", () => {
  it("has parts that sum to the change, and the largest first", async () => {
    const { container } = open("/chargeback?period=last-month");
    const table = await screen.findByRole("table", { name: "What moved, EUR" });
    const rows = within(table).getAllByRole("row").slice(1);
    await waitFor(() =>
      expect(rows.map((row) => row.textContent)).toEqual([
        "ai-company/production/inference€400,000.00€478,550.00€78,550.00€20,000.00€60,000.00−€1,450.00€0.00",
        "ai-company/exploration/sandbox€0.00€20,000.00€20,000.00€0.00€0.00€0.00€20,000.00",
        "Total€400,000.00€498,550.00€98,550.00€20,000.00€60,000.00−€1,450.00€20,000.00",
      ]),
    );
    expect(screen.getByRole("img", { name: "more by €78,550.00" })).toBeInTheDocument();
    expect(await accessibilityFaults(container)).toEqual([]);
  });
});

describe("periods of groups", () => {
  it("of whole days are days, and others are times", () => {
    const now = Date.parse("2026-11-21T14:03:58Z");
    expect(asDays(resolvePeriod("last-7", now) ?? { start: "", end: "" })).toEqual({ start: "2026-11-14", end: "2026-11-21" });
    expect(resolvePeriod("last-30", now)).toMatchObject({ start: "2026-10-22T00:00:00Z", end: "2026-11-21T00:00:00Z" });
    expect(asDays(resolvePeriod("hour", now) ?? { start: "", end: "" })).toEqual({
      start: "2026-11-21T14:00:00Z",
      end: "2026-11-21T15:00:00Z",
    });
  });

  // Planted: no files where the report groups by codes; the list and its file without the code.
  it("groups by cost centre, whose rows lead to their jobs, and still offers files", async () => {
    const { user, router, requests } = open("/chargeback?period=last-month&by=cost_centre");
    const row = await screen.findByRole("row", { name: /^4711/ });
    expect(await screen.findByRole("region", { name: "Export charges" })).toBeInTheDocument();
    await user.click(within(row).getAllByRole("link")[0] ?? row);
    await screen.findByRole("table", { name: "Jobs behind the charge" });
    expect(router.state.location.search).toMatchObject({ node: "ai-company", centre: "4711" });
    expect(screen.getByText("guaranteed use under the cost centre 4711, job by job")).toBeInTheDocument();
    const asked = requests.find(({ path }) => path.endsWith("/reports/chargeback/jobs"));
    expect(asked?.query.get("cost_centre")).toBe("4711");
    expect(screen.getByRole("link", { name: "Download CSV" }).getAttribute("href")).toContain("cost_centre=4711");
    expect(screen.getByText(/--cost-centre 4711/)).toBeInTheDocument();
  });

  it("leads from teams without a project code to their jobs", () => {
    const report = theGroups(...OCTOBER, ["project_code"]);
    expect(jobsOf(report, { keys: { project_code: "(none)" } }, aSession(), {})).toMatchObject({ node: "ai-company", project: "(none)" });
    open("/chargeback/jobs?start=2026-10-01&end=2026-11-01&node=ai-company&project=(none)");
    return waitFor(() => {
      expect(screen.getByText("all use and charges without a project code, job by job")).toBeInTheDocument();
      expect(screen.getByText(/--project-code '\(none\)'/)).toBeInTheDocument();
    });
  });
});

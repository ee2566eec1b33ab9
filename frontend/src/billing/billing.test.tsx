import { screen, waitFor, within } from "@testing-library/react";
import { describe, expect, it } from "vitest";

import { aCompany } from "../../mock/answer.ts";
import { aProblem } from "../../mock/http.ts";
import { aQuota, aSession, NO_CHARGES } from "../../mock/company.ts";
import { aChargeback, aMonthCheck, keysOf, sumsOf, theGroups, theIdle } from "../../mock/groups.ts";
import { aRateLine } from "../../mock/prices.ts";
import { accessibilityFaults, open, type Override } from "../test/render";
import type { GroupedReport, Idle } from "./groupQueries";
import { resolvePeriod, thisMonth } from "./period";

const OCTOBER = { start: "2026-10-01T00:00:00Z", end: "2026-11-01T00:00:00Z" };

describe("periods", () => {
  const now = Date.parse("2026-11-21T14:03:58Z");

  it.each([
    ["hour", "2026-11-21T14:00:00Z", "2026-11-21T15:00:00Z", "21 November 2026, 14:00 UTC"],
    ["today", "2026-11-21T00:00:00Z", "2026-11-22T00:00:00Z", "21 November 2026"],
    ["yesterday", "2026-11-20T00:00:00Z", "2026-11-21T00:00:00Z", "20 November 2026"],
    ["month", "2026-11-01T00:00:00Z", "2026-12-01T00:00:00Z", "November 2026"],
    ["last-month", "2026-10-01T00:00:00Z", "2026-11-01T00:00:00Z", "October 2026"],
  ] as const)("%s is half-open and in UTC", (name, start, end, label) =>
    expect(resolvePeriod(name, now)).toEqual({ start, end, label }),
  );

  it("crosses the year", () => {
    expect(resolvePeriod("last-month", Date.parse("2027-01-15T00:00:00Z"))).toMatchObject({
      start: "2026-12-01T00:00:00Z",
      label: "December 2026",
    });
  });

  it("refuses an empty or backward one", () => {
    expect(resolvePeriod("custom", now, {})).toBeNull();
    expect(resolvePeriod("custom", now, { start: OCTOBER.end, end: OCTOBER.start })).toBeNull();
    expect(resolvePeriod("custom", now, OCTOBER)?.label).toBe("1 October 2026 – 31 October 2026");
  });
});

/** A report of all requests, made of these rows. */
function withRows(rows: GroupedReport["rows"], change: Partial<GroupedReport> = {}): Override {
  const whole = (start: string, end: string) => ({ ...aChargeback(start, end), rows, ...sumsOf(rows), ...change });
  return ({ path, query }) => {
    if (path !== "/api/v1/reports/chargeback") return undefined;
    const by = (query.get("by") ?? "").split(",");
    const report = whole(query.get("start") ?? "", query.get("end") ?? "");
    const parts = change.by_currency ?? report.by_currency.map((part) => ({ ...part, ...sumsOf(rows) }));
    return { status: 200, body: theGroups(report.start, report.end, by, () => ({ ...report, by_currency: parts })) };
  };
}

/** Neither unpaid nor free use. */
const NEITHER = { unpaid_mgpu_s: 0, fault_mgpu_s: 0 };

describe("unpaid and free use", () => {
  /** October, in which sandbox used 100 GPU-hours unpaid, and 10 free ones were lost by faults. */
  const more = { unpaid_mgpu_s: 360_000_000, fault_mgpu_s: 36_000_000, unpaid_cost_nano: 150_000_000_000 };
  const override = withRows(
    aChargeback(OCTOBER.start, OCTOBER.end).rows.map((row, i) =>
      i === 0 ? { ...row, ...more, cost_nano: row.cost_nano + more.unpaid_cost_nano } : row,
    ),
  );

  // Against: hours without the unpaid ones; links that lead to all classes.
  it("have columns of their own, and lead to their jobs", async () => {
    const { user, router, container } = open("/chargeback?period=last-month", { override });
    const table = await screen.findByRole("table", { name: "Use and cost by team" });
    expect(within(table).getByRole("row", { name: /^Total/ })).toHaveTextContent(
      "Total454,400.00135,700.00100.0010.00590,210.00734€1,112,500.00",
    );
    expect(screen.getByText(/^Sum of classes 590,210\.00 h = segments 590,210\.00 h/)).toBeInTheDocument();
    expect(screen.getByText("GPU-hours free")).toBeInTheDocument();
    expect(await accessibilityFaults(container)).toEqual([]);
    const sandbox = within(table).getByRole("row", { name: /sandbox/ });
    await user.click(within(sandbox).getByRole("link", { name: "10.00: the jobs behind it" }));
    await screen.findByRole("table", { name: "Jobs behind the charge" });
    expect(router.state.location.search).toMatchObject({ usage: "fault" });
    expect(screen.getAllByText("free: node failed")).toHaveLength(3);
  });
});

describe("a report of cores and GPUs", () => {
  const CORES = { guaranteed_mgpu_s: 7_200_000, borrowed_mgpu_s: 3_600_000, unpriced_mgpu_s: 3_600_000, jobs: 1 };
  const money = { guaranteed_cost_nano: 0, borrowed_cost_nano: 0, cost_nano: 0 };
  const gpus = aChargeback(OCTOBER.start, OCTOBER.end).rows;
  const cores = gpus.slice(0, 1).map((row) => ({ ...row, ...CORES, ...money, device: "cpu" as const, keys: { ...row.keys, pool: "cpu" } }));
  const ofCores = sumsOf(cores);
  const byDevice = [
    ...sumsOf(gpus).totals_by_device,
    ...ofCores.totals_by_device.map((totals) => ({ ...totals, device: "cpu" as const })),
  ];

  // Planted: one total of both; the figures and the chart of all pools under GPU-hours.
  it("never adds the two up", async () => {
    const sums = { ...sumsOf([...gpus, ...cores]), totals_by_device: byDevice };
    const by_currency = [{ currency: "EUR", organizations: ["ai-company"], ...sums }];
    const { user } = open("/chargeback?period=last-month", { override: withRows([...gpus, ...cores], { ...sums, by_currency }) });
    const table = await screen.findByRole("table", { name: "Use and cost by team" });
    const totals = within(table).getAllByRole("row", { name: /^Total/ });
    expect(totals.map((row) => row.textContent)).toEqual([
      "Total of GPUs454,400.00135,700.00590,100.00734€1,112,350.00",
      "Total of cores2.00 core-h1.00 core-h3.00 core-h1€0.00",
    ]);
    expect(within(table).getAllByRole("columnheader").map((head) => head.textContent)).toContain("Guaranteed GPU-h ↕");
    expect(screen.getByText(/had no price/)).toHaveTextContent("▲ 1.00 core-h had no price");
    for (const hours of ["GPU-hours", "Core-hours"]) expect(screen.getByText(`${hours} borrowed`)).toBeInTheDocument();
    await user.click(await screen.findByRole("radio", { name: "Core-hours" }));
    expect(screen.getByRole("img", { name: /^Core-hours by team and day: ai-company\/exploration\/sandbox\./ })).toBeInTheDocument();
  });

  it("speaks of core-hours alone where there is nothing else", async () => {
    const sums = { ...ofCores, totals_by_device: byDevice.slice(1) };
    const by_currency = [{ currency: "EUR", organizations: ["ai-company"], ...sums }];
    open("/chargeback?period=last-month", { override: withRows(cores, { ...sums, by_currency }) });
    const table = await screen.findByRole("table", { name: "Use and cost by team" });
    expect(within(table).getByRole("row", { name: /^Total/ })).toHaveTextContent("Total2.001.003.00");
    expect(within(table).getByRole("columnheader", { name: "Guaranteed core-h" })).toBeInTheDocument();
    expect(screen.queryByText("GPU-hours guaranteed")).toBeNull();
  });
});

describe("a report of several currencies", () => {
  /** October of ai-company in EUR, with one team of another organization that is charged in USD. */
  const euros = aChargeback(OCTOBER.start, OCTOBER.end).rows;
  const used = { guaranteed_mgpu_s: 3_600_000, borrowed_mgpu_s: 0, ...NEITHER, ...NO_CHARGES, unpriced_mgpu_s: 0, jobs: 1 };
  const cost = { guaranteed_cost_nano: 7_000_000_000, borrowed_cost_nano: 0, unpaid_cost_nano: 0, cost_nano: 7_000_000_000 };
  const dollars = [{ ...used, ...cost, keys: keysOf("lab/squatters", "other"), device: "gpu" as const, currency: "USD" }];
  const none = { guaranteed_cost_nano: null, borrowed_cost_nano: null, unpaid_cost_nano: null, cost_nano: null };
  const both = sumsOf([...euros, ...dollars]);
  const override = withRows([...euros, ...dollars], {
    currency: null,
    totals: { ...both.totals, ...none },
    totals_by_device: both.totals_by_device.map((each) => ({ ...each, ...none })),
    by_currency: [
      { currency: "EUR", organizations: ["ai-company"], ...sumsOf(euros) },
      { currency: "USD", organizations: ["other"], ...sumsOf(dollars) },
    ],
  });

  // Against: costs of both in one sum; the rows of one in the check of the other.
  it("has a figure for each, and costs that are not added up", async () => {
    const session = aSession({ permissions: { "": ["view_costs", "view_jobs"] } });
    const { container } = open("/chargeback?period=last-month", { company: aCompany({ session }), override });
    const table = await screen.findByRole("table", { name: "Use and cost by team" });
    expect(within(table).getByRole("row", { name: /squatters/ })).toHaveTextContent("1.000.001.001$7.00");
    expect(within(table).getByRole("row", { name: /^Total/ })).toHaveTextContent("735€1,112,350.00 + $7.00");
    expect(screen.getByText(/^Sum of classes 590,101\.00 h = segments 590,101\.00 h/)).toBeInTheDocument();
    expect(screen.getByText("cost of other").closest("[role=group]")).toHaveTextContent("$7.00cost of other1 job");
    expect(screen.getByText("cost of ai-company")).toBeInTheDocument();
    expect(screen.queryByRole("radio", { name: "Cost" })).toBeNull();
    expect(await accessibilityFaults(container)).toEqual([]);
  });

  it("names both costs on the home page", async () => {
    const session = aSession({ permissions: { "": ["view_costs"] } });
    open("/", { company: aCompany({ session }), override });
    const costs = await screen.findByRole("region", { name: "Costs" });
    await waitFor(() => expect(costs).toHaveTextContent("Cost so far€1,112,350.00$7.00"));
  });
});

describe("capacity that is not shown", () => {
  const withheld =
    (change: Partial<Idle["withheld"][number]>, idle: Partial<Idle> = {}): Override =>
    ({ path }) => {
      if (path !== "/api/v1/reports/chargeback/idle") return undefined;
      const pool = { pool: "h100", device: "gpu" as const, reason: "shared" as const, guaranteed_mgpu_s: null, unused_mgpu_s: null };
      return {
        status: 200,
        body: { ...theIdle(OCTOBER.start, OCTOBER.end, "none"), pools: [], withheld: [{ ...pool, ...change }], ...idle },
      };
    };

  it("is explained, and the unused part of the own guarantee stands in its place", async () => {
    const guarantee = { guaranteed_mgpu_s: 36_000_000, unused_mgpu_s: 9_000_000 };
    open("/chargeback?period=last-month", { override: withheld(guarantee) });
    const card = await screen.findByRole("region", { name: "Your guarantee in shared pools" });
    expect(within(card).getByRole("row", { name: /^h100/ })).toHaveTextContent("h10010.007.502.50 · 25 %");
    expect(card).toHaveTextContent("it would tell what other organizations use");
    expect(within(card).queryByRole("columnheader", { name: "Lent now" })).toBeNull();
  });

  it("shows what is lent now while the period runs", async () => {
    const guarantee = { guaranteed_mgpu_s: 36_000_000, unused_mgpu_s: 9_000_000 };
    const quotas = [aQuota("ai-company", 100, { inUse: 20, lent: 30 })];
    open("/chargeback", { company: aCompany({ quotas }), override: withheld(guarantee, { as_of: "2026-10-20T00:00:00Z" }) });
    const card = await screen.findByRole("region", { name: "Your guarantee in shared pools" });
    expect(await within(card).findByText("30 GPUs")).toBeInTheDocument();
  });

  it("is explained to a reader of a part of the organization", async () => {
    open("/chargeback?period=last-month", { override: withheld({ reason: "partial" }) });
    expect(await screen.findByText("Idle time is shown to readers of the whole organization's costs.")).toBeInTheDocument();
  });
});

describe("the chargeback page", () => {
  it("shows rows, totals and the check that they are what was metered", async () => {
    const { container } = open("/chargeback?period=last-month");
    const table = await screen.findByRole("table", { name: "Use and cost by team" });
    const row = within(table).getByRole("row", { name: /inference/ });
    expect(within(row).getAllByRole("cell").map((cell) => cell.textContent)).toEqual([
      "150,100.00",
      "118,900.00",
      "269,000.00",
      "88",
      "€478,550.00",
    ]);
    expect(within(table).getByRole("row", { name: /^Total/ })).toHaveTextContent("€1,112,350.00");
    expect(screen.getByText(/^Sum of classes 590,100\.00 h = segments 590,100\.00 h/)).toBeInTheDocument();
    expect(screen.getByText(/· days of Europe\/Berlin$/, { selector: ".sub" })).toBeInTheDocument();
    expect(await accessibilityFaults(container)).toEqual([]);
  });

  it("leads from a number to the jobs that make it", async () => {
    const { user, router } = open("/chargeback?period=last-month");
    await user.click(await screen.findByRole("link", { name: "118,900.00: the jobs behind it" }));
    const table = await screen.findByRole("table", { name: "Jobs behind the charge" });
    expect(router.state.location.search).toMatchObject({
      node: "ai-company/production/inference",
      usage: "borrowed",
    });
    await waitFor(() => expect(within(table).getByRole("row", { name: /^Total/ })).toHaveTextContent("118,900.00"));
  });

  it("leads from counts and totals to the jobs too, and names the command that lists them", async () => {
    const { user, router } = open("/chargeback?period=last-month");
    const table = await screen.findByRole("table", { name: "Use and cost by team" });
    const total = within(table).getByRole("row", { name: /^Total/ });
    expect(within(total).getAllByRole("link").map((link) => link.textContent)).toEqual([
      "454,400.00",
      "135,700.00",
      "590,100.00",
      "734",
      "€1,112,350.00",
    ]);
    expect(screen.getByRole("link", { name: "734 jobs: the jobs behind it" })).toBeInTheDocument();
    const inference = within(table).getByRole("row", { name: /inference/ });
    expect(within(inference).getByRole("link", { name: "88: the jobs behind it" })).toBeInTheDocument();
    await user.click(within(total).getByRole("link", { name: "135,700.00: the jobs behind it" }));
    await screen.findByRole("heading", { name: "ai-company · 1 October 2026 – 31 October 2026" });
    const search = router.state.location.search as Record<string, string | undefined>;
    expect(search).toMatchObject({ node: "ai-company", usage: "borrowed" });
    expect(search.pool).toBeUndefined();
    expect(
      await screen.findByText(
        "tidegate report chargeback --jobs --start 2026-10-01T00:00:00Z --end 2026-11-01T00:00:00Z --team ai-company " +
          `--usage-class borrowed --as-of ${search.as_of ?? ""}`,
      ),
    ).toBeInTheDocument();
  });

  it("says who may see costs to someone who may not, and offers no second try", async () => {
    const session = aSession({ permissions: { "ai-company/research/nlp": ["view_tree", "submit_jobs"] } });
    const { container, requests } = open("/chargeback", { company: aCompany({ session }) });
    const card = await screen.findByRole("region", { name: "Not for you to see" });
    expect(card).toHaveTextContent("Team leads, administrators, finance and auditors see them");
    expect(within(card).getByRole("link", { name: "Jobs and what each of them used" })).toBeInTheDocument();
    expect(screen.queryByRole("button", { name: "Try again" })).toBeNull();
    expect(requests.filter(({ path }) => path.includes("reports"))).toEqual([]);
    expect(await accessibilityFaults(container)).toEqual([]);
  });

  it.each([
    ["/chargeback?scope=ai-company/research", "The costs of ai-company/research are not for you to see"],
    ["/chargeback/jobs?start=2026-10-01T00:00:00Z&end=2026-11-01T00:00:00Z&node=ai-company", "The costs of ai-company are not for you to see"],
  ])("says so of one node that is beyond my rights: %s", async (address, title) => {
    open(address, {
      override: ({ path }) => (path.includes("reports") ? aProblem(404, "not_found", "There is no such node.") : undefined),
    });
    expect(await screen.findByRole("heading", { name: title })).toBeInTheDocument();
    expect(screen.getByRole("link", { name: "All costs that you may see" })).toBeInTheDocument();
    expect(screen.queryByRole("button", { name: "Try again" })).toBeNull();
  });

  // Against: the address's empty start sent as it is (the API answers 400, and the page says "Not possible").
  it.each(["/chargeback/jobs", "/chargeback/jobs?start=x&end=y"])("lists jobs of the running month at %s", async (address) => {
    const { requests } = open(address);
    const month = thisMonth(Date.now());
    expect(await screen.findByRole("heading", { name: `ai-company · ${month.label}` })).toBeInTheDocument();
    expect(await screen.findByRole("table", { name: "Jobs behind the charge" })).toBeInTheDocument();
    const asked = requests.find(({ path }) => path.endsWith("/reports/chargeback/jobs"));
    expect([asked?.query.get("start"), asked?.query.get("end"), asked?.query.get("node")]).toEqual([
      month.start,
      month.end,
      "ai-company",
    ]);
  });

  it("names prices that were added after the fact, when and by whom", async () => {
    const line = { ...aRateLine(1, { is_correction: true, added_at: "2026-10-20T08:00:00Z" }), organization: "ai-company", currency: "EUR" };
    open("/chargeback?period=last-month", {
      override: withRows(aChargeback(OCTOBER.start, OCTOBER.end).rows, { corrections: [line] }),
    });
    const card = within(await screen.findByRole("region", { name: "Priced after the fact" }));
    expect(card.getByRole("rowheader")).toHaveTextContent("h100 guaranteed €2.00");
    expect(card.getByRole("cell", { name: "fin@ai-company" })).toBeInTheDocument();
    expect(card.getByText(/20 Oct 2026/)).toBeInTheDocument();
  });

  // Against: the idle account without its sign; a share-out that is computed before it is asked for.
  it("shares idle time out on demand, and the rows sum to zero", async () => {
    const { user, router, requests, container } = open("/chargeback?period=last-month");
    const card = within(await screen.findByRole("region", { name: "In use and idle" }));
    expect(card.getByRole("row", { name: /^h100/ })).toHaveTextContent("590,100.0073,762.5073,762.50737,625.00");
    expect(card.queryByText("Idle account")).toBeNull();
    const asked = () => requests.filter(({ path }) => path.endsWith("/idle")).map(({ query }) => query.get("share"));
    expect(new Set(asked())).toEqual(new Set(["none"]));
    await user.click(card.getByRole("radio", { name: "by guarantee" }));
    const table = await screen.findByRole("table", { name: "Idle time by guarantee" });
    expect(within(table).getByRole("row", { name: /Idle account/ })).toHaveTextContent("−73,762.50");
    expect(within(table).getByRole("row", { name: /^Sum/ })).toHaveTextContent("0.00");
    expect(router.state.location.search).toMatchObject({ share: "by_guarantee" });
    expect(screen.getByText(/--idle by_guarantee$/)).toBeInTheDocument();
    expect(await accessibilityFaults(container)).toEqual([]);
  });

  // Against: the words "closed, as billed" in spite of a difference.
  it("says of closed months that they are as billed, or what differs and what to do", async () => {
    const months = [
      aMonthCheck({ corrections_nano: 1_000_000_000, billed_nano: 2_000_000_000, report_nano: 3_000_000_000 }),
      aMonthCheck({
        month: "2026-09",
        difference_nano: 4_000_000_000,
        is_as_billed: false,
        ledger_nano: 0,
        is_posted: false,
        advice: "Close the next month.",
      }),
      aMonthCheck({ month: "2026-08", statements_nano: null, ledger_nano: null }),
    ];
    const shown = open("/chargeback?period=last-month", {
      override: ({ path }) => (path.endsWith("/closed-months") ? { status: 200, body: { months } } : undefined),
    });
    const card = await screen.findByRole("region", { name: "Closed months" });
    const [corrected, red, early] = within(card).getAllByRole("listitem");
    expect(corrected).toHaveTextContent(
      "2026-10 report €3.00 = charges €2.00 and corrections €1.00 ✓ equal · statements €1,112,350.00 = ledger €1,112,350.00 ✓ equal",
    );
    expect(red).toHaveTextContent("report €1,112,350.00 ≠ charges €1,112,350.00 ✕ differs by €4.00");
    expect(red).toHaveTextContent("statements €1,112,350.00 ≠ ledger €0.00 ✕ differ");
    expect(within(card).getByRole("alert")).toHaveTextContent("Close the next month.");
    expect(early).toHaveTextContent("no statements yet");
    expect(await accessibilityFaults(shown.container)).toEqual([]);
  });

  // Against: a commitment as a link to a job without an id.
  it("lists commitments and top-ups behind a number, and sums them", async () => {
    const none = { team: "ai-company/research/nlp", pool: "h100", device: "gpu", mgpu_s: 0, attempts: 0, faults: [] };
    const items = [
      { ...none, job: null, name: "", user: "", usage_class: "commitment", cost_nano: 5_000_000_000 },
      { ...none, job: "01935000-0000-7000-8000-000000000001", name: "bert", user: "ivo", usage_class: "top_up", cost_nano: 1_000_000_000 },
    ];
    open("/chargeback/jobs?node=ai-company&type=training", {
      override: ({ path }) =>
        path.endsWith("/reports/chargeback/jobs") ? { status: 200, body: { items, next: null } } : undefined,
    });
    const table = await screen.findByRole("table", { name: "Jobs behind the charge" });
    expect(within(table).getByRole("row", { name: /commitment/ })).toHaveTextContent("(commitment)");
    expect(within(table).getByRole("row", { name: /bert/ })).toHaveTextContent("top-up");
    await waitFor(() => expect(within(table).getByRole("row", { name: /^Total/ })).toHaveTextContent("€6.00"));
    const link = new URL(screen.getByRole("link", { name: "Download CSV" }).getAttribute("href") ?? "", "http://localhost");
    expect(Object.fromEntries(link.searchParams)).toMatchObject({ node: "ai-company", job_type: "training", format: "csv" });
  });
});

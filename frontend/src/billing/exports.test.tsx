import { screen, within } from "@testing-library/react";
import { describe, expect, it } from "vitest";

import { aCompany } from "../../mock/answer.ts";
import { aSession } from "../../mock/company.ts";
import { accessibilityFaults, open } from "../test/render";
import { sizeOf } from "../ui/units";

const PAGE = "/chargeback?period=custom&start=2026-10-01T00:00:00Z&end=2026-11-01T00:00:00Z&scope=ai-company";

const finance = () =>
  aSession({ permissions: { "ai-company": ["view_tree", "view_jobs", "view_costs", "manage_prices"] } });

async function theCard() {
  return screen.findByRole("region", { name: "Export charges" });
}

describe("exports of charges", () => {
  it("shows each file with its state, and links only a complete one", async () => {
    open(PAGE);
    const table = await within(await theCard()).findByRole("table", { name: "Exports" });
    const rows = within(table).getAllByRole("row").slice(1);
    expect(rows.map((row) => row.textContent)).toEqual([
      expect.stringContaining("charges-ai-company-20261001-20261101.csvqueued–"),
      expect.stringContaining("charges-ai-company-20261001-20261101.csvrunning 34%–"),
      expect.stringContaining("charges-ai-company-20261001-20261101.parquetdone1,234,56748.1 MB"),
      expect.stringContaining("charges-ai-company-20260901-20261001.csvfile removed Make again"),
      expect.stringContaining("failed A spreadsheet has at most 1,048,575 rows."),
    ]);
    expect(within(table).getAllByRole("link").map((link) => link.getAttribute("href"))).toEqual([
      "/api/v1/exports/e3/file",
    ]);
    expect(await accessibilityFaults(await theCard())).toEqual([]);
  });

  it("makes a removed file again", async () => {
    const { user, requests } = open(PAGE);
    await user.click(
      await within(await theCard()).findByRole("button", { name: "Make again: charges-ai-company-20260901-20261001.csv" }),
    );
    expect(requests.filter(({ method }) => method === "POST").map(({ path }) => path.split("/v1/")[1])).toEqual([
      "exports/e5/again",
    ]);
  });

  it("requests the period of the report in the chosen format", async () => {
    const { user, requests } = open(`${PAGE}&pool=h100`);
    await user.click(await screen.findByRole("combobox", { name: "Content" }));
    await user.click(await screen.findByRole("option", { name: "FOCUS Cost and Usage" }));
    await user.click(await screen.findByRole("combobox", { name: "Format" }));
    await user.click(await screen.findByRole("option", { name: "Parquet" }));
    await user.click(within(await theCard()).getByRole("button", { name: "Export" }));
    expect(requests.find(({ method, path }) => method === "POST" && path.endsWith("/exports"))?.body).toEqual({
      dataset: "focus_cost_and_usage",
      format: "parquet",
      node: "ai-company",
      start: "2026-10-01T00:00:00Z",
      end: "2026-11-01T00:00:00Z",
      pool: "h100",
    });
    expect(
      screen.getByText(/tidegate export create ai-company --dataset focus_cost_and_usage --format parquet .* --pool h100/),
    ).toBeInTheDocument();
  });

  it("lets finance choose login names in FOCUS files, from the version that was read", async () => {
    const { user, requests, container } = open(PAGE, { company: aCompany({ session: finance() }) });
    const names = await screen.findByRole("switch", { name: /^Login names in FOCUS files/ });
    expect(names).not.toBeChecked();
    expect(names).toHaveAccessibleDescription(
      /^When on, new files name users by login instead of pseudonym; files made before keep their names\. Changed by fiona@ai-company /,
    );
    expect(await accessibilityFaults(container)).toEqual([]);
    await user.click(names);
    const change = requests.find(({ method }) => method === "PATCH");
    expect([change?.path.split("/").at(-1), change?.headers["if-match"], change?.body]).toEqual([
      "export-policy",
      '"v3"',
      { users: "names" },
    ]);
    expect(await screen.findByText("New FOCUS files of AI Company have names of users.")).toBeInTheDocument();
    expect(screen.getByRole("switch", { name: /^Login names in FOCUS files/ })).toBeChecked();
  });

  // Planted: the switch for everybody.
  it("has no switch without the right to manage prices", async () => {
    const session = aSession({ permissions: { "ai-company": ["view_tree", "view_jobs", "view_costs"] } });
    open(PAGE, { company: aCompany({ session }) });
    await within(await theCard()).findByRole("table", { name: "Exports" });
    expect(screen.queryByRole("switch", { name: /^Login names in FOCUS files/ })).toBeNull();
  });

  it("is not shown to a reader of costs who may not see jobs", async () => {
    const session = aSession({ permissions: { "ai-company/": ["view_tree", "view_costs"] } });
    open(PAGE, { company: aCompany({ session }) });
    await screen.findByRole("table", { name: "Use and cost by team" });
    expect(screen.queryByRole("region", { name: "Export charges" })).toBeNull();
  });

  it.each([
    [undefined, "–"],
    [999, "999 B"],
    [1_000, "1.0 kB"],
    [48_123_456, "48.1 MB"],
    [2_500_000_000_000, "2.5 TB"],
  ])("shows %s bytes as %s", (bytes, text) => expect(sizeOf(bytes)).toBe(text));
});

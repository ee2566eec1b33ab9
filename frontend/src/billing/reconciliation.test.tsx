import { screen, within } from "@testing-library/react";
import { describe, expect, it } from "vitest";

import { aCompany } from "../../mock/answer.ts";
import { aProblem } from "../../mock/http.ts";
import { aSession } from "../../mock/company.ts";
import { aReconciliation, theReconciliations } from "../../mock/reconciliation.ts";
import { accessibilityFaults, open } from "../test/render";
import { verdictOf } from "./ReconciledDay";
import { weeksOf } from "./ReconciliationPage";

const PAGE = "/reconciliation?month=2026-11";

describe("the page Reconciliation", () => {
  it("shows a calendar of each cluster, each day by a sign and not by colour alone", async () => {
    const { requests, container } = open(PAGE);
    const alpha = await screen.findByRole("table", { name: "alpha in November 2026" });
    const weeks = within(alpha).getAllByRole("row").slice(1);
    expect(weeks.map((week) => week.textContent)).toEqual([
      "1",
      "2345678",
      "9101112131415",
      "16171819…20✗21✓22",
      "23242526272829",
      "30",
    ]);
    expect(within(alpha).getByRole("button", { name: "2026-11-21 alpha: agrees so far" })).toBeInTheDocument();
    const beta = screen.getByRole("table", { name: "beta in November 2026" });
    expect(within(beta).getByRole("button", { name: "2026-11-19 beta: not available" })).toHaveTextContent("19?");
    expect(screen.getByRole("list", { name: "Days by result" })).toHaveTextContent(
      "✓ agree 2✗ differ 1✗ acknowledged 0… pending 1? not available 1",
    );
    expect(requests.find(({ path }) => path.endsWith("/reconciliations"))?.query.toString()).toBe(
      "start=2026-11-01&end=2026-12-01&limit=500",
    );
    expect(await accessibilityFaults(container)).toEqual([]);
  });

  it("shows the nightly audit of the month's charges, and each sum that differs", async () => {
    open(PAGE);
    const agrees = await screen.findByRole("region", { name: "Audit of the charges" });
    expect(await within(agrees).findByText(/12 of 12 sums agree to the unit/)).toHaveTextContent(/^agrees/);
    expect(within(agrees).queryByRole("table")).toBeNull();
  });

  it("warns of a bill that differs from its audit", async () => {
    const { container } = open("/reconciliation?month=2026-10");
    const differs = await screen.findByRole("region", { name: "Audit of the charges" });
    expect(await within(differs).findByText(/1 of 12 sums differ/)).toHaveTextContent(/Do not send this month's bill/);
    const table = within(differs).getByRole("table", { name: "Differences of ai-company" });
    expect(within(table).getAllByRole("row")[1]).toHaveTextContent(
      "a100-80gborrowed3,600,0003,600,0001,234,567,890,1251,234,567,890,1232",
    );
    expect(await accessibilityFaults(container)).toEqual([]);
  });

  it("has weeks from Monday on, in months of every length", () => {
    expect(weeksOf("2027-02").map((week) => week.filter((day) => day !== null).length)).toEqual([7, 7, 7, 7]);
    const leap = weeksOf("2028-02");
    expect(leap[0]).toEqual([null, "2028-02-01", "2028-02-02", "2028-02-03", "2028-02-04", "2028-02-05", "2028-02-06"]);
    expect(leap.flat().filter((day) => day !== null).at(-1)).toBe("2028-02-29");
  });

  it("is for people who see costs", async () => {
    const session = aSession({ permissions: { "": ["view_tree"] } });
    open(PAGE, { company: aCompany({ session }) });
    expect(await screen.findByText(/Reconciled days are for people who see costs/)).toBeInTheDocument();
  });

  it("takes a reason for a red day, and shows who gave which", async () => {
    const session = aSession({ permissions: { "": ["view_tree", "view_costs", "manage_prices"] } });
    const acknowledgement = { at: "2026-11-21T09:00:00Z", by: "ai-company/fiona", reason: "ticket 12" };
    const known = { ...aReconciliation("r2"), acknowledgement };
    let isKnown = false;
    const { user, requests } = open(PAGE, {
      company: aCompany({ session }),
      override: ({ path }) => {
        if (path.endsWith("/acknowledgement")) isKnown = true;
        return isKnown && path.includes("/reconciliations/r2") ? { status: 200, body: known } : undefined;
      },
    });
    await user.click(await screen.findByRole("button", { name: "2026-11-20 alpha: differs" }));
    await user.type(await screen.findByRole("textbox", { name: /^Reason/ }), "ticket 12");
    await user.click(screen.getByRole("button", { name: "Acknowledge" }));
    expect(await screen.findByText(/^Acknowledged by ai-company\/fiona/)).toHaveTextContent("ticket 12");
    expect(requests.find(({ path }) => path.endsWith("/acknowledgement"))?.body).toEqual({ reason: "ticket 12" });
    expect(verdictOf(known)).toEqual({ word: "differs, acknowledged", tone: "wait" });
  });

  it("leads from a red day to its differences, and from these to the jobs", async () => {
    const { user, container } = open(PAGE);
    await user.click(await screen.findByRole("button", { name: "2026-11-20 alpha: differs" }));
    const table = await screen.findByRole("table", { name: "Differences" });
    const [ours, strange] = within(table).getAllByRole("row").slice(1);
    expect(ours).toHaveTextContent(/4711 of eve.*ai-company\/research\/nlp · h100.*it ends at another time.*−8/);
    expect(within(ours as HTMLElement).getByRole("link", { name: "4711 of eve" })).toHaveAttribute(
      "href",
      expect.stringContaining("/jobs/01a1fd00-0000-7000-8000-000000000001"),
    );
    expect(strange).toHaveTextContent(/physics · h100.*charged to nobody.*0\.5/);
    expect(within(strange as HTMLElement).queryByRole("link")).toBeNull();
    expect(screen.getByText("3 smaller ones are not listed; they are in the sums.")).toBeInTheDocument();
    expect(await accessibilityFaults(container)).toEqual([]);
    await user.click(screen.getByRole("button", { name: "2026-11-20 alpha: differs" }));
    expect(screen.queryByRole("table", { name: "Differences" })).toBeNull();
  });

  it("says of a day without an account why, and has it compared again", async () => {
    const session = aSession({ permissions: { "": ["view_tree", "view_jobs", "view_costs", "manage_prices"] } });
    const { user, requests } = open(PAGE, { company: aCompany({ session }) });
    await user.click(await screen.findByRole("button", { name: "2026-11-19 beta: not available" }));
    const day = await screen.findByRole("region", { name: "2026-11-19 of beta" });
    expect(day).toHaveTextContent("Not compared yet. The cluster did not give its account.");
    expect(day).toHaveTextContent("the accounting's database does not answer");
    await user.click(within(day).getByRole("button", { name: "Compare again" }));
    expect(requests.find(({ method, path }) => method === "POST" && path.endsWith("reconciliations"))?.body).toEqual({
      cluster: "beta",
      day: "2026-11-19",
    });
  });

  it("offers no comparison to who may only look", async () => {
    const session = aSession({ permissions: { "ai-company": ["view_tree", "view_jobs", "view_costs"] } });
    const { user } = open(PAGE, { company: aCompany({ session }) });
    await user.click(await screen.findByRole("button", { name: "2026-11-20 beta: agrees" }));
    expect(await screen.findByText("Nothing differs, to the second.")).toBeInTheDocument();
    expect(screen.queryByRole("button", { name: "Compare again" })).toBeNull();
  });

  it("says so when there is nothing yet", async () => {
    open(PAGE, {
      override: ({ path }) =>
        path.endsWith("/reconciliations") ? { status: 200, body: { items: [], next: null } } : undefined,
    });
    expect(await screen.findByText(/No day of this month was compared/)).toBeInTheDocument();
    expect(screen.getByText("tidegate reconciliation --month 2026-11")).toBeInTheDocument();
  });

  it("says so when it cannot be had", async () => {
    open(PAGE, {
      override: ({ path }) =>
        path.endsWith("/reconciliations") ? aProblem(503, "unavailable", "Come again.") : undefined,
    });
    expect(await screen.findByRole("alert")).toHaveTextContent("Come again.");
  });

  it("has a word for every status", () => {
    const [day] = theReconciliations();
    if (day === undefined) throw new Error("there are days");
    expect(
      (["green", "red", "pending", "unavailable"] as const).map((status) => verdictOf({ ...day, status }).word),
    ).toEqual(["agrees so far", "differs so far", "pending", "not available"]);
  });
});

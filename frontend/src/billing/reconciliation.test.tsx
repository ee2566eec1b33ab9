import { screen, within } from "@testing-library/react";
import { describe, expect, it } from "vitest";

import { aCompany } from "../../mock/answer.ts";
import { aProblem } from "../../mock/http.ts";
import { aSession } from "../../mock/company.ts";
import { aReconciliation, theReconciliations } from "../../mock/reconciliation.ts";
import { accessibilityFaults, open } from "../test/render";
import { verdictOf } from "./Reconciliation";

const PAGE = "/chargeback?period=last-month";

async function theCard() {
  return screen.findByRole("region", { name: "Checked against the clusters" });
}

describe("the check against the clusters", () => {
  it("shows each day of each cluster in a word, not by colour alone", async () => {
    open(PAGE);
    const table = await within(await theCard()).findByRole("table", { name: "Meter and clusters by day" });
    const rows = within(table).getAllByRole("row").slice(1);
    expect(rows.map((row) => row.textContent)).toEqual([
      "2026-11-21agrees so far–",
      "2026-11-20differs −1.00 GPU-hagrees",
      "2026-11-19pendingnot available",
    ]);
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
    const { user } = open(PAGE);
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
    expect(await accessibilityFaults(await theCard())).toEqual([]);
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
    const card = await theCard();
    expect(await within(card).findByText(/No day was compared yet/)).toBeInTheDocument();
    expect(within(card).getByText("tidegate report reconciliation")).toBeInTheDocument();
  });

  it("says so when it cannot be had, and leaves the report alone", async () => {
    open(PAGE, {
      override: ({ path }) =>
        path.endsWith("/reconciliations") ? aProblem(503, "unavailable", "Come again.") : undefined,
    });
    expect(await within(await theCard()).findByRole("alert")).toHaveTextContent("Come again.");
    expect(screen.getByRole("table", { name: "Chargeback by team" })).toBeInTheDocument();
  });

  it("has a word for every status", () => {
    const [day] = theReconciliations();
    if (day === undefined) throw new Error("there are days");
    expect(
      (["green", "red", "pending", "unavailable"] as const).map((status) => verdictOf({ ...day, status }).word),
    ).toEqual(["agrees so far", "differs so far", "pending", "not available"]);
  });
});

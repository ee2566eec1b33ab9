import { screen, waitFor, within } from "@testing-library/react";
import { describe, expect, it } from "vitest";

import { aCompany } from "../../mock/answer.ts";
import { aProblem } from "../../mock/http.ts";
import { aSession } from "../../mock/company.ts";
import { accessibilityFaults, open, type Override } from "../test/render";

const FINANCE = aCompany({
  session: aSession({ permissions: { "ai-company": ["view_tree", "view_costs", "manage_prices"] } }),
});
const AUDITOR = aCompany({ session: aSession({ permissions: { "ai-company": ["view_tree", "view_costs"] } }) });

describe("periods", () => {
  it("say what blocks the oldest month that is not closed, with links to its days", async () => {
    open("/periods", { company: FINANCE });
    const table = within(await screen.findByRole("table", { name: "Months" }));
    expect(table.getAllByRole("row").slice(1).map((row) => row.textContent.slice(0, 24))).toEqual([
      expect.stringContaining("December 2026open–"),
      expect.stringContaining("November 2026due2 days"),
      expect.stringContaining("October 2026closed–"),
    ]);
    const card = within(screen.getByRole("region", { name: "Closing 2026-11" }));
    expect(card.getByText(/Some days are not confirmed/)).toBeInTheDocument();
    expect(card.getByRole("link", { name: "2026-11-21 forge: not compared" })).toBeInTheDocument();
    expect(card.getByRole("link", { name: "2026-11-20 alpha: red" })).toHaveAttribute("href", "/reconciliation?month=2026-11");
    expect(await accessibilityFaults(document.body)).toEqual([]);
  });

  // Planted: the reason of a blocked month left out of the request.
  it("close a month with a reason where days block it", async () => {
    const sent: unknown[] = [];
    const closing: Override = ({ path, method, body }) => {
      if (method !== "POST" || !path.endsWith("/close")) return undefined;
      sent.push(body);
      return sent.length === 1 ? aProblem(409, "conflict", "It may still change.") : undefined;
    };
    const { user } = open("/periods", { company: FINANCE, override: closing });
    await user.click(await screen.findByRole("button", { name: "Close anyway…" }));
    const dialog = within(await screen.findByRole("dialog"));
    expect(dialog.getByRole("button", { name: "Close month" })).toBeDisabled();
    await user.type(dialog.getByRole("textbox", { name: "Reason" }), "ticket 12");
    expect(await accessibilityFaults(document.body)).toEqual([]);
    await user.click(dialog.getByRole("button", { name: "Close month" }));
    expect(await dialog.findByRole("alert")).toHaveTextContent("It may still change.");
    await user.click(dialog.getByRole("button", { name: "Close month" }));
    await waitFor(() => expect(sent).toEqual([{ reason: "ticket 12" }, { reason: "ticket 12" }]));
    expect(await screen.findByText("November 2026 is closed")).toBeInTheDocument();
  });

  it("show the totals, charges and statements of a closed month", async () => {
    open("/periods?month=2026-10", { company: FINANCE });
    const totals = within(await screen.findByRole("table", { name: "Totals" }));
    expect(totals.getByRole("row", { name: /Use of the month/ })).toHaveTextContent("€453,200.00");
    expect(totals.getByRole("row", { name: /Corrections/ })).toHaveTextContent("−€24.00");
    expect(totals.getByRole("row", { name: /Adjustments/ })).toHaveTextContent("−€250.00");
    expect(totals.getByRole("row", { name: /^Total/ })).toHaveTextContent("€452,926.00");
    const charges = within(screen.getByRole("table", { name: "Charges" }));
    expect(charges.getAllByRole("row")[5]).toHaveTextContent("correction");
    const statements = within(await screen.findByRole("table", { name: "Statements" }));
    expect(statements.getAllByRole("row")[3]).toHaveTextContent("2026-00003credits 2026-00002");
    expect(statements.getByRole("link", { name: "PDF of 2026-00001" })).toHaveAttribute(
      "href",
      "/api/v1/statements/01935000-0000-7000-8000-0000000057a1/pdf",
    );
    // Only a statement that stands can be credited.
    expect(statements.getAllByRole("button").map((button) => button.getAttribute("aria-label"))).toEqual([
      "Credit 2026-00001",
    ]);
    expect(await accessibilityFaults(document.body)).toEqual([]);
  });

  it("issue statements, and credit one with a reason", async () => {
    const { user, requests } = open("/periods?month=2026-10", { company: FINANCE });
    await user.click(await screen.findByRole("button", { name: "Issue…" }));
    const form = within(await screen.findByRole("dialog"));
    await user.type(form.getByLabelText("Due date"), "2027-01-03");
    await user.type(form.getByRole("textbox", { name: "Terms" }), "30 days");
    await user.click(form.getByRole("button", { name: "Issue statements" }));
    expect(await screen.findByText("1 statement is issued")).toBeInTheDocument();
    await user.click(await screen.findByRole("button", { name: "Credit 2026-00001" }));
    const dialog = within(await screen.findByRole("dialog", { name: "Credit 2026-00001" }));
    await user.type(dialog.getByRole("textbox", { name: "Reason" }), "wrong unit");
    await user.click(dialog.getByRole("button", { name: "Credit statement" }));
    expect(await screen.findByText("2026-00001 is credited by 2026-00004")).toBeInTheDocument();
    const sent = requests.filter(({ method }) => method === "POST").map(({ body }) => body);
    expect(sent).toEqual([
      { unit: "department", due_on: "2027-01-03", terms: "30 days" },
      { reason: "wrong unit" },
    ]);
  });

  // Against: an empty end sent as a text.
  it("set, end and remove codes", async () => {
    const { user, requests } = open("/periods", { company: FINANCE });
    const table = within(await screen.findByRole("table", { name: "Codes" }));
    expect(table.getAllByRole("row").slice(1).map((row) => row.textContent.slice(0, 60))).toEqual([
      expect.stringContaining("ai-company/research/nlpProject codeP-122026-12 until 2027-04"),
      expect.stringContaining("ai-company/researchCost centre4711from 2026-10"),
      expect.stringContaining("ai-company/researchCost centre47002026-01 until 2026-10"),
    ]);
    await user.click(screen.getByRole("button", { name: "Set code…" }));
    const dialog = within(await screen.findByRole("dialog"));
    expect(dialog.getByRole("button", { name: "Set code" })).toBeDisabled();
    await user.type(dialog.getByRole("textbox", { name: "Code" }), "8000");
    await user.type(dialog.getByRole("textbox", { name: "First month" }), "2026-12");
    expect(await accessibilityFaults(document.body)).toEqual([]);
    await user.click(dialog.getByRole("button", { name: "Set code" }));
    expect(await screen.findByText("Cost centre 8000 is set from December 2026 on")).toBeInTheDocument();
    await user.click(screen.getByRole("button", { name: "End 4711 of ai-company/research" }));
    const end = within(await screen.findByRole("dialog", { name: "End 4711" }));
    await user.type(end.getByRole("textbox", { name: "First month without it" }), "2027-01");
    await user.click(end.getByRole("button", { name: "End code" }));
    expect(await screen.findByText("4711 ends before January 2027")).toBeInTheDocument();
    await user.click(screen.getByRole("button", { name: "Remove P-12 of ai-company/research/nlp" }));
    await user.click(await screen.findByRole("button", { name: "Remove code" }));
    expect(await screen.findByText("P-12 is removed")).toBeInTheDocument();
    const sent = requests.filter(({ method }) => method !== "GET");
    expect(sent.map(({ method, body }) => [method, body])).toEqual([
      [
        "POST",
        { codes: [{ node: "ai-company", kind: "cost_centre", code: "8000", start: "2026-12", end: null }] },
      ],
      ["PATCH", { end: "2027-01" }],
      ["DELETE", null],
    ]);
  });

  it("offer auditors nothing to change, and others no link", async () => {
    open("/periods?month=2026-10", { company: AUDITOR });
    await screen.findByRole("table", { name: "Statements" });
    expect(screen.queryByRole("button", { name: /Issue|Credit|Close|Set|End|Remove/ })).toBeNull();
    expect(screen.queryByRole("link", { name: "Periods" })).toBeNull();
  });
});

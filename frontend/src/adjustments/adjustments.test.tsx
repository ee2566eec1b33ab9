import { screen, waitFor, within } from "@testing-library/react";
import { describe, expect, it } from "vitest";

import { aCompany } from "../../mock/answer.ts";
import { aSession } from "../../mock/company.ts";
import { aProblem } from "../../mock/http.ts";
import { accessibilityFaults, open, type Override } from "../test/render";

const NANO = 1_000_000_000;
const finance = () => aCompany({ session: aSession({ permissions: { "ai-company": ["view_tree", "view_costs", "manage_prices"] } }) });
const table = async (name: string) => within(await screen.findByRole("table", { name }));
const rows = (found: Awaited<ReturnType<typeof table>>) => found.getAllByRole("row").map((row) => row.textContent.replace(/\d+ (d|h|min|s) ago|in \d+ (d|h|min|s)/g, "…"));

describe("adjustments page", () => {
  it("lists disputes with what was charged and refunded, and adjustments with their status", async () => {
    const { container } = open("/adjustments", { company: finance() });
    const disputes = rows(await table("Disputes"));
    expect(disputes).toHaveLength(5);
    expect(disputes[1]).toMatch(/^bert, attempt 1ai-company\/research\/nlpbob@ai-company: “the node was broken”€48\.00–/);
    expect(disputes[2]).toMatch(/^h100 in 2026-10ai-company\/research\/nlplena@ai-company: “two weeks of a broken rack”€12,480\.00–/);
    expect(disputes[3]).toContain("fay@ai-company: “the node was fine”");
    expect(disputes[4]).toContain("€48.00€48.");
    const adjustments = rows(await table("Adjustments"));
    expect(adjustments[1]).toContain("2026-11€2,400.00waits for a second person");
    expect(adjustments[2]).toContain("correction of a closed month");
    expect(screen.getByText("tidegate disputes list")).toBeInTheDocument();
    expect(await accessibilityFaults(container)).toEqual([]);
  });

  // Planted: the charge sent as the refund where a part was typed.
  it("refunds a part of a charge, and shows that another person was first", async () => {
    let isFirst = true;
    const override: Override = ({ path, method }) => {
      if (method !== "POST" || !path.endsWith("/accept") || isFirst) return undefined;
      return aProblem(409, "conflict", "This dispute is accepted already, and is decided once.");
    };
    const { user, requests } = open("/adjustments", { company: finance(), override });
    const disputes = await table("Disputes");
    await user.click(disputes.getByRole("button", { name: "Refund…" }));
    const dialog = within(await screen.findByRole("dialog"));
    await user.type(dialog.getByRole("textbox", { name: "Refund" }), "12,5");
    expect(dialog.getByRole("button", { name: "Refund" })).toBeDisabled();
    await user.clear(dialog.getByRole("textbox", { name: "Refund" }));
    await user.type(dialog.getByRole("textbox", { name: "Refund" }), "12.5");
    await user.click(dialog.getByRole("button", { name: "Refund" }));
    expect(await screen.findByText("The dispute is accepted.")).toBeInTheDocument();
    const sent = requests.filter(({ method }) => method === "POST");
    expect(sent.map(({ body }) => body)).toEqual([{ note: "", refund_nano: 12.5 * NANO }]);
    isFirst = false;
    await user.click((await table("Disputes")).getByRole("button", { name: "Refund…" }));
    await user.click(within(await screen.findByRole("dialog")).getByRole("button", { name: "Refund" }));
    expect(await screen.findByText(/accepted already, and is decided once/)).toBeInTheDocument();
  });

  it("rejects with a note only", async () => {
    const { user, requests } = open("/adjustments", { company: finance() });
    await user.click((await table("Adjustments")).getByRole("button", { name: "Reject…" }));
    const dialog = within(await screen.findByRole("dialog", { name: "Reject the adjustment?" }));
    expect(dialog.getByRole("button", { name: "Reject" })).toBeDisabled();
    await user.type(dialog.getByRole("textbox", { name: "Note" }), "twice");
    await user.click(dialog.getByRole("button", { name: "Reject" }));
    await waitFor(() => expect(requests.some(({ path }) => path.endsWith("/reject"))).toBe(true));
  });

  // Planted: a credit sent as a charge.
  it("credits a team with a negative amount", async () => {
    const { user, requests } = open("/adjustments", { company: finance() });
    await user.click(await screen.findByRole("button", { name: "New adjustment…" }));
    const dialog = within(await screen.findByRole("dialog"));
    await user.click(dialog.getByRole("button", { name: "Adjust" }));
    expect(dialog.getByText("Give a number such as 250 or 12.50.")).toBeInTheDocument();
    await user.click(dialog.getByRole("combobox", { name: "Team" }));
    await user.click(await screen.findByRole("option", { name: "ai-company/research/nlp" }));
    await user.click(dialog.getByRole("combobox", { name: "Kind" }));
    await user.click(await screen.findByRole("option", { name: "Credit the team" }));
    await user.type(dialog.getByRole("textbox", { name: "Amount" }), "40");
    await user.type(dialog.getByRole("textbox", { name: "Reason" }), "goodwill");
    await user.click(dialog.getByRole("button", { name: "Adjust" }));
    expect(await screen.findByText("The adjustment waits for a second person.")).toBeInTheDocument();
    const sent = requests.filter(({ method }) => method === "POST");
    expect(sent.map(({ body }) => body)).toEqual([
      { team: "ai-company/research/nlp", amount_nano: -40 * NANO, month: null, reason: "goodwill" },
    ]);
  });

  // Against: the bound of prices, a million; the amount as a float.
  it("takes amounts up to a billion, and says the bound", async () => {
    const { user, requests } = open("/adjustments", { company: finance() });
    await user.click((await table("Disputes")).getByRole("button", { name: "Refund…" }));
    const dialog = within(await screen.findByRole("dialog"));
    const refund = dialog.getByRole("textbox", { name: "Refund" });
    for (const [text, sentence] of [["1000000000.01", "Give at most 1000000000."], ["0", "Give an amount above 0."], ["1.005", "Give a number such as 250 or 12.50."]] as const) {
      await user.clear(refund);
      await user.type(refund, text);
      expect(dialog.getByText(sentence)).toBeInTheDocument();
      expect(dialog.getByRole("button", { name: "Refund" })).toBeDisabled();
    }
    await user.clear(refund);
    await user.type(refund, "123456789.01");
    await user.click(dialog.getByRole("button", { name: "Refund" }));
    await waitFor(() => expect(requests.some(({ path }) => path.endsWith("/accept"))).toBe(true));
    const { body } = requests.find(({ path }) => path.endsWith("/accept")) ?? {};
    expect(JSON.stringify(body)).toBe('{"note":"","refund_nano":123456789010000000}');
  });

  // Against: the threshold of others for the person who raised it.
  it("shows and changes the threshold", async () => {
    const { user, requests } = open("/adjustments", { company: finance() });
    await user.click(await screen.findByRole("button", { name: "Threshold…" }));
    const dialog = within(await screen.findByRole("dialog", { name: /^Threshold of/ }));
    expect(await dialog.findByText(/^Now 2,000\.00, changed by fay@ai-company/)).toBeInTheDocument();
    expect(dialog.getByText(/for you 1,000\.00 applies until another person changes it/)).toBeInTheDocument();
    await user.type(dialog.getByRole("textbox", { name: "New threshold" }), "2500000");
    expect(await accessibilityFaults(document.body)).toEqual([]);
    await user.click(dialog.getByRole("button", { name: "Change" }));
    expect(await screen.findByText("The threshold is 2,500,000.00.")).toBeInTheDocument();
    const [sent] = requests.filter(({ method }) => method === "PATCH");
    expect(sent?.body).toEqual({ threshold_nano: 2_500_000 * NANO });
  });

  // Against: the button for everybody.
  it("has no form for those without finance rights", async () => {
    open("/adjustments", { company: aCompany({ session: aSession({ permissions: { "ai-company": ["view_tree", "view_costs"] } }) }) });
    await table("Adjustments");
    expect(screen.queryByRole("button", { name: "New adjustment…" })).toBeNull();
    expect(screen.queryByRole("button", { name: "Threshold…" })).toBeNull();
    expect(screen.queryByRole("button", { name: "Dispute a charge…" })).toBeNull();
  });

  // Against: the button by finance rights.
  it("disputes a row of a month, by those who manage the team's jobs", async () => {
    const lead = aCompany({ session: aSession({ permissions: { "ai-company/research/nlp": ["view_tree", "view_costs", "manage_jobs"] } }) });
    const { user, requests } = open("/adjustments", { company: lead });
    await user.click(await screen.findByRole("button", { name: "Dispute a charge…" }));
    const dialog = within(await screen.findByRole("dialog", { name: "Dispute a charge" }));
    await user.click(dialog.getByRole("combobox", { name: "Team" }));
    expect(await screen.findAllByRole("option")).toHaveLength(1);
    await user.click(screen.getByRole("option", { name: "ai-company/research/nlp" }));
    await user.click(dialog.getByRole("combobox", { name: "Pool" }));
    await user.click(await screen.findByRole("option", { name: "h100" }));
    await user.type(dialog.getByRole("textbox", { name: "Month" }), "October");
    await user.type(dialog.getByRole("textbox", { name: "Reason" }), "broken rack");
    await user.click(dialog.getByRole("button", { name: "Dispute" }));
    expect(dialog.getByText("Give a month such as 2026-10.")).toBeInTheDocument();
    await user.clear(dialog.getByRole("textbox", { name: "Month" }));
    await user.type(dialog.getByRole("textbox", { name: "Month" }), "2026-10");
    expect(await accessibilityFaults(document.body)).toEqual([]);
    await user.click(dialog.getByRole("button", { name: "Dispute" }));
    expect(await screen.findByText("The dispute is open. Finance decides it.")).toBeInTheDocument();
    const [sent] = requests.filter(({ method }) => method === "POST");
    expect(sent?.body).toEqual({ team: "ai-company/research/nlp", pool: "h100", month: "2026-10", reason: "broken rack" });
  });

  // Planted: the first attempt in place of the chosen one.
  it("gets disputes from the attempts on the page of a job", async () => {
    const { user, requests } = open("/jobs/01935000-0000-7000-8000-000000009004?tab=attempts");
    const attempts = await table("Attempts");
    const [button] = await attempts.findAllByRole("button", { name: "Dispute charge…" });
    await user.click(button as HTMLElement);
    const dialog = within(await screen.findByRole("dialog"));
    expect(dialog.getByRole("button", { name: "Dispute" })).toBeDisabled();
    await user.type(dialog.getByRole("textbox", { name: "Reason" }), "broken");
    await user.click(dialog.getByRole("button", { name: "Dispute" }));
    expect(await screen.findByText(/^The dispute is open/)).toBeInTheDocument();
    const sent = requests.filter(({ method }) => method === "POST");
    expect(sent.map(({ path, body }) => [path, (body as { reason: string }).reason])).toEqual([["/api/v1/disputes", "broken"]]);
  });
});

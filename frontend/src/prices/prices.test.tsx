import { screen, waitFor, within } from "@testing-library/react";
import { describe, expect, it } from "vitest";

import { aCompany } from "../../mock/answer.ts";
import { aSession } from "../../mock/company.ts";
import { aProblem } from "../../mock/http.ts";
import { aRateCard, aRateLine } from "../../mock/prices.ts";
import { accessibilityFaults, open } from "../test/render";
import { formatChange, formatPrice, lastScheduled, parsePrice, stateOf } from "./amounts";
import { dayOf, formatInZone, startOfDay } from "./zone";

const reader = () =>
  aCompany({
    session: aSession({ permissions: { "ai-company": ["view_tree", "view_costs"] } }),
    cards: [aRateCard({ can_edit: false })],
  });
const region = async (name: string) => within(await screen.findByRole("region", { name }));

describe("amounts of prices", () => {
  // Against: the text read as a float, and multiplied.
  it("are read exactly, or refused", () => {
    expect(["2.10", "0.0157", "0.000000001", "1000000", "7"].map(parsePrice)).toEqual([
      2_100_000_000, 15_700_000, 1, 1_000_000_000_000_000, 7_000_000_000,
    ]);
    for (const text of ["", "2,10", "-1", "1e3", "1.0000000001", "1000001", "٢"]) expect(parsePrice(text)).toBeNull();
  });

  it("are shown with cents, or as many decimals as they have", () => {
    expect([2_100_000_000, 5, 1_234_500_000_000, 15_700_000].map((nano) => formatPrice(nano, "EUR"))).toEqual([
      "€2.10",
      "€0.000000005",
      "€1,234.50",
      "€0.0157",
    ]);
    expect([50_000, -36_408, 0, null].map(formatChange)).toEqual(["+5 %", "−3.6 %", "no change", "–"]);
  });

  // Against: the end counted as part of the line.
  it("have a state at each moment, and a last change", () => {
    const line = { start: "2026-01-01T00:00:00Z", end: "2026-02-01T00:00:00Z" };
    const at = (iso: string) => stateOf(line, Date.parse(iso));
    expect([at("2025-12-31T23:59:59Z"), at(line.start), at("2026-01-31T23:59:59Z"), at(line.end)]).toEqual([
      "scheduled",
      "current",
      "current",
      "past",
    ]);
    const lines = [aRateLine(1, { start: "2090-01-01T00:00:00Z" }), aRateLine(2, { start: "2091-01-01T00:00:00Z" })];
    expect(lastScheduled(lines, Date.parse("2089-01-01T00:00:00Z"))).toBe("2091-01-01T00:00:00Z");
    expect(lastScheduled(lines, Date.parse("2092-01-01T00:00:00Z"))).toBeNull();
  });
});

describe("days of a zone", () => {
  // Against: the offset of the day before a change of the clocks.
  it("start at the zone's own midnight, also where clocks change", () => {
    expect(startOfDay("2026-12-01", "Europe/Berlin")).toBe("2026-11-30T23:00:00Z");
    expect(startOfDay("2026-03-29", "Europe/Berlin")).toBe("2026-03-28T23:00:00Z");
    expect(startOfDay("2026-03-30", "Europe/Berlin")).toBe("2026-03-29T22:00:00Z");
    expect(startOfDay("2026-11-02", "America/New_York")).toBe("2026-11-02T05:00:00Z");
    expect(startOfDay("2026-04-24", "Africa/Cairo")).toBe("2026-04-23T22:00:00Z");
    expect(startOfDay("2026-02-30", "UTC")).not.toBe("2026-02-30T00:00:00Z");
    expect(startOfDay("soon", "UTC")).toBeNull();
  });

  it("are shown as days, with a time that is no midnight", () => {
    expect(dayOf("2026-11-30T23:00:00Z", "Europe/Berlin")).toBe("2026-12-01");
    expect(formatInZone("2026-11-30T23:00:00Z", "Europe/Berlin")).toBe("1 Dec 2026");
    expect(formatInZone("2026-11-30T23:00:00Z", "UTC")).toBe("30 Nov 2026, 23:00");
  });
});

describe("page Prices", () => {
  it("shows current, scheduled and past prices, for readers without buttons", async () => {
    const { container, user } = open("/prices", { company: reader() });
    const list = await region("List of prices");
    const rows = () => list.getAllByRole("rowheader").map((cell) => cell.textContent.replace(/(current|scheduled|past) from.*/, ""));
    expect(rows()).toEqual(["h100 borrowed", "h100 guaranteed", "h100 guaranteed", "h100 unpaid"]);
    expect(list.getByText(/^priced after the fact/)).toHaveTextContent("by fin@ai-company");
    await user.click(list.getByRole("button", { name: "Show past prices (1)" }));
    expect(rows()).toHaveLength(5);
    const line = screen.getByRole("img", { name: /^h100 guaranteed: / });
    expect(line.getAttribute("aria-label")).toMatch(/^h100 guaranteed: €1\.85 from .*, past; €2\.00 from .*, current; €2\.10 from .*, scheduled$/);
    expect(screen.queryByRole("button", { name: "Set a price" })).toBeNull();
    expect(screen.queryByRole("button", { name: /^Change/ })).toBeNull();
    expect(screen.getByRole("link", { name: "Prices" })).toBeInTheDocument();
    expect(await accessibilityFaults(container)).toEqual([]);
  });

  // Against: the day sent as midnight of the reader's zone.
  it("changes a price from a day of the organization's zone on", async () => {
    const company = aCompany({ cards: [aRateCard({ time_zone: "Asia/Tokyo" })] });
    const { user, requests, container } = open("/prices", { company });
    await user.click(await screen.findByRole("button", { name: "Change the price of h100 guaranteed" }));
    const dialog = within(await screen.findByRole("dialog", { name: "Set a price" }));
    expect(dialog.getByText("€2.00 applies until then and ends now.")).toBeInTheDocument();
    await user.type(dialog.getByRole("textbox", { name: /^Price in EUR/ }), "2,2");
    expect(dialog.getByText(/^Write a number such as 2\.10/)).toBeInTheDocument();
    expect(dialog.getByRole("button", { name: "Set the price" })).toBeDisabled();
    await user.clear(dialog.getByRole("textbox", { name: /^Price in EUR/ }));
    await user.type(dialog.getByRole("textbox", { name: /^Price in EUR/ }), "2.25");
    await user.type(dialog.getByLabelText("From"), "2090-07-01");
    expect(await accessibilityFaults(container)).toEqual([]);
    await user.click(dialog.getByRole("button", { name: "Set the price" }));
    await waitFor(() => expect(requests.find(({ method }) => method === "POST")?.body).toEqual({
      pool: "h100",
      usage_class: "guaranteed",
      price_nano: 2_250_000_000,
      start: "2090-06-30T15:00:00Z",
      end: null,
      ends_current: true,
    }));
    expect(await screen.findByText("h100 guaranteed costs €2.25 from 1 Jul 2090.")).toBeInTheDocument();
  });

  it("says that a day of the past cannot have another price, and shows the server's refusal", async () => {
    const { user } = open("/prices", {
      override: ({ method }) =>
        method === "POST" ? aProblem(409, "conflict", "What has applied never changes. Choose a start from now on.") : undefined,
    });
    await user.click(await screen.findByRole("button", { name: "Change the price of h100 guaranteed" }));
    const dialog = within(await screen.findByRole("dialog"));
    const day = new Date(Date.now() - 20 * 86_400_000).toISOString().slice(0, 10);
    await user.type(dialog.getByLabelText("From"), day);
    expect(dialog.getByText(/What has applied never changes: choose a day from now on\./)).toBeInTheDocument();
    await user.clear(dialog.getByLabelText("From"));
    await user.type(dialog.getByLabelText("From"), "2020-01-01");
    expect(dialog.getByText(/The new one is a correction, and reports name it\./)).toBeInTheDocument();
    await user.type(dialog.getByRole("textbox", { name: /^Price in EUR/ }), "1");
    await user.click(dialog.getByRole("button", { name: "Set the price" }));
    expect(await dialog.findByRole("alert")).toHaveTextContent("Choose a start from now on.");
  });

  it("ends a price, and cancels a scheduled one", async () => {
    const { user, requests } = open("/prices");
    await user.click(await screen.findByRole("button", { name: "End the price of h100 unpaid" }));
    await user.click(within(await screen.findByRole("dialog")).getByRole("button", { name: "End the price" }));
    await waitFor(() => expect(requests.find(({ method }) => method === "PATCH")?.body).toEqual({ end: null }));
    await user.click(await screen.findByRole("button", { name: "Cancel the scheduled price of h100 guaranteed" }));
    const dialog = within(await screen.findByRole("dialog", { name: /^Cancel the scheduled/ }));
    expect(dialog.getByText(/^€2\.10 from/)).toBeInTheDocument();
    await user.click(dialog.getByRole("button", { name: "Cancel the price" }));
    await waitFor(() => expect(requests.some(({ method }) => method === "DELETE")).toBe(true));
    expect(await screen.findByText("The scheduled price is cancelled.")).toBeInTheDocument();
  });

  // Against: the comparison of today with itself where a price is scheduled.
  it("compares now with the time after all scheduled changes", async () => {
    const { requests } = open("/prices");
    const card = await region("Comparison");
    const total = await card.findByRole("row", { name: /^Total/ });
    expect(total).toHaveTextContent("+3.6 %");
    expect(total).toHaveTextContent("€1,293,490.00");
    expect(card.getByText(/Showback, not billed: €0\.00 and €5\.00\./)).toBeInTheDocument();
    expect(card.getByRole("row", { name: /^h100 guaranteed/ })).toHaveTextContent("€2.10with × 1.05");
    expect(card.getByRole("row", { name: /^ai-company\/research\/nlp/ })).toHaveTextContent("€954,240.00+5 %");
    expect(card.getByText(/^The usage from/)).toHaveTextContent(
      "from 1 Oct 2026 to 1 Nov 2026 costs €1,248,050.00 at the prices of",
    );
    const asked = requests.find(({ path }) => path.endsWith("/comparison"));
    expect(asked?.query.get("second")).toBe(aRateCard().lines[3]?.start);
    expect(card.getByText(/^tidegate prices compare \d{4}-\d\d-\d\d \d{4}-\d\d-\d\d --organization ai-company$/)).toBeInTheDocument();
  });

  // Against: the defaults in the place of the terms that apply.
  it("sets the terms of a pool, starting with those that apply", async () => {
    const { user, requests, container } = open("/prices");
    const terms = await region("Terms of pools");
    expect(terms.getByText("unpaid × 0.3 · at least 5 min an attempt · in steps of 1 min")).toBeInTheDocument();
    expect(terms.getByText("showback: not billed")).toBeInTheDocument();
    await user.click(terms.getByRole("button", { name: "Change the terms of h100" }));
    const dialog = within(await screen.findByRole("dialog", { name: "Set terms" }));
    const unpaid = dialog.getByRole("textbox", { name: "Multiplier of unpaid use" });
    expect(unpaid).toHaveValue("0.3");
    await user.clear(unpaid);
    await user.type(unpaid, "30%");
    expect(dialog.getByText("Write a number such as 1.5, from 0 to 100.")).toBeInTheDocument();
    expect(dialog.getByRole("button", { name: "Set the terms" })).toBeDisabled();
    await user.clear(unpaid);
    await user.type(unpaid, "0.25");
    await user.click(dialog.getByRole("combobox", { name: "Mode" }));
    await user.click(await screen.findByRole("option", { name: "commitment" }));
    expect(dialog.getByText(/^Each team's guarantee is billed/)).toBeInTheDocument();
    await user.type(dialog.getByLabelText("From"), "2090-07-01");
    expect(await accessibilityFaults(container)).toEqual([]);
    await user.click(dialog.getByRole("button", { name: "Set the terms" }));
    await waitFor(() => expect(requests.find(({ method }) => method === "POST")?.body).toEqual({
      pool: "h100",
      mode: "commitment",
      guaranteed_ppm: 1_000_000,
      borrowed_ppm: 1_000_000,
      unpaid_ppm: 250_000,
      minimum_s: 300,
      increment_s: 60,
      start: "2090-07-01T00:00:00Z",
      end: null,
      ends_current: true,
    }));
    expect(await screen.findByText("h100 is commitment from 1 Jul 2090.")).toBeInTheDocument();
  });

  it("ends terms, and cancels scheduled ones", async () => {
    const { user, requests } = open("/prices");
    await user.click(await screen.findByRole("button", { name: "End the terms of h100" }));
    await user.click(within(await screen.findByRole("dialog")).getByRole("button", { name: "End the terms" }));
    await waitFor(() => expect(requests.find(({ method }) => method === "PATCH")?.path).toMatch(/\/terms\//));
    await user.click(await screen.findByRole("button", { name: "Cancel the scheduled terms of h100" }));
    await user.click(within(await screen.findByRole("dialog")).getByRole("button", { name: "Cancel the terms" }));
    expect(await screen.findByText("The scheduled terms are cancelled.")).toBeInTheDocument();
  });

  it("creates the rate card where there is none", async () => {
    const session = aSession({ permissions: { "ai-company": ["view_tree", "view_costs", "manage_prices"] } });
    const { user, requests, container } = open("/prices", { company: aCompany({ session, cards: [] }) });
    const currency = await screen.findByRole("textbox", { name: /^Currency/ });
    await user.clear(currency);
    await user.type(currency, "chf");
    expect(await accessibilityFaults(container)).toEqual([]);
    await user.click(screen.getByRole("button", { name: "Create the rate card" }));
    await waitFor(() =>
      expect(requests.find(({ method }) => method === "POST")?.body).toEqual({ organization: "ai-company", currency: "CHF" }),
    );
    expect(await screen.findByText(/^No prices yet, so usage costs nothing/)).toBeInTheDocument();
  });

  it("is not for those who see no costs, and asks nothing", async () => {
    const session = aSession({ permissions: { "ai-company": ["view_tree"] } });
    const { requests } = open("/prices", { company: aCompany({ session }) });
    expect(await screen.findByRole("region", { name: "Not for you to see" })).toBeInTheDocument();
    expect(requests.filter(({ path }) => path.includes("rate-cards"))).toEqual([]);
  });
});

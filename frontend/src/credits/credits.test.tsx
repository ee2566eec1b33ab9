import { screen, waitFor, within } from "@testing-library/react";
import { describe, expect, it } from "vitest";

import { aCompany } from "../../mock/answer.ts";
import { aCreditHistory, aCreditStatement, someCredits, theCreditBank, theCredits } from "../../mock/credits.ts";
import { aProblem } from "../../mock/http.ts";
import { aSession } from "../../mock/company.ts";
import type { CreditLine } from "../api/types";
import { accessibilityFaults, open, type Override } from "../test/render";
import { checkBalances, checkStatement, daysOfGuarantee, entryOf, formatDays, parseHours, placeOf, totalsOf } from "./amounts";
import { lasting } from "./BuysCard";
import { byMonth, earnedBy } from "./ExpiringCard";
import { inDays, marksOf, pointsOf, ticksOf } from "./HistoryCard";
import { monthChoices, monthOf } from "./months";

const GPU_HOUR = 3_600_000_000;
const OF_NLP = "/credits?team=ai-company/research/nlp&month=2026-11";

const reader = () => aSession({ permissions: { "ai-company": ["view_tree"] } });
const isOff = (settled: boolean): Override => ({ path }) =>
  path.endsWith("/credits")
    ? { status: 200, body: theCredits({ is_on: false, ...(settled ? {} : { settled_until: null, common_ugpu_s: 0 }) }) }
    : undefined;

const region = async (name: string) => within(await screen.findByRole("region", { name }));
const rowsOf = (card: Awaited<ReturnType<typeof region>>) => card.getAllByRole("row").map((row) => row.textContent);

describe("amounts", () => {
  it("are days of the whole guarantee, in the weight of the pool", () => {
    const day = 4_800 * GPU_HOUR;
    expect(daysOfGuarantee(3 * day, 200_000, 1000)).toBe("+3");
    expect(daysOfGuarantee(3 * day, 200_000, 2000)).toBe("+1.5");
    expect(daysOfGuarantee(day, 0, 1000)).toBeNull();
    expect([someCredits("a", 200, 14_880), someCredits("a", 200, -1), someCredits("a", 0, 5)].map(formatDays)).toEqual([
      "+3.1",
      "−0.1",
      "–",
    ]);
  });

  // Planted: the scale counted from 0 in place of the floor.
  it("stand between floor and cap, and never beyond", () => {
    const nlp = someCredits("research/nlp", 200, 0);
    const at = (hours: number) => placeOf(hours * GPU_HOUR, nlp);
    expect([at(-33_600), at(16_800), at(67_200), at(-99_999), at(99_999)]).toEqual([0, 50, 100, 0, 100]);
    expect(placeOf(0, { ...nlp, floor_ugpu_s: 0, cap_ugpu_s: 0 })).toBeNull();
  });

  it("add up to the unit, or say that they cannot be added", () => {
    expect(checkBalances(theCredits())).toBe("equal");
    expect(checkBalances(theCredits({ common_ugpu_s: 6_048 * GPU_HOUR - 1 }))).toBe("different");
    expect(checkBalances(theCredits({ common_ugpu_s: 2 ** 60 }))).toBe("unknown");
    const statement = aCreditStatement("a", "2026-11");
    expect(checkStatement(statement)).toBe("equal");
    expect(checkStatement({ ...statement, closing_ugpu_s: statement.closing_ugpu_s + 1 })).toBe("different");
  });

  it("are summed by what moved them", () => {
    const totals = totalsOf(aCreditStatement("a", "2026-11").lines);
    const hours = (value: number) => value / GPU_HOUR;
    expect([totals.earned, totals.paid, totals.dividend, totals.expired].map(hours)).toEqual([7_630, 3_732, 1_120, 480]);
    expect(totals.earnedFrom.map(([team, amount]) => [team, hours(amount)])).toEqual([
      ["ai-company/production/inference", 7_390],
      ["ai-company/production/training", 240],
    ]);
  });

  it("pay for borrowed GPUs for a time", () => {
    expect(lasting(14_880 * GPU_HOUR, 40, 1000)).toBe("15.5 days");
    expect(lasting(14_880 * GPU_HOUR, 40, 2000)).toBe("7.8 days");
    expect(lasting(0, 40, 1000)).toBe("–");
  });

  it("are read from GPU-hours exactly, and only from these", () => {
    expect(["500", " 12.5 ", "1,000.125", "0"].map(parseHours)).toEqual([
      500 * GPU_HOUR,
      45_000_000_000,
      3_600_450_000_000,
      0,
    ]);
    expect(["", "-1", "1e3", "1.2345", "many"].map(parseHours)).toEqual([null, null, null, null, null]);
  });

  it("that people transferred are neither earned nor paid", () => {
    const line = (hours: number) =>
      ({ day: "2026-11-20", kind: "transferred", other: "a/b/vision", amount_ugpu_s: hours * GPU_HOUR, balance_ugpu_s: 0, reason: "", expires_on: null }) as const;
    const { earned, paid, received, given } = totalsOf([line(3), line(-5)]);
    expect([earned, paid, received, given].map((value) => value / GPU_HOUR + 0)).toEqual([0, 0, 3, 5]);
    expect([line(3), line(-5)].map((each) => entryOf(each, "GPUs"))).toEqual([
      "transferred from vision",
      "transferred to vision",
    ]);
  });

  it("expire month by month", () => {
    expect(byMonth(aCreditStatement("a", "2026-11").expiring).map(({ month, amount }) => [month, amount / GPU_HOUR])).toEqual([
      ["2026-08", 620],
      ["2026-09", 1_940],
      ["2026-10", 3_570],
      ["2026-11", 8_750],
    ]);
  });

  it("say by lending to whom they were earned", () => {
    const { earned_in: earnedIn } = aCreditStatement("a", "2026-11");
    expect(["2026-08", "2026-09", "2026-11", "2026-01"].map((month) => earnedBy(earnedIn, month))).toEqual([
      "by lending to inference and speech, dividend",
      "by lending to inference",
      "by lending to inference and training, dividend",
      "by another team, which transferred them",
    ]);
    const four = ["a/b", "a/c", "a/d", "a/e"].map((other) => ({ other, amount_ugpu_s: 1 }));
    expect(earnedBy([{ month: "2026-11-01", earned: four }], "2026-11")).toBe("by lending to b, c and 2 more");
  });
});

describe("history of a balance", () => {
  const statement = aCreditStatement("a", "2026-11");
  const history = aCreditHistory("a", "2026-11");

  // Planted: the last day drawn to its end although it is not over.
  it("has a point at the end of each day, and the last one where settling ended", () => {
    const points = pointsOf(history, statement);
    expect(points).toHaveLength(26);
    expect([points[0], points[1], points.at(-1)].map((point) => point && [Math.round(point.x * 300) / 10, point.ugpuS / GPU_HOUR])).toEqual([
      [0, 10_342],
      [1, 11_462],
      [24.4, 14_880],
    ]);
  });

  it("marks transfers of people and the largest jobs, apart from each other", () => {
    const transferred = { ...(statement.lines[0] as CreditLine), kind: "transferred", day: "2026-11-20", other: "a/b/vision", amount_ugpu_s: -1 } as const;
    const marks = marksOf({ ...statement, lines: [...statement.lines, transferred] }, pointsOf(history, statement));
    expect(marks.map(({ text, x }) => [text, Math.round(x * 30)])).toEqual([
      ["to vision", 20],
      ["pretrain-7b", 14],
      ["sweep-44", 4],
    ]);
  });

  it("has a scale in days of the guarantee, or only 0 without one", () => {
    const day = 4_800 * GPU_HOUR;
    expect(ticksOf(-7 * day, 14 * day, day).map((tick) => inDays(tick, day))).toEqual(["−5 d", "0 d", "+5 d", "+10 d"]);
    expect(ticksOf(0, 0, 0)).toEqual([0]);
    expect(inDays(90 * GPU_HOUR, 0)).toBe("+90");
  });

  it("is a chart and the same as a table, with the forecast in figures", async () => {
    const { user, container } = open(OF_NLP);
    const card = await region("Balance and forecast");
    expect(card.getByRole("img", { name: /^Balance day by day/ })).toHaveAccessibleName(
      "Balance day by day: 10,342 GPU-h at first, 14,880 at last, forecast 15,660 (13,900 to 17,280). The table has each day.",
    );
    expect(card.getByRole("list", { name: "Legend" })).toHaveTextContent(
      "forecast: +1,400 lending less borrowing, −620 expiring",
    );
    expect(card.getByRole("list", { name: "Legend" })).toHaveTextContent("then a dividend of about +1,209.6 GPU-h");
    await user.click(card.getByRole("button", { name: "Show as a table" }));
    expect(rowsOf(card).slice(0, 2)).toEqual(["DayBalance, GPU-hDays of guarantee", "1 Nov11,462.0+2.4 d"]);
    expect(rowsOf(card)).toHaveLength(26);
    expect(await accessibilityFaults(container)).toEqual([]);
  });

  it("has no forecast in a past month, whose next expiry is a figure", async () => {
    const override: Override = ({ path }) =>
      path.endsWith("/history") ? { status: 200, body: { ...history, forecast: null, held_ugpu_s: 0, pending_ugpu_s: 0 } } : undefined;
    open(OF_NLP, { override });
    expect(await region("Balance")).toBeTruthy();
    expect(screen.getAllByRole("group").map((group) => group.textContent)).toEqual(
      expect.arrayContaining(["400GPU-h expire nextafter 25 Nov", "+3.1 daysbalance, in days of guarantee+14,880 GPU-h"]),
    );
    expect(screen.queryByText(/^on hold/)).toBeNull();
  });
});

describe("months", () => {
  it("are named by their middle, in any time zone", () =>
    expect(monthOf({ start: "2026-10-31T23:00:00Z", end: "2026-11-30T23:00:00Z" })).toBe("2026-11"));

  it("are the last twelve and the chosen one", () => {
    const choices = monthChoices("2026-02", "2024-07");
    expect([choices.length, choices[0], choices[11], choices[12]]).toEqual([13, "2026-02", "2025-03", "2024-07"]);
    expect(monthChoices("2026-02", "2026-01")).toHaveLength(12);
  });
});

describe("credits page", () => {
  it("shows what a balance decides, with the sum of all balances", async () => {
    const { container } = open(OF_NLP);
    const card = await region("What the balance decides");
    expect(await card.findByText(/^nlp goes before/)).toHaveTextContent("nlp goes before speech, vision and sandbox for spare GPUs");
    expect(await card.findByText(/production ranks higher\.$/)).toBeInTheDocument();
    expect(rowsOf(card)).toEqual([
      "OrderTeamRankfloor −7 d0cap +14 dDaysGPU-h",
      "1trainingproduction+2.2+6,336.0",
      "2inferenceproduction−4.6−30,912.0",
      "3nlpresearch+3.1+14,880.0",
      "4speechresearch+1.2+2,304.0",
      "5visionresearch+0.8+2,304.0",
      "6sandboxnone−0.2−960.0",
      "Common account+6,048.0",
    ]);
    expect(card.getByText(/6 balances \+ common account/)).toHaveTextContent("6 balances + common account = 0 ✓ exact");
    expect(card.getAllByRole("row", { current: true }).map((row) => row.textContent)).toEqual([
      "3nlpresearch+3.1+14,880.0",
    ]);
    expect(screen.getAllByRole("group").map((group) => group.textContent)).toEqual(
      expect.arrayContaining([
        "+3.1 daysbalance, in days of guarantee+14,880 GPU-h · 14,608 available",
        "+7,630GPU-h earned by lendingNovember 2026 · inference 7,390 · training 240",
        "−3,732GPU-h paid for borrowingNovember 2026 · dividend +1,120",
        "+3.3 daysforecast for 30 Nov+2.9 d to +3.6 d",
      ]),
    );
    expect(await accessibilityFaults(container)).toEqual([]);
  });

  const REASON = "Use from 2026-11-21 14:00 to 14:15 UTC changed (serve-chat: a node failed).";

  it("shows the statement from the newest line to the opening balance", async () => {
    open(OF_NLP);
    const card = await region("Statement · November 2026");
    expect(rowsOf(card)).toEqual([
      "DayEntryAmountBalance",
      "25 Novon hold for running jobsAn hour of the GPUs that they borrow, renewed while they run: borrowed by ablate-9 32(32.0)14,608.0available",
      "25 Novon hold for transfers that wait for approval(240.0)14,640.0available",
      "25 Novlent to inferenceai-company/production/inferenceexpires after 25 Feb unless spent+1,490.014,880.0",
      `23 Novcorrection from the common account${REASON}+180.013,390.0`,
      `22 Novrefund to inferenceai-company/production/inference${REASON}−180.013,210.0`,
      "21 Novlent to trainingai-company/production/trainingexpires after 21 Feb unless spent+240.013,390.0",
      "21 Novlent to inferenceai-company/production/inferenceexpires after 21 Feb unless spent+1,640.013,150.0",
      "16 Novpaid for borrowed GPUs of teams at their cap−500.011,510.0",
      "14 Novlent to inferenceai-company/production/inferenceexpires after 14 Feb unless spent+1,950.012,010.0",
      "14 Novpaid for borrowed GPUs that nobody is guaranteedborrowed by pretrain-7b (attempt 2) 1,900, sweep-44 120 and 5 more−2,080.010,060.0",
      "11 Novexpired−480.012,140.0",
      "7 Novlent to inferenceai-company/production/inferenceexpires after 7 Feb unless spent+2,310.012,620.0",
      "4 Novpaid for borrowing from speechai-company/research/speechborrowed by sweep-44 1,152−1,152.010,310.0",
      "1 Novdividend from the common accountexpires after 1 Feb unless spent+1,120.011,462.0",
      "1 Novopening balance10,342.0",
    ]);
    expect(card.getByText(/^opening 10,342/)).toHaveTextContent(
      "opening 10,342 + dividend 1,120 + earned 7,630 − paid 3,732 − expired 480 = 14,880 GPU-h ✓ exact",
    );
    expect(rowsOf(await region("What the balance buys")).slice(1)).toEqual([
      "8 spare GPUs for77.5 days252.5 days",
      "40 spare GPUs for15.5 days50.5 days",
      "100 spare GPUs for6.2 days20.2 days",
    ]);
    const expiring = await region("Expiring credits");
    expect(expiring.getByText(/^620 GPU-h expire by 30 Nov/)).toBeInTheDocument();
    expect(expiring.getAllByRole("listitem").map((item) => item.textContent.replace(/^[^:]*: /, ""))).toEqual([
      "400 GPU-h expire after 25 Nov, in 7 days or less",
      "220 GPU-h expire after 30 Nov, in 30 days or less",
    ]);
    expect(
      screen.getByText("tidegate credits statement ai-company/research/nlp --pool h100 --month 2026-11"),
    ).toBeInTheDocument();
  });

  it("says that credits are missing where the sums differ", async () => {
    const override: Override = ({ path }) =>
      path.endsWith("/credits") ? { status: 200, body: theCredits({ common_ugpu_s: 1 }) } : undefined;
    open(OF_NLP, { override });
    expect(await screen.findByText("not 0. Tell an administrator: credits are missing.")).toBeInTheDocument();
  });

  it("asks for the month and team that are chosen", async () => {
    const { user, requests, router } = open(OF_NLP);
    await screen.findByRole("region", { name: "Statement · November 2026" });
    await user.click(screen.getByRole("combobox", { name: "Team" }));
    await user.click(await screen.findByRole("option", { name: "ai-company/research/vision" }));
    await waitFor(() => expect(router.state.location.search).toMatchObject({ team: "ai-company/research/vision" }));
    const asked = () => requests.filter(({ path }) => path.endsWith("/statement")).at(-1)?.query;
    await waitFor(() =>
      expect(Object.fromEntries(asked() ?? [])).toEqual({ team: "ai-company/research/vision", pool: "h100", month: "2026-11" }),
    );
  });

  it("has a team without a quota, and a month without lines", async () => {
    const override: Override = ({ path }) => {
      if (path.endsWith("/statement"))
        return {
          status: 200,
          body: { ...aCreditStatement("", "2026-11"), lines: [], expiring: [], opening_ugpu_s: 0, closing_ugpu_s: 0 },
        };
      if (path.endsWith("/history"))
        return { status: 200, body: { ...aCreditHistory("", "2026-11"), days: [], forecast: null, settled_until: null } };
      return path.endsWith("/credits") ? { status: 200, body: theCredits({ teams: [], common_ugpu_s: 0 }) } : undefined;
    };
    open(OF_NLP, { override });
    expect(await screen.findByText("No team has a quota in h100, so no team has credits there.")).toBeInTheDocument();
    expect(screen.getByText("No credits moved in November 2026. The balance was 0 GPU-h.")).toBeInTheDocument();
    expect(screen.getByText("No credits expire: the team has no unspent earnings.")).toBeInTheDocument();
    expect(screen.queryByRole("region", { name: "What the balance buys" })).toBeNull();
  });

  it("shows a refusal in the API's words", async () => {
    const override: Override = ({ path }) =>
      path.endsWith("/statement") ? aProblem(404, "not_found", "There is no team nlp here.") : undefined;
    open(OF_NLP, { override });
    expect(await screen.findByText("There is no team nlp here.")).toBeInTheDocument();
  });
});

describe("transfers of credits", () => {
  it("are asked for with an amount that the team has, once", async () => {
    const { user, requests, container } = open(OF_NLP);
    const card = await region("Transfer credits");
    expect(rowsOf(card).slice(0, 4)).toEqual([
      "TransferRule",
      "Inside researchby its administrator, at once",
      "To other departmentswith their approval",
      "Most that nlp can transfer14,880 GPU-h",
    ]);
    expect(await accessibilityFaults(container)).toEqual([]);
    await user.click(card.getByRole("button", { name: "Transfer credits…" }));
    const dialog = within(await screen.findByRole("dialog"));
    await user.click(dialog.getByRole("button", { name: "Transfer" }));
    expect(dialog.getByText("Give a number such as 500 or 12.5.")).toBeInTheDocument();
    await user.click(dialog.getByRole("combobox", { name: "To" }));
    await user.click(await screen.findByRole("option", { name: "ai-company/production/inference" }));
    await user.type(dialog.getByRole("textbox", { name: "Amount, GPU-h" }), "14880.5");
    await user.type(dialog.getByRole("textbox", { name: "Reason" }), "for the deadline");
    await user.click(dialog.getByRole("button", { name: "Transfer" }));
    expect(dialog.getByText("At most 14,880 GPU-h.")).toBeInTheDocument();
    await user.clear(dialog.getByRole("textbox", { name: "Amount, GPU-h" }));
    await user.type(dialog.getByRole("textbox", { name: "Amount, GPU-h" }), "22.5");
    await user.click(dialog.getByRole("button", { name: "Transfer" }));
    expect(await screen.findByText("The transfer to inference waits for approval.")).toBeInTheDocument();
    const sent = requests.filter(({ method }) => method === "POST");
    expect(sent.map(({ body }) => body)).toEqual([
      {
        sender: "ai-company/research/nlp",
        recipient: "ai-company/production/inference",
        pool: "h100",
        amount_ugpu_s: 81_000_000_000,
        reason: "for the deadline",
      },
    ]);
    expect(sent[0]?.headers["idempotency-key"]).toMatch(/.{16}/);
  });

  it("wait in an inbox for those who may approve, and are rejected with a note only", async () => {
    const { user, requests } = open(OF_NLP);
    const inbox = await region("Waiting for your approval");
    expect(inbox.getAllByRole("row")).toHaveLength(2);
    expect(inbox.getByText("inference → nlp")).toBeInTheDocument();
    await user.click(inbox.getByRole("button", { name: "Reject…" }));
    const dialog = within(await screen.findByRole("dialog", { name: "Reject the transfer?" }));
    expect(dialog.getByRole("button", { name: "Reject" })).toBeDisabled();
    await user.type(dialog.getByRole("textbox", { name: "Note" }), "not needed");
    await user.click(dialog.getByRole("button", { name: "Reject" }));
    expect(await screen.findByText("The transfer to nlp is rejected.")).toBeInTheDocument();
    await user.click(inbox.getByRole("button", { name: "Approve…" }));
    await user.click(within(await screen.findByRole("dialog")).getByRole("button", { name: "Approve" }));
    await waitFor(() => expect(requests.filter(({ method }) => method === "POST")).toHaveLength(2));
    const sent = requests.filter(({ method }) => method === "POST");
    expect(sent.map(({ path, body }) => [path.split("/").slice(-2).join("/"), body])).toEqual([
      ["0197a000-0000-7000-8000-0000000c0003/reject", { note: "not needed" }],
      ["0197a000-0000-7000-8000-0000000c0003/approve", { note: "" }],
    ]);
  });

  it("of one's own are withdrawn, and refusals are shown in the API's words", async () => {
    const override: Override = ({ method }) =>
      method === "POST" ? aProblem(409, "conflict", "This transfer is expired and waits for nobody.") : undefined;
    const { user } = open(OF_NLP, { override });
    const card = await region("Transfer credits");
    await user.click(await card.findByRole("button", { name: "Withdraw…" }));
    await user.click(within(await screen.findByRole("dialog")).getByRole("button", { name: "Withdraw" }));
    expect(await screen.findByText("This transfer is expired and waits for nobody.")).toBeInTheDocument();
  });

  // Against: the button for everybody.
  it("are for administrators of the department", async () => {
    open(OF_NLP, { company: aCompany({ session: reader() }) });
    const card = await region("Transfer credits");
    expect(card.getByText("The administrators of research transfer its teams' credits.")).toBeInTheDocument();
    expect(screen.queryByRole("button", { name: "Transfer credits…" })).toBeNull();
  });
});

describe("credit bank", () => {
  it("is switched on after a question, from the version that was read", async () => {
    const company = aCompany({ bank: { ...theCreditBank(), is_on: false, version: 5 } });
    const { user, requests, container } = open(OF_NLP, { company });
    expect(await screen.findByText(/Lending earns no credits and borrowing pays none/)).toHaveTextContent(
      "The balances below stay as they are.",
    );
    expect(await accessibilityFaults(container)).toEqual([]);
    await user.click(screen.getByRole("button", { name: "Switch on…" }));
    const dialog = within(await screen.findByRole("dialog"));
    expect(dialog.getByText(/Nothing is posted for the past\./)).toBeInTheDocument();
    await user.click(dialog.getByRole("button", { name: "Switch on" }));
    await waitFor(() => expect(screen.queryByText("The credit bank is off")).toBeNull());
    const change = requests.find(({ method }) => method === "PATCH");
    expect([change?.headers["if-match"], change?.body]).toEqual(['"v5"', { is_on: true }]);
  });

  it("is switched off from its menu", async () => {
    const { user, requests } = open(OF_NLP);
    await user.click(await screen.findByRole("button", { name: "Credit bank" }));
    await user.click(await screen.findByRole("menuitem", { name: "Switch off…" }));
    const dialog = within(await screen.findByRole("dialog"));
    await user.click(dialog.getByRole("button", { name: "Switch off" }));
    expect(await screen.findByText("The credit bank is off")).toBeInTheDocument();
    const change = requests.find(({ method }) => method === "PATCH");
    expect([change?.headers["if-match"], change?.body]).toEqual(['"v2"', { is_on: false }]);
  });

  // Planted: the card with its button for everybody.
  it("has no switch for those without the right, and nothing to show before its first settlement", async () => {
    open(OF_NLP, { company: aCompany({ session: reader() }), override: isOff(false) });
    expect(await screen.findByText(/An administrator with the right/)).toBeInTheDocument();
    expect(screen.queryByRole("button", { name: /Switch|Credit bank/ })).toBeNull();
    expect(screen.queryByRole("region", { name: /Statement|What the balance/ })).toBeNull();
  });
});

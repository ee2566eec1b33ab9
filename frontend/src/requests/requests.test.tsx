import { screen, waitFor, within } from "@testing-library/react";
import { describe, expect, it } from "vitest";

import { aCompany } from "../../mock/answer.ts";
import { theBudgets } from "../../mock/budgets.ts";
import { uuid } from "../../mock/company.ts";
import { aProblem, page } from "../../mock/http.ts";
import { aRequest, aWrite, theRequests } from "../../mock/requests.ts";
import { accessibilityFaults, open, type Override } from "../test/render";
import { comparedOffers, suggestedSources } from "./words";

const GPU = 1000;
const posts = (requests: { method: string; path: string; body: unknown }[], end: string) =>
  requests.filter(({ method, path }) => method === "POST" && path.endsWith(end));

describe("compared offers", () => {
  const supply = {
    guaranteed_mgpu: 0,
    borrow_limit_mgpu: null,
    in_use_mgpu: 0,
    reserve_mgpu: 4 * GPU,
    sources: [
      { node: "a/b", guaranteed_mgpu: 20 * GPU, in_use_mgpu: 9_500, offered_mgpu: 0 },
      { node: "a/c", guaranteed_mgpu: 8 * GPU, in_use_mgpu: 8 * GPU, offered_mgpu: 16 * GPU },
    ],
  };
  const amounts = (mgpu: number) => comparedOffers(supply, mgpu).map((offer) => [offer.key, offer.amountMgpu / GPU]);

  // Against: an offer above what is asked; parts of a GPU; more offered than the sibling has.
  it("are as asked, what is unused, and what is offered, each less than the one before", () => {
    expect(amounts(40 * GPU)).toEqual([["asked", 40], ["unused", 22], ["offered", 12]]);
    expect(amounts(22 * GPU)).toEqual([["asked", 22], ["offered", 12]]);
    expect(amounts(12 * GPU)).toEqual([["asked", 12]]);
    expect(comparedOffers(supply, 22 * GPU)[1]).toMatchObject({ gives: { "a/c": 8 * GPU }, reserveMgpu: 4 * GPU });
  });
});

describe("requests page", () => {
  it("lists what waits for me, with its sources and preview", async () => {
    const { container } = open("/requests");
    const list = within(await screen.findByRole("region", { name: "To decide" }));
    expect((await list.findAllByRole("link")).map((link) => link.querySelector("b")?.textContent)).toEqual([
      "nlp +60 GPUs of h100 until 2026-11-27 18:00 UTC",
      "vision lends 16 GPUs of h100 to nlp until 2026-11-27 18:00 UTC",
      "Role team_lead on nlp",
    ]);
    const rows = within(await screen.findByRole("table", { name: "Sources" })).getAllByRole("row");
    expect(rows.map((row) => row.textContent)).toEqual([
      "TeamUse nowUse afterIn useGuaranteeAfterGives",
      "nlp232200260",
      "visionoffers 16104120104",
      "speech408040",
    ]);
    expect(await screen.findByText(/would start sooner/)).toBeInTheDocument();
    expect(await screen.findByRole("link", { name: /^To decide\s+3$/ })).toHaveAttribute("aria-current", "page");
    expect(await screen.findByRole("link", { name: /^Requests\s+4$/ })).toBeInTheDocument();
    expect(screen.getByText("tidegate requests list --view to_decide")).toBeInTheDocument();
    expect(await accessibilityFaults(container)).toEqual([]);
  });

  // Against: the filters of a link from the weekly mail are not asked for.
  it("shows only the refused requests of a week", async () => {
    const since = "2026-11-16T00:00:00Z";
    const { requests, user } = open(`/requests?view=decided&status=rejected&since=${since}&until=2026-11-23T00:00:00Z`);
    const asked = () => requests.filter(({ path, query }) => path.endsWith("/requests") && query.get("view") === "decided");
    await waitFor(() => expect(asked()).toHaveLength(1));
    expect(Object.fromEntries(asked()[0]?.query ?? [])).toEqual({
      view: "decided",
      status: "rejected",
      decided_since: since,
      decided_until: "2026-11-23T00:00:00Z",
      limit: "50",
    });
    expect(screen.getByText(/^Only rejected requests/)).toBeInTheDocument();
    await user.click(screen.getByRole("link", { name: "Show all" }));
    await waitFor(() => expect(screen.queryByText(/^Only rejected requests/)).toBeNull());
  });

  // Against: a chosen offer that leaves the fields as they were; the same preview for each.
  it("compares smaller offers with what is asked, and fills the form with a chosen one", async () => {
    const { user, requests } = open("/requests");
    const table = within(await screen.findByRole("table", { name: "Compared offers" }));
    expect(table.getAllByRole("row").slice(1).map((row) => row.textContent)).toEqual([
      "+60 as askedvision 16, speech 40, reserve 4––––",
      "+20 that are offered or in reservevision 16, reserve 4––––",
    ]);
    const before = posts(requests, "/preview").length;
    await user.click(screen.getByRole("button", { name: "Compare" }));
    await waitFor(() => expect(posts(requests, "/preview")).toHaveLength(before + 2));
    expect(posts(requests, "/preview").slice(before).map(({ body }) => (body as { amount: number }).amount)).toEqual([
      60 * GPU,
      20 * GPU,
    ]);
    await waitFor(() => expect(table.getAllByRole("row")[2]).not.toHaveTextContent("–"));
    await user.click(table.getByRole("radio", { name: "+20 that are offered or in reserve" }));
    expect(screen.getByRole("textbox", { name: "GPUs" })).toHaveValue("20");
    expect(screen.getByRole("textbox", { name: "GPUs from ai-company/research/speech" })).toHaveValue("0");
    await user.click(screen.getByRole("button", { name: "Counter-offer" }));
    await waitFor(() => expect(posts(requests, "/counter")).toHaveLength(1));
    expect(posts(requests, "/counter")[0]?.body).toMatchObject({
      amount: 20 * GPU,
      sources: [{ node: "ai-company/research/vision", amount_mgpu: 16 * GPU }],
    });
  });

  // Against: the ETag of the page was sent, and not that of the preview.
  it("approves what was previewed, with the chosen sources", async () => {
    const override: Override = ({ path, method }) =>
      method === "POST" && path.endsWith("/preview")
        ? aProblem(409, "conflict", "vision cannot give more.")
        : undefined;
    const { user, requests } = open("/requests", { override });
    expect(await screen.findByText("vision cannot give more.")).toBeInTheDocument();
    const speech = screen.getByRole("textbox", { name: "GPUs from ai-company/research/speech" });
    expect(speech).toHaveValue("40");
    await user.clear(speech);
    await user.type(speech, "20");
    await user.click(screen.getByRole("button", { name: "Approve +60 GPUs" }));
    expect(await screen.findByText("Approved. The change is made.")).toBeInTheDocument();
    const [sent] = posts(requests, "/approve");
    expect(sent?.body).toEqual({
      sources: [
        { node: "ai-company/research/vision", amount_mgpu: 16 * GPU },
        { node: "ai-company/research/speech", amount_mgpu: 20 * GPU },
      ],
      note: "",
    });
  });

  // Planted: an emptied or unreadable field keeps its last number.
  it("takes nothing from an emptied source, and decides nothing while a source cannot be read", async () => {
    const { user, requests } = open("/requests");
    const speech = await screen.findByRole("textbox", { name: "GPUs from ai-company/research/speech" });
    await user.clear(speech);
    await user.type(speech, "4o");
    expect(screen.getByText("A number of GPUs, such as 16.")).toBeVisible();
    expect(screen.getByRole("button", { name: "Approve +60 GPUs" })).toBeDisabled();
    const amount = screen.getByRole("textbox", { name: "GPUs" });
    await user.clear(amount);
    await user.type(amount, "56");
    expect(screen.getByRole("button", { name: "Counter-offer" })).toBeDisabled();
    await user.clear(speech);
    expect(screen.queryByText("A number of GPUs, such as 16.")).toBeNull();
    await user.click(screen.getByRole("button", { name: "Counter-offer" }));
    await waitFor(() => expect(posts(requests, "/counter")).toHaveLength(1));
    expect(posts(requests, "/counter")[0]?.body).toMatchObject({
      sources: [{ node: "ai-company/research/vision", amount_mgpu: 16 * GPU }],
    });
  });

  // Planted: the first ETag is sent again; a refused decision does not read the request again.
  it("decides a request without a preview after it was read again", async () => {
    const budget = aRequest(7, {
      kind: "budget",
      pool: null,
      unit: "money",
      amount: 4_000_000_000_000,
      amount_text: "4000.00",
      until: null,
      supply: null,
    });
    let version = 1;
    const override: Override = ({ path, method, headers }) => {
      if (!path.endsWith(budget.id) && !path.endsWith(`${budget.id}/approve`)) return undefined;
      if (method === "POST" && headers["if-match"] !== '"b-2"') {
        version = 2;
        return aProblem(412, "precondition_failed", "The budget changed. Look again.");
      }
      return { status: 200, body: budget, headers: { ETag: `"b-${version}"` } };
    };
    const { user, requests } = open(`/requests?request=${budget.id}`, { override });
    await user.click(await screen.findByRole("button", { name: "Approve +4000.00" }));
    expect(await screen.findByText("The budget changed. Look again.")).toBeVisible();
    // Shorter than the 30 s after which a page without live hints reads all again.
    await waitFor(
      () => expect(requests.filter(({ method, path }) => method === "GET" && path.endsWith(budget.id))).toHaveLength(2),
      { timeout: 10_000 },
    );
    await user.click(screen.getByRole("button", { name: "Approve +4000.00" }));
    expect(await screen.findByText("Approved. The change is made.")).toBeInTheDocument();
    const approvals = requests.filter(({ path }) => path.endsWith("/approve"));
    expect(approvals.map(({ headers }) => headers["if-match"])).toEqual(['"b-1"', '"b-2"']);
  });

  // Planted: the view of all sends its name, which the API refuses.
  it("lists all that I may read, also what others decide", async () => {
    const { user, requests } = open("/requests");
    await user.click(await screen.findByRole("link", { name: "All" }));
    const list = within(await screen.findByRole("region", { name: "All" }));
    await waitFor(() => expect(list.getAllByRole("link")).toHaveLength(theRequests().length));
    expect(screen.getByText("tidegate requests list")).toBeInTheDocument();
    const asked = requests.filter(({ path }) => path === "/api/v1/requests");
    expect(asked.at(-1)?.query.has("view")).toBe(false);
  });

  it("makes a counter-offer of another amount, and rejects with a note only", async () => {
    const { user, requests } = open("/requests");
    const amount = await screen.findByRole("textbox", { name: "GPUs" });
    expect(screen.getByRole("button", { name: "Counter-offer" })).toBeDisabled();
    expect(screen.getByRole("button", { name: "Reject" })).toBeDisabled();
    await user.clear(amount);
    await user.type(amount, "56");
    expect(screen.getByRole("button", { name: "Approve +60 GPUs" })).toBeDisabled();
    await user.click(screen.getByRole("button", { name: "Counter-offer" }));
    await waitFor(() => expect(posts(requests, "/counter")).toHaveLength(1));
    expect(posts(requests, "/counter")[0]?.body).toMatchObject({ amount: 56 * GPU });
  });

  it("shows a counter-offer to the person who asked, who accepts it", async () => {
    const { user, requests } = open("/requests?view=mine");
    await user.click(await screen.findByRole("button", { name: "Accept" }));
    expect(await screen.findByText("Accepted. The change is made.")).toBeInTheDocument();
    expect(posts(requests, "/offers/1/accept")).toHaveLength(1);
  });

  it("asks before it withdraws, and takes comments", async () => {
    const { user, requests } = open("/requests?view=mine");
    await user.type(await screen.findByRole("textbox", { name: "Comment" }), "thanks");
    await user.click(screen.getByRole("button", { name: "Send" }));
    await waitFor(() => expect(posts(requests, "/comments")[0]?.body).toEqual({ text: "thanks" }));
    await user.click(await screen.findByRole("button", { name: "Withdraw…" }));
    await user.click(within(await screen.findByRole("dialog")).getByRole("button", { name: "Withdraw" }));
    await waitFor(() => expect(posts(requests, "/withdraw")).toHaveLength(1));
  });

  // Against: the amount of the address was not filled in.
  it("asks for more from a link, with its node, pool and size", async () => {
    const { user, requests } = open("/requests?ask=guarantee&node=ai-company/research/nlp&pool=h100&gpus=24");
    const dialog = within(await screen.findByRole("dialog", { name: "New request" }));
    expect(dialog.getByRole("button", { name: "Send request" })).toBeDisabled();
    await user.type(dialog.getByRole("textbox", { name: /Reason/ }), "the review");
    await user.click(dialog.getByRole("button", { name: "Send request" }));
    await waitFor(() => expect(posts(requests, "/requests")).toHaveLength(1));
    expect(posts(requests, "/requests")[0]?.body).toEqual({
      kind: "guarantee",
      node: "ai-company/research/nlp",
      pool: "h100",
      begin: null,
      until: null,
      amount: 24 * GPU,
      reason: "the review",
    });
  });

  // Against: the begin is lost.
  it("asks for a later begin", async () => {
    const { user, requests } = open("/requests?ask=guarantee&node=ai-company/research/nlp&pool=h100&gpus=24");
    const dialog = within(await screen.findByRole("dialog", { name: "New request" }));
    await user.type(dialog.getByRole("textbox", { name: /Reason/ }), "the review");
    await user.type(dialog.getByLabelText(/^From/), "2026-12-01T08:00");
    await user.type(dialog.getByLabelText(/^Until/), "2026-12-02T08:00");
    await user.click(dialog.getByRole("button", { name: "Send request" }));
    await waitFor(() => expect(posts(requests, "/requests")).toHaveLength(1));
    expect(posts(requests, "/requests")[0]?.body).toMatchObject({
      begin: new Date("2026-12-01T08:00").toISOString().replace(".000Z", "Z"),
      until: new Date("2026-12-02T08:00").toISOString().replace(".000Z", "Z"),
    });
  });

  it("asks for a role until a date", async () => {
    const { user, requests } = open("/requests?ask=role&node=ai-company/research/nlp");
    const dialog = within(await screen.findByRole("dialog", { name: "New request" }));
    await user.click(dialog.getByRole("combobox", { name: /Role/ }));
    await user.click(await screen.findByRole("option", { name: "team lead" }));
    await user.type(dialog.getByRole("textbox", { name: /Reason/ }), "leo is on leave");
    await user.type(dialog.getByLabelText(/^Until/), "2026-12-02T08:00");
    expect(dialog.queryByLabelText(/^From/)).toBeNull();
    await user.click(dialog.getByRole("button", { name: "Send request" }));
    await waitFor(() => expect(posts(requests, "/requests")).toHaveLength(1));
    expect(posts(requests, "/requests")[0]?.body).toEqual({
      kind: "role",
      node: "ai-company/research/nlp",
      role: "team_lead",
      until: new Date("2026-12-02T08:00").toISOString().replace(".000Z", "Z"),
      reason: "leo is on leave",
    });
  });

  // Planted: only the first page of budgets.
  it("offers all budgets for a larger one", async () => {
    const [budget] = theBudgets();
    const many = Array.from({ length: 501 }, (_, number) => ({ ...budget, id: uuid(7000 + number), name: `budget ${number}` }));
    const override: Override = ({ path, query }) => (path === "/api/v1/budgets" ? page(many, query) : undefined);
    const { user } = open("/requests?ask=budget", { override });
    const dialog = within(await screen.findByRole("dialog", { name: "New request" }));
    await user.type(dialog.getByRole("combobox", { name: /Budget/ }), "budget 500");
    expect(await screen.findByRole("option", { name: /^budget 500 / })).toBeInTheDocument();
  });
});

describe("suggested sources", () => {
  it("take offers first, then the reserve, then what is idle", () => {
    const [request] = theRequests();
    const supply = request?.supply ?? aRequest(1).supply;
    if (supply === null) throw new Error("the request has a supply");
    expect(suggestedSources(supply, 10 * GPU)).toEqual({ "ai-company/research/vision": 10 * GPU });
    expect(suggestedSources(supply, 20 * GPU)).toEqual({ "ai-company/research/vision": 16 * GPU });
    expect(suggestedSources(supply, 60 * GPU)).toEqual({
      "ai-company/research/vision": 16 * GPU,
      "ai-company/research/speech": 40 * GPU,
    });
  });
});

describe("a change that waits for a second person", () => {
  // Against: a write was shown as a change of quotas, with sources and a counter-offer.
  it("is approved by its effects, and neither has sources nor a counter-offer", async () => {
    const company = aCompany({ requests: [aWrite()] });
    const { requests, user, container } = open("/requests", { company });
    const effects = within(await screen.findByRole("region", { name: "Effects" }));
    const settings = within(effects.getByRole("table", { name: "Changed settings" })).getAllByRole("row");
    expect(settings.map((row) => row.textContent)).toEqual([
      "OfSettingBeforeAfter",
      "ai-company/research/vision in h100guaranteed12080",
    ]);
    const stopped = within(effects.getByRole("table", { name: "Stopped jobs" })).getAllByRole("row");
    expect(stopped[1]?.textContent).toBe("ai-company/research/visionh100310.00");
    expect(screen.queryByRole("button", { name: "Counter-offer" })).toBeNull();
    expect(screen.queryByRole("button", { name: "Make the change without a second person" })).toBeNull();
    expect(await accessibilityFaults(container)).toEqual([]);
    await user.click(screen.getByRole("button", { name: "Approve" }));
    await waitFor(() => expect(posts(requests, "/approve")).toHaveLength(1));
    expect(posts(requests, "/approve")[0]?.body).toEqual({ sources: [], note: "" });
  });

  it("is made without a second person by a platform administrator with a reason", async () => {
    const write = aWrite({ can_decide: false, is_yours: true });
    const company = aCompany({ requests: [{ ...write, write: write.write && { ...write.write, may_override: true } }] });
    const { requests, user, container } = open("/requests?view=mine", { company });
    const override = await screen.findByRole("button", { name: "Make the change without a second person" });
    expect(override).toBeDisabled();
    expect(await accessibilityFaults(container)).toEqual([]);
    await user.type(screen.getByRole("textbox", { name: "Why it cannot wait" }), "The cluster burns.");
    await user.click(override);
    await waitFor(() => expect(posts(requests, "/override")).toHaveLength(1));
    expect(posts(requests, "/override")[0]?.body).toEqual({ reason: "The cluster burns." });
  });

  // Against: the answer 202 was taken for a change that was made.
  it("is told with a link where it was made", async () => {
    const detail = "It moves 16 GPUs, so it waits for a second person until 2026-12-07 12:00 UTC. Nothing has changed yet.";
    const id = aWrite().id;
    const override: Override = ({ path, method }) =>
      method === "PATCH" && path.endsWith("/policy")
        ? { status: 202, body: { request: id, url: `/api/v1/requests/${id}`, detail, expires_at: "2026-12-07T12:00:00Z" } }
        : undefined;
    const { user } = open("/policy", { override });
    const form = within(await screen.findByRole("region", { name: "Policy of AI Company" }));
    const grace = await form.findByRole("textbox", { name: "Grace period" });
    await user.clear(grace);
    await user.type(grace, "7m");
    await user.click(form.getByRole("button", { name: "Save" }));
    const link = await screen.findByRole("link", { name: "Open the request" });
    expect(link).toHaveAttribute("href", `/requests?view=mine&request=${id}`);
    expect(form.getByRole("alert")).toHaveTextContent(detail);
    expect(grace).toHaveValue("7m");
  });
});

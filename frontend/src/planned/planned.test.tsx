import { screen, waitFor, within } from "@testing-library/react";
import { describe, expect, it } from "vitest";

import { aCompany, answer } from "../../mock/answer.ts";
import { aProblem } from "../../mock/http.ts";
import { aQuota, aSession, theQuotas } from "../../mock/company.ts";
import { aPlannedChange, aPreview } from "../../mock/planned.ts";
import { accessibilityFaults, open } from "../test/render";
import { localOfUtc, utcOfLocal } from "../ui/localTime";
import { outlook, readRow, rowFieldsOf, rowsOfDraft, typedAfter } from "./draft";
import { describeEdit, previewSentence, previewSums } from "./words";

const NLP = "ai-company/research/nlp";
const RESEARCH = "ai-company/research";
const DRAFT = "01935000-0000-7000-8000-00000000f001";

function quotaOf(node: string) {
  const found = theQuotas().find((quota) => quota.node === node);
  if (found === undefined) throw new Error(node);
  return found;
}

describe("a row of a draft", () => {
  const quota = aQuota(NLP, 200, { inUse: 0 }, { guaranteed_percent: "50.00", borrow_limit_mgpu: 40_000 });

  it("sets only what is not so already, in the unit that was typed", () => {
    const same = rowFieldsOf(quota);
    expect(same).toEqual({ guaranteed: "50 %", borrowLimit: "40", lendLimit: "", weight: "1" });
    const edit = (typed: object) => readRow(quota, typed).edit;
    for (const typed of [same, {}]) {
      expect(readRow(quota, typed)).toEqual({ errors: {}, edit: { quota: quota.id }, isEdited: false });
    }
    expect(edit({ guaranteed: "50%" })).toEqual({ quota: quota.id });
    expect(edit({ guaranteed: "200" })).toEqual({ quota: quota.id, guaranteed_mgpu: 200_000 });
    expect(edit({ guaranteed: "33.33 %" })).toEqual({ quota: quota.id, guaranteed_percent: "33.33" });
    expect(edit({ borrowLimit: "", lendLimit: "0", weight: "2" })).toEqual({
      quota: quota.id,
      borrow_limit_mgpu: null,
      lend_limit_mgpu: 0,
      weight: 2,
    });
  });

  it("says what is wrong with each field and sets nothing then", () => {
    const read = readRow(quota, { guaranteed: "110 %", borrowLimit: "x", lendLimit: "-1", weight: "0" });
    expect([read.edit, read.isEdited, Object.keys(read.errors)]).toEqual([
      null,
      true,
      ["guaranteed", "borrowLimit", "lendLimit", "weight"],
    ]);
    const top = aQuota("ai-company", 1000);
    expect(readRow(top, { ...rowFieldsOf(top), guaranteed: "40 %" }).errors.guaranteed).toBe(
      "An organization has no parent: a number of GPUs.",
    );
  });

  it("holds only what was typed, and forgets what says again what is there", () => {
    const typed = typedAfter(quota, { weight: "2" }, { guaranteed: "60 %" });
    expect(typed).toEqual({ guaranteed: "60 %", weight: "2" });
    expect(typedAfter(quota, typed, { guaranteed: "50 %" })).toEqual({ weight: "2" });
    // Somebody else changes what was not typed: it is not written back.
    const theirs = { ...quota, borrow_limit_mgpu: 80_000, guaranteed_percent: "30.00" };
    expect(readRow(theirs, typed).edit).toEqual({ quota: quota.id, guaranteed_percent: "60.00", weight: 2 });
  });

  it("takes over what an older draft set", () => {
    const change = aPlannedChange(9, [[NLP, { guaranteed_mgpu: 220_000, lend_limit_mgpu: null, weight: 3 }]]);
    expect(Object.values(rowsOfDraft(change))).toEqual([
      { guaranteed: "220", lendLimit: "", weight: "3" },
    ]);
  });

  it("shows what parents would keep, percentages below following", () => {
    const quotas = theQuotas();
    const typed = { [quotaOf(RESEARCH).id]: { guaranteed: "500" } };
    const found = outlook(quotas, typed);
    expect(found.get(NLP)).toMatchObject({ guaranteedMgpu: 250_000, hasChildren: false });
    expect(found.get(RESEARCH)).toMatchObject({ guaranteedMgpu: 500_000, reserveMgpu: 0 });
    expect(found.get("ai-company")).toMatchObject({ reserveMgpu: -100_000 });
  });

  it("says local times as UTC and back", () => {
    const utc = utcOfLocal("2026-12-01T08:00");
    expect(utc === null ? null : localOfUtc(utc)).toBe("2026-12-01T08:00");
    expect([utcOfLocal(""), utcOfLocal("tomorrow")]).toEqual([null, null]);
  });
});

describe("words", () => {
  it("tells an edit from what is there now, and a made one from what was before", () => {
    const [edit] = aPlannedChange(9, [[NLP, { guaranteed_mgpu: 220_000, borrow_limit_mgpu: 0 }]]).edits;
    if (edit === undefined) throw new Error("no edit");
    edit.current = { ...edit.current, guaranteed_mgpu: 210_000 };
    expect(describeEdit(edit, false)).toEqual(["nlp 210 → 220", "nlp borrow limit none → 0"]);
    expect(describeEdit(edit, true)[0]).toBe("nlp 200 → 220");
  });

  it("sums what the teams' rows count, named or not", () => {
    const sums = previewSums(aPreview());
    expect(sums).toEqual({
      sooner: 3,
      later: 2,
      reclaimed: 1,
      spared: 0,
      atRisk: [{ device: "gpu", mgpuS: 149_400_000 }],
      costBeforeNano: 36_690_000_000_000,
      costAfterNano: 37_775_000_000_000,
    });
    expect(previewSentence(sums)).toBe(
      "3 jobs would start sooner, 2 jobs later, and 1 job would be told to give GPUs back, with 41.50 GPU-hours of work at risk.",
    );
    expect(previewSentence({ ...sums, sooner: 0, later: 0, reclaimed: 0 })).toBe(
      "No start would move, and no job would be preempted because of the change.",
    );
  });

  // Planted: the sum of both, as GPU-hours.
  it("keeps the work of cores at risk apart from that of GPUs", () => {
    const preview = aPreview();
    const [team] = preview.teams;
    if (!team) throw new Error("the mock has teams");
    const cores = { ...team, pool: "cpu", device: "cpu" as const, at_risk_mgpu_s: 7_200_000 };
    expect(previewSentence(previewSums({ ...preview, teams: [...preview.teams, cores] }))).toContain(
      "told to give GPUs or cores back, with 41.50 GPU-hours and 2.00 core-hours of work at risk",
    );
    expect(previewSentence(previewSums({ ...preview, teams: [{ ...cores, jobs_spared: 1, jobs_reclaimed: 1 }] }))).toContain(
      "1 job would be told to give cores back, with 2.00 core-hours of work at risk, and 1 job would be spared from giving cores back",
    );
  });

  it("knows no cost in all where one team's cannot be seen", () => {
    const preview = aPreview();
    const hidden = preview.teams.map((team, i) => (i === 0 ? { ...team, cost_after_nano: null } : team));
    expect(previewSums({ ...preview, teams: hidden }).costAfterNano).toBeNull();
  });
});

describe("the list of planned changes", () => {
  it("says what, where it stands and since when", async () => {
    const { container, user } = open("/quota-changes");
    const row = await screen.findByRole("row", { name: /camera-ready deadline/ });
    expect(within(row).getAllByText("nlp 200 → 220")[0]).toBeInTheDocument();
    expect(within(row).getByText("draft")).toBeInTheDocument();
    expect(await accessibilityFaults(container)).toEqual([]);
    await user.click(screen.getByRole("combobox", { name: "State" }));
    await user.click(await screen.findByRole("option", { name: "failed" }));
    await waitFor(() => expect(screen.queryByRole("row", { name: /camera-ready deadline/ })).toBeNull());
    expect(screen.getByRole("row", { name: /more room for exploration/ })).toBeInTheDocument();
    expect(screen.getByText("tidegate quota-changes list --status failed")).toBeInTheDocument();
  });

  it("offers no draft to who may change no quota", async () => {
    const session = aSession({ permissions: { "ai-company": ["view_tree"] } });
    open("/quota-changes", { company: aCompany({ session, planned: [] }) });
    expect(await screen.findByText("No change of quotas was planned yet that you can see.")).toBeInTheDocument();
    expect(screen.queryByRole("link", { name: /Change quotas|Draft the first/ })).toBeNull();
  });

  it("says what failed", async () => {
    open("/quota-changes", {
      override: ({ path }) =>
        path === "/api/v1/quota-changes" ? aProblem(503, "down", "The database does not answer.") : undefined,
    });
    expect(await screen.findByRole("alert")).toHaveTextContent("The database does not answer.");
  });
});

describe("drafting", () => {
  it("sends the edited figures as one draft, once, and looks ahead", async () => {
    const { user, requests, router, container } = open("/quota-changes/new?pool=h100");
    const nlp = await screen.findByRole("textbox", { name: "New guarantee of nlp" });
    await user.clear(nlp);
    await user.type(nlp, "220");
    expect(screen.getByText("▲ 20 too many", { exact: false, selector: "b" })).toBeInTheDocument();
    const vision = screen.getByRole("textbox", { name: "New guarantee of vision" });
    await user.clear(vision);
    await user.type(vision, "25 %");
    expect(screen.queryByText(/too many/)).toBeNull();
    await user.click(screen.getByRole("button", { name: "Limits and weight of vision" }));
    await user.type(screen.getByRole("textbox", { name: /^Borrow limit/ }), "8");
    expect(await accessibilityFaults(container)).toEqual([]);
    const save = screen.getByRole("button", { name: "Save the draft and preview it" });
    expect(save).toBeDisabled();
    await user.type(screen.getByRole("textbox", { name: /^Reason/ }), "deadline");
    await user.click(screen.getByRole("radio", { name: "Reverted after" }));
    await user.type(screen.getByRole("textbox", { name: /^Reverted after/ }), "3d");
    await user.click(save);

    expect(await screen.findByRole("heading", { name: /deadline/ })).toBeInTheDocument();
    expect(await screen.findByText(/^3 jobs would start sooner/)).toBeInTheDocument();
    const sent = requests.filter(({ method, path }) => method === "POST" && path === "/api/v1/quota-changes");
    expect(sent.map(({ body }) => body)).toEqual([
      {
        edits: [
          { quota: quotaOf(NLP).id, guaranteed_mgpu: 220_000 },
          { quota: quotaOf("ai-company/research/vision").id, guaranteed_percent: "25.00", borrow_limit_mgpu: 8000 },
        ],
        reason: "deadline",
        apply_at: null,
        revert_after_s: 259_200,
      },
    ]);
    expect(sent[0]?.headers["idempotency-key"]).toMatch(/.{16}/);
    expect(router.state.location.searchStr).toBe("");
    expect(requests.filter(({ path }) => path.endsWith("/preview"))).toHaveLength(1);
  });

  // Planted: a row that was touched kept all its fields.
  it("does not write back what somebody else changed while it was drafted", async () => {
    const company = aCompany();
    const { user, requests, queryClient } = open("/quota-changes/new?pool=h100", { company });
    const nlp = await screen.findByRole("textbox", { name: "New guarantee of nlp" });
    await user.clear(nlp);
    await user.type(nlp, "190");
    await user.click(screen.getByRole("button", { name: "Limits and weight of nlp" }));
    Object.assign(company.quotas.find((quota) => quota.node === NLP) ?? {}, { borrow_limit_mgpu: 16_000, weight: 5 });
    await queryClient.invalidateQueries({ queryKey: ["quotas"] });
    await waitFor(() => expect(screen.getByRole("textbox", { name: /^Borrow limit/ })).toHaveValue("16"));
    expect(nlp).toHaveValue("190");
    await user.type(screen.getByRole("textbox", { name: /^Reason/ }), "less");
    await user.click(screen.getByRole("button", { name: "Save the draft and preview it" }));
    await screen.findByRole("heading", { name: /less/ });
    const [sent] = requests.filter(({ method, path }) => method === "POST" && path === "/api/v1/quota-changes");
    expect(sent?.body).toMatchObject({ edits: [{ quota: quotaOf(NLP).id, guaranteed_mgpu: 190_000 }] });
    expect(Object.keys((sent?.body as { edits: object[] }).edits[0] ?? {})).toEqual(["quota", "guaranteed_mgpu"]);
  });

  it("puts a refusal at the row and the field that it is about", async () => {
    const { user } = open("/quota-changes/new?pool=h100", {
      override: ({ method, path }) =>
        method === "POST" && path === "/api/v1/quota-changes"
          ? aProblem(400, "invalid", "Some fields are wrong.", {
              errors: [{ pointer: "/edits/0/guaranteed_mgpu", detail: "is too much", code: "max" }],
            })
          : undefined,
    });
    const nlp = await screen.findByRole("textbox", { name: "New guarantee of nlp" });
    await user.clear(nlp);
    await user.type(nlp, "220");
    await user.type(screen.getByRole("textbox", { name: /^Reason/ }), "why not");
    await user.click(screen.getByRole("button", { name: "Save the draft and preview it" }));
    expect(await screen.findByText("is too much")).toBeInTheDocument();
    expect(nlp).toBeInvalid();
    expect(nlp).toHaveValue("220");
  });

  it("has no field for what I may not change, and no form where I may change nothing", async () => {
    const quotas = theQuotas().map((quota) =>
      quota.node === NLP ? { ...quota, can_edit: ["lend_limit_mgpu" as const] } : { ...quota, can_edit: [] },
    );
    const view = open("/quota-changes/new?pool=h100", { company: aCompany({ quotas }) });
    expect(await screen.findByRole("textbox", { name: "New guarantee of nlp" })).toBeInTheDocument();
    expect(screen.queryByRole("textbox", { name: "New guarantee of vision" })).toBeNull();
    view.unmount();
    open("/quota-changes/new", {
      company: aCompany({ quotas: quotas.map((quota) => ({ ...quota, can_edit: [] })) }),
    });
    expect(await screen.findByText(/You may change no quota/)).toBeInTheDocument();
  });

  it("begins with the figures of the draft that it replaces, which is given up", async () => {
    const company = aCompany();
    const { user } = open(`/quota-changes/new?from=${DRAFT}`, { company });
    const nlp = await screen.findByRole("textbox", { name: "New guarantee of nlp" });
    expect(nlp).toHaveValue("220");
    await user.clear(nlp);
    await user.type(nlp, "210");
    await user.click(screen.getByRole("button", { name: "Save the draft and preview it" }));
    expect(await screen.findByText(/would start sooner/)).toBeInTheDocument();
    expect(company.planned.find(({ id }) => id === DRAFT)?.status).toBe("cancelled");
    expect(company.planned[0]?.edits.map(({ set }) => set)).toEqual([
      { guaranteed_mgpu: 210_000 },
      { guaranteed_mgpu: 100_000 },
    ]);
  });
});

describe("one planned change", () => {
  it("shows each figure three ways, previews on demand, and applies what was seen", async () => {
    const company = aCompany();
    const { user, requests, container } = open(`/quota-changes/${DRAFT}`, { company });
    const row = await screen.findByRole("row", { name: /research\/nlp/ });
    expect(within(row).getAllByRole("cell").map((cell) => cell.textContent)).toEqual([
      "Guaranteed",
      "200",
      "200",
      "220",
    ]);
    await user.click(screen.getByRole("button", { name: "Preview" }));
    expect(await screen.findByText(/^3 jobs would start sooner/)).toBeInTheDocument();
    const starts = screen.getByRole("region", { name: "Starts" });
    expect(within(starts).getByRole("row", { name: /pretrain-13b/ })).toHaveTextContent("4 h 56 min sooner");
    expect(screen.getByRole("row", { name: /segment-anything/ })).toHaveTextContent("41.50");
    expect(screen.getByRole("row", { name: /^nlp/ })).toHaveTextContent("+900.00");
    // Planted: what columns say that a phone has no room for is nowhere there.
    const onPhones = screen.getByRole("rowheader", { name: /^nlp/ }).querySelectorAll(".only-phone");
    expect([...onPhones].map((each) => each.textContent)).toEqual(["in use now 0", "cost €9,600.00+€1,800.00"]);
    expect(screen.getByText(/An estimate, not a promise/)).toBeInTheDocument();
    expect(await accessibilityFaults(container)).toEqual([]);

    await user.click(screen.getByRole("button", { name: "Apply it now" }));
    await user.click(await screen.findByRole("button", { name: "Apply it" }));
    expect(await screen.findByText("applied for a time")).toBeInTheDocument();
    expect(company.quotas.find(({ node }) => node === NLP)?.guaranteed_mgpu).toBe(220_000);
    expect(requests.find(({ path }) => path.endsWith("/apply"))?.headers["if-match"]).toBe('"001-draft-30"');
  });

  it("shows what changed meanwhile, keeps the draft, and applies after another look", async () => {
    const company = aCompany();
    const { user, requests } = open(`/quota-changes/${DRAFT}`, { company });
    await user.click(await screen.findByRole("button", { name: "Preview" }));
    await screen.findByText(/^3 jobs would start sooner/);
    const theirs = company.quotas.find((quota) => quota.node === NLP);
    Object.assign(theirs ?? {}, { guaranteed_mgpu: 190_000, guaranteed_percent: null, version: 4 });
    await user.click(screen.getByRole("button", { name: "Apply it now" }));
    await user.click(await screen.findByRole("button", { name: "Apply it" }));

    const alert = await screen.findByText("Something changed meanwhile");
    const card = alert.closest<HTMLElement>("[role=alert]");
    expect(card).toHaveTextContent("your draft is kept");
    await waitFor(() =>
      expect(card).toHaveTextContent(`${NLP} · h100: guaranteed 200 → 190, percent of parent 50 % → none`),
    );
    expect(company.planned.find(({ id }) => id === DRAFT)?.status).toBe("draft");

    expect(screen.getByRole("button", { name: "Apply it now" })).toBeDisabled();
    await user.click(within(card ?? document.body).getByRole("button", { name: "Preview it again" }));
    await waitFor(() => expect(screen.queryByText("Something changed meanwhile")).toBeNull());
    await user.click(screen.getByRole("button", { name: "Apply it now" }));
    await user.click(await screen.findByRole("button", { name: "Apply it" }));
    expect(await screen.findByText("applied for a time")).toBeInTheDocument();
    const sent = requests.filter(({ path }) => path.endsWith("/apply")).map(({ headers }) => headers["if-match"]);
    expect(sent).toEqual(['"001-draft-30"', '"001-draft-31"']);
  });

  // Against: Apply stays enabled beside a preview that the rules refuse.
  it("cannot be applied while its preview says that the rules refuse it", async () => {
    const company = aCompany();
    const { user } = open(`/quota-changes/${DRAFT}`, {
      company,
      override: (request) => {
        if (!request.path.endsWith("/preview")) return undefined;
        const made = answer(company, request);
        return { ...made, body: { ...(made.body as object), refusal: "Research has only 400 GPUs." } };
      },
    });
    const apply = await screen.findByRole("button", { name: "Apply it now" });
    expect(apply).toBeEnabled();
    await user.click(apply);
    expect(await screen.findByText(/^No preview is open here\./)).toBeInTheDocument();
    await user.keyboard("{Escape}");
    await user.click(screen.getByRole("button", { name: "Preview" }));
    expect(await screen.findByText("Research has only 400 GPUs.")).toBeInTheDocument();
    expect(screen.getByRole("button", { name: "Apply it now" })).toBeDisabled();
    expect(screen.getByText(/^This draft cannot be applied\./)).toBeInTheDocument();
  });

  it("says in the rules' words why it cannot be applied, and offers to change the draft", async () => {
    const { user } = open(`/quota-changes/${DRAFT}`, {
      override: ({ path }) =>
        path.endsWith("/apply") ? aProblem(409, "envelope_exceeded", "Research has only 400 GPUs.") : undefined,
    });
    await user.click(await screen.findByRole("button", { name: "Apply it now" }));
    await user.click(await screen.findByRole("button", { name: "Apply it" }));
    const alert = await screen.findByRole("alert");
    expect(alert).toHaveTextContent("Research has only 400 GPUs.");
    expect(within(alert).getByRole("link", { name: "Change the draft" })).toHaveAttribute(
      "href",
      `/quota-changes/new?from=${DRAFT}`,
    );
  });

  it("warns where a preview was cut short or the rules refuse", async () => {
    let preview = aPreview({ is_cut: true });
    const { user } = open(`/quota-changes/${DRAFT}`, {
      override: ({ path }) =>
        path.endsWith("/preview") ? { status: 200, body: preview, headers: { ETag: '"001-draft-30"' } } : undefined,
    });
    await user.click(await screen.findByRole("button", { name: "Preview" }));
    expect(await screen.findByText(/Cut short/)).toBeInTheDocument();
    preview = aPreview({ refusal: "Research has only 400 GPUs.", teams: [] });
    await user.click(screen.getByRole("button", { name: "Preview again" }));
    expect(await screen.findByText("This change cannot be applied now")).toBeInTheDocument();
    expect(screen.queryByText(/Cut short/)).toBeNull();
  });

  it("tells the first moment of the future that it looks at as at once", async () => {
    const asOf = "2026-11-22T14:00:00Z";
    const [loss] = aPreview().reclaimed;
    const [start] = aPreview().starts;
    if (loss === undefined || start === undefined) throw new Error("an empty preview");
    const preview = aPreview({
      as_of: asOf,
      reclaimed: [{ ...loss, noticed_at: asOf }],
      starts: [{ ...start, after: asOf, sooner_s: 3135 }],
    });
    const { user } = open(`/quota-changes/${DRAFT}`, {
      override: ({ path }) =>
        path.endsWith("/preview") ? { status: 200, body: preview, headers: { ETag: '"001-draft-30"' } } : undefined,
    });
    await user.click(await screen.findByRole("button", { name: "Preview" }));
    expect(await screen.findAllByText("at once")).toHaveLength(2);
    expect(within(screen.getByRole("region", { name: "Starts" })).getByText("52 min sooner")).toBeInTheDocument();
  });

  it("says in the server's words why it is not worked out, and when to ask again", async () => {
    const { user } = open(`/quota-changes/${DRAFT}`, {
      override: ({ path }) =>
        path.endsWith("/preview") ? aProblem(429, "too_many", "Another look-ahead is being computed; ask again in 5 seconds.") : undefined,
    });
    await user.click(await screen.findByRole("button", { name: "Preview" }));
    expect(await screen.findByRole("alert")).toHaveTextContent(/^Another look-ahead is being computed; ask again in 5 seconds\.$/);
  });

  it("lets a lead who lacks the rights look, and says who can apply", async () => {
    const company = aCompany({
      session: aSession({ permissions: { [NLP]: ["view_tree", "view_jobs", "manage_quota"] } }),
      planned: [aPlannedChange(1, [[NLP, { guaranteed_mgpu: 220_000 }]], { can_apply: false })],
    });
    open(`/quota-changes/${DRAFT}`, { company });
    expect(await screen.findByText(/Ask an administrator of ai-company\/research to look/)).toBeInTheDocument();
    expect(screen.getByRole("button", { name: "Preview" })).toBeInTheDocument();
    expect(screen.queryByRole("button", { name: /Apply|Schedule/ })).toBeNull();
  });

  // Planted: the sentence for whoever has the right on the parent.
  it.each([
    [NLP, true],
    [RESEARCH, false],
  ])("says before a limit is lowered whether %s's administrator can raise it again", async (path, isSaid) => {
    const company = aCompany({
      session: aSession({ permissions: { [path]: ["view_tree", "view_jobs", "manage_quota"] } }),
      planned: [aPlannedChange(1, [[NLP, { borrow_limit_mgpu: 50_000 }]])],
    });
    open(`/quota-changes/${DRAFT}`, { company });
    await screen.findByRole("button", { name: "Apply it now" });
    const said =
      "You cannot raise the borrow limit of ai-company/research/nlp again yourself. Only an administrator of ai-company/research can.";
    expect(screen.queryAllByText(said)).toHaveLength(isSaid ? 1 : 0);
  });

  it("previews for a lead of whom a draft would take, who can do no more with it", async () => {
    // Planted: who may not cancel it may not preview it.
    const company = aCompany({
      planned: [aPlannedChange(1, [[NLP, { guaranteed_mgpu: 100_000 }]], { can_apply: false, can_manage: false })],
    });
    const { user } = open(`/quota-changes/${DRAFT}`, { company });
    await user.click(await screen.findByRole("button", { name: "Preview" }));
    expect(await screen.findByText(/^3 jobs would start sooner/)).toBeInTheDocument();
    expect(screen.queryByRole("button", { name: /Apply|Cancel/ })).toBeNull();
    expect(screen.queryByRole("link", { name: "Change the draft" })).toBeNull();
  });

  it("keeps for good what would be taken back", async () => {
    const company = aCompany();
    const { user } = open("/quota-changes/01935000-0000-7000-8000-00000000f003", { company });
    await user.click(await screen.findByRole("button", { name: "Keep it for good" }));
    const dialog = await screen.findByRole("dialog");
    await user.click(within(dialog).getByRole("button", { name: "Keep it for good" }));
    expect(await screen.findByText("kept")).toBeInTheDocument();
    expect(screen.queryByRole("button", { name: "Keep it for good" })).toBeNull();
  });

  it("only shows what is decided, with its note", async () => {
    open("/quota-changes/01935000-0000-7000-8000-00000000f004");
    expect(await screen.findByText(/production in h100 has changed since/)).toBeInTheDocument();
    expect(screen.queryByRole("button", { name: /Preview|Apply|Cancel/ })).toBeNull();
  });

  it("does not tell absent from foreign", async () => {
    open("/quota-changes/01935000-0000-7000-8000-00000000ffff");
    expect(await screen.findByRole("heading", { name: "No such planned change" })).toBeInTheDocument();
  });
});

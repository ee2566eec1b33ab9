import { screen, waitFor, within } from "@testing-library/react";
import { describe, expect, it } from "vitest";

import { aCompany } from "../../mock/answer.ts";
import { aProblem } from "../../mock/http.ts";
import { aQuota, aSession, theClusters, theQuotas, TREE, uuid } from "../../mock/company.ts";
import { anExplanation } from "../../mock/jobs.ts";
import type { Explanation } from "../api/types";
import { accessibilityFaults, open, show, type Override } from "../test/render";
import { describeChange, undoOf, undoReason } from "./changes";
import { fieldsOf, parsePercent, readForm } from "./form";
import { QuotaBar } from "./QuotaBar";
import { closedAtFirst, quotaRows } from "./tree";
import { commonScale, formatLent, guaranteedDemand, quotaUse } from "./use";

const NLP = "ai-company/research/nlp";
const RESEARCH = "ai-company/research";

describe("the quota bar", () => {
  it("says in words what it draws", () => {
    const use = quotaUse(
      aQuota("ai-company/production", 400, { inUse: 700, waiting: 24 }, { borrow_limit_mgpu: 400_000 }),
    );
    show(<QuotaBar use={use} scaleMgpu={800_000} />);
    expect(
      screen.getByRole("img", {
        name: "700 of 400 guaranteed GPUs in use, 300 borrowed, 24 waiting, at most 800 with borrowing",
      }),
    ).toBeInTheDocument();
  });

  it("says cores in a pool of cores", () => {
    const quota = aQuota(NLP, 8, { inUse: 4 }, { device: "cpu", pool: "cpu" });
    show(<QuotaBar use={quotaUse(quota)} scaleMgpu={8_000} />);
    expect(screen.getByRole("img")).toHaveAccessibleName("4 of 8 guaranteed cores in use, 4 idle");
    expect(readForm(quota, { ...fieldsOf(quota), guaranteed: "many", lendLimit: "x" }).errors).toEqual({
      guaranteed: "A number of cores, such as 200 or 0.5.",
      lendLimit: "A number of cores, or empty.",
    });
  });

  it("draws each part at its place on the common scale", () => {
    const use = quotaUse(aQuota(RESEARCH, 400, { inUse: 100, lent: 200 }));
    const { container } = show(<QuotaBar use={use} scaleMgpu={800_000} />);
    const part = (name: string) => {
      const style = container.querySelector<HTMLElement>(`.${name}`)?.style;
      return [style?.left, style?.width];
    };
    expect(part("g")).toEqual(["0%", "12.5%"]);
    expect(part("l")).toEqual(["12.5%", "25%"]);
    expect(part("e")).toEqual(["37.5%", "12.5%"]);
    expect(part("tick")[0]).toBe("50%");
    expect(container.querySelector(".b")).toBeNull();
    expect(container.querySelector(".cap")).toBeNull();
  });

  it("hatches what a gang left unprotected although the guarantee has room", () => {
    const use = quotaUse(aQuota(NLP, 280, { inUse: 300, protectedGpus: 240 }));
    expect(use.solidMgpu).toBe(240_000);
    expect(use.borrowedMgpu).toBe(60_000);
  });

  it("has one scale for a table, which an absurd borrow limit does not stretch", () => {
    const uses = [
      quotaUse(aQuota(RESEARCH, 400)),
      quotaUse(aQuota(NLP, 200, { inUse: 0 }, { borrow_limit_mgpu: 400_000 })),
      quotaUse(aQuota(NLP, 200, { inUse: 0 }, { borrow_limit_mgpu: 10 ** 12 })),
    ];
    expect(commonScale(uses)).toBe(600_000);
  });
});

describe("the columns of the tree", () => {
  // Against: the numbers of another node; a department without credits.
  it("have the last week, credits and the fair share of each node", async () => {
    open("/quotas?pool=h100");
    const row = await screen.findByRole("row", { name: /^nlp/ });
    await waitFor(() =>
      expect(within(row).getByRole("img", { name: "Average use by day, today last: 37.2, 49.6, 62, 43.4, 12.4, 18.6, 55.8" })).toBeInTheDocument(),
    );
    expect(within(row).getByRole("link", { name: "0.45" })).toHaveAttribute("href", "/fair-share?pool=h100&node=ai-company/research/nlp");
    expect(screen.getByRole("columnheader", { name: "Credits (GPU-h)" })).toBeInTheDocument();
    expect(row).toHaveTextContent("+510.45");
  });
});

describe("the quotas of a pool of cores", () => {
  // Planted: a label of the figures, of the drawer or of its form that says GPUs.
  it("speak of cores on the page and in the form", async () => {
    const ofCores = theQuotas().map((quota) => ({ ...quota, pool: "cpu", device: "cpu" as const }));
    const listed: Record<string, unknown[]> = { "/api/v1/quotas": ofCores, "/api/v1/jobs": [] };
    const override: Override = ({ method, path }) =>
      method === "GET" && path in listed ? { status: 200, body: { items: listed[path], next: null } } : undefined;
    open(`/quotas?pool=cpu&node=${NLP}`, { override });
    for (const label of ["Cores in use", "Cores waiting"]) expect(await screen.findByText(label)).toBeInTheDocument();
    const drawer = await screen.findByRole("dialog");
    expect(within(drawer).getByRole("row", { name: /^Weight for spare cores/ })).toBeInTheDocument();
    expect(within(drawer).getByRole("textbox", { name: "Weight for spare cores" })).toBeInTheDocument();
    expect(within(drawer).getByText(/^How many idle cores others may use/)).toBeInTheDocument();
    expect(document.body).not.toHaveTextContent(/GPU/);
  });
});

describe("archiving a team", () => {
  const nlp = TREE.find(({ path }) => path === NLP);
  const address = `/api/v1/tree/${nlp?.id}/archive`;
  const job = { id: uuid(77), name: "bert", team: NLP, user: "bob", state: "running" };
  const managers = aCompany({
    session: aSession({ permissions: { [RESEARCH]: ["view_tree", "view_jobs", "manage_structure"] } }),
  });
  const override =
    (archived: boolean): Override =>
    ({ method, path }) => {
      const now = { ...nlp, archived_at: archived ? "2026-11-02T08:00:00Z" : null };
      if (path === "/api/v1/teams") return { status: 200, body: { items: [now], next: null } };
      if (path === address && method === "GET")
        return { status: 200, body: { node: now, running: 51, waiting: 1, running_jobs: [job] } };
      return path.startsWith("/api/v1/tree/") ? { status: 200, body: now } : undefined;
    };

  // Planted: the button enabled before it is said what becomes of waiting jobs.
  it("shows what runs there and asks what becomes of it", async () => {
    const { user, requests } = open(`/quotas?node=${NLP}`, { company: managers, override: override(false) });
    await user.click(await screen.findByRole("button", { name: "Archive…" }));
    const dialog = await screen.findByRole("dialog", { name: `Archive ${NLP}?` });
    const jobs = await within(dialog).findByRole("table", { name: "Running jobs" });
    expect(within(jobs).getByRole("row", { name: `bert ${NLP} bob running` })).toBeInTheDocument();
    expect(dialog).toHaveTextContent("and 50 more");
    const archive = within(dialog).getByRole("button", { name: "Archive" });
    await user.click(within(dialog).getByRole("radio", { name: "Run to the end" }));
    expect(archive).toBeDisabled();
    expect(dialog).toHaveTextContent(`tidegate tree archive ${NLP} --running end`);
    await user.click(within(dialog).getByRole("radio", { name: "Wait until the restore" }));
    expect(dialog).toHaveTextContent(`tidegate tree archive ${NLP} --running end --waiting wait`);
    await user.click(archive);
    await screen.findByText(`${NLP} is archived`);
    expect(requests.find(({ method, path }) => method === "POST" && path === address)?.body).toEqual({
      running: "end",
      waiting: "wait",
    });
  });

  // Planted: the drawer of a team in use. Against: the guarantee counted in its row.
  it("says that its quotas are not in force, and offers no change of them", async () => {
    open(`/quotas?node=${NLP}`, { override: override(true) });
    const drawer = await screen.findByRole("dialog");
    await within(drawer).findByText(/^ai-company\/research\/nlp is archived\. Its quotas are not in force until it is restored/);
    await within(drawer).findByRole("region", { name: "History of changes" });
    expect(within(drawer).queryByRole("row", { name: /^Could start now/ })).toBeNull();
    expect(within(drawer).queryByRole("row", { name: /^Lent now/ })).toBeNull();
    expect(within(drawer).getByRole("row", { name: /^Guaranteed once restored/ })).toBeInTheDocument();
    expect(within(drawer).queryByRole("region", { name: "Change this quota" })).toBeNull();
    expect(within(drawer).queryByRole("button", { name: /^Undo/ })).toBeNull();
    const row = screen.getByText("archived").closest("tr") as HTMLElement;
    expect(row.querySelectorAll("td")[2]).toHaveTextContent(/^0$/);
    expect(row).not.toHaveTextContent("lent");
  });

  it("says since when it is archived, and restores it", async () => {
    const { user } = open(`/quotas?node=${NLP}`, { company: managers, override: override(true) });
    await user.click(await screen.findByRole("button", { name: "Restore" }));
    await screen.findByText(`${NLP} is restored`);
    expect(screen.queryByRole("button", { name: "Archive…" })).toBeNull();
  });

  it("is offered to nobody else", async () => {
    open(`/quotas?node=${NLP}`, { company: aCompany({ session: aSession({ permissions: { "ai-company": ["view_tree", "view_jobs"] } }) }) });
    await screen.findByRole("region", { name: "History of changes" });
    expect(screen.queryByRole("region", { name: "Archive" })).toBeNull();
  });
});

describe("moving a team", () => {
  const nlp = TREE.find(({ path }) => path === NLP);
  const address = `/api/v1/tree/${nlp?.id}/move`;

  // Against: the button enabled although the guarantees do not fit; the team's own parent among the choices.
  it("shows what changes, and refuses what does not fit", async () => {
    const { user, requests } = open(`/quotas?node=${NLP}`);
    await user.click(await screen.findByRole("button", { name: "Move…" }));
    const dialog = await screen.findByRole("dialog", { name: `Move ${NLP}?` });
    await user.click(within(dialog).getByRole("combobox", { name: "New parent" }));
    const options = (await screen.findAllByRole("option")).map((option) => option.textContent);
    expect(options).toEqual(["ai-company", "ai-company/exploration", "ai-company/production"]);
    await user.click(screen.getByRole("option", { name: "ai-company/production" }));
    const guarantees = await within(dialog).findByRole("table", { name: "Guarantees" });
    expect(within(guarantees).getByRole("row", { name: /^h100 200 GPUs 0 → 200 0 → −200$/ })).toBeInTheDocument();
    expect(within(dialog).getByRole("alert")).toHaveTextContent("Lower one of these first.");
    expect(within(dialog).getByRole("table", { name: "Roles that are lost" })).toHaveTextContent("research-admin@");
    expect(within(dialog).getByRole("button", { name: "Move" })).toBeDisabled();
    expect(requests.filter(({ method, path }) => method === "POST" && path === address)).toEqual([]);
    expect(await accessibilityFaults(dialog)).toEqual([]);
  });

  // Planted: the short message alone after the move; an empty table for roles that are only counted.
  it("moves it, follows it, and says where quotas are to be pushed", async () => {
    const moved = {
      ...nlp, parent: "ai-company/production", path: "ai-company/production/nlp", clusters_to_push: ["slurm-a"],
    };
    const preview = {
      node: nlp, parent: "ai-company/production", path: moved.path, waiting: 0, running: 0, running_jobs: [],
      guarantees: [], gained: [], gained_count: 2, lost: [], lost_count: 0, clusters_to_push: [], problem: "",
    };
    const override: Override = ({ method, path }) =>
      path === address ? { status: 200, body: method === "GET" ? preview : moved } : undefined;
    const { user, requests } = open(`/quotas?node=${NLP}`, { override });
    await user.click(await screen.findByRole("button", { name: "Move…" }));
    const dialog = await screen.findByRole("dialog", { name: `Move ${NLP}?` });
    await user.click(within(dialog).getByRole("combobox", { name: "New parent" }));
    await user.click(await screen.findByRole("option", { name: "ai-company/production" }));
    expect(await within(dialog).findByText(/^Roles that are gained: 2, of people whose/)).toBeInTheDocument();
    await user.click(await within(dialog).findByRole("button", { name: "Move" }));
    await screen.findByText(`${NLP} is ${moved.path} now`);
    expect(screen.getByRole("link", { name: "Push quotas to slurm-a" })).toHaveAttribute("href", "/clusters/slurm-a");
    expect(requests.find(({ method, path }) => method === "POST" && path === address)?.body).toEqual({
      parent: "ai-company/production",
    });
  });
});

describe("deleting a team", () => {
  it("says what used it, and offers no second try", async () => {
    const { user } = open(`/quotas?node=${NLP}`);
    await user.click(await screen.findByRole("button", { name: "Delete…" }));
    const dialog = await screen.findByRole("dialog", { name: `Delete ${NLP}?` });
    await user.click(within(dialog).getByRole("button", { name: "Delete" }));
    expect(await within(dialog).findByRole("alert")).toHaveTextContent("Archive it instead");
    expect(within(dialog).getByRole("button", { name: "Delete" })).toBeDisabled();
  });
});

// Planted: dialogs that give the focus back to nothing.
it.each(["Move…", "Delete…"])("%s has the focus again once its dialog is closed", async (name) => {
  const { user } = open(`/quotas?node=${NLP}`);
  await user.click(await screen.findByRole("button", { name }));
  const dialog = await screen.findByRole("dialog", { name: / ai-company.*\?$/ });
  await user.click(within(dialog).getByRole("button", { name: "Back" }));
  await waitFor(() => expect(screen.getByRole("button", { name })).toHaveFocus());
});

describe("nodes of the tree on the page", () => {
  const override =
    (archived: string, having: (node: string) => boolean): Override =>
    ({ method, path }) => {
      if (method !== "GET") return undefined;
      const items = (kind: string) =>
        TREE.filter((each) => each.kind === kind).map((each) =>
          each.path === archived ? { ...each, archived_at: "2026-11-02T08:00:00Z" } : each,
        );
      if (path === "/api/v1/teams") return { status: 200, body: { items: items("team"), next: null } };
      if (path === "/api/v1/quotas")
        return { status: 200, body: { items: theQuotas().filter(({ node }) => having(node)), next: null } };
      return undefined;
    };

  // Against: no mark; the mark at every node.
  it("marks those that are archived", async () => {
    open("/quotas", { override: override(NLP, () => true) });
    await waitFor(() => {
      const marked = screen.getAllByText("archived").map((mark) => mark.closest("th")?.title);
      expect(marked).toEqual([NLP]);
    });
  });

  // Against: a drawer for nodes with a quota alone.
  it("opens those without a quota, too, and gives them their first", async () => {
    const { user, requests } = open("/quotas", { override: override("", (node) => node !== NLP) });
    await user.click(await screen.findByText("1 node without a quota in h100"));
    await user.click(screen.getByRole("link", { name: NLP }));
    const drawer = await screen.findByRole("dialog");
    for (const name of ["Move", "Archive", "Delete"]) within(drawer).getByRole("region", { name });
    await user.type(within(drawer).getByRole("textbox", { name: "Guaranteed" }), "8");
    await user.type(within(drawer).getByRole("textbox", { name: "Reason" }), "new team");
    await user.click(within(drawer).getByRole("button", { name: "Give quota" }));
    await waitFor(() => {
      expect(requests.find(({ method, path }) => method === "POST" && path === "/api/v1/quotas")?.body).toEqual({
        node: NLP,
        pool: "h100",
        guaranteed_mgpu: 8_000,
        reason: "new team",
      });
    });
  });
});

describe("waiting", () => {
  it("counts only jobs that fit whole into what is left of the guarantee, oldest first", () => {
    const quotas = [aQuota(NLP, 200, { inUse: 100 }), aQuota(RESEARCH, 400)];
    const explanation = anExplanation();
    const job = (mgpu: number, submitted_at: string, team = NLP) => ({ mgpu, submitted_at, team, explanation });
    expect(guaranteedDemand(quotas, [job(60_000, "2"), job(80_000, "1"), job(150_000, "0")])).toBe(80_000);
    expect(guaranteedDemand(quotas, [job(8_000, "0", "elsewhere/team")])).toBe(0);
  });

  it("counts no job that the arbiter has not looked at: they are not among those waiting either", () => {
    const quotas = [aQuota(NLP, 200)];
    const job = (explanation: Explanation | null) => ({ mgpu: 8_000, submitted_at: "0", team: NLP, explanation });
    const because = (code: Explanation["code"]) => job(anExplanation({ code }));
    expect(guaranteedDemand(quotas, [because("dependency")])).toBe(0);
    expect(guaranteedDemand(quotas, [because("array_limit_reached")])).toBe(0);
    expect(guaranteedDemand(quotas, [job(null)])).toBe(0);
    expect(guaranteedDemand(quotas, [because("waiting_for_guarantee"), because("dependency")])).toBe(8_000);
  });

  it("does not pretend to know which part of a GPU was lent", () => {
    expect([formatLent(200_000), formatLent(194_737)]).toEqual(["200", "≈195"]);
  });
});

describe("the tree", () => {
  it("hides what is below a closed node, and below that", () => {
    const rows = quotaRows(theQuotas(), new Set([RESEARCH]));
    const names = rows.map(({ quota }) => quota.node);
    expect(names).toContain(RESEARCH);
    expect(names).not.toContain(NLP);
    expect(rows.find(({ quota }) => quota.node === RESEARCH)).toMatchObject({ level: 1, hasChildren: true });
  });

  // Against: every node with children is closed, the open one's department and the root, too.
  it("is open at first, and a large one down to its second level and to the node that is shown", () => {
    const department = (name: string) => ({ ...aQuota(`big/${name}`, 0), parent: "big" });
    const team = (of: string, n: number) => ({ ...aQuota(`big/${of}/team-${String(n)}`, 0), parent: `big/${of}` });
    const teams = Array.from({ length: 100 }, (_, n) => n);
    const large = [
      { ...aQuota("big", 0), parent: null },
      ...["one", "two"].flatMap((name) => [department(name), ...teams.map((n) => team(name, n))]),
    ];
    expect(closedAtFirst(theQuotas(), undefined)).toEqual(new Set());
    expect(closedAtFirst(large, undefined)).toEqual(new Set(["big/one", "big/two"]));
    expect(closedAtFirst(large, "big/two/team-7")).toEqual(new Set(["big/one"]));
    expect(quotaRows(large, closedAtFirst(large, undefined)).map(({ quota }) => quota.node)).toEqual(["big", "big/one", "big/two"]);
  });
});

describe("the quota form", () => {
  const quota = aQuota(NLP, 200, { inUse: 0 }, { guaranteed_percent: "50.00" });

  it("sends only what was changed, and nothing without a reason", () => {
    const same = { ...fieldsOf(quota), reason: "because" };
    expect(readForm(quota, same).patch).toBeNull();
    expect(readForm(quota, { ...same, guaranteed: "45", reason: " " }).patch).toBeNull();
    expect(readForm(quota, { ...same, guaranteed: "45" }).patch).toEqual({
      guaranteed_percent: "45.00",
      reason: "because",
    });
    expect(readForm(quota, { ...same, borrowLimit: "0" }).patch).toEqual({
      borrow_limit_mgpu: 0,
      reason: "because",
    });
  });

  it("says what is wrong with what was typed", () => {
    const typed = { ...fieldsOf(quota), guaranteed: "101", lendLimit: "x", reason: "r" };
    expect(readForm(quota, typed)).toMatchObject({
      patch: null,
      errors: { guaranteed: expect.any(String) as string, lendLimit: expect.any(String) as string },
    });
    expect(["33.33", "100", "100.01", "1e2", ""].map(parsePercent)).toEqual([3333, 10_000, null, null, null]);
  });

  it("tells each change in one line", () => {
    expect(
      describeChange(
        { guaranteed_mgpu: 200_000, borrow_limit_mgpu: null, weight: 1 },
        { guaranteed_mgpu: 180_000, borrow_limit_mgpu: 0, weight: 1 },
      ),
    ).toEqual(["guaranteed 200 → 180", "borrow limit none → 0"]);
  });
});

describe("the quotas page", () => {
  const nobodyWaits = ({ path }: { path: string }) =>
    path === "/api/v1/jobs" ? { status: 200, body: { items: [], next: null } } : undefined;

  it("tells the story: production 700 of 400, 300 borrowed from research", async () => {
    const { container } = open("/quotas");
    const row = await screen.findByRole("row", { name: /production/ });
    expect(within(row).getByText("300 borrowed")).toBeInTheDocument();
    expect(
      within(row).getByRole("img", { name: /^700 of 400 guaranteed GPUs in use, 300 borrowed/ }),
    ).toBeInTheDocument();
    expect(await screen.findByText("production from research")).toBeInTheDocument();
    expect(await screen.findByText(/until nlp has its 200 GPUs/)).toBeInTheDocument();
    expect(await accessibilityFaults(container)).toEqual([]);
  });

  it("says by how much a limit is exceeded, never that fewer than 0 GPUs could start", async () => {
    const node = "ai-company/production";
    const quotas = [aQuota(node, 400, { inUse: 700, available: -70 })];
    open(`/quotas?node=${node}`, { company: aCompany({ quotas }), override: nobodyWaits });
    const tile = (await screen.findByText("GPUs that could start now")).parentElement;
    expect(tile).toHaveTextContent(/^0GPUs that could start now70 over the limit$/);
    expect(await screen.findByRole("row", { name: /^Could start now/ })).toHaveTextContent("0 · 70 over the limit");
  });

  it("says with what is borrowed that a job can be reclaimed whole", async () => {
    // Planted: 42 borrowed of 192, and nothing that says that all 192 may go.
    const node = "ai-company/production";
    const quotas = [aQuota(node, 150, { inUse: 192 })];
    open(`/quotas?node=${node}`, { company: aCompany({ quotas }), override: nobodyWaits });
    const hint = "Borrowed: what is in use beyond the guarantee. A job that does not fit whole in the guarantee can be reclaimed whole.";
    expect(await screen.findByText(hint)).toBeInTheDocument();
    expect(screen.getByText("42 borrowed")).toHaveAttribute("title", hint);
  });

  it("says what could start where no limit is exceeded", async () => {
    const node = "ai-company/production";
    const quotas = [aQuota(node, 400, { inUse: 370, available: 30 })];
    open(`/quotas?node=${node}`, { company: aCompany({ quotas }), override: nobodyWaits });
    const tile = (await screen.findByText("GPUs that could start now")).parentElement;
    expect(tile).toHaveTextContent(/^30GPUs that could start nowinside all limits, placement permitting$/);
    expect((await screen.findByRole("row", { name: /^Could start now/ })).textContent).toBe("Could start now30");
  });

  // Against: the organizations' sum, 1,994 of 1,000.
  it("counts free GPUs once for a reader of several organizations", async () => {
    const roots = ["ai-company", "other"].map((node, i) =>
      aQuota(node, 500, { inUse: 3 * i, available: 997 }, { id: uuid(900 + i), parent: null, node_kind: "organization" }),
    );
    open("/quotas", { company: aCompany({ quotas: roots }), override: nobodyWaits });
    const tile = (await screen.findByText("GPUs that could start now")).parentElement;
    await waitFor(() =>
      expect(tile).toHaveTextContent(/^997GPUs that could start nowinside all limits, placement permitting$/),
    );
  });

  it("names lenders only where what they lend is what the others borrow", async () => {
    const quotas = [
      aQuota("ai-company", 100, { inUse: 60 }, { parent: null, node_kind: "organization" }),
      aQuota("ai-company/research", 50, { inUse: 10, lent: 40 }, { parent: "ai-company", node_kind: "department" }),
      aQuota("ai-company/production", 50, { inUse: 50 }, { parent: "ai-company", node_kind: "department" }),
    ];
    open("/quotas", { company: aCompany({ quotas }), override: nobodyWaits });
    // Another organization has the 40: nobody here borrows them.
    const tile = (await screen.findByText("borrowed from others")).parentElement;
    expect(tile).toHaveTextContent(/^0borrowed from othersresearch: 40 lent to others$/);
  });

  it("does not add up what several teams of one department could start", async () => {
    const teams = ["nlp", "vision"].map((team, i) =>
      aQuota(`ai-company/research/${team}`, 10, { inUse: 0, available: 40 + i }),
    );
    open("/quotas", { company: aCompany({ quotas: teams }), override: nobodyWaits });
    const tile = (await screen.findByText("GPUs that one team could start now")).parentElement;
    expect(tile).toHaveTextContent(/^41GPUs that one team could start noweach team draws on the same free GPUs$/);
  });

  it("closes and opens a department with the keyboard", async () => {
    const { user } = open("/quotas");
    const twist = await screen.findByRole("button", { name: "research: what is below" });
    twist.focus();
    await user.keyboard("{Enter}");
    expect(screen.queryByRole("row", { name: /vision/ })).toBeNull();
    expect(twist).toHaveAttribute("aria-expanded", "false");
    await user.keyboard("{Enter}");
    expect(screen.getByRole("row", { name: /vision/ })).toBeInTheDocument();
  });

  it("shows the parent's reserve while typing", async () => {
    const { user } = open(`/quotas?node=${NLP}`);
    const field = await screen.findByRole("textbox", { name: "Guaranteed" });
    await user.clear(field);
    await user.type(field, "45");
    expect(screen.getByText("research keeps 20 GPUs in reserve (now 0).")).toBeInTheDocument();
    await user.clear(field);
    await user.type(field, "60");
    expect(
      screen.getByText(
        "▲ 40 more than research has: its children would be guaranteed 440 of 400.",
      ),
    ).toBeInTheDocument();
  });

  it("shows a conflict side by side and applies mine on the newer version", async () => {
    const company = aCompany();
    const { user, requests } = open(`/quotas?node=${NLP}`, { company });
    const field = await screen.findByRole("textbox", { name: "Guaranteed" });
    await user.clear(field);
    await user.type(field, "45");
    await user.type(screen.getByRole("textbox", { name: /^Reason/ }), "exploration needs it");

    const theirs = company.quotas.find((quota) => quota.node === NLP);
    Object.assign(theirs ?? {}, { guaranteed_mgpu: 190_000, guaranteed_percent: "47.50", version: 4 });
    await user.click(screen.getByRole("button", { name: "Save without preview" }));

    const conflict = await screen.findByRole("alert");
    const cells = within(within(conflict).getByRole("row", { name: /Percent of parent/ })).getAllByRole("cell");
    expect(cells.map((cell) => cell.textContent)).toEqual(["50 %", "47.5 %", "45 %"]);

    await user.click(within(conflict).getByRole("button", { name: "Apply mine on top" }));
    await waitFor(() => expect(theirs).toMatchObject({ guaranteed_percent: "45.00", version: 5 }));
    const patches = requests.filter(({ method }) => method === "PATCH");
    expect(patches.map(({ headers }) => headers["if-match"])).toEqual(['"v3"', '"v4"']);
    expect(await screen.findByText(`${NLP}, h100: percent of parent 45 %`)).toBeInTheDocument();
  });

  it("puts a refusal at the field that it is about", async () => {
    const { user } = open(`/quotas?node=${NLP}`, {
      override: ({ method }) =>
        method === "PATCH"
          ? aProblem(409, "envelope_exceeded", "Research has only 400 GPUs.", {
              errors: [{ pointer: "/guaranteed_percent", detail: "At most 50.00 % are left.", code: "too_much" }],
            })
          : undefined,
    });
    const field = await screen.findByRole("textbox", { name: "Guaranteed" });
    await user.clear(field);
    await user.type(field, "60");
    await user.type(screen.getByRole("textbox", { name: /^Reason/ }), "more");
    await user.click(screen.getByRole("button", { name: "Save without preview" }));
    expect(await screen.findByText("At most 50.00 % are left.")).toBeInTheDocument();
    expect(field).toBeInvalid();
  });

  it("drafts the change and opens its preview before anything is set", async () => {
    // Against: Save writes at once.
    const { user, requests, router } = open(`/quotas?node=${NLP}`);
    const field = await screen.findByRole("textbox", { name: "Guaranteed" });
    await user.clear(field);
    await user.type(field, "45");
    await user.type(screen.getByRole("textbox", { name: /^Reason/ }), "more for nlp{Enter}");
    await user.click(screen.getByRole("button", { name: "Preview and save" }));
    await waitFor(() => expect(router.state.location.pathname).toMatch(/^\/quota-changes\//));
    const [drafted, previewed] = requests.filter(({ method }) => method !== "GET");
    expect([drafted?.method, drafted?.path]).toEqual(["POST", "/api/v1/quota-changes"]);
    expect(drafted?.body).toMatchObject({ edits: [{ guaranteed_percent: "45.00" }], reason: "more for nlp" });
    await waitFor(() => expect(requests.some(({ path }) => path.endsWith("/preview"))).toBe(true));
    expect(previewed?.method ?? "POST").toBe("POST");
    expect(requests.filter(({ method }) => method === "PATCH")).toEqual([]);
  });

  it("undoes a change of the history by a draft of what was before", async () => {
    const company = aCompany();
    const quota = company.quotas.find(({ node }) => node === NLP);
    if (quota === undefined) throw new Error("nlp has a quota");
    const values = {
      guaranteed_mgpu: quota.guaranteed_mgpu,
      guaranteed_percent: quota.guaranteed_percent,
      borrow_limit_mgpu: quota.borrow_limit_mgpu,
      lend_limit_mgpu: quota.lend_limit_mgpu,
      weight: quota.weight,
    };
    const change = {
      id: "01935000-0000-7000-8000-00000000c0de",
      at: "2026-11-20T09:30:00Z",
      actor: "leo@ai-company",
      reason: "demo",
      before: { ...values, weight: 7 },
      after: values,
    };
    const { user, requests } = open(`/quotas?node=${NLP}`, {
      company,
      override: ({ path, method }) =>
        method === "GET" && path.endsWith("/changes") ? { status: 200, body: { items: [change], next: null } } : undefined,
    });
    await user.click(await screen.findByRole("button", { name: "Undo: demo" }));
    await waitFor(() => expect(requests.some(({ method }) => method === "POST")).toBe(true));
    expect(requests.find(({ method }) => method === "POST")?.body).toEqual({
      edits: [{ quota: quota.id, weight: 7 }],
      reason: "Undo the change of 2026-11-20 09:30 UTC: demo",
    });
  });

  it("sets back what was written, never what only followed", () => {
    // Against: the GPUs that a percentage came to are set as a guarantee of their own.
    const now = aQuota(NLP, 180, { inUse: 0 }, { guaranteed_percent: "45.00", weight: 3 });
    const was = { guaranteed_mgpu: 200_000, guaranteed_percent: "50.00", borrow_limit_mgpu: null, lend_limit_mgpu: null, weight: 1 };
    const then = { ...was, guaranteed_mgpu: 180_000, guaranteed_percent: "45.00" };
    expect(undoOf(now, { before: was, after: then })).toEqual({ quota: now.id, guaranteed_percent: "50.00" });
    const plain = { ...was, guaranteed_percent: null };
    expect(undoOf(now, { before: plain, after: then })).toEqual({ quota: now.id, guaranteed_mgpu: 200_000 });
    // Only the parent became smaller.
    expect(undoOf(now, { before: { ...then, guaranteed_mgpu: 200_000 }, after: then })).toBeNull();
    expect(undoOf(now, { before: null, after: then })).toBeNull();
    // Somebody set it back already.
    expect(undoOf(aQuota(NLP, 200, { inUse: 0 }, { guaranteed_percent: "50.00" }), { before: was, after: then })).toBeNull();
    expect(undoReason({ reason: "x".repeat(600), at: "2026-11-20T09:30:00Z" })).toHaveLength(500);
  });

  it("says what failed and tries again on demand", async () => {
    let isBroken = true;
    const { user } = open("/quotas", {
      override: ({ path }) =>
        path === "/api/v1/quotas" && isBroken
          ? aProblem(503, "database_unavailable", "The database does not answer.")
          : undefined,
    });
    const alert = await screen.findByRole("alert");
    expect(alert).toHaveTextContent("The database does not answer.");
    expect(alert).toHaveTextContent("req-7f3a");
    isBroken = false;
    await user.click(within(alert).getByRole("button", { name: "Try again" }));
    expect(await screen.findByRole("row", { name: /research/ })).toBeInTheDocument();
  });

  // Against: no line at all; one for clusters that answer, are disabled, or have nothing of the pool.
  it("says as of when a silent cluster's GPUs are healthy", async () => {
    const [first, second, third] = theClusters();
    if (!first || !second || !third) throw new Error("three clusters");
    const silent = { state: "unreachable" as const, seen_at: "2026-11-21T11:40:00Z" };
    const clusters = [
      { ...first, ...silent, name: "dead" },
      second,
      { ...third, ...silent, name: "disabled", is_enabled: false },
      { ...third, ...silent, name: "elsewhere", pools: [] },
      { ...third, ...silent, name: "new", seen_at: null },
    ];
    open("/quotas", {
      override: ({ method, path }) =>
        method === "GET" && path === "/api/v1/clusters" ? { status: 200, body: { items: clusters, next: null } } : undefined,
    });
    const told = await screen.findByText(/^\s*▲ dead as of/);
    expect(within(told).getByText(/ago|11:40|Nov/)).toHaveAttribute("datetime", "2026-11-21T11:40:00Z");
    expect(screen.getAllByText(/▲ .* as of/)).toEqual([told]);
    expect(told.parentElement).toHaveTextContent(/^1,000 healthy GPUs on 3 clusters ▲ dead as of /);
  });

  it("keeps old numbers in sight when a refresh fails, and says so", async () => {
    let isBroken = false;
    const { queryClient } = open("/quotas", {
      override: ({ path }) =>
        path === "/api/v1/quotas" && isBroken ? aProblem(503, "down", "The database does not answer.") : undefined,
    });
    await screen.findByRole("row", { name: /research/ });
    isBroken = true;
    await queryClient.invalidateQueries({ queryKey: ["quotas"] });
    expect(await screen.findByText(/Shown as of/)).toHaveTextContent("The database does not answer.");
    expect(screen.getByRole("row", { name: /research/ })).toBeInTheDocument();
  });

  it("offers a way out when nothing is there", async () => {
    open("/quotas?scope=ai-company/research", { company: aCompany({ quotas: [] }) });
    expect(await screen.findByText(/No quota of pool h100 is set at or below ai-company\/research/)).toBeInTheDocument();
    expect(screen.getByRole("link", { name: "Show everything" })).toBeInTheDocument();
    expect(screen.getByText("tidegate quota get ai-company/research --subtree --pool h100")).toBeInTheDocument();
  });
});

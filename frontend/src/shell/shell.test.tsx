import { screen, waitFor, within } from "@testing-library/react";
import { describe, expect, it } from "vitest";

import { aCompany } from "../../mock/answer.ts";
import { aSession, theClusters, theScheduler } from "../../mock/company.ts";
import { aJob } from "../../mock/jobs.ts";
import type { Session } from "../api/types";
import { may, safeNext, type Permission } from "../session/access";
import { accessibilityFaults, open } from "../test/render";
import { freshnessOf } from "./Freshness";
import { numberParam, parseSearch, stringifySearch } from "./search";

describe("addresses", () => {
  it("stay readable and come back as they were", () => {
    const search = { scope: "ai-company/research", state: "queued,running", q: "a b&c", attempt: 2, gone: undefined };
    const text = stringifySearch(search);
    expect(text).toBe("?scope=ai-company/research&state=queued,running&q=a+b%26c&attempt=2");
    expect(parseSearch(text)).toEqual({ scope: "ai-company/research", state: "queued,running", q: "a b&c", attempt: "2" });
  });

  it("do not make numbers of what is none", () => {
    expect([numberParam({ n: "7" }, "n", 9), numberParam({ n: "70" }, "n", 9), numberParam({ n: "x" }, "n", 9)]).toEqual([
      7,
      undefined,
      undefined,
    ]);
  });
});

describe("a parameter that no page knows", () => {
  it.each(["/", "/jobs", "/quotas", "/chargeback", "/clusters", "/decisions", "/policy", "/quota-changes"])(
    "is dropped from the address of %s and asked of nobody",
    async (path) => {
      const { router, requests } = open(`${path}?utm_source=mail&scope=ai-company/research`);
      await screen.findByRole("heading", { level: 1 });
      await waitFor(() => expect(router.state.location.searchStr).toBe("?scope=ai-company/research"));
      await waitFor(() => expect(router.state.status).toBe("idle"));
      expect(requests.filter((each) => each.query.has("utm_source"))).toEqual([]);
      expect(screen.queryByRole("alert")).toBeNull();
    },
  );
});

describe("permissions", () => {
  it("cover the subtree of a grant and nothing beside it", () => {
    const session = aSession({ permissions: { "ai-company/research": ["view_jobs"] } });
    expect(may(session, "view_jobs")).toBe(true);
    expect(may(session, "view_jobs", "ai-company/research/nlp")).toBe(true);
    expect(may(session, "view_jobs", "ai-company/research-2")).toBe(false);
    expect(may(session, "submit_jobs")).toBe(false);
    expect(may(aSession({ permissions: { "": ["view_jobs"] } }), "view_jobs", "anywhere/at/all")).toBe(true);
  });

  it("decide which pages the navigation has", async () => {
    const finance = aSession({ permissions: { "ai-company": ["view_tree", "view_costs"] } });
    open("/", { company: aCompany({ session: finance }) });
    const [nav] = await screen.findAllByRole("navigation", { name: "Main" });
    const links = within(nav as HTMLElement)
      .getAllByRole("link")
      .map((link) => link.textContent.replace(/ \d+$/, ""));
    expect(links).toEqual([
      "Home",
      "Jobs",
      "Schedules",
      "Quotas",
      "Planned changes",
      "Requests",
      "Fair share",
      "Credits",
      "Policy",
      "Chargeback",
      "Budgets",
      "Adjustments",
      "Prices",
      "Reconciliation",
      "Capacity",
      "Clusters",
      "Decisions",
      "Maintenance",
      "Announcements",
      "My access",
      "Guide",
    ]);
  });
});

describe("freshness", () => {
  it("turns stale past the cluster's own limit, and says so in words and shape", () => {
    const [local, , kube] = theClusters();
    const now = Date.now();
    if (!local || !kube) throw new Error("the story has three clusters");
    expect(freshnessOf(local, now).isFresh).toBe(true);
    expect(freshnessOf(kube, now)).toEqual({ isFresh: false, words: "stale 6 min" });
    expect(freshnessOf({ ...local, state: "unreachable" }, now).isFresh).toBe(false);
    expect(freshnessOf({ ...local, seen_at: null }, now).words).toBe("never seen");
  });
});

describe("signing in", () => {
  it("leads to the login and back to the page that was asked for", async () => {
    const { user, router, container } = open("/quotas?pool=h100", { company: aCompany({ session: null }) });
    await user.type(await screen.findByRole("textbox", { name: "Login" }), "ai-company/ana");
    expect(router.state.location).toMatchObject({ pathname: "/login", search: { next: "/quotas?pool=h100" } });
    expect(await accessibilityFaults(container)).toEqual([]);
    await user.type(screen.getByLabelText("Password"), "secret");
    await user.click(screen.getByRole("button", { name: "Sign in" }));
    expect(await screen.findByRole("heading", { name: "Quotas · pool h100" })).toBeInTheDocument();
  });

  it("says how to make the first administrator only while there is none", async () => {
    const { container, unmount } = open("/login", { company: aCompany({ session: null, hasAdministrator: false }) });
    const hint = await screen.findByText("tidegate-admin create-admin");
    // The hint comes late: above the button, it would move the button under a click.
    const button = screen.getByRole("button", { name: "Sign in" });
    expect(button.compareDocumentPosition(hint)).toBe(Node.DOCUMENT_POSITION_FOLLOWING);
    expect(await accessibilityFaults(container)).toEqual([]);
    unmount();
    open("/login", { company: aCompany({ session: null }) });
    await screen.findByRole("textbox", { name: "Login" });
    expect(screen.queryByText("tidegate-admin create-admin")).toBeNull();
  });

  it("says why it was refused and stays", async () => {
    const { user } = open("/login", { company: aCompany({ session: null }) });
    await user.type(await screen.findByRole("textbox", { name: "Login" }), "ana");
    await user.type(screen.getByLabelText("Password"), "wrong");
    await user.click(screen.getByRole("button", { name: "Sign in" }));
    expect(await screen.findByRole("alert")).toHaveTextContent("do not belong together");
  });

  it("comes to the login when the session ends under way, and sends the CSRF token", async () => {
    const company = aCompany();
    const { user, router, queryClient, requests } = open("/jobs", { company });
    await screen.findByRole("link", { name: "pretrain-13b" });
    company.session = null;
    await queryClient.invalidateQueries({ queryKey: ["jobs"] });
    await waitFor(() => expect(router.state.location.pathname).toBe("/login"));
    expect(router.state.location.search).toEqual({ next: "/jobs" });
    await user.type(await screen.findByRole("textbox", { name: "Login" }), "ana");
    await user.type(screen.getByLabelText("Password"), "secret");
    await user.click(screen.getByRole("button", { name: "Sign in" }));
    await screen.findByRole("link", { name: "pretrain-13b" });
    const post = requests.find(({ method }) => method === "POST");
    expect(post?.headers["x-csrftoken"]).toBe("csrf-of-the-session");
  });

  it("goes back to addresses of this site only", () => {
    expect(["/jobs?q=x", "//evil", "/\\evil", "https://evil", undefined, "/login?next=/"].map(safeNext)).toEqual([
      "/jobs?q=x",
      "/",
      "/",
      "/",
      "/",
      "/",
    ]);
  });
});

describe("the frame", () => {
  it("narrows the pages to a node and keeps it on the way", async () => {
    const { user, router } = open("/jobs?scope=ai-company/research");
    await screen.findByRole("link", { name: "pretrain-13b" });
    expect(screen.queryByRole("link", { name: "serve-llama-9" })).toBeNull();
    await user.click(screen.getAllByRole("link", { name: "Quotas" })[0] as HTMLElement);
    await screen.findByRole("row", { name: /vision/ });
    expect(router.state.location.search).toMatchObject({ scope: "ai-company/research" });
    expect(screen.queryByRole("row", { name: /production/ })).toBeNull();
  });

  it("changes the theme from the keyboard and remembers it", async () => {
    const { user } = open("/jobs");
    (await screen.findByRole("button", { name: "Theme" })).focus();
    await user.keyboard("{Enter}");
    await user.click(await screen.findByRole("menuitemradio", { name: "Dark" }));
    expect(document.documentElement).toHaveAttribute("data-mantine-color-scheme", "dark");
    expect(localStorage.getItem("mantine-color-scheme-value")).toBe("dark");
    localStorage.clear();
  });

  it("jumps by two keys, but not while somebody types", async () => {
    const { user, router } = open("/jobs");
    const search = await screen.findByRole("textbox", { name: "Name, user or ID" });
    await user.type(search, "gq");
    expect(router.state.location.pathname).toBe("/jobs");
    search.blur();
    await user.keyboard("gq");
    await waitFor(() => expect(router.state.location.pathname).toBe("/quotas"));
  });
});

describe("the scheduler", () => {
  it("that has stopped is told on every page", async () => {
    const { container } = open("/jobs", { company: aCompany({ scheduler: theScheduler(265) }) });
    expect(
      await screen.findByText("No scheduling decision for 4 min 25 s. Running jobs continue; no job is started."),
    ).toBeInTheDocument();
    expect(await accessibilityFaults(container)).toEqual([]);
  });

  it("that decides but does not look says that states may be old", async () => {
    const scheduler = { ...theScheduler(265), is_late: false };
    open("/clusters", { company: aCompany({ scheduler }) });
    expect(
      await screen.findByText("No cluster was checked for 4 min 25 s. Job states and free GPUs may be old."),
    ).toBeInTheDocument();
  });

  it("that decides is no line", async () => {
    open("/jobs");
    await screen.findByRole("textbox", { name: "Name, user or ID" });
    expect(screen.queryByText(/No scheduling decision|No cluster was checked/)).toBeNull();
  });
});

describe("the small pages", () => {
  it("home has my jobs, my teams and what is stale", async () => {
    const { container } = open("/");
    expect(await screen.findByRole("region", { name: "Notices" })).toHaveTextContent("kube-b is stale 6 min");
    const jobs = await screen.findByRole("region", { name: "My jobs" });
    expect(await within(jobs).findByRole("link", { name: "1 queued" })).toBeInTheDocument();
    const teams = screen.getByRole("region", { name: "GPUs of my teams" });
    expect(await within(teams).findByRole("row", { name: /nlp/ })).toHaveTextContent("200 lent, back within the grace");
    expect(within(teams).getByRole("columnheader", { name: /^Guaranteed and free/ })).toBeInTheDocument();
    expect(await accessibilityFaults(container)).toEqual([]);
  });

  it.each(["finance", "auditor"])("home of %s shows costs and suggests no job", async (role) => {
    const session = aSession({
      grants: [{ role: role as "finance", node_path: "ai-company" }],
      permissions: { "ai-company": ["view_tree", "view_jobs", "view_costs"] },
    });
    const { container, requests } = open("/", { company: aCompany({ session }) });
    const costs = await screen.findByRole("region", { name: "Costs" });
    expect(await within(costs).findByRole("row", { name: /^Cost so far/ })).toHaveTextContent("€1,112,350.00");
    expect(within(costs).getByRole("link", { name: "Chargeback" })).toHaveAttribute("href", "/chargeback");
    expect(screen.queryByRole("region", { name: "My jobs" })).toBeNull();
    expect(screen.getByRole("region", { name: "GPUs of the teams" })).toBeInTheDocument();
    expect(screen.queryByText(/tidegate submit/)).toBeNull();
    expect(requests.filter(({ path }) => path === "/api/v1/reports/chargeback")).toHaveLength(1);
    expect(await accessibilityFaults(container)).toEqual([]);
  });

  const sections = async () =>
    (await screen.findAllByRole("region")).map((each) => each.getAttribute("aria-label")).filter((name) => name !== null);

  it.each([
    ["platform_admin", ["Notices", "Waiting for your decision", "Fleet", "My teams now", "Preemption notices", "Waiting jobs", "Waste", "Since yesterday", "Budget", "Pending requests", "Entitlement", "My jobs", "GPUs of my teams", "Costs"]],
    ["team_lead", ["Notices", "Waiting for your decision", "My teams now", "Preemption notices", "Waiting jobs", "Waste", "Since yesterday", "Budget", "Pending requests", "Entitlement", "My jobs"]],
    ["researcher", ["Notices", "Entitlement", "My jobs", "GPUs of my teams"]],
    ["finance", ["Notices", "Costs", "GPUs of the teams"]],
  ] as const)("home of a %s has the blocks of that role, the most pressing first", async (role, blocks) => {
    const lead: Permission[] = ["view_tree", "view_jobs", "submit_jobs", "manage_jobs", "manage_quota", "view_costs"];
    const rights: Record<typeof role, Session["permissions"]> = {
      platform_admin: { "": [...lead, "manage_clusters"] },
      team_lead: { "ai-company/research/nlp": lead },
      researcher: { "ai-company/research/nlp": ["view_tree", "submit_jobs"] },
      finance: { "ai-company": ["view_tree", "view_jobs", "view_costs"] },
    };
    const permissions = rights[role];
    const [node_path = ""] = Object.keys(permissions);
    const session = aSession({ grants: [{ role, node_path: node_path || null }], permissions });
    const { container } = open("/", { company: aCompany({ session }) });
    await waitFor(async () => expect(await sections()).toEqual(blocks));
    expect(await accessibilityFaults(container)).toEqual([]);
  });

  it("home of an administrator shows the fleet, a quarantine and the nodes out of service", async () => {
    const quarantine = { ...aCompany().quarantine, is_quarantined: true, sentence: "In quarantine since noon." };
    const session = aSession({
      grants: [{ role: "platform_admin", node_path: null }],
      permissions: { "": ["view_tree", "manage_clusters"] },
    });
    open("/", { company: aCompany({ session, quarantine }) });
    expect(await screen.findByText("▲ In quarantine since noon.")).toBeInTheDocument();
    const fleet = await screen.findByRole("region", { name: "Fleet" });
    const row = await within(fleet).findByRole("row", { name: /^h100/ });
    await waitFor(() => expect(row).toHaveTextContent(/^h1001,0001,000as of 6 min ago/));
    expect(within(fleet).getByRole("list", { name: "Clusters" })).toHaveTextContent("kube-b stale 6 min");
  });

  it("home of a lead says what the team uses, and what happened", async () => {
    const session = aSession({
      grants: [{ role: "team_lead", node_path: "ai-company/research/nlp" }],
      permissions: { "ai-company/research/nlp": ["view_tree", "view_jobs", "manage_jobs"] },
    });
    open("/", { company: aCompany({ session }) });
    const now = await screen.findByRole("region", { name: "My teams now" });
    await waitFor(() => expect(now).toHaveTextContent(/^nlp uses 0 of its 200 GPUs; 200 are lent to others\. 200 GPUs of 3 jobs are being reclaimed, the first within \d+:\d\d\./));
    const events = within(screen.getByRole("table", { name: "Since yesterday" })).getAllByRole("cell");
    expect(events.map((cell) => cell.textContent)).toEqual([
      "tokenizer-ablation succeedednlp · sam · 40 GPUs × 20 h · €1,600.00",
      "probe-long-context failed: exit code 137nlp · ana · 64 GPUs × 5 h · €640.00",
      "nlp: borrow limit none → 120leo@ai-company · Borrow at most 120 GPUs",
    ]);
  });

  // Planted: the sum of a page of jobs as that of all.
  it("home of a lead says at least how many GPUs are reclaimed where the list of jobs goes on", async () => {
    const session = aSession({
      grants: [{ role: "team_lead", node_path: "ai-company/research/nlp" }],
      permissions: { "ai-company/research/nlp": ["view_tree", "view_jobs", "manage_jobs"] },
    });
    const items = [aJob({ state: "preempting", mgpu: 24_000 })];
    open("/", {
      company: aCompany({ session }),
      override: ({ path, query }) =>
        path === "/api/v1/jobs" && query.get("state") === "preempting"
          ? { status: 200, body: { items, next: "more" } }
          : undefined,
    });
    const now = await screen.findByRole("region", { name: "My teams now" });
    await waitFor(() => expect(now).toHaveTextContent(/ lent to others\. At least 24 GPUs of 1 job are being reclaimed/));
  });

  it("home of finance names the teams with the highest cost, and the days that differ", async () => {
    const session = aSession({
      grants: [{ role: "finance", node_path: "ai-company" }],
      permissions: { "ai-company": ["view_tree", "view_costs"] },
    });
    open("/", { company: aCompany({ session }) });
    const top = await screen.findByRole("table", { name: "Teams with the highest cost in EUR" });
    const rows = within(top).getAllByRole("row").slice(1);
    expect(rows[0]).toHaveTextContent("ai-company/production/inference€478,550.0043 %");
    expect(rows).toHaveLength(5);
  });

  it("home of somebody without a role says so", async () => {
    open("/", { company: aCompany({ session: aSession({ grants: [], permissions: {} }) }) });
    expect(await screen.findByText(/^You have no role yet\. Ask an administrator/)).toBeInTheDocument();
  });

  it.each(["/nope", "/jobs/a/b", "/quotas/nope"])("an address that is none, %s, leads home", async (address) => {
    const { user, container } = open(address);
    expect(await screen.findByRole("heading", { name: "There is no such page" })).toBeInTheDocument();
    expect(screen.getAllByRole("main")).toHaveLength(1);
    expect(document.title).toBe("No such page · Tidegate");
    expect(await accessibilityFaults(container)).toEqual([]);
    await user.click(within(screen.getByRole("main")).getByRole("link", { name: "Home" }));
    expect(await screen.findByRole("heading", { name: /^Hello/ })).toBeInTheDocument();
  });

  it("a token's secret is shown once", async () => {
    const { user, container, requests } = open("/access");
    await user.click(await screen.findByRole("button", { name: "New token" }));
    await user.type(await screen.findByRole("textbox", { name: "Name" }), "ci");
    await user.click(screen.getByRole("checkbox", { name: /^jobs/ }));
    await user.click(screen.getByRole("button", { name: "Create" }));
    expect(await screen.findByText("tdg_9fK2exampleOnlyNotAToken")).toBeInTheDocument();
    expect(requests.find(({ method }) => method === "POST")?.body).toEqual({
      name: "ci",
      scopes: ["read", "jobs"],
      expires_in_days: 30,
      user: null,
    });
    expect(await accessibilityFaults(container)).toEqual([]);
    await user.click(screen.getByRole("button", { name: "I have it" }));
    expect(screen.queryByText("tdg_9fK2exampleOnlyNotAToken")).toBeNull();
  });
});

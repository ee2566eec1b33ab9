import { fireEvent, screen, waitFor, within } from "@testing-library/react";
import { describe, expect, it } from "vitest";

import { aCompany, answer } from "../../mock/answer.ts";
import { aProblem } from "../../mock/http.ts";
import { aSession, POOLS, theClusters, theNodes, uuid } from "../../mock/company.ts";
import type { ClusterNode, Placement } from "../api/types";
import { accessibilityFaults, open, show, type Override } from "../test/render";
import { OutsideUse } from "./OutsideUse";
import { PoolTable } from "./PoolTable";
import { isOut, jobsByNode, matching, whatEvictionDoes } from "./nodes";
import { outcomeOf, settingsOf, subjectParts } from "./pushes";
import { ClusterHealth, toneOf } from "./ClusterHealth";

const admin = aCompany({ session: aSession({ permissions: { "": ["view_jobs", "manage_clusters"] } }) });

function aNode(change: Partial<ClusterNode> = {}): ClusterNode {
  const [node] = theNodes("slurm-a");
  if (!node) throw new Error("slurm-a has nodes");
  return { ...node, ...change };
}

/** The list of nodes is these. */
function withNodes(...nodes: ClusterNode[]): Override {
  return ({ method, path }) =>
    method === "GET" && path === "/api/v1/nodes" ? { status: 200, body: { items: nodes, next: null } } : undefined;
}

describe("cores and GPUs of a cluster", () => {
  const [slurm] = theClusters();
  if (!slurm) throw new Error("there are clusters");
  const [gpus] = slurm.pools;
  if (!gpus) throw new Error("it has a pool");
  const cores = { ...gpus, pool: "cpu", device: "cpu" as const, capacity_mgpu: 16_000, healthy_mgpu: 8_000 };
  const outside = { running: 2, running_mgpu: 12_000, pending: 1, pending_mgpu: 4_000, holders: null };

  // Planted: cores without their word among GPUs; the sum of both as GPUs.
  it("are told apart", () => {
    const pools = [{ ...gpus, outside_mgpu: 8_000 }, { ...cores, outside_mgpu: 4_000 }];
    const cluster = { ...slurm, pools, outside };
    show(
      <>
        <PoolTable cluster={cluster} />
        <OutsideUse cluster={cluster} />
      </>,
    );
    expect(screen.getByRole("columnheader", { name: "GPUs" })).toBeInTheDocument();
    expect(screen.getByRole("row", { name: /^cpu/ })).toHaveTextContent("8 of 16 cores");
    expect(screen.getByText(/8 GPUs and 4 cores are held by 2 jobs/)).toHaveTextContent(
      "1 job waits in the cluster's own queue.",
    );
  });

  // Planted: good while it answers, whatever it says.
  it("have a warning edge where there is something to see to", () => {
    const told = { ...slurm, message: "2 Pods hold 6 GPUs outside of the teams' queues." };
    expect([toneOf(slurm, true), toneOf(told, true), toneOf(slurm, false)]).toEqual(["good", "warn", "warn"]);
    expect(toneOf({ ...told, is_enabled: false }, true)).toBeUndefined();
    show(<ClusterHealth cluster={told} />);
    expect(screen.getByText(told.message)).not.toHaveClass("dim");
  });

  it("are told as of the last answer of a cluster that is silent", () => {
    const seen_at = new Date(Date.now() - 360_000).toISOString();
    show(<PoolTable cluster={{ ...slurm, state: "unreachable", seen_at }} />);
    expect(screen.getAllByRole("columnheader")[1]).toHaveTextContent(/^Healthy as of .*6 min ago/);
  });

  it("are cores alone where there is nothing else", () => {
    const cluster = { ...slurm, pools: [cores], outside };
    show(
      <>
        <PoolTable cluster={cluster} />
        <OutsideUse cluster={cluster} />
      </>,
    );
    expect(screen.getByRole("columnheader", { name: "Cores" })).toBeInTheDocument();
    expect(screen.getByRole("img")).toHaveAccessibleName("8 of 16 cores healthy");
    expect(screen.getByText(/^12 cores are held by 2 jobs/)).toHaveTextContent("queue, for 4 cores.");
  });
});

describe("nodes", () => {
  it("hold a job once, with all its ranks", () => {
    const placement = (job: string, slots: Placement["slots"]): Placement => ({
      job,
      name: job,
      team: "t",
      user: "u",
      state: "running",
      slots,
    });
    const found = jobsByNode([
      placement("a", [
        { node: "n1", mgpu: 2000 },
        { node: "n1", mgpu: 3000 },
        { node: "n2", mgpu: 1000 },
      ]),
      placement("b", [{ node: "n2", mgpu: 500 }]),
    ]);
    expect(found.get("n1")).toEqual([{ id: "a", name: "a", mgpu: 5000 }]);
    expect(found.get("n2")?.map(({ id, mgpu }) => [id, mgpu])).toEqual([
      ["a", 1000],
      ["b", 500],
    ]);
  });

  it("are found by name, state, reason and feature", () => {
    const nodes = [
      aNode({ name: "g1", features: [] }),
      aNode({ name: "g2", features: ["IB"] }),
      aNode({ name: "g3", features: [], reason: "fans" }),
    ];
    expect(matching(nodes, " ").length).toBe(3);
    expect(matching(nodes, "ib").map(({ name }) => name)).toEqual(["g2"]);
    expect(matching(nodes, "FANS").map(({ name }) => name)).toEqual(["g3"]);
  });

  it("can be resumed when they were taken out, and drained when not", () => {
    expect(["idle", "mixed", "up", "disk full"].map((state) => isOut(aNode({ state })))).toEqual(Array(4).fill(false));
    const out = ["idle+drain", "drained", "down+not_responding", "DOWN", "Ready,SchedulingDisabled"];
    expect(out.map((state) => isOut(aNode({ state })))).toEqual(Array(5).fill(true));
  });

  it("that are emptied say what becomes of each job, also while it is not known how many there are", () => {
    const first = (jobs: number | null) => whatEvictionDoes(jobs)[0];
    const then =
      "gets its notice, is stopped on all of its nodes after the grace of its priority class, and queues again at its " +
      "old place as its next attempt. One that may not be queued again fails.";
    expect(first(null)).toBe(`Every job on it ${then}`);
    expect(first(0)).toMatch(/^No job runs on it now/);
    expect(first(1)).toBe(`The job on it ${then}`);
    expect(first(12)).toBe(`Each of the 12 jobs on it ${then}`);
    expect(whatEvictionDoes(1)[1]).toMatch(/as disruption budgets allow, and gets at most 5 minutes to end\.$/);
  });
});

describe("the list of clusters", () => {
  it("shows their age and leads to each", async () => {
    const { user, container, router } = open("/clusters");
    const kube = await screen.findByRole("region", { name: "Cluster kube-b" });
    expect(kube).toHaveTextContent("stale 6 min");
    expect(kube).toHaveTextContent("No answer from the API server for 6 min.");
    expect(screen.queryByRole("link", { name: "Add a cluster" })).toBeNull();
    expect(await accessibilityFaults(container)).toEqual([]);
    const slurm = screen.getByRole("region", { name: "Cluster slurm-a" });
    expect(slurm).toHaveTextContent("v0.0.40");
    await user.click(within(slurm).getByRole("link", { name: "slurm-a" }));
    expect(await screen.findByRole("heading", { name: /^slurm-a/ })).toBeInTheDocument();
    expect(router.state.location.pathname).toBe("/clusters/slurm-a");
  });

  it("says so when there is none, and when it cannot be read", async () => {
    const empty: Override = ({ path }) =>
      path === "/api/v1/clusters" ? { status: 200, body: { items: [], next: null } } : undefined;
    const first = open("/clusters", { override: empty, company: admin });
    expect(await screen.findByText(/No cluster is registered yet/)).toBeInTheDocument();
    expect(screen.getAllByRole("link", { name: "Add a cluster" }).length).toBeGreaterThan(0);
    first.unmount();
    open("/clusters", { override: ({ path }) => (path === "/api/v1/clusters" ? aProblem(500, "error", "Broken.") : undefined) });
    expect(await screen.findByText("Broken.")).toBeInTheDocument();
  });
});

describe("a cluster's nodes", () => {
  it("show state, reason, features and jobs, some at first and all on demand", async () => {
    const { user } = open("/clusters/slurm-a", { company: admin });
    const table = await screen.findByRole("table", { name: "Nodes of slurm-a" });
    expect(within(table).getAllByRole("row")).toHaveLength(51);
    const first = within(table).getByRole("row", { name: /slurm-a-000/ });
    expect(await within(first).findByRole("link", { name: "llm" })).toHaveAttribute(
      "href",
      expect.stringContaining("/jobs/"),
    );
    expect(first).toHaveTextContent("nvlink, ib");
    const drained = within(table).getByRole("row", { name: /slurm-a-004/ });
    expect(drained).toHaveTextContent("idle+drain");
    expect(drained).toHaveTextContent("new fans");
    await user.click(screen.getByRole("button", { name: "Show more" }));
    await waitFor(() => expect(within(table).getAllByRole("row")).toHaveLength(76));
    await user.click(screen.getByRole("radio", { name: "Out 1" }));
    await waitFor(() => expect(within(table).getAllByRole("row")).toHaveLength(2));
    await user.click(screen.getByRole("radio", { name: "With jobs 2" }));
    await waitFor(() => expect(within(table).getAllByRole("row")).toHaveLength(3));
  });

  it("are found by the text in the address", async () => {
    const { user, router } = open("/clusters/slurm-a?q=fans", { company: admin });
    const table = await screen.findByRole("table", { name: "Nodes of slurm-a" });
    expect(within(table).getAllByRole("row")).toHaveLength(2);
    await user.type(screen.getByRole("textbox", { name: "Find" }), "xyz");
    expect(await screen.findByText("No node matches.")).toBeInTheDocument();
    expect(router.state.location.search).toMatchObject({ q: "fansxyz" });
  });

  it("are drained with a reason, by platform administrators", async () => {
    const { user, container, requests } = open("/clusters/slurm-a", { company: admin, override: withNodes(aNode()) });
    await screen.findByRole("link", { name: "llm" });
    await user.click(screen.getByRole("button", { name: "Drain slurm-a-000" }));
    const dialog = await screen.findByRole("dialog", { name: "Drain slurm-a-000?" });
    expect(dialog).toHaveTextContent("the 2 jobs on it may go on to the end");
    expect(within(dialog).getByRole("button", { name: "Drain" })).toBeDisabled();
    expect(await accessibilityFaults(container)).toEqual([]);
    await user.type(within(dialog).getByRole("textbox", { name: /Reason/ }), " new fans {Enter}");
    await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
    const sent = requests.filter(({ method }) => method === "POST");
    expect(sent.map(({ path, body }) => [path.replace(/[^/]*-[^/]*/, "ID"), body])).toEqual([
      ["/api/v1/nodes/ID/drain", { reason: "new fans" }],
    ]);
    expect(await screen.findByText("Drain of slurm-a-000 requested")).toBeInTheDocument();
  });

  it("are emptied where their cluster can, and only when that was ticked", async () => {
    const evicting: Override = (request) => {
      const answered = answer(admin, request);
      const { items } = (answered.body ?? {}) as { items?: { name: string; eviction_refusal: string }[] };
      if (request.path !== "/api/v1/clusters") return withNodes(aNode())(request);
      return { ...answered, body: { items: items?.map((each) => ({ ...each, eviction_refusal: "" })), next: null } };
    };
    const { user, container, requests } = open("/clusters/slurm-a", { company: admin, override: evicting });
    await screen.findByRole("link", { name: "llm" });
    await user.click(screen.getByRole("button", { name: "Drain slurm-a-000" }));
    const dialog = await screen.findByRole("dialog", { name: "Drain slurm-a-000?" });
    expect(dialog).not.toHaveTextContent("gets its notice");
    await user.type(within(dialog).getByRole("textbox", { name: /Reason/ }), "new fans");
    await user.click(within(dialog).getByRole("checkbox", { name: "Evict what runs on it" }));
    expect(dialog).toHaveTextContent("Each of the 2 jobs on it gets its notice, is stopped on all of its nodes");
    expect(dialog).not.toHaveTextContent("may go on to the end");
    expect(await accessibilityFaults(container)).toEqual([]);
    await user.click(within(dialog).getByRole("button", { name: "Drain and evict" }));
    await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
    const sent = requests.filter(({ method }) => method === "POST");
    expect(sent.map(({ body }) => body)).toEqual([{ reason: "new fans", evict_grace_s: 300 }]);
  });

  it("are not emptied where their cluster cannot", async () => {
    const { user } = open("/clusters/slurm-a", { company: admin, override: withNodes(aNode()) });
    await user.click(await screen.findByRole("button", { name: "Drain slurm-a-000" }));
    const dialog = await screen.findByRole("dialog", { name: "Drain slurm-a-000?" });
    expect(within(dialog).queryByRole("checkbox")).toBeNull();
  });

  it("are resumed, and a refusal is told in the dialog", async () => {
    const out = withNodes(aNode({ state: "idle+drain", is_schedulable: false, reason: "new fans" }));
    const refuse: Override = (request) =>
      request.method === "POST" ? aProblem(409, "conflict", "It cannot.") : out(request);
    const { user } = open("/clusters/slurm-a?show=out", { company: admin, override: refuse });
    await user.click(await screen.findByRole("button", { name: "Resume slurm-a-000" }));
    const dialog = await screen.findByRole("dialog", { name: "Resume slurm-a-000?" });
    expect(dialog).toHaveTextContent("It was taken out for: new fans");
    await user.click(within(dialog).getByRole("button", { name: "Resume" }));
    expect(await within(dialog).findByRole("alert")).toHaveTextContent("It cannot.");
  });

  it("tell what was asked of them and what became of it", async () => {
    const request = {
      action: "drain",
      reason: "fans",
      requested_by: "root@platform",
      requested_at: new Date(Date.now() - 130_000).toISOString(),
      answered_at: null,
      state: "pending",
      evict_grace_s: null,
      message: "",
    } as const;
    const answered = { ...request, answered_at: request.requested_at, message: "not allowed" };
    open("/clusters/slurm-a", {
      company: admin,
      override: withNodes(
        aNode({ id: "1", name: "waits", request }),
        aNode({ id: "4", name: "empties", request: { ...request, evict_grace_s: 300, message: "Still there: 2 jobs." } }),
        aNode({ id: "2", name: "refused", request: { ...answered, state: "refused" } }),
        aNode({ id: "3", name: "settled", request: { ...answered, state: "done" } }),
      ),
    });
    const waits = await screen.findByRole("row", { name: /^waits/ });
    expect(waits).toHaveTextContent("drain requested 2 min ago by root@platform");
    expect(within(waits).getByRole("button")).toBeDisabled();
    expect(screen.getByRole("row", { name: /^empties/ })).toHaveTextContent("Still there: 2 jobs.");
    expect(screen.getByRole("row", { name: /^refused/ })).toHaveTextContent("Drain refused 2 min ago: not allowed");
    expect(screen.getByRole("row", { name: /^settled/ })).not.toHaveTextContent("not allowed");
  });

  it("cannot be changed by others, nor where the cluster cannot", async () => {
    const first = open("/clusters/slurm-a");
    await screen.findByRole("table", { name: "Nodes of slurm-a" });
    expect(screen.queryByRole("button", { name: /^Drain/ })).toBeNull();
    expect(screen.queryByRole("tab", { name: "Users" })).toBeNull();
    first.unmount();
    const old: Override = (request) => {
      if (request.path !== "/api/v1/clusters") return undefined;
      const { items } = answer(admin, request).body as { items: { nodes_refusal: string }[] };
      return { status: 200, body: { items: items.map((each) => ({ ...each, nodes_refusal: "it is old" })), next: null } };
    };
    open("/clusters/kube-b", { company: admin, override: old });
    expect(await screen.findByText(/Nodes cannot be drained from here: it is old/)).toBeInTheDocument();
    expect(screen.getByRole("button", { name: "Drain kube-b-000" })).toBeDisabled();
  });

  it("a cluster that is not there is said to be none", async () => {
    open("/clusters/nowhere");
    expect(await screen.findByRole("heading", { name: "No such cluster" })).toBeInTheDocument();
  });
});

describe("a cluster's users", () => {
  it("are listed, mapped and removed", async () => {
    const { user, container, requests } = open("/clusters/slurm-a?tab=users", { company: admin });
    const table = await screen.findByRole("table", { name: "Users of slurm-a" });
    expect(within(table).getByRole("row", { name: /ivo@ai-company/ })).toHaveTextContent("ipetrov");
    expect(await accessibilityFaults(container)).toEqual([]);
    await user.type(screen.getByRole("textbox", { name: "User" }), "leo@ai-company");
    await user.type(screen.getByRole("textbox", { name: "Name on the cluster" }), "leo{Enter}");
    expect(await screen.findByText("leo@ai-company runs as leo on slurm-a")).toBeInTheDocument();
    await user.click(screen.getByRole("button", { name: "Remove ana@ai-company" }));
    const dialog = await screen.findByRole("dialog", { name: "Remove ana@ai-company?" });
    await user.click(within(dialog).getByRole("button", { name: "Remove" }));
    await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
    expect(requests.filter(({ method }) => method !== "GET").map(({ method, body }) => [method, body])).toEqual([
      ["PUT", { user: "leo@ai-company", name: "leo" }],
      ["DELETE", null],
    ]);
  });

  it("a refusal stands at its field", async () => {
    const { user } = open("/clusters/slurm-a?tab=users", {
      company: admin,
      override: ({ method }) =>
        method === "PUT"
          ? aProblem(400, "invalid_request", "No.", { errors: [{ pointer: "/name", detail: "is no name", code: "x" }] })
          : undefined,
    });
    await user.type(await screen.findByRole("textbox", { name: "User" }), "leo@ai-company");
    await user.type(screen.getByRole("textbox", { name: "Name on the cluster" }), "ROOT{Enter}");
    expect(await screen.findByText("is no name")).toBeInTheDocument();
  });
});

describe("quotas on a cluster", () => {
  it("words and settings", () => {
    const push = { id: "1", kind: "dry_run", subjects: [], requested_by: null, requested_at: "", done_at: "", status: "done", change_count: 0, error: "" } as const;
    expect(outcomeOf({ ...push, subjects: [] }).words).toBe("no difference");
    expect(outcomeOf({ ...push, subjects: [], change_count: 1 }).words).toBe("1 difference");
    expect(outcomeOf({ ...push, subjects: [], kind: "push", change_count: 3 }).words).toBe("3 changed");
    expect(outcomeOf({ ...push, subjects: [], kind: "push", change_count: 3, error: "1 of 3" })).toEqual({
      words: "not all changed",
      tone: "wait",
    });
    expect(outcomeOf({ ...push, subjects: [], status: "waiting", done_at: null }).words).toBe("waits for the cluster");
    expect(outcomeOf({ ...push, subjects: [], status: "failed" }).tone).toBe("bad");
    expect(
      settingsOf({
        before: { gpu_limit: 4, same: 1, preempts: [] },
        after: { gpu_limit: null, same: 1, preempts: ["a", "b"], parent: "root", topology: null },
      }),
    ).toEqual([
      { name: "gpu limit", before: "4", after: "no limit" },
      { name: "parent", before: "–", after: "root" },
      { name: "preempts", before: "none", after: "a, b" },
      { name: "topology", before: "–", after: "none" },
    ]);
  });

  it("call Kubernetes' things by their kind and path", () => {
    const names = { "cluster queue": "ClusterQueue", queue: "LocalQueue", "priority class": "WorkloadPriorityClass" };
    expect(subjectParts("cluster queue tg-12ab (ai-company/research)", names)).toEqual({
      thing: "ClusterQueue",
      name: "tg-12ab",
      path: "ai-company/research",
    });
    expect(subjectParts("queue tg-12ab (ai-company)", names).thing).toBe("LocalQueue");
    expect(subjectParts("priority class tidegate-borrowed", names)).toEqual({
      thing: "WorkloadPriorityClass",
      name: "tidegate-borrowed",
      path: "",
    });
    expect(subjectParts("qos g-x (y)", names)).toEqual({ thing: "", name: "qos g-x (y)", path: "" });
  });

  it("of Kubernetes say what Kueue holds in its mode", async () => {
    open("/clusters/kube-b?tab=quotas", { company: admin });
    expect(await screen.findByText(/Kueue enforces the quotas too/, undefined, { timeout: 12_000 })).toBeInTheDocument();
    expect(screen.getByRole("heading", { name: /^kube-b/ })).toHaveTextContent("Kueue, shared mode");
    expect(screen.queryByRole("tab", { name: "Users" })).toBeNull();
  });

  it("are compared, pushed after a question, and accepted one by one", async () => {
    const { user, container, requests, router } = open("/clusters/slurm-a?tab=quotas", { company: admin });
    const differences = await screen.findByRole("table", { name: "Differences" });
    expect(within(differences).getByRole("row", { name: /research_nlp/ })).toHaveTextContent("gpus 40");
    expect(differences).not.toHaveTextContent("priority");
    expect(await accessibilityFaults(container)).toEqual([]);
    expect(screen.getByRole("button", { name: "Let chosen stand" })).toBeDisabled();
    await user.click(screen.getByRole("checkbox", { name: /research_nlp/ }));
    await user.click(screen.getByRole("button", { name: "Let 1 stand" }));
    await user.click(await screen.findByRole("button", { name: "Dry run" }));
    await waitFor(() => expect(screen.getByRole("button", { name: "Push…" })).toBeEnabled());
    await user.click(screen.getByRole("button", { name: "Push…" }));
    const dialog = await screen.findByRole("dialog", { name: "Push the quotas to slurm-a?" });
    await user.click(within(dialog).getByRole("button", { name: "Push" }));
    await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
    expect(requests.filter(({ method }) => method === "POST").map(({ body }) => body)).toEqual([
      { kind: "accept", subjects: ["qos g-ai-company_research_nlp"] },
      { kind: "dry_run", subjects: [] },
      { kind: "push", subjects: [] },
    ]);
    expect(router.state.location.search).toMatchObject({ tab: "quotas", push: expect.any(String) as string });
  });

  it("what was let stand is shown and can be taken back", async () => {
    const { user, requests } = open("/clusters/slurm-a?tab=quotas", { company: admin });
    const standing = await screen.findByRole("table", { name: "Accepted differences" });
    expect(within(standing).getByRole("row", { name: /production/ })).toHaveTextContent("fairshare 3fairshare 2");
    await user.click(within(standing).getByRole("button", { name: "Show account ai-company_production again" }));
    await waitFor(() =>
      expect(requests.find(({ method }) => method === "DELETE")?.path).toMatch(/\/accepted-differences\/7$/),
    );
  });

  it("a refused change is told", async () => {
    const { user } = open("/clusters/slurm-a?tab=quotas", { company: admin });
    const list = await screen.findByRole("table", { name: "Comparisons" });
    await user.click(within(within(list).getByRole("row", { name: /Pushed/ })).getByRole("link"));
    expect(await screen.findByText("refused: the service user is no administrator")).toBeInTheDocument();
  });
});

describe("switching a cluster off", () => {
  it("asks first", async () => {
    const { user, requests } = open("/clusters/local?tab=use", { company: admin });
    await user.click(await screen.findByRole("button", { name: "Disable it…" }));
    const dialog = await screen.findByRole("dialog", { name: "Disable local?" });
    expect(dialog).toHaveTextContent("Running jobs are not stopped.");
    await user.click(within(dialog).getByRole("button", { name: "Disable" }));
    await waitFor(() => expect(requests.find(({ method }) => method === "PATCH")?.body).toEqual({ is_enabled: false }));
  });
});

describe("archiving a cluster", () => {
  const local = theClusters().find(({ name }) => name === "local");
  const address = `/api/v1/clusters/${local?.id}/archive`;
  const job = { id: uuid(77), name: "bert", team: "ai-company/research/nlp", user: "bob", state: "running" };
  const asked: Override = ({ method, path }) =>
    method === "GET" && path === address
      ? { status: 200, body: { running: 1, waiting: 1, running_jobs: [job] } }
      : undefined;
  const archived: Override = ({ method, path }) =>
    method === "GET" && path === "/api/v1/clusters"
      ? {
          status: 200,
          body: { items: [{ ...local, is_enabled: false, archived_at: "2026-11-02T08:00:00Z" }], next: null },
        }
      : undefined;

  // Against: the button enabled before it is said what becomes of pinned jobs.
  it("shows what runs there and asks what becomes of it", async () => {
    const { user, requests } = open("/clusters/local?tab=use", { company: admin, override: asked });
    await user.click(await screen.findByRole("button", { name: "Archive…" }));
    const dialog = await screen.findByRole("dialog", { name: "Archive local?" });
    const jobs = await within(dialog).findByRole("table", { name: "Running jobs" });
    expect(within(jobs).getByRole("row", { name: /^bert/ })).toBeInTheDocument();
    expect(await accessibilityFaults(dialog)).toEqual([]);
    const archive = within(dialog).getByRole("button", { name: "Archive" });
    await user.click(within(dialog).getByRole("radio", { name: "Run to the end" }));
    expect(archive).toBeDisabled();
    await user.click(within(dialog).getByRole("radio", { name: "Wait until the restore" }));
    await user.click(archive);
    await screen.findByText("local is archived");
    expect(requests.find(({ method, path }) => method === "POST" && path === address)?.body).toEqual({
      running: "end",
      waiting: "wait",
    });
  });

  // Against: offered to be enabled, too.
  it("is marked, and undone on its page", async () => {
    const { user } = open("/clusters/local?tab=use", { company: admin, override: archived });
    expect(await screen.findByRole("heading", { name: /local .*archived/ })).toBeInTheDocument();
    expect(screen.queryByRole("button", { name: "Enable it…" })).toBeNull();
    await user.click(screen.getByRole("button", { name: "Restore" }));
    await screen.findByText("local is restored");
  });

  it("is marked in the list", async () => {
    open("/clusters", { company: admin, override: archived });
    const card = await screen.findByRole("region", { name: "Cluster local" });
    expect(card).toHaveTextContent("archived");
  });
});

describe("archiving a pool", () => {
  const h100 = POOLS[0];
  const address = `/api/v1/pools/${h100?.id}/archive`;
  const asked: Override = ({ method, path }) =>
    method === "GET" && path === address
      ? { status: 200, body: { running: 0, waiting: 1, running_jobs: [] } }
      : undefined;
  const archived: Override = ({ method, path }) =>
    method === "GET" && path === "/api/v1/pools"
      ? {
          status: 200,
          body: {
            items: [
              { ...h100, archived_at: "2026-11-02T08:00:00Z" },
              { ...h100, id: uuid(31), name: "a100" },
            ],
            next: null,
          },
        }
      : undefined;

  // Against: the button enabled before it is said what becomes of waiting jobs.
  it("asks what becomes of its work", async () => {
    const { user, requests } = open("/clusters", { company: admin, override: asked });
    await user.click(await screen.findByRole("button", { name: "Archive h100…" }));
    const dialog = await screen.findByRole("dialog", { name: "Archive h100?" });
    const archive = await within(dialog).findByRole("button", { name: "Archive" });
    expect(archive).toBeDisabled();
    expect(await accessibilityFaults(dialog)).toEqual([]);
    await user.click(within(dialog).getByRole("radio", { name: "Wait until the restore" }));
    await user.click(archive);
    await screen.findByText("h100 is archived");
    expect(requests.find(({ method, path }) => method === "POST" && path === address)?.body).toEqual({
      waiting: "wait",
    });
  });

  it("is undone", async () => {
    const { user, requests } = open("/clusters", { company: admin, override: archived });
    const table = await screen.findByRole("table", { name: "All pools" });
    expect(within(table).getByRole("row", { name: /^h100 .*Archived/ })).toBeInTheDocument();
    await user.click(screen.getByRole("button", { name: "Restore h100" }));
    await screen.findByText("h100 is restored");
    expect(requests.find(({ method }) => method === "POST")?.path).toBe(`/api/v1/pools/${h100?.id}/restore`);
  });

  it("is for administrators", async () => {
    open("/clusters");
    await screen.findByRole("region", { name: "Cluster local" });
    expect(screen.queryByRole("table", { name: "All pools" })).toBeNull();
  });

  // Against: archived pools offered.
  it("takes the pool out of the form", async () => {
    const { user } = open("/submit", { override: archived });
    await user.click(await screen.findByRole("combobox", { name: "Pool" }));
    expect((await screen.findAllByRole("option")).map(({ textContent }) => textContent)).toEqual([
      "a100 · 1,000 GPUs",
    ]);
  });
});

describe("pools", () => {
  const h100 = POOLS[0];

  // Against: other aliases dropped by a change of the description.
  it("are changed with all of their settings", async () => {
    const { user, requests } = open("/clusters", { company: admin });
    const table = await screen.findByRole("table", { name: "All pools" });
    expect(within(table).getByRole("row", { name: /^h100/ })).toHaveTextContent("H100 80 GB");
    await user.click(screen.getByRole("button", { name: "Change h100…" }));
    const dialog = await screen.findByRole("dialog", { name: "Change h100" });
    expect(await accessibilityFaults(dialog)).toEqual([]);
    await user.type(within(dialog).getByRole("textbox", { name: "Aliases" }), ", h100-sxm,");
    await user.click(within(dialog).getByRole("button", { name: "Save" }));
    await screen.findByText("h100 is changed");
    const sent = requests.find(({ method }) => method === "PATCH");
    expect([sent?.path, sent?.body]).toEqual([
      `/api/v1/pools/${h100?.id}`,
      { description: "H100 80 GB", device: "gpu", weight: 1000, aliases: ["nvidia-h100-80gb-hbm3", "h100-sxm"] },
    ]);
  });

  // Against: cores that are worth as much as GPUs by default.
  it("are added, and a refusal stands at its field", async () => {
    let refusals = 1;
    const override: Override = ({ method, path }) =>
      method === "POST" && path === "/api/v1/pools" && refusals-- > 0
        ? aProblem(400, "invalid_request", "No.", { errors: [{ pointer: "/name", detail: "must be plain", code: "x" }] })
        : undefined;
    const { user, requests } = open("/clusters", { company: admin, override });
    await user.click(await screen.findByRole("button", { name: "Add a pool…" }));
    const dialog = await screen.findByRole("dialog", { name: "Add a pool" });
    const add = within(dialog).getByRole("button", { name: "Add the pool" });
    await user.click(add);
    expect(await within(dialog).findByText("is needed")).toBeInTheDocument();
    await user.type(within(dialog).getByRole("textbox", { name: /^Name/ }), "cpu");
    await user.click(within(dialog).getByRole("combobox", { name: "Devices" }));
    await user.click(await screen.findByRole("option", { name: "CPU cores" }));
    await user.click(add);
    expect(await within(dialog).findByText("must be plain")).toBeInTheDocument();
    await user.click(add);
    await screen.findByText("Pool cpu was added");
    expect(requests.filter(({ method }) => method === "POST").at(-1)?.body).toEqual({
      name: "cpu",
      description: "",
      device: "cpu",
      weight: 10,
      aliases: [],
    });
  });

  it("that are in use say what to do instead of a deletion", async () => {
    const { user } = open("/clusters", { company: admin });
    await user.click(await screen.findByRole("button", { name: "Delete h100…" }));
    const dialog = await screen.findByRole("dialog", { name: "Delete h100?" });
    await user.click(within(dialog).getByRole("button", { name: "Delete" }));
    expect(await within(dialog).findByRole("alert")).toHaveTextContent(
      "h100 has jobs, quotas, so deletion is not possible. Archive it instead.",
    );
    expect(within(dialog).getByRole("button", { name: "Delete" })).toBeDisabled();
  });
});

describe("the connection to a cluster", () => {
  // Against: the stored options tested while the form has others.
  it("is tested with the options of the form", async () => {
    const { user, requests } = open("/clusters/kube-b?tab=options", { company: admin });
    await screen.findByLabelText(/^Kubeconfig/);
    await user.click(screen.getByRole("button", { name: "Test the connection" }));
    const found = await screen.findByRole("region", { name: "Connection" });
    expect(await within(found).findByRole("table", { name: "Pools that it offers" })).toBeInTheDocument();
    expect(found).toHaveTextContent("The cluster answers (v0.0.44).");
    const sent = requests.find(({ method }) => method === "POST");
    expect(sent?.path).toMatch(/\/check$/);
    expect(Object.keys(sent?.body as object)).toEqual(["options"]);
  });

  // Against: options of an empty form sent instead of none.
  it("that fails says why", async () => {
    const override: Override = ({ path }) =>
      path.endsWith("/check")
        ? { status: 200, body: { is_answered: false, message: "connection refused", api_version: "", pools: [] } }
        : undefined;
    const { user, requests } = open("/clusters/slurm-a?tab=use", { company: admin, override });
    await user.click(await screen.findByRole("button", { name: "Test the connection" }));
    expect(await screen.findByRole("alert")).toHaveTextContent("The cluster does not answer: connection refused");
    expect(requests.find(({ method }) => method === "POST")?.body).toEqual({});
  });

  it("a cluster that never answered is deleted", async () => {
    const [slurm] = theClusters();
    const override: Override = ({ method, path }) =>
      method === "GET" && path === "/api/v1/clusters"
        ? { status: 200, body: { items: [{ ...slurm, name: "typo", seen_at: null }], next: null } }
        : undefined;
    const { user, requests, router } = open("/clusters/typo?tab=use", { company: admin, override });
    await user.click(await screen.findByRole("button", { name: "Delete…" }));
    const dialog = await screen.findByRole("dialog", { name: "Delete typo?" });
    await user.click(within(dialog).getByRole("button", { name: "Delete" }));
    await screen.findByText("typo is deleted");
    expect(requests.find(({ method }) => method === "DELETE")?.path).toBe(`/api/v1/clusters/${slurm?.id}`);
    await waitFor(() => expect(router.state.location.pathname).toBe("/clusters"));
  });
});

/** Refuses the first POST with these errors of its options. */
function refusingOnce(...errors: { pointer: string; detail: string }[]): Override {
  let refusals = 1;
  return (request) => {
    if (request.method !== "POST") return undefined;
    refusals -= 1;
    const coded = errors.map((each) => ({ ...each, code: "invalid" }));
    return refusals >= 0 ? aProblem(400, "invalid_request", "No.", { errors: coded }) : answer(admin, request);
  };
}

const type = (label: RegExp, value: string) => fireEvent.change(screen.getByLabelText(label), { target: { value } });

describe("adding a Slurm cluster", () => {
  // Planted: a refusal in a pool shown beside its name; an error that no field shows left out.
  it("sends the options, shows what is missing, and a refusal at its field", async () => {
    const override = refusingOnce(
      { pointer: "/options/url", detail: "option url must be like http" },
      { pointer: "/options/pools/h100/partition", detail: "option pools.h100.partition must be letters" },
      { pointer: "/options/colour", detail: "unknown options of a Slurm cluster: colour" },
    );
    const { user, container, requests, router } = open("/add-cluster", { company: admin, override });
    await user.click(await screen.findByRole("radio", { name: "Slurm" }));
    await screen.findByLabelText(/^Address/);
    expect(router.state.location.search).toEqual({ kind: "slurm" });
    type(/^Name *\*?$/, "hpc");
    await user.click(screen.getByRole("button", { name: "Add the cluster" }));
    expect(screen.getAllByText("is needed")).toHaveLength(6);
    expect(screen.getByLabelText(/^Address/)).toHaveAccessibleDescription(/is needed/);
    expect(requests.some(({ method }) => method === "POST")).toBe(false);
    expect(await accessibilityFaults(container)).toEqual([]);
    type(/^Address/, "http://s:1");
    type(/^Service user/, "tg");
    type(/^Socket/, "/s");
    type(/^File with/, "/f");
    type(/^Pool/, "h100");
    type(/^Partition/, "gpu");
    type(/^GPU type/, "h100");
    await user.click(screen.getByRole("radio", { name: "Fast" }));
    await user.click(screen.getByRole("button", { name: "Add the cluster" }));
    expect(await screen.findByText(/unknown options/)).toBeInTheDocument();
    expect(screen.getByLabelText(/^Address/)).toHaveAccessibleDescription(/option url must be like/);
    expect(screen.getByLabelText(/^Partition/)).toHaveAccessibleDescription(/must be letters/);
    await user.click(screen.getByRole("button", { name: "Add the cluster" }));
    await waitFor(() => expect(router.state.location.pathname).toBe("/clusters/hpc"));
    expect(requests.filter(({ method }) => method === "POST").at(-1)?.body).toEqual({
      name: "hpc",
      kind: "slurm",
      is_enabled: true,
      options: {
        url: "http://s:1",
        service_user: "tg",
        token_socket: "/s",
        tag_secret_file: "/f",
        settle_s: 0,
        pools: { h100: { partition: "gpu", gres_type: "h100" } },
      },
    });
  });

  it("is for platform administrators", async () => {
    open("/add-cluster");
    expect(await screen.findByText("Ask a platform administrator to add a cluster.")).toBeInTheDocument();
  });
});

describe("a cluster of another kind", () => {
  const toys = {
    name: "toys",
    title: "Toy cluster",
    options_schema: {
      type: "object",
      required: ["address", "secret"],
      properties: {
        address: { type: "string", title: "Address", description: "Of the toy.", examples: ["lab"] },
        secret: { type: "string", title: "Secret", writeOnly: true },
        size: { type: "integer", title: "Size", default: 8 },
        is_loud: { type: "boolean", title: "Loud", default: false },
        words: { type: "array", title: "Words", items: { type: "string" }, default: [], "x-when": { is_loud: [true] } },
      },
    },
  };

  // Planted: the secret as a plain text; a list in an input of one line, which drops the ends of lines.
  it("has the form that the server describes", async () => {
    const override: Override = ({ path }) =>
      path === "/api/v1/cluster-kinds" ? { status: 200, body: { items: [toys], next: null } } : undefined;
    const { user, container, requests } = open("/add-cluster", { company: admin, override });
    const address = await screen.findByRole("textbox", { name: /^Address/ });
    expect(address).toHaveAccessibleDescription("Of the toy.");
    expect(address).toHaveAttribute("placeholder", "lab");
    expect(screen.getByLabelText(/^Secret/)).toHaveAttribute("type", "password");
    expect(screen.queryByLabelText("Words")).toBeNull();
    type(/^Name/, "lab");
    type(/^Address/, "lab");
    type(/^Secret/, "hush");
    type(/^Size/, "4");
    await user.click(screen.getByRole("checkbox", { name: "Loud" }));
    expect(screen.getByLabelText("Words")).toHaveAccessibleDescription("One on each line.");
    type(/^Words/, "a b, c\n\n d \n");
    expect(await accessibilityFaults(container)).toEqual([]);
    await user.click(screen.getByRole("button", { name: "Add the cluster" }));
    await waitFor(() => expect(requests.some(({ method }) => method === "POST")).toBe(true));
    expect(requests.find(({ method }) => method === "POST")?.body).toEqual({
      name: "lab",
      kind: "toys",
      is_enabled: true,
      options: { address: "lab", secret: "hush", size: 4, is_loud: true, words: ["a b, c", "d"] },
    });
  });
});

describe("a Kubernetes cluster", () => {
  it("is added by form, and a refusal stands at its field", async () => {
    const override = refusingOnce({ pointer: "/options/kubeconfig", detail: "option kubeconfig names /k, which is not listed" });
    const { user, container, requests, router } = open("/add-cluster?kind=kubernetes", { company: admin, override });
    await user.click(await screen.findByRole("button", { name: "Add the cluster" }));
    expect(screen.getAllByText("is needed")).toHaveLength(3);
    expect(await accessibilityFaults(container)).toEqual([]);
    type(/^Name *\*?$/, "kube");
    type(/^Kubeconfig/, "/k");
    type(/^Pool *\*?$/, "h100");
    type(/^Labels of its nodes/, "gpu=h100");
    type(/^Image *$|^Image$/, "nvcr.io/x:1");
    type(/^Folder for outputs/, "/logs");
    type(/^Exempt accounts/, "system:serviceaccount:a:b");
    await user.click(screen.getByRole("radio", { name: "Shared" }));
    await user.click(screen.getByRole("radio", { name: "Refuse" }));
    await user.click(screen.getByRole("radio", { name: "Pools' own" }));
    await user.click(screen.getByRole("button", { name: "Add the cluster" }));
    expect(await screen.findByText(/which is not listed/)).toBeInTheDocument();
    expect(screen.getByLabelText(/^Kubeconfig/)).toBeInvalid();
    await user.click(screen.getByRole("button", { name: "Add the cluster" }));
    await waitFor(() => expect(router.state.location.pathname).toBe("/clusters/kube"));
    expect(requests.filter(({ method }) => method === "POST").at(-1)?.body).toEqual({
      name: "kube",
      kind: "kubernetes",
      is_enabled: true,
      options: {
        kubeconfig: "/k",
        log_root: "/logs",
        exempt: ["system:serviceaccount:a:b"],
        mode: "shared",
        unlabelled: "refuse",
        allowed_registries: [],
        pools: { h100: { node_selector: { gpu: "h100" }, image: "nvcr.io/x:1" } },
      },
    });
  }, 60_000);

  it("shows its options to those who manage clusters, who replace them", async () => {
    const first = open("/clusters/kube-b?tab=options", { company: admin });
    const { user, container, requests } = first;
    expect(await screen.findByLabelText(/^Kubeconfig/)).toHaveValue("/etc/tidegate/kube-b");
    expect(await accessibilityFaults(container)).toEqual([]);
    fireEvent.change(screen.getByLabelText(/^Folder for outputs/), { target: { value: "/logs" } });
    await user.click(screen.getByRole("button", { name: "Replace the options" }));
    expect(await screen.findByText("The options of kube-b were replaced")).toBeInTheDocument();
    const { body } = requests.find(({ method }) => method === "PATCH") ?? {};
    expect(body).toEqual({
      options: {
        kubeconfig: "/etc/tidegate/kube-b",
        mode: "shared",
        allowed_registries: ["nvcr.io", "docker.io/pytorch"],
        log_root: "/logs",
        pools: {
          h100: {
            node_selector: { "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3" },
            image: "nvcr.io/nvidia/pytorch:24.05-py3",
          },
        },
      },
    });
    first.unmount();
    open("/clusters/slurm-a?tab=options", { company: admin });
    expect(await screen.findByText(/^Its options may hold secrets/)).toBeInTheDocument();
    expect(await screen.findByLabelText(/^Address/)).toHaveValue("");
  }, 60_000);
});

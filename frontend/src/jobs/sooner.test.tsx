import { screen, within } from "@testing-library/react";
import { describe, expect, it } from "vitest";

import { aCompany, aProblem } from "../../mock/answer.ts";
import { aSession } from "../../mock/company.ts";
import { aJob, anExplanation } from "../../mock/jobs.ts";
import { accessibilityFaults, open } from "../test/render";
import { couldBeSooner, variantsOf } from "./sooner";

const WAITING = "01935000-0000-7000-8000-000000008f2c";

describe("what would start a job sooner", () => {
  const waiting = { state: "queued", explanation: anExplanation({ code: "waiting_for_free_gpus" }) } as const;

  it("asks for less, step by step, and for nothing that is so already", () => {
    const gang = aJob({ ...waiting, node_count: 4, node_count_min: 4, mgpu: 32_000, mgpu_min: 32_000, required_topology: "rack" });
    const found = variantsOf(gang, ["h100", "a100"]);
    expect(found.map(({ label }) => label)).toEqual([
      "Not all in one rack",
      "With a time limit of 1 h",
      "With 16 GPUs on 2 nodes",
      "With 8 GPUs on 1 node",
      "In pool a100",
    ]);
    const [scattered, short, half, , other] = found.map(({ request }) => request);
    expect(scattered).toMatchObject({ nodes: 4, preferred_topology: "rack" });
    expect(scattered).not.toHaveProperty("required_topology");
    expect(short).toMatchObject({ nodes: 4, time_limit_s: 3600, required_topology: "rack" });
    expect(half).toMatchObject({ nodes: 2, gpus_per_node: 8, pool: "h100" });
    expect(other).toMatchObject({ nodes: 4, pool: "a100" });
  });

  it("asks for no more than comes with the GPUs", () => {
    const wide = aJob({ ...waiting, cpus_per_node: 64, memory_mib_per_node: 1500 });
    const [modest] = variantsOf(wide, ["h100"]);
    expect(modest?.label).toBe("With the CPUs and memory that come with its GPUs");
    expect(modest?.request).not.toHaveProperty("cpus_per_node");
    expect(modest?.request).not.toHaveProperty("memory_mib_per_node");
  });

  it("has nothing to offer for one GPU with a short limit", () => {
    const small = aJob({ ...waiting, mgpu: 1000, mgpu_min: 1000, mgpu_per_node: 1000, time_limit_s: 600 });
    expect(variantsOf(small, ["h100"])).toEqual([]);
  });

  it("is asked only of jobs that wait for GPUs", () => {
    const because = (code: "dependency" | "begin_time" | "never_fits") =>
      couldBeSooner(aJob({ ...waiting, explanation: anExplanation({ code }) }));
    expect([because("dependency"), because("begin_time"), because("never_fits")]).toEqual([false, false, true]);
    expect(couldBeSooner(aJob())).toBe(false);
    expect(couldBeSooner(aJob({ ...waiting, origin: "native" }))).toBe(false);
  });

  it("tries each without effect and puts what starts now first", async () => {
    let asked = 0;
    const { user, requests, container } = open(`/jobs/${WAITING}`, {
      override: ({ method, path, body, query }) => {
        if (method !== "POST" || path !== "/api/v1/jobs") return undefined;
        asked += 1;
        expect(query.get("dry_run")).toBe("true");
        return (body as { nodes?: number }).nodes === 6 ? undefined : aProblem(503, "down", "No.");
      },
    });
    await user.click(await screen.findByRole("button", { name: "Try it" }));
    const card = await screen.findByRole("region", { name: "What would start it sooner" });
    const rows = await within(card).findAllByRole("row");
    expect(rows.slice(1).map((row) => row.textContent)).toEqual([
      expect.stringMatching(/^With 48 GPUs on 6 nodes/) as string,
      "With a time limit of 1 hno answer",
      "With 96 GPUs on 12 nodesno answer",
    ]);
    expect(asked).toBe(3);
    expect(requests.filter(({ method }) => method === "POST")).toHaveLength(3);
    expect(await accessibilityFaults(container)).toEqual([]);
  });

  it("is not offered to who may not submit there", async () => {
    const session = aSession({ permissions: { "ai-company": ["view_tree", "view_jobs"] } });
    open(`/jobs/${WAITING}`, { company: aCompany({ session }) });
    expect(await screen.findByRole("heading", { name: "Why is it waiting?" })).toBeInTheDocument();
    expect(screen.queryByRole("button", { name: "Try it" })).toBeNull();
  });
});

describe("the reasons of a job", () => {
  it("are told one after another, with how long each held", async () => {
    const { user } = open(`/jobs/${WAITING}`);
    await user.click(await screen.findByRole("tab", { name: "Reasons" }));
    const table = await screen.findByRole("table", { name: "What it has waited for" });
    const rows = within(table).getAllByRole("row").slice(1);
    expect(rows.map((row) => within(row).getByRole("rowheader").firstChild?.textContent)).toEqual([
      "waiting for reclaim",
      "waiting for free GPUs",
    ]);
    expect(rows[1]).toHaveTextContent("29 s");
  });

  it("say that it has not waited", async () => {
    open("/jobs/01935000-0000-7000-8000-000000009002?tab=reasons");
    expect(await screen.findByText("It has not waited for anything so far.")).toBeInTheDocument();
  });
});

describe("looking ahead", () => {
  const asked = (answer: () => object) => ({
    override: ({ path }: { path: string }) =>
      path.endsWith("/estimate") ? { status: 200, body: answer() } : undefined,
  });

  it("tells a range, its method and what it takes for granted", async () => {
    const { user, requests } = open(`/jobs/${WAITING}`);
    await user.click(await screen.findByRole("button", { name: "Look ahead" }));
    expect(await screen.findByText(/the arbiter, played on from this moment/)).toBeInTheDocument();
    expect(screen.getByText(/2 without one: a day/)).toBeInTheDocument();
    expect(screen.queryByText(/became too much/)).toBeNull();
    expect(requests.filter(({ path }) => path.endsWith("/estimate")).map(({ body }) => body)).toEqual([{}]);
  });

  it("says that it does not start by then, and where the work became too much", async () => {
    const { user } = open(
      `/jobs/${WAITING}`,
      asked(() => ({
        as_of: "2026-11-22T10:00:00Z",
        estimated_start: { earliest: "2026-11-22T16:00:00Z", latest: null, method: "look_ahead" },
        until: "2026-11-22T16:00:00Z",
        asked_until: "2026-11-23T10:00:00Z",
        assumed_ends: 0,
      })),
    );
    await user.click(await screen.findByRole("button", { name: "Look ahead" }));
    expect(await screen.findByText(/^Not before/)).toBeInTheDocument();
    expect(screen.getByText(/became too much/)).toBeInTheDocument();
  });

  it("says when to ask again while somebody else's future is worked out", async () => {
    const { user } = open(`/jobs/${WAITING}`, {
      override: ({ path }) =>
        path.endsWith("/estimate") ? aProblem(429, "too_many", "Another look ahead is being worked out; ask again in 5 seconds.") : undefined,
    });
    await user.click(await screen.findByRole("button", { name: "Look ahead" }));
    expect(await screen.findByRole("alert")).toHaveTextContent(/^Another look ahead is being worked out; ask again in 5 seconds\.$/);
  });
});

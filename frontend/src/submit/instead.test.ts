import { describe, expect, it } from "vitest";

import { aJob } from "../../mock/jobs.ts";
import { draftOf, limitText, readDraft } from "./draft";
import { insteadOf, insteadText } from "./instead";

const GPU = 1000;
const SIZES = {
  "one node": aJob({ pools: ["h100", "a100"], features: ["ib"], cluster: "slurm-a" }),
  elastic: aJob({ node_count: 8, node_count_min: 4, mgpu: 64 * GPU, mgpu_min: 32 * GPU, type: "distributed" }),
  fraction: aJob({ mgpu_per_node: 500, mgpu: 500, required_topology: "rack" }),
  cores: aJob({ device: "cpu", pool: "cpu", mgpu_per_node: 16 * GPU, mgpu: 16 * GPU, cpus_per_node: 16, memory_mib_per_node: 2048 }),
};

/** What the form would send for an alternative that was found for a job. */
function sent(size: keyof typeof SIZES, changes: Record<string, unknown>) {
  return readDraft(insteadOf(draftOf(SIZES[size]), insteadText(changes))).request;
}

describe("an alternative in the submit form", () => {
  it.each<[keyof typeof SIZES, Record<string, unknown>, Record<string, unknown>, string[]]>([
    ["one node", { time_limit_s: 5400 }, { gpus_per_node: 8, nodes: 1, time_limit_s: 5400 }, ["gpus", "type"]],
    ["one node", { gpus_per_node: 4, nodes: 2 }, { gpus_per_node: 4, nodes: 2 }, ["nodes_min", "type"]],
    ["one node", { pool: "v100", pools: null, features: null, cluster: null }, { pool: "v100" }, ["pools", "features", "cluster"]],
    ["one node", { features: null }, { pools: ["h100", "a100"], cluster: "slurm-a" }, ["features"]],
    ["one node", { priority_class: "low" }, { priority_class: "low" }, []],
    ["elastic", { nodes_min: 2 }, { gpus_per_node: 8, nodes: 8, nodes_min: 2 }, ["type"]],
    ["elastic", { gpus_per_node: 4, nodes: 16, nodes_min: 8 }, { gpus_per_node: 4, nodes: 16, nodes_min: 8 }, []],
    ["elastic", { gpus_per_node: 2, nodes: 1, nodes_min: null }, { gpus_per_node: 2, nodes: 1 }, ["nodes_min"]],
    ["fraction", { time_limit_s: 61 }, { gpus_per_node: 0.5, nodes: 1, time_limit_s: 61 }, ["gpus"]],
    ["fraction", { required_topology: null, preferred_topology: "rack" }, { preferred_topology: "rack" }, ["required_topology"]],
    ["cores", { cpus_per_node: 4 }, { cpus_per_node: 4, nodes: 1, memory_mib_per_node: 2048 }, ["gpus_per_node"]],
    ["cores", { memory_mib_per_node: null }, { cpus_per_node: 16 }, ["memory_mib_per_node"]],
    ["cores", { memory_mib_per_node: 1025 }, { memory_mib_per_node: 1025 }, []],
  ])("of %s with %j asks for %j", (size, changes, asked, left) => {
    const request = sent(size, changes);
    expect(request).toMatchObject(asked);
    for (const member of left) expect(request).not.toHaveProperty(member);
  });

  it("waits for nothing that is over, and keeps the signal and the kind of work", () => {
    const id = "0193508e-2f4c-7000-8000-000000000001";
    const job = aJob({
      type: "interactive",
      notice_signal: "USR1",
      signal_ahead_s: 600,
      signals_shell_only: true,
      depends_on: [{ job: id, array: null, name: "prepare", state: "succeeded", condition: "succeeded", is_met: true }],
    });
    const request = readDraft(insteadOf(draftOf(job), "time_limit_s:3600")).request;
    expect(request).toMatchObject({
      ...{ type: "interactive", notice_signal: "USR1", signal_ahead_s: 600, signals_shell_only: true },
      time_limit_s: 3600,
    });
    expect(request).not.toHaveProperty("depends_on");
  });

  it("passes over what nobody would change so", () => {
    const draft = draftOf(SIZES["one node"]);
    const changed = insteadOf(draft, "script:rm,nodes:,time_limit_s:soon,preferred_topology:moon,,:");
    expect(changed).toEqual({ ...draft, shape: "per_node", type: null, timeLimit: "", together: null });
  });

  it("says a time limit as people type it", () => {
    expect([259_200, 7200, 5400, 61].map(limitText)).toEqual(["3d", "2h", "90m", "61s"]);
  });
});

/** Made-up fair-shares and capacities: nodes that used more than their weight, and nodes that used less. */
import type { FairShare, ExplainedFairShare, NodeFairShare, NodeSummaries, PoolCapacity } from "../src/api/types";
import { iso, TREE } from "./company.ts";
import { aFairShare } from "./entitlement.ts";

const WEEK_S = 604_800;
const GPU_H = 3_600_000;
const STEPS = 28;

/** Recent use in GPU-hours, by path; 0 elsewhere. */
const USED: Record<string, number> = {
  "ai-company/research": 4200,
  "ai-company/research/nlp": 3100,
  "ai-company/research/vision": 800,
  "ai-company/research/speech": 300,
  "ai-company/production": 9400,
  "ai-company/production/inference": 9000,
  "ai-company/production/training": 400,
  "ai-company/exploration": 1900,
};

function siblingsOf(path: string): string[] {
  const parent = path.split("/").slice(0, -1).join("/");
  if (parent === "") return [path];
  return TREE.filter((node) => node.path.split("/").slice(0, -1).join("/") === parent).map((node) => node.path);
}

function shareOf(path: string): FairShare {
  const siblings = siblingsOf(path);
  const used = USED[path] ?? 0;
  const total = siblings.reduce((sum, each) => sum + (USED[each] ?? 0), 0);
  const weight = Math.floor(1000 / siblings.length);
  const part = total === 0 ? 0 : Math.floor((1000 * used) / total);
  return aFairShare({
    weight_permille: weight,
    used_mgpu_s: used * GPU_H,
    used_permille: part,
    level_permille: used === 0 ? null : Math.floor((1000 * weight) / part),
    place: 1 + siblings.filter((each) => (USED[each] ?? 0) < used).length,
    siblings: siblings.length,
  });
}

function aRow(path: string): NodeFairShare {
  const share = shareOf(path);
  const name = path.split("/").at(-1) ?? path;
  return {
    ...share,
    node: path,
    sentence: `${name} comes ${share.place === 1 ? "first" : "after others"}: it has ${String(share.weight_permille / 10)} % of the weight and ${String(share.used_permille / 10)} % of the recent use.`,
  };
}

export function anExplainedFairShare(node: string, pool: string): ExplainedFairShare {
  const parts = node.split("/");
  const used = (USED[node] ?? 0) * GPU_H;
  return {
    pool,
    device: "gpu",
    as_of: iso(Date.now()),
    node: aRow(node),
    above: parts.slice(0, -1).map((_, at) => aRow(parts.slice(0, at + 1).join("/"))),
    below: TREE.filter(({ path }) => path.split("/").slice(0, -1).join("/") === node)
      .map(({ path }) => aRow(path))
      .sort((a, b) => a.place - b.place),
    in_use_mgpu: 120_000,
    outlook: Array.from({ length: STEPS + 1 }, (_, step) => {
      const idle = Math.floor(used * 2 ** (-step / 7));
      return { after_s: Math.floor((WEEK_S * step) / 7), idle_mgpu_s: idle, steady_mgpu_s: idle + 120_000 * 86_400 * Math.min(step, 10) };
    }),
  };
}

export function theSummaries(node: string, pool: string): NodeSummaries {
  const nodes = TREE.filter(({ path }) => path === node || path.startsWith(`${node}/`));
  return {
    pool,
    as_of: iso(Date.now()),
    nodes: nodes.map(({ path }) => {
      const used = (USED[path] ?? 0) * 20;
      return {
        ...shareOf(path),
        node: path,
        credits_ugpu_s: (path.length * 37 - 800) * GPU_H * 1000,
        week_mgpu: [0.6, 0.8, 1, 0.7, 0.2, 0.3, 0.9].map((part) => Math.round(used * part)),
      };
    }),
  };
}

export function aCapacity(pool: string): PoolCapacity {
  const blocks = (pairs: [number, number][]) => pairs.map(([devices, count]) => ({ devices, blocks: count }));
  return {
    pool,
    device: "gpu",
    as_of: iso(Date.now() - 2_000),
    organization: "ai-company",
    clusters: [
      {
        cluster: "kube-b",
        is_accepting: false,
        nodes: 12,
        free_nodes: 0,
        capacity_mgpu: 96_000,
        free_mgpu: 7_000,
        whole_mgpu: 0,
        largest_mgpu: 4_000,
        claimed_mgpu: 0,
        fragmented_permille: 1000,
        blocks: blocks([[1, 7], [2, 3], [4, 1]]),
      },
      {
        cluster: "slurm-a",
        is_accepting: true,
        nodes: 113,
        free_nodes: 4,
        capacity_mgpu: 904_000,
        free_mgpu: 45_000,
        whole_mgpu: 32_000,
        largest_mgpu: 8_000,
        claimed_mgpu: 16_000,
        fragmented_permille: 288,
        blocks: blocks([[1, 45], [2, 21], [4, 10], [8, 4], [16, 2], [32, 1]]),
      },
    ],
    loans: [
      { within: "ai-company", borrower: "ai-company/production", lender: "ai-company/research", mgpu: 300_000 },
      { within: "ai-company/production", borrower: "ai-company/production/inference", lender: "(outside)", mgpu: 300_000 },
      { within: "ai-company/production", borrower: "ai-company/production/inference", lender: "ai-company/production/training", mgpu: 120_000 },
    ],
    starved: [
      { team: "ai-company/research/nlp", missing_mgpu: 200_000, waiting_mgpu: 200_000, waiting_since: iso(Date.now() - 48_000) },
    ],
  };
}

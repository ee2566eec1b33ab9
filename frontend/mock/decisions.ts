/** Recorded cycles of the company's story: nlp's gang gets its GPUs back. */
import type { Decision, DecisionLine, NamedJob, ReplayedCycle } from "../src/api/types";
import { iso } from "./company.ts";

const GPU = 1000;
const CYCLE = "01935000-0000-7000-8000-00000000c001";

function job(id: string, name: string, team: string): NamedJob {
  return { id: `01935000-0000-7000-8000-00000000${id}`, name, user: "ivo", team: `ai-company/${team}` };
}

const GANG = job("8f2c", "pretrain-13b", "research/nlp");
const NOBODY: NamedJob = { id: null, name: null, user: null, team: null };

function standing(node: string, inUse: number, guaranteed: number) {
  return { node: `ai-company/${node}`, in_use_mgpu: inUse * GPU, guaranteed_mgpu: guaranteed * GPU };
}

export function theDecisions(): Decision[] {
  const decided_at = iso(Date.now() - 48_000);
  const common = { cycle: CYCLE, decided_at, pool: "h100", device: "gpu" as const, cluster: "slurm-a", grace_until: null, beneficiary: null, victims: [] };
  const nlp = [standing("research/nlp", 0, 200), standing("research", 100, 400)];
  return [
    {
      ...common,
      decision: "claimed",
      sentence: "200 GPUs were claimed for it on slurm-a: 2 jobs with 136 GPUs had to end. Its team was guaranteed 200 GPUs and had 0 in use.",
      job: GANG,
      mgpu: 200 * GPU,
      guaranteed_mgpu: null,
      grace_until: iso(Date.now() + 252_000),
      standings: nlp,
      victims: [
        {
          ...job("0320", "serve-llama-7", "production/inference"),
          mgpu: 64 * GPU,
          grace_s: 300,
          right: "borrowed",
          guaranteed_mgpu: 0,
          unsaved_s: 160,
          priority_class: "critical",
          started_at: iso(Date.now() - 7_000_000),
        },
        {
          ...NOBODY,
          mgpu: 72 * GPU,
          grace_s: 300,
          right: "priority",
          guaranteed_mgpu: null,
          unsaved_s: null,
          priority_class: null,
          started_at: null,
        },
      ],
    },
    {
      ...common,
      decision: "stopped",
      sentence: "64 GPUs were reclaimed from it for pretrain-13b of ai-company/research/nlp (200 GPUs), with 5 min of grace. 64 GPUs of it were borrowed. 2 min 40 s of its work had no known checkpoint.",
      job: job("0320", "serve-llama-7", "production/inference"),
      mgpu: 64 * GPU,
      guaranteed_mgpu: 0,
      standings: [standing("production/inference", 700, 280), standing("production", 700, 400)],
      beneficiary: { ...GANG, mgpu: 200 * GPU, standings: nlp },
    },
    {
      ...common,
      decision: "started",
      sentence: "It was started with 8 GPUs on slurm-a, all inside its team's guarantee.",
      job: job("9001", "segment-anything", "research/vision"),
      mgpu: 8 * GPU,
      guaranteed_mgpu: 8 * GPU,
      standings: [standing("research/vision", 92, 120)],
    },
  ];
}

export function theCycles(): ReplayedCycle[] {
  const now = Date.now();
  return [
    {
      id: CYCLE,
      decided_at: iso(now - 48_000),
      epoch: 3,
      version: "0.1.0",
      started: 1,
      claimed: 1,
      stopped: 2,
      claims_dropped: 0,
      bytes: 41_200,
      queued: 2,
      running: 14,
      decisions: theDecisions(),
      is_same_policy: false,
      difference_count: 1,
      differences: [
        {
          job: job("9001", "segment-anything", "research/vision"),
          then: { decision: "started", cluster: "slurm-a", nodes: ["slurm-a-004"], other_jobs: [], code: null, grace_s: null },
          today: { decision: "waits", cluster: null, nodes: [], other_jobs: [], code: "waiting_for_free_gpus", grace_s: null },
        },
      ],
    },
    {
      id: "01935000-0000-7000-8000-00000000c002",
      decided_at: iso(now - 600_000),
      epoch: 3,
      version: "0.1.0",
      started: 3,
      claimed: 0,
      stopped: 0,
      claims_dropped: 1,
      bytes: 39_000,
      queued: 5,
      running: 12,
      decisions: [],
      is_same_policy: true,
      difference_count: 0,
      differences: [],
    },
  ];
}

/** The same as lines, cut to what was asked for. */
export function theDecisionLines(query: URLSearchParams): DecisionLine[] {
  const decided_at = iso(Date.now() - 48_000);
  const common = {
    cycle: CYCLE,
    decided_at,
    pool: "h100",
    device: "gpu" as const,
    guaranteed_mgpu: null,
    beneficiary: null,
    right: null,
    unsaved_s: null,
    at_risk_mgpu_s: null,
    grace_until: null,
    victims: 0,
    victims_mgpu: 0,
  };
  const serving = job("0320", "serve-llama-7", "production/inference");
  const stopped = {
    ...common,
    decision: "stopped" as const,
    job: serving,
    mgpu: 64 * GPU,
    guaranteed_mgpu: 0,
    right: "borrowed" as const,
    unsaved_s: 160,
    at_risk_mgpu_s: 160 * 64 * GPU,
    grace_until: iso(Date.now() + 252_000),
  };
  const lines: DecisionLine[] = [
    { ...common, id: 4, decision: "claimed", job: GANG, mgpu: 200 * GPU, victims: 2, victims_mgpu: 136 * GPU },
    { ...stopped, id: 3, beneficiary: GANG },
    { ...stopped, id: 2, right: "borrowed_above", beneficiary: NOBODY },
    {
      ...common,
      id: 1,
      decision: "started",
      job: job("9001", "segment-anything", "research/vision"),
      mgpu: 8 * GPU,
      guaranteed_mgpu: 6 * GPU,
    },
  ];
  const kind = query.get("decision");
  return lines.filter((line) => kind === null || line.decision === kind);
}

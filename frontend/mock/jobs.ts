/** Jobs of the company's story: what runs, what waits and why, and how it came there. */
import type {
  Attempt,
  Explanation,
  HistoryEvent,
  Job,
  JobDetail,
  JobReason,
} from "../src/api/types";
import { budgetEffects } from "./budgets.ts";
import { GPU, iso, uuid, ORGANIZATION } from "./company.ts";

export function anAttempt(change: Partial<Attempt> = {}): Attempt {
  const now = Date.now();
  return {
    id: uuid(700),
    number: 1,
    cluster: "slurm-a",
    state: "running",
    native_id: "48213",
    native_state: "RUNNING",
    slots: [],
    granted_at: iso(now - 3_620_000),
    started_at: iso(now - 3_600_000),
    checkpoint_at: null,
    notice_at: null,
    grace_until: null,
    ended_at: null,
    released_at: null,
    stop_reason: null,
    outcome: null,
    exit_codes: {},
    ignored_notice: false,
    mgpu: 8 * GPU,
    guaranteed_mgpu: 8 * GPU,
    borrowed_mgpu: 0,
    message: "",
    beneficiary: null,
    made_room_for: null,
    ...change,
  };
}

export function aJob(change: Partial<JobDetail> = {}): JobDetail {
  const now = Date.now();
  return {
    id: uuid(0x8f2c),
    name: "train",
    type: "training",
    origin: "portal",
    team: "ai-company/research/vision",
    user: "ana",
    organization: ORGANIZATION,
    pool: "h100",
    pools: [change.pool ?? "h100"],
    device: "gpu",
    state: "running",
    priority_class: "normal",
    mgpu_per_node: 8 * GPU,
    node_count: 1,
    node_count_min: change.node_count ?? 1,
    mgpu: 8 * GPU,
    mgpu_min: change.mgpu ?? 8 * GPU,
    time_limit_s: 72 * 3600,
    is_preemptible: false,
    is_requeueable: true,
    checkpoint_path: null,
    features: [],
    image: null,
    required_topology: null,
    preferred_topology: null,
    cpus_per_node: null,
    memory_mib_per_node: null,
    launch: "per_node",
    arguments: [],
    folder: null,
    output_file: null,
    error_file: null,
    appends_output: false,
    ntasks: null,
    ntasks_per_node: null,
    cpus_per_task: null,
    gpus_per_task: null,
    cluster: null,
    submitted_at: iso(now - 3_700_000),
    begin_at: null,
    is_singleton: false,
    started_at: iso(now - 3_600_000),
    ended_at: null,
    end_reason: null,
    exit_code: null,
    exit_code_meaning: null,
    attempt: 1,
    current_attempt: anAttempt(),
    notice_handling: null,
    explanation: null,
    usage: { guaranteed_mgpu_s: 8 * GPU * 3600, borrowed_mgpu_s: 0 },
    can: ["cancel", "extend", "logs"],
    script: "#!/bin/bash\nset -euo pipefail\nsrun python train.py --config configs/vision.yaml\n",
    environment: { NCCL_DEBUG: "WARN", RUN_NAME: "vision-07" },
    notice_signal: "TERM",
    requeue_on: [],
    requeue_max: 10,
    cost_cap_nano: null,
    cost: { cost_nano: 16_800_000_000, currency: "EUR" },
    plan: null,
    signal_ahead_s: null,
    signals_shell_only: false,
    notes: [],
    depends_on: [],
    schedule: null,
    array: null,
    ...change,
  };
}

export function anExplanation(change: Partial<Explanation> = {}): Explanation {
  const now = Date.now();
  const notice = iso(now - 48_000);
  const victim = (n: number, name: string, gpus: number, leftS: number) => ({
    job: uuid(800 + n),
    name,
    team: "ai-company/production/inference",
    mgpu: gpus * GPU,
    notice_at: notice,
    grace_until: iso(now + leftS * 1000),
    at_risk_mgpu_s: gpus * GPU * 5400,
    notice_handling: n === 2 ? null : ("reports_checkpoints" as const),
  });
  return {
    code: "waiting_for_reclaim",
    sentence:
      "Your team is entitled to these 200 GPUs. They are lent out and are being reclaimed, within 4 min 12 s.",
    numbers: { need_mgpu: 200 * GPU, free_mgpu: 0, coming_back_mgpu: 200 * GPU, grace_left_s: 252 },
    node: "ai-company/production",
    jobs_ahead: 0,
    victims: [victim(0, "serve-llama-7", 64, 18), victim(1, "serve-llama-8", 64, 18), victim(2, "eval-sweep", 72, 252)],
    estimated_start: {
      earliest: iso(now + 18_000),
      latest: iso(now + 252_000),
      method: "reclaim",
    },
    pool: null,
    elsewhere: [],
    as_of: iso(now - 2000),
    ...change,
  };
}

export function theJobs(): JobDetail[] {
  const now = Date.now();
  const waiting = {
    state: "queued",
    started_at: null,
    attempt: 0,
    current_attempt: null,
    usage: { guaranteed_mgpu_s: 0, borrowed_mgpu_s: 0 },
  } as const;
  const serving = (n: number, name: string, gpus: number, change: Partial<JobDetail> = {}) =>
    aJob({
      id: uuid(800 + n),
      name,
      team: "ai-company/production/inference",
      user: "ivo",
      type: "inference",
      priority_class: "critical",
      mgpu: gpus * GPU,
      node_count: gpus / 8,
      submitted_at: iso(now - 7_200_000 - n * 60_000),
      state: "preempting",
      current_attempt: anAttempt({
        guaranteed_mgpu: 0,
        borrowed_mgpu: gpus * GPU,
        state: "stopping",
        notice_at: iso(now - 48_000),
        grace_until: iso(now + (n === 2 ? 252_000 : 18_000)),
        beneficiary: uuid(0x8f2c),
      }),
      notice_handling: "has_checkpoint_path",
      usage: { guaranteed_mgpu_s: 0, borrowed_mgpu_s: gpus * GPU * 6400 },
      checkpoint_path: "/data/ckpt/llama",
      features: ["ib", "nvlink"],
      image: "nvcr.io#nvidia/pytorch:24.05-py3",
      ...change,
    });
  return [
    aJob({
      ...waiting,
      id: uuid(0x8f2c),
      name: "pretrain-13b",
      team: "ai-company/research/nlp",
      type: "distributed",
      priority_class: "high",
      node_count: 25,
      mgpu: 200 * GPU,
      submitted_at: iso(now - 48_000),
      explanation: anExplanation(),
      plan: {
        seconds: 72 * 3600,
        cost_nano: 28_800_000_000_000,
        unbilled_nano: 0,
        price_mode: "pay_per_use",
        currency: "EUR",
        budgets: budgetEffects(10),
      },
      can: ["cancel", "hold"],
    }),
    aJob({
      ...waiting,
      id: uuid(0x8f2d),
      name: "serve-llama-9",
      team: "ai-company/production/inference",
      user: "ivo",
      priority_class: "critical",
      node_count: 3,
      mgpu: 24 * GPU,
      submitted_at: iso(now - 400_000),
      explanation: anExplanation({
        code: "borrow_limit_reached",
        sentence: "Inference already borrows 420 GPUs, as many as its borrow limit allows. It starts when one of its own jobs ends.",
        numbers: { need_mgpu: 24 * GPU, borrowed_mgpu: 420 * GPU, available_mgpu: 0 },
        node: "ai-company/production/inference",
        victims: [],
        estimated_start: null,
      }),
      can: ["cancel", "hold"],
    }),
    serving(0, "serve-llama-7", 64),
    serving(1, "serve-llama-8", 64),
    serving(2, "eval-sweep", 72),
    serving(3, "serve-llama-6", 500, {
      state: "running",
      node_count: 63,
      current_attempt: anAttempt({ guaranteed_mgpu: 280 * GPU, borrowed_mgpu: 220 * GPU }),
    }),
    aJob({
      id: uuid(0x9001),
      name: "segment-anything",
      node_count: 12,
      mgpu: 100 * GPU,
      schedule: { id: "01935000-0000-7000-8000-0000000bb001", name: "nightly-eval" },
    }),
    aJob({
      id: uuid(0x9002),
      name: "sandbox-sweep",
      team: "ai-company/exploration/sandbox",
      user: "eli",
      priority_class: "low",
      node_count: 25,
      mgpu: 200 * GPU,
    }),
    aJob({
      id: uuid(0x9003),
      name: "tokenizer-ablation",
      team: "ai-company/research/nlp",
      state: "succeeded",
      submitted_at: iso(now - 16_200_000),
      started_at: iso(now - 14_400_000),
      ended_at: iso(now - 5_400_000),
      exit_code: 0,
      end_reason: null,
      attempt: 2,
      current_attempt: anAttempt({
        number: 2,
        state: "ended",
        outcome: "succeeded",
        granted_at: iso(now - 8_110_000),
        started_at: iso(now - 8_100_000),
        ended_at: iso(now - 5_400_000),
        exit_codes: { "0": 0 },
      }),
    }),
    aJob({
      id: uuid(0x9004),
      name: "probe-long-context",
      team: "ai-company/research/nlp",
      state: "failed",
      ended_at: iso(now - 9_000_000),
      exit_code: 137,
      end_reason: "exit_code",
      current_attempt: anAttempt({
        state: "ended",
        outcome: "failed",
        ended_at: iso(now - 9_000_000),
        exit_codes: { "0": 137 },
        message: "rank 0 was killed: out of memory",
      }),
    }),
  ];
}

export function theHistory(job: Job): HistoryEvent[] {
  const submitted = Date.parse(job.submitted_at);
  const events: HistoryEvent[] = [
    { at: job.submitted_at, event: "submitted", detail: { by: job.user } },
    { at: iso(submitted + 1000), event: "queued", detail: { place: 1 } },
  ];
  if (job.explanation?.code === "waiting_for_reclaim") {
    events.push({ at: iso(submitted + 2000), event: "reclaim_started", detail: { victims: 3, grace_s: 300 } });
  }
  if (job.started_at) events.push({ at: job.started_at, event: "started", detail: { attempt: 1, cluster: job.id } });
  return events;
}

/** What a waiting job has waited for, the latest first. */
export function theReasons(job: JobDetail): JobReason[] {
  if (job.explanation === null) return [];
  const { code, sentence, numbers, node, jobs_ahead, estimated_start } = job.explanation;
  const submitted = Date.parse(job.submitted_at);
  const latest = { since: iso(submitted + 30_000), code, sentence, numbers, node, jobs_ahead, estimated_start };
  return [
    latest,
    {
      ...latest,
      since: iso(submitted + 1000),
      code: "waiting_for_free_gpus",
      sentence: "It needs 200 GPUs (25 nodes with 8 each); 0 are free.",
      numbers: { need_mgpu: job.mgpu, free_mgpu: 0 },
      node: null,
      estimated_start: null,
    },
  ];
}

/** Made-up metrics of jobs, and jobs that use little. */
import type { JobDetail, JobMetrics, MetricSummary, Unused, UnusedJob } from "../src/api/types";
import { iso, uuid } from "./company.ts";

const GIB = 2 ** 30;
const POINTS = 60;

export function aSummary(change: Partial<MetricSummary> = {}): MetricSummary {
  return {
    sampled_at: iso(Date.now()),
    elapsed_s: 3600,
    cpu_time_ms: 9_000_000,
    cpu_rate_milli: null,
    cpu_milli: 8000,
    cpu_efficiency_permille: 312,
    memory_peak_bytes: 23 * GIB,
    memory_asked_bytes: 64 * GIB,
    memory_efficiency_permille: 359,
    gpu_utilisation_percent: 71,
    gpu_idle_permille: 120,
    gpu_memory_peak_bytes: 52 * GIB,
    gpus_idle_since: null,
    gpus_are_held: true,
    ...change,
  };
}

export function theMetrics(job: JobDetail): JobMetrics {
  if (job.attempt === 0) return { attempt: null, cluster: null, is_supported: true, is_final: false, summary: null, points: [] };
  const at = (i: number) => iso(Date.now() - (POINTS - 1 - i) * 60_000);
  const points = Array.from({ length: POINTS }, (_, i) => ({
    at: at(i),
    cpu_time_ms: 150_000 * (i + 1) + Math.round(20_000 * Math.sin(i / 5)),
    cpu_rate_milli: null,
    memory_bytes: Math.round((20 + 3 * Math.sin(i / 9)) * GIB),
    processes: 12,
    gpus: [0, 1].map((index) => ({
      node: "a-01",
      index,
      utilisation_percent: Math.round(70 + 25 * Math.sin(i / 4 + index)),
      memory_bytes: 26 * GIB,
      memory_total_bytes: 80 * GIB,
      has_process: true,
    })),
  }));
  return {
    attempt: job.attempt,
    cluster: job.current_attempt?.cluster ?? "slurm-a",
    is_supported: true,
    is_final: job.ended_at !== null,
    summary: aSummary(),
    points,
  };
}

export function anUnusedJob(change: Partial<UnusedJob> = {}): UnusedJob {
  return {
    job: uuid(0x8f2c),
    name: "llama-sft",
    team: "ai-company/research/nlp",
    user: "ana",
    pool: "h100",
    cluster: "slurm-a",
    device: "gpu",
    mgpu: 8000,
    attempt: 1,
    state: "running",
    started_at: iso(Date.now() - 7_200_000),
    ended_at: null,
    idle_mgpu_s: null,
    cost: null,
    summary: aSummary(),
    ...change,
  };
}

export function theUnused(node: string): Unused {
  const idle = aSummary({ gpus_idle_since: iso(Date.now() - 2_700_000), gpus_are_held: false, gpu_idle_permille: 800 });
  const small = aSummary({ memory_peak_bytes: 3 * GIB, memory_asked_bytes: 512 * GIB, memory_efficiency_permille: 5 });
  const slow = aSummary({ cpu_milli: 64_000, cpu_efficiency_permille: 21 });
  return {
    node,
    reports_gpus: true,
    idle_gpus: [
      anUnusedJob({
        name: "notebook",
        user: "leo",
        summary: idle,
        idle_mgpu_s: 8_000 * 2_700,
        cost: { cost_nano: 12_000_000_000, unbilled_nano: 0, price_mode: "pay_per_use", currency: "EUR" },
      }),
    ],
    memory: [anUnusedJob({ name: "tokenize", user: "vera", summary: small })],
    cpus: [anUnusedJob({ name: "eval-suite", summary: slow })],
  };
}

import type { JobDetail, JobPlan, JobRequest } from "../api/types";
import { draftOf, readDraft, type Draft } from "../submit/draft";
import { formatGpuCount, gpusToDecimal } from "../ui/units";
import { LEVEL_WORDS, WAITS_FOR_JOBS } from "./words";

/** The same work asked for otherwise. */
export interface Variant {
  label: string;
  request: JobRequest;
}

const SHORT_S = 3600;
const VARIANTS_MAX = 7;
const POOLS_MAX = 3;

/** Does it wait for GPUs, so that asking otherwise may help? */
export function couldBeSooner(job: JobDetail): boolean {
  const code = job.explanation?.code;
  return (
    job.state === "queued" &&
    job.origin === "portal" &&
    code !== undefined &&
    code !== "begin_time" &&
    !WAITS_FOR_JOBS.has(code)
  );
}

/** What may be asked for instead, the smallest concession first. Nothing that is so already. */
export function variantsOf(job: JobDetail, pools: readonly string[]): Variant[] {
  const base: Draft = { ...draftOf(job), array: "", dependsOn: "", name: `${job.name}-otherwise`.slice(0, 63) };
  const found: [string, Partial<Draft>][] = [];
  if (job.required_topology !== null) {
    found.push([`Not all in one ${LEVEL_WORDS[job.required_topology]}`, { mustBeTogether: false }]);
  }
  if (job.features.length > 0) found.push([`On nodes without ${job.features.join(", ")}`, { features: [] }]);
  if (job.device === "cpu") {
    if (job.memory_mib_per_node !== null) found.push(["With the memory that comes with its cores", { memory: "" }]);
  } else if (job.cpus_per_node !== null || job.memory_mib_per_node !== null) {
    found.push(["With the CPUs and memory that come with its GPUs", { cpus: "", memory: "" }]);
  }
  if (job.cluster !== null) found.push(["On any cluster", { cluster: null }]);
  if (job.time_limit_s === null || job.time_limit_s > SHORT_S) {
    found.push(["With a time limit of 1 h", { timeLimit: `${SHORT_S}s` }]);
  }
  for (const part of [2, 4]) {
    if (job.node_count > 1) {
      const nodes = Math.floor(job.node_count / part);
      if (nodes < 1) continue;
      found.push([
        `With ${formatGpuCount(nodes * job.mgpu_per_node, job.device)} on ${nodes === 1 ? "1 node" : `${nodes} nodes`}`,
        { shape: job.device === "cpu" ? "cores" : "per_node", nodes: String(nodes) },
      ]);
    } else if (job.device === "cpu") {
      const cores = Math.floor(job.mgpu / part / 1000);
      if (cores < 1) continue;
      found.push([`With ${formatGpuCount(cores * 1000, "cpu")}`, { cpus: String(cores), nodes: "1" }]);
    } else {
      const mgpu = Math.floor(job.mgpu / part / 1000) * 1000;
      if (mgpu < 1000) continue;
      found.push([`With ${formatGpuCount(mgpu)}`, { shape: "total", gpus: gpusToDecimal(mgpu) }]);
    }
  }
  for (const pool of pools.filter((each) => !job.pools.includes(each)).slice(0, POOLS_MAX)) {
    found.push([`In pool ${pool}`, { pool, otherPools: [], features: [], cluster: null }]);
  }
  return found.slice(0, VARIANTS_MAX).flatMap(([label, change]) => {
    const { request } = readDraft({ ...base, ...change });
    return request === null ? [] : [{ label, request }];
  });
}

/** What a variant would come to, in the order of what people want: now, at a known time, unknown, never. */
export function outcomeRank(plan: JobPlan): number {
  if (plan.would_start_now) return 0;
  if (!plan.fits) return 3;
  return plan.explanation.estimated_start?.latest == null ? 2 : 1;
}

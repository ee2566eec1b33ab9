import { queryOptions } from "@tanstack/react-query";

import { client, unwrap } from "../api/client";
import type { Job, JobMetrics } from "../api/types";

/** Clusters are sampled about twice a minute. */
const AGAIN_MS = 15_000;
/** The last figures of an attempt come after its end, on Slurm all of them, and hardly later than an hour. */
const FINAL_AGAIN_MS = 30_000;
const FINAL_WITHIN_MS = 3_600_000;

/** The metrics of an attempt; of the latest without a number. They are asked for again until they are final. */
export function jobMetricsQuery(job: Pick<Job, "id" | "attempt" | "ended_at">, attempt: number | undefined) {
  const { id, ended_at: endedAt } = job;
  return queryOptions({
    // Not below "jobs": what is final is not read again when any job changes.
    queryKey: ["job-metrics", id, attempt ?? job.attempt],
    queryFn: async ({ signal }) => {
      const params = { path: { job_id: id }, query: { attempt } };
      // The same address also gives CSV, as text; only when it is asked for.
      return (await unwrap(client.GET("/api/v1/jobs/{job_id}/metrics", { params, signal }))) as JobMetrics;
    },
    refetchInterval: ({ state }) => {
      if (state.data?.is_final) return false;
      if (endedAt === null) return AGAIN_MS;
      return Date.now() < Date.parse(endedAt) + FINAL_WITHIN_MS ? FINAL_AGAIN_MS : false;
    },
  });
}

export function metricsCsv(id: string, attempt: number): string {
  return `/api/v1/jobs/${id}/metrics?attempt=${attempt}&format=csv`;
}

/** Jobs below a node that leave GPUs idle, or asked for far more than they use. */
export function unusedQuery(node: string) {
  return queryOptions({
    queryKey: ["jobs", "unused", node],
    queryFn: ({ signal }) => unwrap(client.GET("/api/v1/unused-resources", { params: { query: { node } }, signal })),
    refetchInterval: 60_000,
  });
}

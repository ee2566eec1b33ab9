import { queryOptions } from "@tanstack/react-query";

import { client, unwrap } from "../api/client";
import type { JobMetrics } from "../api/types";

/** Clusters are sampled about twice a minute. */
const AGAIN_MS = 15_000;

/** The metrics of an attempt; of the latest without a number. */
export function jobMetricsQuery(id: string, attempt: number | undefined, isOver: boolean) {
  return queryOptions({
    queryKey: ["jobs", "metrics", id, attempt ?? null],
    queryFn: async ({ signal }) => {
      const params = { path: { job_id: id }, query: { attempt } };
      // The same address also gives CSV, as text; only when it is asked for.
      return (await unwrap(client.GET("/api/v1/jobs/{job_id}/metrics", { params, signal }))) as JobMetrics;
    },
    refetchInterval: isOver ? false : AGAIN_MS,
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

import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";

import { client, nextCursor, unwrap } from "../api/client";
import type { DecisionLine, JobState } from "../api/types";

const PAGE_LIMIT = 50;
/** No live hint tells of a decision, and there may be one every second. */
const REFRESH_MS = 30_000;

export interface DecisionFilter {
  team?: string;
  decision?: DecisionLine["decision"];
  pool?: string;
  before?: string;
}

/** What was decided about the jobs that I may see, the latest first. */
export function decisionsQuery({ team, decision, pool, before }: DecisionFilter) {
  return infiniteQueryOptions({
    queryKey: ["decisions", "lines", team ?? null, decision ?? null, pool ?? null, before ?? null],
    initialPageParam: undefined as string | undefined,
    refetchInterval: REFRESH_MS,
    getNextPageParam: (last: { next: string | null }) => nextCursor(last.next) ?? undefined,
    queryFn: ({ pageParam, signal }) =>
      unwrap(
        client.GET("/api/v1/decisions", {
          params: {
            query: {
              team,
              decision: decision && [decision],
              pool,
              decided_at__lt: before,
              limit: PAGE_LIMIT,
              cursor: pageParam,
            },
          },
          signal,
        }),
      ),
  });
}

/** Recorded cycles, the latest first; before a moment, where one is given. */
export function cyclesQuery(before: string | undefined) {
  return infiniteQueryOptions({
    queryKey: ["decisions", "cycles", before ?? null],
    initialPageParam: undefined as string | undefined,
    refetchInterval: REFRESH_MS,
    getNextPageParam: (last: { next: string | null }) => nextCursor(last.next) ?? undefined,
    queryFn: ({ pageParam, signal }) =>
      unwrap(
        client.GET("/api/v1/cycles", {
          params: { query: { decided_at__lt: before, limit: PAGE_LIMIT, cursor: pageParam } },
          signal,
        }),
      ),
  });
}

/** All that one cycle did, and what would be decided today. A record never changes; today's verdict does. */
export function cycleQuery(id: string) {
  return queryOptions({
    queryKey: ["decisions", "cycle", id],
    staleTime: 60_000,
    queryFn: ({ signal }) =>
      unwrap(client.GET("/api/v1/cycles/{cycle_id}", { params: { path: { cycle_id: id } }, signal })),
  });
}

/**
 * What recorded cycles did with one job, the latest first. To answer, the server reads whole records, so no
 * live hint asks again: only opening the list does, and a job that changed its state.
 */
export function jobDecisionsQuery(job: { id: string; state: JobState; attempt: number }) {
  return queryOptions({
    queryKey: ["decisions", "job", job.id, job.state, job.attempt],
    queryFn: async ({ signal }) =>
      (
        await unwrap(
          client.GET("/api/v1/jobs/{job_id}/decisions", {
            params: { path: { job_id: job.id }, query: { limit: 20 } },
            signal,
          }),
        )
      ).items,
  });
}

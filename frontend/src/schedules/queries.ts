import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";

import { client, nextCursor, unwrap } from "../api/client";
import type { CreatedSchedule, NewSchedule } from "../api/types";

const PAGE_LIMIT = 50;
/** Hints tell of new jobs only, and a run may be refused. */
const REFRESH_MS = 15_000;

/** The schedules that I may see at or below `team`, newest first. */
export function schedulesQuery(team: string | undefined) {
  return infiniteQueryOptions({
    // Under "jobs", so that a live hint asks again.
    queryKey: ["jobs", "schedules", team],
    refetchInterval: REFRESH_MS,
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (last: { next: string | null }) => nextCursor(last.next) ?? undefined,
    queryFn: ({ pageParam, signal }) =>
      unwrap(
        client.GET("/api/v1/schedules", {
          params: { query: { limit: PAGE_LIMIT, cursor: pageParam, team } },
          signal,
        }),
      ),
  });
}

/** One schedule, with its next runs. */
export function scheduleQuery(id: string) {
  return queryOptions({
    queryKey: ["jobs", "schedules", "one", id],
    refetchInterval: REFRESH_MS,
    queryFn: ({ signal }) =>
      unwrap(client.GET("/api/v1/schedules/{schedule_id}", { params: { path: { schedule_id: id } }, signal })),
  });
}

/** Its runs, newest first. */
export function scheduleRunsQuery(id: string) {
  return infiniteQueryOptions({
    queryKey: ["jobs", "schedules", "runs", id],
    refetchInterval: REFRESH_MS,
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (last: { next: string | null }) => nextCursor(last.next) ?? undefined,
    queryFn: ({ pageParam, signal }) =>
      unwrap(
        client.GET("/api/v1/schedules/{schedule_id}/runs", {
          params: { path: { schedule_id: id }, query: { limit: PAGE_LIMIT, cursor: pageParam } },
          signal,
        }),
      ),
  });
}

/** A new schedule. */
export async function createSchedule(body: NewSchedule): Promise<CreatedSchedule> {
  const params = { header: { "Idempotency-Key": crypto.randomUUID() } };
  // A plan is answered only to a dry run.
  return (await unwrap(client.POST("/api/v1/schedules", { params, body }))) as CreatedSchedule;
}

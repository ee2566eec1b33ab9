import { infiniteQueryOptions } from "@tanstack/react-query";

import { client, nextCursor, unwrap } from "../api/client";

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

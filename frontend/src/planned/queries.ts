import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";

import { client, nextCursor, unwrap, unwrapTagged } from "../api/client";
import type { PlannedStatus } from "../api/types";

const PAGE_LIMIT = 25;

/** Planned changes that I may see, newest first. */
export function plannedChangesQuery(status: PlannedStatus | undefined) {
  return infiniteQueryOptions({
    queryKey: ["quotas", "planned", status ?? null],
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (last: { next: string | null }) => nextCursor(last.next) ?? undefined,
    queryFn: ({ pageParam, signal }) =>
      unwrap(
        client.GET("/api/v1/quota-changes", {
          params: { query: { status, limit: PAGE_LIMIT, cursor: pageParam } },
          signal,
        }),
      ),
  });
}

/** One planned change with the ETag of its state and of the quotas around it. */
export function plannedChangeQuery(id: string) {
  return queryOptions({
    queryKey: ["quotas", "planned", "one", id],
    queryFn: ({ signal }) =>
      unwrapTagged(
        client.GET("/api/v1/quota-changes/{planned_id}", { params: { path: { planned_id: id } }, signal }),
      ),
  });
}

import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";

import { client, nextCursor, unwrap, unwrapTagged } from "../api/client";
import type { RequestsSearch, RequestView } from "./search";

const PAGE_LIMIT = 50;

/** The part of all requests that a list shows. */
export interface RequestFilter extends Pick<RequestsSearch, "status" | "since" | "until"> {
  view: RequestView;
  node?: string;
}

/** The requests of a view, newest first. */
export function requestsQuery({ view, since, until, ...filter }: RequestFilter) {
  return infiniteQueryOptions({
    queryKey: ["requests", "list", view, since ?? null, until ?? null, filter],
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (last: { next: string | null }) => nextCursor(last.next) ?? undefined,
    queryFn: ({ pageParam, signal }) =>
      unwrap(
        client.GET("/api/v1/requests", {
          params: { query: {
              ...filter,
              view: view === "all" ? undefined : view,
              decided_since: since,
              decided_until: until,
              limit: PAGE_LIMIT,
              cursor: pageParam,
            },
          },
          signal,
        }),
      ),
  });
}

/** A request with the ETag of its state and of the quotas around it. */
export function requestQuery(id: string) {
  return queryOptions({
    queryKey: ["requests", "one", id],
    queryFn: ({ signal }) =>
      unwrapTagged(client.GET("/api/v1/requests/{request_id}", { params: { path: { request_id: id } }, signal })),
  });
}

/** Numbers of requests, for the navigation and the tabs. */
export const requestCountsQuery = queryOptions({
  queryKey: ["requests", "counts"],
  queryFn: ({ signal }) => unwrap(client.GET("/api/v1/requests/counts", { signal })),
});

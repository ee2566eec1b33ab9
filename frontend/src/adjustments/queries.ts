import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";

import { client, nextCursor, unwrap } from "../api/client";

const PAGE_LIMIT = 50;

/** Adjustments of the teams of a node, newest first; of all visible ones without it. */
export function adjustmentsQuery(node: string | undefined) {
  return infiniteQueryOptions({
    queryKey: ["reports", "adjustments", node ?? null],
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (last: { next: string | null }) => nextCursor(last.next) ?? undefined,
    queryFn: ({ pageParam, signal }) =>
      unwrap(
        client.GET("/api/v1/adjustments", { params: { query: { node, limit: PAGE_LIMIT, cursor: pageParam } }, signal }),
      ),
  });
}

/** Disputes about charges, newest first. */
export function disputesQuery(node: string | undefined) {
  return infiniteQueryOptions({
    queryKey: ["reports", "disputes", node ?? null],
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (last: { next: string | null }) => nextCursor(last.next) ?? undefined,
    queryFn: ({ pageParam, signal }) =>
      unwrap(client.GET("/api/v1/disputes", { params: { query: { node, limit: PAGE_LIMIT, cursor: pageParam } }, signal })),
  });
}

/** The amount above which an organization's adjustments need a second person. */
export function adjustmentPolicyQuery(organizationId: string) {
  return queryOptions({
    queryKey: ["reports", "adjustment-policy", organizationId],
    queryFn: ({ signal }) =>
      unwrap(
        client.GET("/api/v1/organizations/{organization_id}/adjustment-policy", {
          params: { path: { organization_id: organizationId } },
          signal,
        }),
      ),
  });
}

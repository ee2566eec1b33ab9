import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";

import { client, nextCursor, unwrap } from "../api/client";

/** The months of an organization, newest first. */
export function periodsQuery(organizationId: string) {
  return queryOptions({
    queryKey: ["reports", "periods", organizationId],
    queryFn: ({ signal }) =>
      unwrap(
        client.GET("/api/v1/organizations/{organization_id}/periods", {
          params: { path: { organization_id: organizationId } },
          signal,
        }),
      ).then((page) => page.items),
  });
}

/** A month with what blocks its closing, or with its charges. */
export function periodQuery(organizationId: string, month: string) {
  return queryOptions({
    queryKey: ["reports", "period", organizationId, month],
    queryFn: ({ signal }) =>
      unwrap(
        client.GET("/api/v1/organizations/{organization_id}/periods/{month}", {
          params: { path: { organization_id: organizationId, month } },
          signal,
        }),
      ),
  });
}

/** The statements and credit notes of a month, by their numbers. */
export function statementsQuery(organizationId: string, month: string) {
  return queryOptions({
    queryKey: ["reports", "statements", organizationId, month],
    queryFn: ({ signal }) =>
      unwrap(
        client.GET("/api/v1/organizations/{organization_id}/periods/{month}/statements", {
          params: { path: { organization_id: organizationId, month } },
          signal,
        }),
      ).then((page) => page.items),
  });
}

const CODES_LIMIT = 50;

/** The accounting codes of an organization, past and scheduled ones included, newest first. */
export function codesQuery(organizationId: string) {
  return infiniteQueryOptions({
    queryKey: ["reports", "codes", organizationId],
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (last: { next: string | null }) => nextCursor(last.next) ?? undefined,
    queryFn: ({ pageParam, signal }) =>
      unwrap(
        client.GET("/api/v1/organizations/{organization_id}/accounting-codes", {
          params: { path: { organization_id: organizationId }, query: { limit: CODES_LIMIT, cursor: pageParam } },
          signal,
        }),
      ),
  });
}

import { queryOptions } from "@tanstack/react-query";

import { client, unwrap } from "../api/client";

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

import { queryOptions } from "@tanstack/react-query";

import { client, unwrap } from "../api/client";
import type { components } from "../api/schema";

export type Reconciliation = components["schemas"]["Reconciliation"];
export type ReconciliationDetail = components["schemas"]["ReconciliationDetail"];
export type ReconciliationDifference = components["schemas"]["ReconciliationDifference"];

/** How many (day, cluster) are shown: two weeks of a few clusters. */
const SHOWN = 60;

/** The newest reconciled days, of all clusters. */
export const reconciliationsQuery = queryOptions({
  queryKey: ["reports", "reconciliations"],
  queryFn: async ({ signal }) => {
    const params = { query: { limit: SHOWN } };
    return (await unwrap(client.GET("/api/v1/reconciliations", { params, signal }))).items;
  },
});

/** One day of one cluster with its differences. */
export function reconciliationQuery(id: string) {
  return queryOptions({
    queryKey: ["reports", "reconciliation", id],
    queryFn: ({ signal }) =>
      unwrap(
        client.GET("/api/v1/reconciliations/{reconciliation_id}", {
          params: { path: { reconciliation_id: id } },
          signal,
        }),
      ),
  });
}

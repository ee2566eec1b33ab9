import { queryOptions } from "@tanstack/react-query";

import { client, unwrap } from "../api/client";
import { readWhole, WHOLE_LIMIT } from "../api/queries";
import type { components } from "../api/schema";

export type Reconciliation = components["schemas"]["Reconciliation"];
export type ReconciliationDetail = components["schemas"]["ReconciliationDetail"];
export type ReconciliationDifference = components["schemas"]["ReconciliationDifference"];

/** The reconciled days of all clusters in a month (UTC) such as "2026-11". */
export function reconciledMonthQuery(month: string) {
  const first = new Date(`${month}-01T00:00:00Z`);
  const end = new Date(Date.UTC(first.getUTCFullYear(), first.getUTCMonth() + 1, 1)).toISOString().slice(0, 10);
  return queryOptions({
    queryKey: ["reports", "reconciliations", month],
    queryFn: ({ signal }) =>
      readWhole((cursor) => {
        const params = { query: { start: `${month}-01`, end, limit: WHOLE_LIMIT, cursor } };
        return unwrap(client.GET("/api/v1/reconciliations", { params, signal }));
      }),
  });
}

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

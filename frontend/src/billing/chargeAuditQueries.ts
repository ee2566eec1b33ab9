import { queryOptions } from "@tanstack/react-query";

import { client, unwrap } from "../api/client";
import { readWhole, WHOLE_LIMIT } from "../api/queries";
import type { components } from "../api/schema";

export type ChargeAudit = components["schemas"]["ChargeAudit"];

/** The latest audits of a month such as "2026-11". */
export function chargeAuditsQuery(month: string) {
  return queryOptions({
    queryKey: ["reports", "charge-audits", month],
    queryFn: ({ signal }) =>
      readWhole((cursor) => {
        const params = { query: { month, limit: WHOLE_LIMIT, cursor } };
        return unwrap(client.GET("/api/v1/charge-audits", { params, signal }));
      }),
  });
}

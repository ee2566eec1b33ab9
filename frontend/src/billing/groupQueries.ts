import { keepPreviousData, queryOptions } from "@tanstack/react-query";

import { client, unwrap } from "../api/client";
import type { components } from "../api/schema";
import type { DIMENSIONS } from "./search";

export type GroupedReport = components["schemas"]["GroupedReport"];
export type GroupRow = components["schemas"]["GroupRow"];
export type Moves = components["schemas"]["Moves"];
export type Dimension = (typeof DIMENSIONS)[number];

/** A period, and the part of all use that a report covers. Days are those of the organization's time zone. */
export interface Narrowed {
  start: string;
  end: string;
  node?: string;
  pool?: string;
  user?: string;
  usage_class?: "guaranteed" | "borrowed" | "unpaid" | "fault";
}

export function groupsQuery(by: readonly Dimension[], narrowed: Narrowed) {
  return queryOptions({
    queryKey: ["reports", "groups", by, narrowed],
    queryFn: async ({ signal }) =>
      // The same address also gives CSV, as text; only when it is asked for.
      (await unwrap(
        client.GET("/api/v1/reports/chargeback/groups", { params: { query: { by: [...by], ...narrowed } }, signal }),
      )) as GroupedReport,
    placeholderData: keepPreviousData,
  });
}

export function movesQuery(narrowed: Narrowed) {
  return queryOptions({
    queryKey: ["reports", "moves", narrowed],
    queryFn: ({ signal }) =>
      unwrap(client.GET("/api/v1/reports/chargeback/moves", { params: { query: narrowed }, signal })),
    placeholderData: keepPreviousData,
  });
}

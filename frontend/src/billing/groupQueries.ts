import { keepPreviousData, queryOptions } from "@tanstack/react-query";

import { client, unwrap } from "../api/client";
import type { components } from "../api/schema";
import type { ChargeClass } from "../api/types";
import type { DIMENSIONS, SHARES } from "./search";

export type GroupedReport = components["schemas"]["GroupedReport"];
export type GroupRow = components["schemas"]["GroupRow"];
export type Idle = components["schemas"]["Idle"];
export type MonthCheck = components["schemas"]["MonthCheck"];
export type Moves = components["schemas"]["Moves"];
export type Dimension = (typeof DIMENSIONS)[number];

/** A period, and the part of all use that a report covers. Days are those of the organization's time zone. */
export interface Narrowed {
  start: string;
  end: string;
  node?: string;
  pool?: string;
  user?: string;
  usage_class?: ChargeClass;
}

export function groupsQuery(by: readonly Dimension[], narrowed: Narrowed) {
  return queryOptions({
    queryKey: ["reports", "chargeback", by, narrowed],
    queryFn: async ({ signal }) =>
      // The same address also gives CSV, as text; only when it is asked for.
      (await unwrap(
        client.GET("/api/v1/reports/chargeback", { params: { query: { by: [...by], ...narrowed } }, signal }),
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

export function idleQuery(asked: Pick<Narrowed, "start" | "end" | "pool"> & { share: (typeof SHARES)[number] }) {
  return queryOptions({
    queryKey: ["reports", "idle", asked],
    queryFn: ({ signal }) => unwrap(client.GET("/api/v1/reports/chargeback/idle", { params: { query: asked }, signal })),
    placeholderData: keepPreviousData,
  });
}

export function closedMonthsQuery(asked: Pick<Narrowed, "start" | "end">) {
  return queryOptions({
    queryKey: ["reports", "closed-months", asked],
    queryFn: ({ signal }) =>
      unwrap(client.GET("/api/v1/reports/chargeback/closed-months", { params: { query: asked }, signal })),
    placeholderData: keepPreviousData,
  });
}

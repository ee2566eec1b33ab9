import { queryOptions } from "@tanstack/react-query";

import { client, unwrap } from "../api/client";
import type { PreemptionHistory, UseHistory, WaitHistory } from "../api/types";

/** A node, a pool and a period. */
export interface Asked {
  node: string;
  pool: string;
  start: string;
  end: string;
}

export function useHistoryQuery(asked: Asked) {
  return queryOptions({
    queryKey: ["history", "use", asked],
    queryFn: async ({ signal }) => {
      const history = await unwrap(client.GET("/api/v1/history/use", { params: { query: asked }, signal }));
      // The same address also gives CSV, as text; only when it is asked for.
      return history as UseHistory;
    },
  });
}

export function waitHistoryQuery(asked: Asked) {
  return queryOptions({
    queryKey: ["history", "waits", asked],
    queryFn: async ({ signal }) => {
      const waits = await unwrap(client.GET("/api/v1/history/waits", { params: { query: asked }, signal }));
      return waits as WaitHistory;
    },
  });
}

export function preemptionHistoryQuery(asked: Asked) {
  return queryOptions({
    queryKey: ["history", "preemptions", asked],
    queryFn: async ({ signal }) => {
      const found = await unwrap(client.GET("/api/v1/history/preemptions", { params: { query: asked }, signal }));
      return found as PreemptionHistory;
    },
  });
}

/** The tables of a history that can be saved. */
export type CsvTable = "steps" | "pairs" | "week" | "waits" | "preemptions";

export function csvAddress(asked: Asked, table: CsvTable): string {
  const own = table === "waits" || table === "preemptions";
  const given = new URLSearchParams({ ...asked, format: "csv", ...(own ? {} : { table }) });
  return `/api/v1/history/${own ? table : "use"}?${given.toString()}`;
}

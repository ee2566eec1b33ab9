import { queryOptions } from "@tanstack/react-query";

import { client, unwrap } from "../api/client";

/** Starts are decided anew at most so often: they keep a core of the server busy. */
const STARTS_MS = 60_000;

/** The amounts of a team in each pool, and what its reader could start there now. */
export function entitlementQuery(team: string) {
  return queryOptions({
    queryKey: ["entitlement", team],
    queryFn: ({ signal }) => unwrap(client.GET("/api/v1/entitlement", { params: { query: { team } }, signal })),
    staleTime: STARTS_MS,
    refetchInterval: STARTS_MS,
  });
}

import { queryOptions } from "@tanstack/react-query";

import { client, unwrap } from "../api/client";

export function fairShareQuery(node: string, pool: string) {
  return queryOptions({
    queryKey: ["fair-share", node, pool],
    queryFn: ({ signal }) => unwrap(client.GET("/api/v1/fair-share", { params: { query: { node, pool } }, signal })),
    refetchInterval: 60_000,
  });
}

/** Fair-share, credits and the last week of all nodes below a node. */
export function summariesQuery(node: string, pool: string) {
  return queryOptions({
    queryKey: ["node-summaries", node, pool],
    queryFn: ({ signal }) => unwrap(client.GET("/api/v1/node-summaries", { params: { query: { node, pool } }, signal })),
    refetchInterval: 60_000,
  });
}

export function capacityQuery(node: string, pool: string) {
  return queryOptions({
    queryKey: ["capacity", node, pool],
    queryFn: ({ signal }) => unwrap(client.GET("/api/v1/capacity", { params: { query: { node, pool } }, signal })),
    refetchInterval: 15_000,
  });
}

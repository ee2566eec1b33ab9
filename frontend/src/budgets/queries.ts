import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";

import { client, nextCursor, unwrap } from "../api/client";
import { readWhole, WHOLE_LIMIT } from "../api/queries";

/** Budgets are evaluated every 30 s; an open page sees it within this time. */
const REFRESH_MS = 60_000;
const PAGE_LIMIT = 100;

/** The visible budgets of a node and of nodes below it; of all nodes without one. */
export function budgetsQuery(node: string | undefined) {
  return infiniteQueryOptions({
    queryKey: ["reports", "budgets", node ?? null],
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (last: { next: string | null }) => nextCursor(last.next) ?? undefined,
    queryFn: ({ pageParam, signal }) =>
      unwrap(
        client.GET("/api/v1/budgets", { params: { query: { node, limit: PAGE_LIMIT, cursor: pageParam } }, signal }),
      ),
    refetchInterval: REFRESH_MS,
  });
}

/** All visible budgets. */
export const allBudgetsQuery = queryOptions({
  queryKey: ["reports", "all-budgets"],
  queryFn: ({ signal }) =>
    readWhole((cursor) =>
      unwrap(client.GET("/api/v1/budgets", { params: { query: { limit: WHOLE_LIMIT, cursor } }, signal })),
    ),
});

/** A visible budget with its use by day. */
export function budgetQuery(id: string) {
  return queryOptions({
    queryKey: ["reports", "budget", id],
    queryFn: ({ signal }) => unwrap(client.GET("/api/v1/budgets/{budget_id}", { params: { path: { budget_id: id } }, signal })),
    refetchInterval: REFRESH_MS,
  });
}

/** Alerts of these budgets, newest first. */
export function budgetAlertsQuery(node: string | undefined) {
  return infiniteQueryOptions({
    queryKey: ["reports", "budget-alerts", node ?? null],
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (last: { next: string | null }) => nextCursor(last.next) ?? undefined,
    queryFn: ({ pageParam, signal }) =>
      unwrap(client.GET("/api/v1/budget-alerts", { params: { query: { node, limit: 20, cursor: pageParam } }, signal })),
    refetchInterval: REFRESH_MS,
  });
}

/** All visible caps for users. */
export const userCapsQuery = queryOptions({
  queryKey: ["quotas", "user-caps"],
  queryFn: ({ signal }) =>
    readWhole((cursor) =>
      unwrap(client.GET("/api/v1/user-caps", { params: { query: { limit: WHOLE_LIMIT, cursor } }, signal })),
    ),
});

/** The default budgets of a node and of nodes below it; of all nodes without one. */
export function budgetDefaultsQuery(node: string | undefined) {
  return queryOptions({
    queryKey: ["reports", "budget-defaults", node ?? null],
    queryFn: ({ signal }) =>
      readWhole((cursor) =>
        unwrap(client.GET("/api/v1/budget-defaults", { params: { query: { node, limit: WHOLE_LIMIT, cursor } }, signal })),
      ),
  });
}

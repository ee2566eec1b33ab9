import { queryOptions } from "@tanstack/react-query";

import { client, unwrap } from "../api/client";
import type { CreditStatement } from "../api/types";

/** Credits are settled every 15 minutes; an open page sees it within this time. */
const REFRESH_MS = 60_000;

/** The credits of all teams of an organization in a pool, in their order for spare GPUs. */
export function creditsQuery(organization: string, pool: string) {
  return queryOptions({
    queryKey: ["quotas", "credits", organization, pool],
    queryFn: ({ signal }) => unwrap(client.GET("/api/v1/credits", { params: { query: { organization, pool } }, signal })),
    refetchInterval: REFRESH_MS,
  });
}

/** A team's credits of a month, line by line. */
export function creditStatementQuery(team: string, pool: string, month: string | undefined) {
  return queryOptions({
    queryKey: ["quotas", "credit-statement", team, pool, month ?? null],
    queryFn: async ({ signal }) => {
      const statement = await unwrap(
        client.GET("/api/v1/credits/statement", { params: { query: { team, pool, month } }, signal }),
      );
      // The same address also gives CSV, as text; only when it is asked for.
      return statement as CreditStatement;
    },
    refetchInterval: REFRESH_MS,
  });
}

/** A team's balance by day of a month, with what is on hold and a forecast. */
export function creditHistoryQuery(team: string, pool: string, month: string | undefined) {
  return queryOptions({
    queryKey: ["quotas", "credit-history", team, pool, month ?? null],
    queryFn: ({ signal }) =>
      unwrap(client.GET("/api/v1/credits/history", { params: { query: { team, pool, month } }, signal })),
    refetchInterval: REFRESH_MS,
  });
}

/** The address of a statement as CSV. */
export function statementCsv(team: string, pool: string, month: string): string {
  return `/api/v1/credits/statement?${new URLSearchParams({ team, pool, month, format: "csv" }).toString()}`;
}

/** Transfers of credits, newest first: of an organization, or of one team as sender or recipient. */
export function creditTransfersQuery(filter: {
  organization?: string;
  team?: string;
  pool: string;
  status?: "pending";
  limit?: number;
}) {
  return queryOptions({
    queryKey: ["quotas", "credit-transfers", filter],
    queryFn: ({ signal }) =>
      unwrap(client.GET("/api/v1/credits/transfers", { params: { query: { limit: 100, ...filter } }, signal })),
    refetchInterval: REFRESH_MS,
  });
}

/** The switch of an organization's credit bank. */
export function creditBankQuery(organizationId: string) {
  return queryOptions({
    queryKey: ["quotas", "credit-bank", organizationId],
    queryFn: ({ signal }) =>
      unwrap(
        client.GET("/api/v1/organizations/{organization_id}/credit-bank", {
          params: { path: { organization_id: organizationId } },
          signal,
        }),
      ),
  });
}

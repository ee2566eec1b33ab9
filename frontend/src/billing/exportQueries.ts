import { queryOptions } from "@tanstack/react-query";

import { client, unwrap } from "../api/client";
import type { components } from "../api/schema";

export type Export = components["schemas"]["Export"];
export type ExportFormat = Export["format"];
export type ExportDataset = Export["dataset"];

/** How many exports are shown, and how often unfinished ones are read again. */
const SHOWN = 10;
const REFRESH_MS = 2_000;

/** The newest exports. */
export const exportsQuery = queryOptions({
  queryKey: ["reports", "exports"],
  queryFn: async ({ signal }) =>
    (await unwrap(client.GET("/api/v1/exports", { params: { query: { limit: SHOWN } }, signal }))).items,
  refetchInterval: ({ state }) => (state.data?.some(isUnfinished) ? REFRESH_MS : false),
});

/** How new FOCUS files of an organization name users. */
export function exportPolicyQuery(organizationId: string) {
  return queryOptions({
    queryKey: ["reports", "export-policy", organizationId],
    queryFn: ({ signal }) =>
      unwrap(
        client.GET("/api/v1/organizations/{organization_id}/export-policy", {
          params: { path: { organization_id: organizationId } },
          signal,
        }),
      ),
  });
}

export function isUnfinished({ state }: Export): boolean {
  return state === "queued" || state === "running";
}

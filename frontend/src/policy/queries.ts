import { queryOptions } from "@tanstack/react-query";

import { client, unwrap } from "../api/client";
import { readWhole, WHOLE_LIMIT } from "../api/queries";

export function policyQuery(organizationId: string) {
  return queryOptions({
    queryKey: ["quotas", "policy", organizationId],
    queryFn: ({ signal }) =>
      unwrap(
        client.GET("/api/v1/organizations/{organization_id}/policy", {
          params: { path: { organization_id: organizationId } },
          signal,
        }),
      ),
  });
}

/** The changes of an organization that need a second person. */
export function secondPersonQuery(organizationId: string) {
  return queryOptions({
    queryKey: ["quotas", "second-person", organizationId],
    queryFn: ({ signal }) =>
      unwrap(
        client.GET("/api/v1/organizations/{organization_id}/second-person", {
          params: { path: { organization_id: organizationId } },
          signal,
        }),
      ),
  });
}

export const installationPolicyQuery = queryOptions({
  queryKey: ["quotas", "installation-policy"],
  queryFn: ({ signal }) => unwrap(client.GET("/api/v1/policy", { signal })),
});

export const timeLimitsQuery = queryOptions({
  queryKey: ["quotas", "time-limits"],
  queryFn: ({ signal }) =>
    readWhole((cursor) =>
      unwrap(client.GET("/api/v1/time-limits", { params: { query: { limit: WHOLE_LIMIT, cursor } }, signal })),
    ),
});

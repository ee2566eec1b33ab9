import { queryOptions } from "@tanstack/react-query";

import { client, unwrap } from "../api/client";

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

export const installationPolicyQuery = queryOptions({
  queryKey: ["quotas", "installation-policy"],
  queryFn: ({ signal }) => unwrap(client.GET("/api/v1/policy", { signal })),
});

import { queryOptions } from "@tanstack/react-query";

import { client, unwrap } from "../api/client";
import { readWhole, WHOLE_LIMIT } from "../api/queries";
import type { Member, Page } from "../api/types";

/** All members of a node, by login: with roles at, above and below it, and those with use only. */
export function membersQuery(nodeId: string) {
  return queryOptions({
    queryKey: ["users", "members", nodeId],
    queryFn: ({ signal }) =>
      readWhole<Member>(
        async (cursor) =>
          // The same address also gives CSV, as text; only when it is asked for.
          (await unwrap(
            client.GET("/api/v1/tree/{tree_node_id}/members", {
              params: { path: { tree_node_id: nodeId }, query: { limit: WHOLE_LIMIT, cursor } },
              signal,
            }),
          )) as Page<Member>,
      ),
  });
}

/** The sums over all members of a node, beside its own use. */
export function memberTotalsQuery(nodeId: string) {
  return queryOptions({
    queryKey: ["users", "member-totals", nodeId],
    queryFn: ({ signal }) =>
      unwrap(client.GET("/api/v1/tree/{tree_node_id}/member-totals", { params: { path: { tree_node_id: nodeId } }, signal })),
  });
}

/** The open invitations to a node, oldest first. */
export function invitationsQuery(nodeId: string) {
  return queryOptions({
    queryKey: ["users", "invitations", nodeId],
    queryFn: ({ signal }) =>
      readWhole((cursor) =>
        unwrap(
          client.GET("/api/v1/tree/{tree_node_id}/invitations", {
            params: { path: { tree_node_id: nodeId }, query: { limit: WHOLE_LIMIT, cursor } },
            signal,
          }),
        ),
      ),
  });
}

/** All roles, with what each may do. */
export const rolesQuery = queryOptions({
  queryKey: ["roles"],
  staleTime: Infinity,
  queryFn: async ({ signal }) => (await unwrap(client.GET("/api/v1/roles", { signal }))).items,
});

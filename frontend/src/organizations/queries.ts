import { infiniteQueryOptions } from "@tanstack/react-query";

import { client, unwrap } from "../api/client";
import { PAGE_LIMIT, paging } from "../api/queries";

/** All organizations with their settings and counts, by slug, for platform administrators. */
export const organizationsQuery = infiniteQueryOptions({
  queryKey: ["organizations"],
  queryFn: ({ pageParam, signal }) =>
    unwrap(
      client.GET("/api/v1/organizations/summaries", {
        params: { query: { limit: PAGE_LIMIT, cursor: pageParam } },
        signal,
      }),
    ),
  ...paging,
});

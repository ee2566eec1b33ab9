import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";

import { client, nextCursor, unwrap } from "../api/client";

const PAGE_LIMIT = 50;
/** More than a team may have. */
const OF_TEAM_LIMIT = 200;

/** The templates that I may use at or below `team`. */
export function templatesQuery(team: string | undefined) {
  return infiniteQueryOptions({
    queryKey: ["templates", team],
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (last: { next: string | null }) => nextCursor(last.next) ?? undefined,
    queryFn: ({ pageParam, signal }) =>
      unwrap(
        client.GET("/api/v1/job-templates", {
          params: { query: { limit: PAGE_LIMIT, cursor: pageParam, team } },
          signal,
        }),
      ),
  });
}

/** All templates of one team, for the submit form. */
export function teamTemplatesQuery(team: string | null) {
  return queryOptions({
    queryKey: ["templates", "of", team],
    enabled: team !== null,
    queryFn: async ({ signal }) =>
      (
        await unwrap(
          client.GET("/api/v1/job-templates", {
            params: { query: { limit: OF_TEAM_LIMIT, team: team ?? undefined } },
            signal,
          }),
        )
      ).items,
  });
}

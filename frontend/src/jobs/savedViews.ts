import { queryOptions } from "@tanstack/react-query";

import { client, unwrap } from "../api/client";
import { apiFilter, jobsSearch, type JobsSearch } from "./search";

const VIEWS_LIMIT = 200;

export const savedViewsQuery = queryOptions({
  queryKey: ["saved-views"],
  queryFn: async ({ signal }) =>
    (await unwrap(client.GET("/api/v1/job-views", { params: { query: { limit: VIEWS_LIMIT } }, signal }))).items,
});

type Search = JobsSearch & { scope?: string };

/** The address of the list that a view names. Every other filter is left out. */
export function searchOfView(parameters: Readonly<Record<string, string>>): Search {
  const {
    team: scope,
    priority_class,
    usage_class,
    submitted_at__gte,
    submitted_at__lt,
    ended_at__gte,
    ended_at__lt,
    ...same
  } = parameters;
  return {
    scope,
    ...jobsSearch({
      ...same,
      class: priority_class,
      runs_as: usage_class,
      since: submitted_at__gte,
      until: submitted_at__lt,
      ended_since: ended_at__gte,
      ended_until: ended_at__lt,
    }),
  };
}

/** What is saved of an address: its filters as the API takes them, its order and its columns. */
export function parametersOf(search: Search): Record<string, string> {
  const { sort, columns } = search;
  const given = { ...apiFilter(search), sort, columns };
  return Object.fromEntries(
    Object.entries(given).flatMap(([name, value]) => (value === undefined ? [] : [[name, String(value)] as const])),
  );
}

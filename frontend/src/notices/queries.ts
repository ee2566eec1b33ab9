import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";

import { client, nextCursor, unwrap } from "../api/client";
import type { NoticeEvent } from "../api/types";
import type { NoticesSearch } from "./search";

const PAGE_LIMIT = 50;
/** Notices that the bell shows. */
const LATEST_MAX = 8;

/** How many of my notices are unread. */
export const unreadQuery = queryOptions({
  queryKey: ["notices", "unread"],
  queryFn: async ({ signal }) => (await unwrap(client.GET("/api/v1/notices/unread", { signal }))).unread,
});

/** My latest notices. */
export const latestNoticesQuery = queryOptions({
  queryKey: ["notices", "latest"],
  queryFn: async ({ signal }) =>
    (await unwrap(client.GET("/api/v1/notices", { params: { query: { limit: LATEST_MAX } }, signal }))).items,
});

/** My latest unread notices that a page tells of as they arrive. */
export const alertsQuery = queryOptions({
  queryKey: ["notices", "alerts"],
  staleTime: 0,
  queryFn: async ({ signal }) =>
    (
      await unwrap(
        client.GET("/api/v1/notices", {
          params: { query: { event: ["job_preempting", "job_started"], unread: true, limit: LATEST_MAX } },
          signal,
        }),
      )
    ).items,
});

/** My notices of an event, or of one object, newest first. */
export function noticesQuery({ event, object, unread }: NoticesSearch) {
  const [kind, ...id] = (object ?? "").split("/");
  const filter = {
    ...(event && { event: [event] satisfies NoticeEvent[] }),
    ...(kind && { subject_kind: kind }),
    ...(id.length > 0 && { subject_id: id.join("/") }),
    ...(unread && { unread: true }),
  };
  return infiniteQueryOptions({
    queryKey: ["notices", "list", filter],
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (last: { next: string | null }) => nextCursor(last.next) ?? undefined,
    queryFn: ({ pageParam, signal }) =>
      unwrap(
        client.GET("/api/v1/notices", {
          params: { query: { ...filter, limit: PAGE_LIMIT, cursor: pageParam } },
          signal,
        }),
      ),
  });
}

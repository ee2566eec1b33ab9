import { infiniteQueryOptions } from "@tanstack/react-query";

import { client, nextCursor, unwrap } from "../api/client";
import type { AuditEvent } from "../api/types";

const PAGE_LIMIT = 50;

/** What the address of the page narrows the log to. */
export interface AuditFilter {
  actor?: string | undefined;
  action?: string | undefined;
  /** A kind of object, or a kind and an id: "team", "team/0193…". */
  object?: string | undefined;
  since?: string | undefined;
  until?: string | undefined;
  organization?: string | undefined;
}

/** The filter as the API takes it; what is not set is left out. */
export function apiFilter({ object, ...others }: AuditFilter) {
  const [kind, ...id] = (object ?? "").split("/");
  const wanted = { ...others, subject_kind: kind, subject_id: id.join("/") };
  return Object.fromEntries(Object.entries(wanted).filter(([, value]) => value)) as Record<string, string>;
}

/** The events that I may see, newest first. */
export function auditQuery(filter: AuditFilter) {
  const query = apiFilter(filter);
  return infiniteQueryOptions({
    queryKey: ["audit", query],
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (last: { next: string | null }) => nextCursor(last.next) ?? undefined,
    queryFn: async ({ pageParam, signal }) => {
      const page = await unwrap(
        client.GET("/api/v1/audit-events", {
          params: { query: { ...query, limit: PAGE_LIMIT, cursor: pageParam } },
          signal,
        }),
      );
      // The same address also gives CSV, as text; only when it is asked for.
      return page as { items: AuditEvent[]; next: string | null };
    },
  });
}

/** Where all events that match are downloaded. */
export function auditCsvAddress(filter: AuditFilter): string {
  return `/api/v1/audit-events?${new URLSearchParams({ ...apiFilter(filter), format: "csv" }).toString()}`;
}

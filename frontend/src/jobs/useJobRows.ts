import { keepPreviousData, useQuery, useQueryClient } from "@tanstack/react-query";
import { useCallback, useRef } from "react";

import { client, unwrap } from "../api/client";
import type { JobFilter } from "../api/types";
import type { RowsInView } from "../ui/VirtualTable";
import { isStale, needsMore, NO_ROWS, outdated, partsAt, ROWS_READ, withNext, withPage, type JobRows, type JobsPage } from "./rows";

const AT_TOP: RowsInView = { first: 0, last: 0, isScrolling: false };

/**
 * The list of jobs as far as a reader has come. A change hint reads the rows in view again and no others; the
 * next page is read as the reader nears the end. `onView` says which rows are in view.
 */
export function useJobRows(filter: JobFilter) {
  const queryClient = useQueryClient();
  const view = useRef(AT_TOP);
  const queryKey = ["jobs", "list", filter];
  const query = useQuery({
    queryKey,
    placeholderData: keepPreviousData,
    queryFn: ({ signal }) => {
      const known = queryClient.getQueryState<JobRows>(queryKey);
      const rows = known?.data && known.isInvalidated ? outdated(known.data) : known?.data;
      return readInView(rows, view.current, (cursor) => readPage(filter, cursor, signal));
    },
  });
  const { data, isFetching, isError, isPlaceholderData, refetch } = query;
  const isBusy = isFetching || isError || isPlaceholderData;
  // A new function after each read, so that the table says again what is in view.
  const onView = useCallback(
    (next: RowsInView) => {
      view.current = next;
      if (data === undefined || isBusy) return;
      const isOld =
        !next.isScrolling && partsAt(data, next.first, next.last).some((part) => isStale(part, Date.now()));
      if (isOld || needsMore(data, next.last)) void refetch({ cancelRefetch: false });
    },
    [data, isBusy, refetch],
  );
  return { query, onView };
}

function readPage(filter: JobFilter, cursor: string | undefined, signal: AbortSignal): Promise<JobsPage> {
  // The same address also gives CSV, as text; only when it is asked for.
  return unwrap(
    client.GET("/api/v1/jobs", { params: { query: { ...filter, limit: ROWS_READ, cursor } }, signal }),
  ) as Promise<JobsPage>;
}

/** The list with its old parts in view read again, and with the next page where the view is near the end. */
async function readInView(
  known: JobRows | undefined,
  { first, last }: RowsInView,
  read: (cursor: string | undefined) => Promise<JobsPage>,
): Promise<JobRows> {
  if (known === undefined) return withNext(NO_ROWS, await read(undefined), Date.now());
  const askedMs = Date.now();
  const parts = partsAt(known, first, last).filter((part) => isStale(part, askedMs));
  const { next } = known;
  const [following, ...pages] = await Promise.all([
    next !== null && needsMore(known, last) ? read(next) : undefined,
    ...parts.map(({ cursor }) => read(cursor)),
  ]);
  const nowMs = Date.now();
  const longer = following === undefined ? known : withNext(known, following, nowMs);
  return pages.reduce((rows, page, i) => withPage(rows, parts[i]?.cursor, page, nowMs), longer);
}

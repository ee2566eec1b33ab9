import { useDebouncedValue } from "@mantine/hooks";
import { useInfiniteQuery } from "@tanstack/react-query";
import { useEffect } from "react";

import { client, unwrap } from "../api/client";
import { paging } from "../api/queries";
import type { LogMatch } from "../api/types";
import type { LogView } from "./useLog";

const WAIT_MS = 400;
const PAGE_MATCHES = 500;
/** Pages that are read without being asked for: 256 MiB of a log. */
const PAGES_MAX = 16;
const MATCHES_MAX = 2_000;
/** A shorter text would be on most lines. */
const SOUGHT_CHARS_MIN = 2;

/** One rank, or all ranks where it is undefined. */
export interface SearchedLog {
  job: string;
  attempt: number;
  rank: number | undefined;
  stream: LogView;
}

export interface LogSearch {
  matches: readonly LogMatch[];
  isSearching: boolean;
  /** The search ended before the end of the log. */
  hasMore: boolean;
  error: Error | null;
  searchOn: () => void;
}

/** The lines of the whole log that have a text; the server looks for them, page by page. */
export function useLogSearch({ job, attempt, rank, stream }: SearchedLog, sought: string, isWanted = true): LogSearch {
  const [q] = useDebouncedValue(sought.trim(), WAIT_MS);
  const search = useInfiniteQuery({
    queryKey: ["jobs", "log-search", job, attempt, rank, stream, q],
    enabled: isWanted && q.length >= SOUGHT_CHARS_MIN,
    staleTime: Infinity,
    retry: false,
    queryFn: ({ pageParam, signal }) =>
      unwrap(
        client.GET("/api/v1/jobs/{job_id}/logs/search", {
          params: {
            path: { job_id: job },
            query: {
              q,
              attempt,
              rank,
              stream: stream === "merged" ? undefined : stream,
              limit: PAGE_MATCHES,
              cursor: pageParam,
            },
          },
          signal,
        }),
      ),
    ...paging,
  });
  const pages = search.data?.pages ?? [];
  const matches = pages.flatMap(({ items }) => items);
  const { fetchNextPage, hasNextPage, isFetching, isError } = search;
  const goesOn = hasNextPage && !isFetching && !isError && pages.length < PAGES_MAX && matches.length < MATCHES_MAX;
  useEffect(() => {
    if (goesOn) void fetchNextPage();
  }, [goesOn, fetchNextPage]);
  return {
    matches,
    isSearching: isFetching || goesOn,
    hasMore: hasNextPage,
    error: search.error,
    searchOn: () => void fetchNextPage(),
  };
}

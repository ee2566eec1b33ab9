import { useDebouncedValue } from "@mantine/hooks";
import { useInfiniteQuery, useQuery, useQueryClient, type InfiniteData } from "@tanstack/react-query";
import { useEffect } from "react";

import { client, unwrap } from "../api/client";
import { paging } from "../api/queries";
import type { LogMatch, LogSearchPage } from "../api/types";
import type { LogView } from "./useLog";

const WAIT_MS = 400;
/** A log that grows is searched again this often, from the begin of the last page on. */
const AGAIN_MS = 15_000;
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

interface ReadPage extends LogSearchPage {
  /** Whether the log was complete before it was read. */
  isFinal: boolean;
}
type Pages = InfiniteData<ReadPage, string | undefined>;

/**
 * The lines of the whole log that have a text; the server looks for them, page by page. The last page is read again
 * and again, until it was read once after the log was final.
 */
export function useLogSearch({ job, attempt, rank, stream }: SearchedLog, sought: string, isFinal: boolean): LogSearch {
  const queryClient = useQueryClient();
  const [q] = useDebouncedValue(sought.trim(), WAIT_MS);
  // Not below "jobs": a change of the job is no reason to read the whole log again.
  const queryKey = ["log-search", job, attempt, rank, stream, q];
  const readPage = async (cursor: string | undefined, signal: AbortSignal): Promise<ReadPage> => {
    const page = await unwrap(
      client.GET("/api/v1/jobs/{job_id}/logs/search", {
        params: {
          path: { job_id: job },
          query: {
            q,
            attempt,
            rank,
            stream: stream === "merged" ? undefined : stream,
            limit: PAGE_MATCHES,
            cursor,
          },
        },
        signal,
      }),
    );
    return { ...page, isFinal };
  };
  const search = useInfiniteQuery({
    queryKey,
    enabled: q.length >= SOUGHT_CHARS_MIN,
    staleTime: Infinity,
    retry: false,
    queryFn: ({ pageParam, signal }) => readPage(pageParam, signal),
    ...paging,
  });
  const pages = search.data?.pages ?? [];
  const matches = pages.flatMap(({ items }) => items);
  const { fetchNextPage, hasNextPage, isFetching, isError } = search;
  const goesOn = hasNextPage && !isFetching && !isError && pages.length < PAGES_MAX && matches.length < MATCHES_MAX;
  useEffect(() => {
    if (goesOn) void fetchNextPage();
  }, [goesOn, fetchNextPage]);
  const cursor = (search.data as Pages | undefined)?.pageParams.at(-1);
  useQuery({
    queryKey: [...queryKey, "end", cursor],
    enabled: pages.length > 0 && !hasNextPage && pages.at(-1)?.isFinal === false,
    // The page is in the search already.
    initialData: null,
    staleTime: AGAIN_MS,
    refetchInterval: AGAIN_MS,
    retry: false,
    queryFn: async ({ signal }) => {
      const page = await readPage(cursor, signal);
      queryClient.setQueryData<Pages>(queryKey, (known) => known && withEnd(known, cursor, page));
      return null;
    },
  });
  return {
    matches,
    isSearching: isFetching || goesOn,
    hasMore: hasNextPage,
    error: search.error,
    searchOn: () => void fetchNextPage(),
  };
}

/** The pages with another last one, unless the search has gone on. */
function withEnd(known: Pages, cursor: string | undefined, page: ReadPage): Pages {
  return known.pageParams.at(-1) === cursor ? { ...known, pages: [...known.pages.slice(0, -1), page] } : known;
}

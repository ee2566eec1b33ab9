import { infiniteQueryOptions, queryOptions, useMutation, useQueryClient } from "@tanstack/react-query";

import { client, nextCursor, unwrap } from "../api/client";
import type { NoticePreferences, NoticePreferencesChange } from "../api/types";
import { toastDone, toastError } from "../ui/toast";

const PAGE_LIMIT = 20;

/** My channels of each event, and when mail comes. */
export const preferencesQuery = queryOptions({
  queryKey: ["notices", "preferences"],
  queryFn: ({ signal }) => unwrap(client.GET("/api/v1/notices/preferences", { signal })),
});

/** The mails to me, newest first. */
export const mailsQuery = infiniteQueryOptions({
  queryKey: ["notices", "mails"],
  initialPageParam: undefined as string | undefined,
  getNextPageParam: (last: { next: string | null }) => nextCursor(last.next) ?? undefined,
  queryFn: ({ pageParam, signal }) =>
    unwrap(client.GET("/api/v1/notices/mails", { params: { query: { limit: PAGE_LIMIT, cursor: pageParam } }, signal })),
});

/** Changes my preferences on the version that is on screen. */
export function useChange(found: NoticePreferences) {
  const queryClient = useQueryClient();
  return useMutation({
    mutationFn: (body: NoticePreferencesChange) =>
      unwrap(
        client.PATCH("/api/v1/notices/preferences", {
          params: { header: { "If-Match": `"v${found.version}"` } },
          body,
        }),
      ),
    onSuccess: (changed) => {
      queryClient.setQueryData(preferencesQuery.queryKey, changed);
      toastDone("Saved");
    },
    onError: (error) => {
      toastError(error);
      void queryClient.invalidateQueries({ queryKey: preferencesQuery.queryKey });
    },
  });
}

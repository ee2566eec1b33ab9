import { useMutation, useQueryClient } from "@tanstack/react-query";

import { client, unwrap } from "../api/client";
import type { Notice } from "../api/types";
import { toastError } from "../ui/toast";

/** Marks one notice as read, or all up to the newest that is shown. */
export function useReading() {
  const queryClient = useQueryClient();
  const changed = {
    onError: toastError,
    onSettled: () => queryClient.invalidateQueries({ queryKey: ["notices"] }),
  };
  const one = useMutation({
    mutationFn: (id: string) =>
      unwrap(client.POST("/api/v1/notices/{notice_id}/read", { params: { path: { notice_id: id } } })),
    ...changed,
  });
  const all = useMutation({
    mutationFn: (newest: string) => unwrap(client.POST("/api/v1/notices/read", { body: { through: newest } })),
    ...changed,
  });
  return {
    /** Mark a notice as read, unless it is. */
    read: (notice: Notice) => {
      if (notice.read_at === null) one.mutate(notice.id);
    },
    readAll: (newest: Notice) => all.mutate(newest.id),
    isPending: all.isPending,
  };
}

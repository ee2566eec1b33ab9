import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useRef } from "react";

import { client, unwrap } from "../api/client";
import type { PlannedChangeRequest } from "../api/types";
import { newIdempotencyKey } from "../submit/draft";

/** Drafts a change of quotas and opens its page, which previews it before anything is set. */
export function useDraft() {
  const queryClient = useQueryClient();
  const navigate = useNavigate();
  const key = useRef({ of: "", value: "" });
  return useMutation({
    mutationFn: (body: PlannedChangeRequest) => {
      // The same draft keeps its key, so that pressing twice makes one.
      const text = JSON.stringify(body);
      if (key.current.of !== text) key.current = { of: text, value: newIdempotencyKey() };
      return unwrap(
        client.POST("/api/v1/quota-changes", {
          params: { header: { "Idempotency-Key": key.current.value } },
          body,
        }),
      );
    },
    onSuccess: (made) => {
      void queryClient.invalidateQueries({ queryKey: ["quotas", "planned"] });
      void navigate({ to: "/quota-changes/$plannedId", params: { plannedId: made.id }, search: { preview: "now" } });
    },
  });
}

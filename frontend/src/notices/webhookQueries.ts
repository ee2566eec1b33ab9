import { infiniteQueryOptions, queryOptions, useMutation, useQueryClient } from "@tanstack/react-query";

import { client, nextCursor, unwrap } from "../api/client";
import type { Webhook } from "../api/types";
import { toastDone, toastError } from "../ui/toast";

const WEBHOOKS_MAX = 500;
const PAGE_LIMIT = 20;

/** My webhooks, and those of nodes whose members I manage. */
export const webhooksQuery = queryOptions({
  queryKey: ["notices", "webhooks"],
  queryFn: async ({ signal }) =>
    (await unwrap(client.GET("/api/v1/webhooks", { params: { query: { limit: WEBHOOKS_MAX } }, signal }))).items,
});

/** The messages to a webhook, newest first. */
export function deliveriesQuery(id: string) {
  return infiniteQueryOptions({
    queryKey: ["notices", "webhooks", id],
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (last: { next: string | null }) => nextCursor(last.next) ?? undefined,
    queryFn: ({ pageParam, signal }) =>
      unwrap(
        client.GET("/api/v1/webhooks/{webhook_id}/deliveries", {
          params: { path: { webhook_id: id }, query: { limit: PAGE_LIMIT, cursor: pageParam } },
          signal,
        }),
      ),
  });
}

/** Does something with a webhook, says so, and reads the lists anew. */
export function useAct<Input, Answer>(act: (input: Input) => Promise<Answer>, done: string, onDone?: (answer: Answer) => void) {
  const queryClient = useQueryClient();
  return useMutation({
    mutationFn: act,
    onSuccess: (answer) => {
      toastDone(done);
      onDone?.(answer);
    },
    onError: toastError,
    onSettled: () => queryClient.invalidateQueries({ queryKey: webhooksQuery.queryKey }),
  });
}

export const sendTest = ({ id }: Webhook) =>
  unwrap(client.POST("/api/v1/webhooks/{webhook_id}/test", { params: { path: { webhook_id: id } } }));

export const rotateSecret = ({ id }: Webhook) =>
  unwrap(client.POST("/api/v1/webhooks/{webhook_id}/secret", { params: { path: { webhook_id: id } } }));

export const removeWebhook = ({ id }: Webhook) =>
  unwrap(client.DELETE("/api/v1/webhooks/{webhook_id}", { params: { path: { webhook_id: id } } }));

export const switchWebhook = ({ id, version, disabled_at }: Webhook) =>
  unwrap(
    client.PATCH("/api/v1/webhooks/{webhook_id}", {
      params: { path: { webhook_id: id }, header: { "If-Match": `"v${version}"` } },
      body: { is_enabled: disabled_at !== null },
    }),
  );

export const replay = (id: string) =>
  unwrap(
    client.POST("/api/v1/webhook-deliveries/{webhook_delivery_id}/replay", {
      params: { path: { webhook_delivery_id: id } },
    }),
  );

import { queryOptions } from "@tanstack/react-query";

import { client, unwrap } from "../api/client";

const CARDS_MAX = 500;

/** The rate cards of the organizations whose prices I may see. */
export const rateCardsQuery = queryOptions({
  queryKey: ["reports", "rate-cards"],
  queryFn: async ({ signal }) => {
    const query = { limit: CARDS_MAX };
    return (await unwrap(client.GET("/api/v1/rate-cards", { params: { query }, signal }))).items;
  },
});

/** The prices of two moments, and what last month would have cost under each. */
export function comparisonQuery(cardId: string, first: string, second: string) {
  return queryOptions({
    queryKey: ["reports", "price-comparison", cardId, first, second],
    queryFn: ({ signal }) =>
      unwrap(
        client.GET("/api/v1/rate-cards/{card_id}/comparison", {
          params: { path: { card_id: cardId }, query: { first, second } },
          signal,
        }),
      ),
  });
}

export type RuleKind = "price" | "terms";

/** Ends a price or terms at a moment; null: now. */
export function endRule(kind: RuleKind, cardId: string, id: string, end: string | null): Promise<unknown> {
  const body = { end };
  return kind === "price"
    ? unwrap(client.PATCH("/api/v1/rate-cards/{card_id}/lines/{line_id}", { params: { path: { card_id: cardId, line_id: id } }, body }))
    : unwrap(client.PATCH("/api/v1/rate-cards/{card_id}/terms/{terms_id}", { params: { path: { card_id: cardId, terms_id: id } }, body }));
}

/** Cancels a scheduled price or terms. */
export function cancelRule(kind: RuleKind, cardId: string, id: string): Promise<unknown> {
  return kind === "price"
    ? unwrap(client.DELETE("/api/v1/rate-cards/{card_id}/lines/{line_id}", { params: { path: { card_id: cardId, line_id: id } } }))
    : unwrap(client.DELETE("/api/v1/rate-cards/{card_id}/terms/{terms_id}", { params: { path: { card_id: cardId, terms_id: id } } }));
}

/** What the guide loads: its documents, and the search over them. */
import { queryOptions } from "@tanstack/react-query";

import { loadDocument } from "./documents";
import { loadGuide } from "./searching";

export const documentQuery = (name: string) =>
  queryOptions({ queryKey: ["guide", name], queryFn: async () => (await loadDocument(name)) ?? null, staleTime: Infinity });

export const guideQuery = queryOptions({ queryKey: ["guide"], queryFn: loadGuide, staleTime: Infinity });

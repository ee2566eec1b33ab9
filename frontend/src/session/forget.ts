import type { QueryClient } from "@tanstack/react-query";

import { sessionQuery } from "../api/queries";

/** Drops what the last person saw, so that the next one at this browser does not. */
export function forgetAllButSession(queryClient: QueryClient): void {
  const [session] = sessionQuery.queryKey;
  queryClient.removeQueries({ predicate: ({ queryKey }) => queryKey[0] !== session });
}

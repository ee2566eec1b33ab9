import { MutationCache, QueryCache, QueryClient } from "@tanstack/react-query";

import { ApiError, WaitsForSecondPerson } from "./client";
import { toastWaiting } from "../ui/toastWaiting";
import { sessionQuery } from "./queries";

/** Retries only what may pass by itself: no answer, or a server error. */
function shouldRetry(failures: number, error: Error): boolean {
  if (error instanceof ApiError && error.status >= 400 && error.status < 500) return false;
  return failures < 2;
}

/** A client whose every 401 forgets the session, so that the shell leads to the login page. */
export function createQueryClient({ retries = true }: { retries?: boolean } = {}): QueryClient {
  const onError = (error: Error) => {
    if (error instanceof ApiError && error.status === 401) {
      queryClient.setQueryData(sessionQuery.queryKey, null);
    }
  };
  const onWriteError = (error: Error) => {
    onError(error);
    if (!(error instanceof WaitsForSecondPerson)) return;
    toastWaiting(error);
    void queryClient.invalidateQueries({ queryKey: ["requests"] });
  };
  const queryClient: QueryClient = new QueryClient({
    queryCache: new QueryCache({ onError }),
    mutationCache: new MutationCache({ onError: onWriteError }),
    defaultOptions: {
      queries: { staleTime: 5_000, retry: retries ? shouldRetry : false, refetchOnWindowFocus: true },
      mutations: { retry: false },
    },
  });
  return queryClient;
}

import { Button, Skeleton } from "@mantine/core";
import type { ReactNode } from "react";

import { ApiError } from "../api/client";
import { Card } from "./Card";
import { CliLine } from "./CliLine";
import { Time } from "./Time";

/** Grey lines in the place of what is being fetched. */
export function Lines({ count = 4, label = "Loading" }: { count?: number; label?: string }) {
  return (
    <div className="stack" role="status" aria-label={label}>
      {Array.from({ length: count }, (_, i) => (
        <Skeleton key={i} height={18} width={i % 3 === 2 ? "60%" : "100%"} />
      ))}
    </div>
  );
}

/** Refused, or not there for me: trying again changes nothing. */
export function isSettled(error: Error): boolean {
  return error instanceof ApiError && (error.status === 403 || error.status === 404);
}

/** What went wrong in the API's own words, its request id for support, and a way to try again. */
export function ErrorCard({ error, onRetry }: { error: Error; onRetry?: () => void }) {
  const problem = error instanceof ApiError ? error.problem : null;
  return (
    <Card tone="bad" role="alert">
      <h2>{problem?.title ?? "Something went wrong"}</h2>
      <p>{error.message}</p>
      {problem?.request_id && (
        <p className="small faint">
          request <code>{problem.request_id}</code>
        </p>
      )}
      {onRetry && !isSettled(error) && (
        <Button variant="default" onClick={onRetry}>
          Try again
        </Button>
      )}
    </Card>
  );
}

/** Nothing here yet: why, one thing to do, and the command that does the same. */
export function Empty({ children, action, cli }: { children: ReactNode; action?: ReactNode; cli?: string }) {
  return (
    <div className="empty">
      <p>{children}</p>
      <div className="inline">
        {action}
        {cli && <CliLine command={cli} />}
      </div>
    </div>
  );
}

interface QueryLike<T> {
  data: T | undefined;
  error: Error | null;
  isPending: boolean;
  dataUpdatedAt: number;
  refetch: () => unknown;
}

/** One query's four faces: loading, failed, stale (old data and a failed refresh), and there. */
export function QueryView<T>({
  query,
  loading = <Lines />,
  children,
}: {
  query: QueryLike<T>;
  loading?: ReactNode;
  children: (data: T) => ReactNode;
}) {
  if (query.data === undefined) {
    if (query.error) return <ErrorCard error={query.error} onRetry={() => void query.refetch()} />;
    return loading;
  }
  return (
    <>
      {query.error && (
        <Card tone="warn" role="status">
          <div className="spread">
            <span>
              ▲ Shown as of <Time at={new Date(query.dataUpdatedAt).toISOString()} show="both" />. The last
              refresh failed: {query.error.message}
            </span>
            <Button variant="default" size="xs" onClick={() => void query.refetch()}>
              Try again
            </Button>
          </div>
        </Card>
      )}
      {children(query.data)}
    </>
  );
}

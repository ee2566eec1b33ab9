import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";

import { logSummaryQuery } from "../api/queries";
import type { JobDetail } from "../api/types";
import { Lines } from "../ui/states";
import { LogViewer } from "./LogViewer";
import { hasFailed } from "./words";

/** The log of a job. That of a failed one opens where the error is: the rank that failed, and the stream that says why. */
export function JobLog({ job }: { job: JobDetail }) {
  const search = useSearch({ from: "/shell/jobs/$jobId" });
  const navigate = useNavigate({ from: "/jobs/$jobId" });
  const opensAtError = hasFailed(job.state) && search.rank === undefined && search.attempt === undefined;
  const summary = useQuery(
    logSummaryQuery(job.id, job.state, search.attempt, opensAtError ? undefined : (search.rank ?? 0)),
  );
  if (opensAtError && summary.isPending) return <Lines count={6} label="Loading the log" />;
  const source = {
    job: job.id,
    attempt: search.attempt ?? job.attempt,
    rank: search.rank ?? (opensAtError ? (summary.data?.rank ?? 0) : 0),
    stream: search.stream ?? summary.data?.error_stream ?? "stdout",
  } as const;
  return (
    <LogViewer
      key={`${source.job} ${source.attempt} ${source.rank} ${source.stream}`}
      source={source}
      streams={summary.data?.streams ?? []}
      attempts={Array.from({ length: job.attempt }, (_, i) => ({ number: job.attempt - i }))}
      onChoose={(change) =>
        void navigate({
          // The rank that was opened by itself stays when something else is chosen.
          search: (before) => ({ ...before, ...(opensAtError ? { rank: source.rank } : {}), ...change }),
          replace: true,
        })
      }
    />
  );
}

import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";

import { logSummaryQuery } from "../api/queries";
import type { JobDetail } from "../api/types";
import { CliLine } from "../ui/CliLine";
import { Lines } from "../ui/states";
import { LogViewer, RANKS_MAX } from "./LogViewer";
import { besideOf } from "./search";
import { hasFailed, isEnded } from "./words";

/** The log of a job. That of a failed one opens where the error is: the rank that failed, and the stream that says why. */
export function JobLog({ job }: { job: JobDetail }) {
  const search = useSearch({ from: "/shell/jobs/$jobId" });
  const navigate = useNavigate({ from: "/jobs/$jobId" });
  const opensAtError = hasFailed(job.state) && search.rank === undefined && search.attempt === undefined;
  const summary = useQuery(
    logSummaryQuery(job.id, job.state, search.attempt, opensAtError ? undefined : (search.rank ?? 0)),
  );
  if (opensAtError && summary.isPending) return <Lines count={6} label="Loading the log" />;
  const rank = search.rank ?? (opensAtError ? (summary.data?.rank ?? 0) : 0);
  const source = {
    job: job.id,
    attempt: search.attempt ?? job.attempt,
    stream: search.stream ?? summary.data?.error_stream ?? "stdout",
  } as const;
  return (
    <>
      <LogViewer
        source={source}
        ranks={[rank, ...besideOf(search).filter((each) => each !== rank)].slice(0, RANKS_MAX)}
        isOver={source.attempt < job.attempt || isEnded(job.state)}
        summary={summary.data}
        attempts={Array.from({ length: job.attempt }, (_, i) => ({ number: job.attempt - i }))}
        onChoose={({ ranks, ...change }) =>
          void navigate({
            // The rank that was opened by itself stays when something else is chosen.
            search: (before) => ({
              ...before,
              ...(opensAtError ? { rank } : {}),
              ...change,
              ...(ranks === undefined ? {} : { rank: ranks[0], beside: ranks.slice(1).join(",") || undefined }),
            }),
            replace: true,
          })
        }
      />
      <CliLine command={logsCommand(job.id, source.attempt, rank, source.stream)} />
    </>
  );
}

function logsCommand(job: string, attempt: number, rank: number, stream: string): string {
  const options = [`--attempt ${attempt}`, rank > 0 && `--rank ${rank}`, stream === "stderr" && "--stderr"];
  return ["tidegate logs", job, ...options.filter(Boolean)].join(" ");
}

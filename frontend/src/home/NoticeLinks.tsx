import { Button } from "@mantine/core";
import { Link } from "@tanstack/react-router";

import type { Job } from "../api/types";

/** Leads to the log of a job, for readers who may read it. Among several its text names the job. */
export function OpenLog({ job, isOnly }: { job: Job; isOnly: boolean }) {
  if (!job.can.includes("logs")) return null;
  return (
    <Button
      variant="default"
      size="compact-sm"
      aria-label={`Open log of ${job.name}`}
      renderRoot={(props) => <Link to="/jobs/$jobId" params={{ jobId: job.id }} search={{ tab: "log" }} {...props} />}
    >
      <span className="open-log">{isOnly ? "Open log" : `Open log of ${job.name}`}</span>
    </Button>
  );
}

/** Leads to the running jobs that could be stopped so that a job on notice finds GPUs again: the last started first. */
export function StopAnother({ scope, pool, user }: { scope: string | undefined; pool: string | undefined; user?: string }) {
  return (
    <Button
      variant="default"
      size="compact-sm"
      renderRoot={(props) => <Link to="/jobs" search={{ state: "running", scope, pool, user, sort: "-started_at" }} {...props} />}
    >
      Stop another job…
    </Button>
  );
}

/** The effect of a stop of another job: a notice is never taken back. */
export const STOP_ANOTHER_HINT = "A notice is final. GPUs of another job that you stop can go to the next attempt.";

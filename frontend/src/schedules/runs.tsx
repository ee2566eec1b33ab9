import { Link } from "@tanstack/react-router";

import type { Schedule, ScheduleRun } from "../api/types";
import { stateWord } from "../jobs/words";
import { Time } from "../ui/Time";

/** When the next run is due, or why there is none. */
export function NextRun({ schedule }: { schedule: Schedule }) {
  if (schedule.next_at !== null) return <Time at={schedule.next_at} />;
  return (
    <>
      <span className="pill warn">suspended</span>
      {schedule.suspended_because !== null && <div className="small dim">{schedule.suspended_because}</div>}
    </>
  );
}

/** The job of a run with its state, or the reason why there is none. */
export function RunResult({ run }: { run: ScheduleRun }) {
  if (run.job === null)
    return (
      <>
        {run.outcome}: <span className="dim">{run.reason}</span>
      </>
    );
  return (
    <Link to="/jobs/$jobId" params={{ jobId: run.job.id }}>
      {stateWord(run.job.state)}
    </Link>
  );
}

import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";

import { jobAttemptsQuery } from "../api/queries";
import type { Attempt, JobDetail } from "../api/types";
import { Card } from "../ui/Card";
import { DataTable } from "../ui/DataTable";
import { Time } from "../ui/Time";
import { deviceTime, formatCount, formatGpuHours } from "../ui/units";
import { spansOf, unsavedS } from "./attemptTimes";
import { isEnded } from "./words";

const SHOWN_MAX = 5;

/** The checkpoints of a job that failed, was stopped or waits again, and which of them the next run resumes from. */
export function CheckpointsCard({ job }: { job: JobDetail }) {
  const waitsAgain = job.state === "queued" || job.state === "held";
  const isAsked = job.attempt > 0 && job.origin === "portal" && (waitsAgain || (isEnded(job.state) && job.state !== "succeeded"));
  const { data: attempts } = useQuery({ ...jobAttemptsQuery(job.id), enabled: isAsked });
  if (!isAsked || attempts === undefined) return null;
  const saved = savedOf(attempts);
  if (saved.length === 0 && job.checkpoint_path === null) return null;
  return (
    <Card label="Checkpoints">
      <div className="spread">
        <h2>Checkpoints</h2>
        {saved.length > 0 && <span className="small faint">the last of each attempt</span>}
      </div>
      {saved.length === 0 ? (
        <p>
          None reported. Run <code>tidegate checkpoint</code> inside the job to report one.
        </p>
      ) : (
        <>
          <Saved job={job} saved={saved} />
          <p className="small dim more">
            {waitsAgain ? "The next attempt can resume from the latest one." : "A clone of the job can resume from the latest one."}
          </p>
        </>
      )}
      <div className="spread more">
        {job.checkpoint_path === null ? (
          <span className="small dim">The job names no checkpoint path: its script finds the checkpoint.</span>
        ) : (
          <code className="breaks">{job.checkpoint_path}</code>
        )}
        {saved.length > SHOWN_MAX && (
          <Link to="." search={(before) => ({ ...before, tab: "attempts" })}>
            {formatCount(saved.length - SHOWN_MAX)} more
          </Link>
        )}
      </div>
    </Card>
  );
}

type SavedAttempt = Attempt & { checkpoint_at: string };

/** The attempts that reported a checkpoint, the latest checkpoint first. */
function savedOf(attempts: readonly Attempt[]): SavedAttempt[] {
  return attempts
    .filter((attempt): attempt is SavedAttempt => attempt.checkpoint_at !== null)
    .sort((a, b) => Date.parse(b.checkpoint_at) - Date.parse(a.checkpoint_at));
}

function Saved({ job, saved }: { job: JobDetail; saved: readonly SavedAttempt[] }) {
  return (
    <DataTable
      label="Checkpoints, the latest first"
      rows={saved.slice(0, SHOWN_MAX)}
      rowKey={({ id }) => id}
      columns={[
        {
          header: "Attempt",
          isHeading: true,
          cell: ({ number }, at) => (
            <>
              {job.can.includes("logs") ? (
                <Link to="." search={(before) => ({ ...before, tab: "log", attempt: number, rank: 0 })}>
                  {number}
                </Link>
              ) : (
                number
              )}{" "}
              {at === 0 && <span className="pill run">latest</span>}
            </>
          ),
        },
        { header: "Saved", cell: ({ checkpoint_at: at }) => <Time at={at} show="exact" /> },
        {
          header: "Lost after it",
          hint: "The work between the checkpoint and the end of its attempt.",
          isRight: true,
          cell: (attempt) => {
            const [span] = spansOf([attempt], job, Date.parse(attempt.ended_at ?? attempt.granted_at));
            const lostS = span === undefined || attempt.ended_at === null ? null : unsavedS(span);
            return lostS === null ? (
              <span className="faint">–</span>
            ) : (
              `${formatGpuHours(attempt.mgpu * Math.floor(lostS))} ${deviceTime(job.device, "h")}`
            );
          },
        },
      ]}
    />
  );
}

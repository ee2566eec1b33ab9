import { Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";

import { someJobsQuery } from "../api/queries";
import type { Job, JobState, Session } from "../api/types";
import { JobTable } from "../jobs/JobTable";
import { JOB_STATES, stateTone, stateWord } from "../jobs/words";
import { Card } from "../ui/Card";
import { CliLine } from "../ui/CliLine";
import { Empty, Lines, QueryView } from "../ui/states";

const ACTIVE: readonly JobState[] = ["queued", "held", "starting", "running", "preempting"];
const COUNTED = 200;
const SHOWN = 8;

/** The jobs of the reader that need a look. */
export function MyJobs({ session, hasSubmit }: { session: Session; hasSubmit: boolean }) {
  const user = session.user.username;
  const jobs = useQuery(someJobsQuery({ user, sort: "-submitted_at" }, COUNTED));
  return (
    <Card label="My jobs">
      <div className="spread">
        <h2>My jobs</h2>
        {hasSubmit && (
          <Button component={Link} to="/submit" size="xs">
            Submit a job
          </Button>
        )}
      </div>
      <QueryView query={jobs} loading={<Lines count={4} label="Loading my jobs" />}>
        {({ items, next }) =>
          items.length === 0 ? (
            <Empty
              cli="tidegate submit --team TEAM --gpus 1 job.sh"
              action={
                <Button component={Link} to="/submit" variant="default">
                  Submit a job
                </Button>
              }
            >
              No jobs yet.
            </Empty>
          ) : (
            <div className="stack">
              <Counts jobs={items} isMore={next !== null} user={user} />
              <JobTable jobs={mostUrgent(items).slice(0, SHOWN)} caption="My jobs that need a look" />
              <div className="spread">
                <Link to="/jobs" search={{ user }}>
                  All my jobs
                </Link>
                <CliLine command={`tidegate ls --user ${user}`} />
              </div>
            </div>
          )
        }
      </QueryView>
    </Card>
  );
}

/** What runs or waits first, newest first; then what ended. */
function mostUrgent(jobs: readonly Job[]): Job[] {
  const rank = (job: Job) => (ACTIVE.includes(job.state) ? 0 : 1);
  return [...jobs].sort((a, b) => rank(a) - rank(b) || (a.submitted_at < b.submitted_at ? 1 : -1));
}

function Counts({ jobs, isMore, user }: { jobs: readonly Job[]; isMore: boolean; user: string }) {
  const counts = JOB_STATES.map((state) => ({
    state,
    count: jobs.filter((job) => job.state === state).length,
  })).filter(({ count }) => count > 0);
  return (
    <div className="inline">
      {counts.map(({ state, count }) => (
        <Link key={state} to="/jobs" search={{ user, state }} className={`pill ${stateTone(state)}`}>
          {count} {stateWord(state)}
        </Link>
      ))}
      {isMore && <span className="small faint">of the newest {COUNTED}</span>}
    </div>
  );
}

import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams } from "@tanstack/react-router";

import type { ScheduleDetail } from "../api/types";
import { Card } from "../ui/Card";
import { DataTable } from "../ui/DataTable";
import { Fact, Facts } from "../ui/Facts";
import { Page, PageLoading } from "../ui/Page";
import { PagedCard } from "../ui/PagedCard";
import { Empty, QueryView } from "../ui/states";
import { Time } from "../ui/Time";
import { formatDuration } from "../ui/units";
import { scheduleQuery, scheduleRunsQuery } from "./queries";
import { NextRun, RunResult } from "./runs";
import { ScheduleActions } from "./ScheduleActions";

const POLICIES: Record<ScheduleDetail["concurrency_policy"], string> = {
  allow: "both jobs go on",
  forbid: "the new run is skipped",
  replace: "the earlier job is cancelled",
};

/** One schedule: when its runs are due, and what became of each. */
export function SchedulePage() {
  const { scheduleId } = useParams({ from: "/shell/schedules/$scheduleId" });
  const schedule = useQuery(scheduleQuery(scheduleId));
  return (
    <QueryView query={schedule} loading={<PageLoading title="Schedule" label="Loading the schedule" />}>
      {(found) => <ScheduleView schedule={found} />}
    </QueryView>
  );
}

function ScheduleView({ schedule }: { schedule: ScheduleDetail }) {
  const navigate = useNavigate();
  const runs = useInfiniteQuery(scheduleRunsQuery(schedule.id));
  return (
    <Page
      title={schedule.name}
      lead={
        <>
          A schedule of {schedule.user} in {schedule.team} · <Link to="/schedules">all schedules</Link>
        </>
      }
      actions={<ScheduleActions schedule={schedule} onDeleted={() => void navigate({ to: "/schedules" })} />}
    >
      <div className="rows">
        <Card label="When it runs">
          <h2>When it runs</h2>
          <Facts>
            <Fact name="Times">
              <span className="mono">{schedule.cron}</span>
              <div className="small faint">{schedule.time_zone}</div>
            </Fact>
            <Fact name="Next run">{schedule.ended_at === null ? <NextRun schedule={schedule} /> : "none, it is deleted"}</Fact>
            {schedule.next_runs.slice(1).map((at) => (
              <Fact key={at} name="Then">
                <Time at={at} show="both" />
              </Fact>
            ))}
            {schedule.template !== null && (
              <Fact name="Template">
                {schedule.template.name ?? "deleted, or not yours to use"}
                <div className="small faint">each run takes it as it is then</div>
              </Fact>
            )}
            <Fact name="While the job before runs">{POLICIES[schedule.concurrency_policy]}</Fact>
            <Fact name="Missed after">
              {schedule.starting_deadline_s === null ? "never" : formatDuration(schedule.starting_deadline_s)}
            </Fact>
          </Facts>
        </Card>
        <PagedCard
          query={runs}
          label="runs"
          lines={5}
          command={`tidegate schedule ${schedule.id}`}
          empty={<Empty>No runs yet.</Empty>}
        >
          {(items) => (
            <DataTable
              label="Runs"
              rows={items}
              rowKey={(run) => run.scheduled_at}
              columns={[
                { header: "Due", isHeading: true, cell: (run) => <Time at={run.scheduled_at} show="both" /> },
                { header: "Result", cell: (run) => <RunResult run={run} /> },
              ]}
            />
          )}
        </PagedCard>
      </div>
    </Page>
  );
}

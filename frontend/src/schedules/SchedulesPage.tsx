import { Button } from "@mantine/core";
import { useInfiniteQuery, useMutation, useQueryClient } from "@tanstack/react-query";
import { Link, useSearch } from "@tanstack/react-router";
import { useState } from "react";

import { client, unwrap } from "../api/client";
import type { Schedule } from "../api/types";
import { stateWord } from "../jobs/words";
import { Confirm } from "../ui/Confirm";
import { DataTable } from "../ui/DataTable";
import { Page } from "../ui/Page";
import { PagedCard } from "../ui/PagedCard";
import { Empty } from "../ui/states";
import { Time } from "../ui/Time";
import { toastDone, toastError } from "../ui/toast";
import { schedulesQuery } from "./queries";

const CREATE = 'tidegate submit --cron "0 3 * * *" FILE';

/** Jobs that the portal submits again and again: when each comes next, and how its last run went. */
export function SchedulesPage() {
  const { scope } = useSearch({ from: "/shell/schedules" });
  const schedules = useInfiniteQuery(schedulesQuery(scope));
  return (
    <Page
      title="Schedules"
      lead="Each run of a schedule is a job of its owner."
      actions={
        <Button variant="default" component={Link} to="/jobs">
          Jobs
        </Button>
      }
    >
      <PagedCard
        query={schedules}
        label="schedules"
        lines={5}
        command={scope === undefined ? "tidegate schedules" : `tidegate schedules --team ${scope}`}
        empty={<Empty cli={CREATE}>No schedules. Submit a CronJob on the page Submit, or a script with --cron.</Empty>}
      >
        {(items) => <ScheduleTable schedules={items} />}
      </PagedCard>
    </Page>
  );
}

function ScheduleTable({ schedules }: { schedules: readonly Schedule[] }) {
  return (
    <DataTable
      label="Schedules"
      rows={schedules}
      rowKey={(schedule) => schedule.id}
      columns={[
        {
          header: "Schedule",
          isHeading: true,
          cell: (schedule) => (
            <>
              {schedule.name}
              <div className="small dim">
                <span className="mono">{schedule.cron}</span> {schedule.time_zone}
              </div>
              <div className="small faint">
                {schedule.user} · {schedule.team}
              </div>
            </>
          ),
        },
        { header: "Next run", cell: (schedule) => <NextRun schedule={schedule} /> },
        { header: "Last run", cell: (schedule) => <LastRun run={schedule.last_run} /> },
        { header: "Actions", cell: (schedule) => <Actions schedule={schedule} /> },
      ]}
    />
  );
}

function NextRun({ schedule }: { schedule: Schedule }) {
  if (schedule.next_at !== null) return <Time at={schedule.next_at} />;
  return (
    <>
      <span className="pill warn">suspended</span>
      {schedule.suspended_because !== null && <div className="small dim">{schedule.suspended_because}</div>}
    </>
  );
}

function LastRun({ run }: { run: Schedule["last_run"] }) {
  if (run === null) return <span className="faint">none yet</span>;
  return (
    <>
      <Time at={run.scheduled_at} />
      <div className="small">
        {run.job === null ? (
          <>
            {run.outcome}: <span className="dim">{run.reason}</span>
          </>
        ) : (
          <Link to="/jobs/$jobId" params={{ jobId: run.job.id }}>
            {stateWord(run.job.state)}
          </Link>
        )}
      </div>
    </>
  );
}

function Actions({ schedule }: { schedule: Schedule }) {
  const queryClient = useQueryClient();
  const [isAsking, setAsking] = useState(false);
  const params = { path: { schedule_id: schedule.id } };
  const renew = () => queryClient.invalidateQueries({ queryKey: ["jobs", "schedules"] });
  const suspend = useMutation({
    mutationFn: (isSuspended: boolean) =>
      unwrap(client.PATCH("/api/v1/schedules/{schedule_id}", { params, body: { is_suspended: isSuspended } })),
    onSuccess: (found) => {
      toastDone(found.is_suspended ? `${found.name} is suspended` : `${found.name} is resumed`);
      return renew();
    },
    onError: toastError,
  });
  const remove = useMutation({
    mutationFn: async () => {
      await unwrap(client.DELETE("/api/v1/schedules/{schedule_id}", { params }));
    },
    onSuccess: () => {
      setAsking(false);
      toastDone(`${schedule.name} is deleted`);
      return renew();
    },
    onError: toastError,
  });
  const isSuspended = schedule.can.includes("resume");
  if (schedule.can.length === 0) return <span className="faint">none</span>;
  return (
    <div className="inline">
      <Button
        size="xs"
        variant="default"
        loading={suspend.isPending}
        aria-label={`${isSuspended ? "Resume" : "Suspend"} ${schedule.name}`}
        onClick={() => suspend.mutate(!isSuspended)}
      >
        {isSuspended ? "Resume" : "Suspend"}
      </Button>
      <Button size="xs" variant="default" aria-label={`Delete ${schedule.name}`} onClick={() => setAsking(true)}>
        Delete
      </Button>
      <Confirm
        title={`Delete the schedule ${schedule.name}?`}
        isOpen={isAsking}
        isBusy={remove.isPending}
        confirmLabel="Delete"
        isDangerous
        onConfirm={() => remove.mutate()}
        onClose={() => setAsking(false)}
      >
        It has no more runs. Its jobs stay, and go on.
      </Confirm>
    </div>
  );
}

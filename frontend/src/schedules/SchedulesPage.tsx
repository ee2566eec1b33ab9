import { Button, Modal } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { Link, useSearch } from "@tanstack/react-router";
import { useState } from "react";

import type { Schedule } from "../api/types";
import { DataTable } from "../ui/DataTable";
import { Page } from "../ui/Page";
import { PagedCard } from "../ui/PagedCard";
import { Empty } from "../ui/states";
import { Time } from "../ui/Time";
import { schedulesQuery } from "./queries";
import { NextRun, RunResult } from "./runs";
import { ScheduleActions } from "./ScheduleActions";
import { ScheduleForm } from "./ScheduleForm";

const CREATE = 'tidegate submit --cron "0 3 * * *" FILE';

/** Jobs that the portal submits again and again: when each comes next, and how its last run went. */
export function SchedulesPage() {
  const { scope } = useSearch({ from: "/shell/schedules" });
  const schedules = useInfiniteQuery(schedulesQuery(scope));
  const [isMaking, setMaking] = useState(false);
  return (
    <Page
      title="Schedules"
      lead="Each run of a schedule is a job of its owner."
      actions={
        <>
          <Button variant="default" component={Link} to="/jobs">
            Jobs
          </Button>
          <Button onClick={() => setMaking(true)}>New from a template</Button>
        </>
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
      <Modal
        opened={isMaking}
        onClose={() => setMaking(false)}
        title="New schedule"
        closeButtonProps={{ "aria-label": "Close" }}
      >
        <ScheduleForm team={scope} onDone={() => setMaking(false)} />
      </Modal>
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
              <Link to="/schedules/$scheduleId" params={{ scheduleId: schedule.id }}>
                {schedule.name}
              </Link>
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
        { header: "Actions", cell: (schedule) => <ScheduleActions schedule={schedule} /> },
      ]}
    />
  );
}

function LastRun({ run }: { run: Schedule["last_run"] }) {
  if (run === null) return <span className="faint">none yet</span>;
  return (
    <>
      <Time at={run.scheduled_at} />
      <div className="small">
        <RunResult run={run} />
      </div>
    </>
  );
}

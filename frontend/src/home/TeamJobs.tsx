import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";

import { someJobsQuery } from "../api/queries";
import { JobTable } from "../jobs/JobTable";
import { Card } from "../ui/Card";
import { CliLine } from "../ui/CliLine";
import { Empty, Lines, QueryView } from "../ui/states";

const SHOWN = 5;

/** Jobs of the teams that the reader manages: those on notice, and those that wait the longest. */
export function TeamJobs({ scope }: { scope: string | undefined }) {
  const below = scope ? { team: scope } : {};
  const stopping = useQuery(someJobsQuery({ state: ["preempting"], ...below }, SHOWN));
  const waiting = useQuery(someJobsQuery({ state: ["queued"], sort: "submitted_at", ...below }, SHOWN));
  const notices = stopping.data?.items ?? [];
  return (
    <Card label="Jobs of my teams" tone={notices.length > 0 ? "warn" : undefined}>
      {notices.length > 0 && (
        <>
          <h2>Preemption notices</h2>
          <JobTable jobs={notices} caption="Preemption notices" />
        </>
      )}
      <h2 className={notices.length > 0 ? "gap" : undefined}>Waiting jobs</h2>
      <QueryView query={waiting} loading={<Lines count={3} label="Loading waiting jobs" />}>
        {({ items }) =>
          items.length === 0 ? (
            <Empty>No job of your teams is waiting.</Empty>
          ) : (
            <JobTable jobs={items} caption="Waiting jobs, the oldest first" />
          )
        }
      </QueryView>
      <div className="spread more">
        <Link to="/jobs" search={{ state: "queued" }}>
          All waiting jobs
        </Link>
        <CliLine command={`tidegate ls --state queued${scope ? ` --team ${scope}` : ""}`} />
      </div>
    </Card>
  );
}

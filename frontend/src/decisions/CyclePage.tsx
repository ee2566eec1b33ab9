import { useQuery } from "@tanstack/react-query";
import { Link, useParams } from "@tanstack/react-router";

import { ApiError } from "../api/client";
import type { ReplayedCycle } from "../api/types";
import { Card } from "../ui/Card";
import { CliLine } from "../ui/CliLine";
import { DataTable } from "../ui/DataTable";
import { Page, PageLoading } from "../ui/Page";
import { QueryView } from "../ui/states";
import { Time } from "../ui/Time";
import { formatCount } from "../ui/units";
import { DecisionList, JobName } from "./DecisionList";
import { NotYours } from "./DecisionsPage";
import { cycleQuery } from "./queries";
import { cycleWords, fateWords } from "./words";

const DECISIONS_SHOWN = 50;
const DIFFERENCES_SHOWN = 50;

export function CyclePage() {
  const { cycleId } = useParams({ from: "/shell/decisions/$cycleId" });
  const cycle = useQuery(cycleQuery(cycleId));
  if (cycle.error instanceof ApiError && cycle.error.status === 403) return <NotYours />;
  return (
    <QueryView
      query={cycle}
      loading={<PageLoading title="Decision" label="Loading the decision" />}
    >
      {(found) => <CycleView cycle={found} />}
    </QueryView>
  );
}

function CycleView({ cycle }: { cycle: ReplayedCycle }) {
  const shown = cycle.decisions.slice(0, DECISIONS_SHOWN);
  const rest = cycle.decisions.slice(DECISIONS_SHOWN);
  return (
    <Page
      title="Decision"
      heading={
        <>
          Decided <Time at={cycle.decided_at} show="exact" />
        </>
      }
      lead={
        <>
          {formatCount(cycle.queued)} jobs waited and {formatCount(cycle.running)} ran: {cycleWords(cycle)} · by version{" "}
          {cycle.version} · <Link to="/decisions" search={{ view: "cycles" }}>
            all cycles
          </Link>
        </>
      }
    >
      <div className="two">
        <Card label="What it did and why">
          <h2>What it did and why</h2>
          <DecisionList decisions={shown} shows="jobs" />
          {rest.length > 0 && (
            <details>
              <summary>{formatCount(rest.length)} more</summary>
              <DecisionList decisions={rest} shows="jobs" />
            </details>
          )}
        </Card>
        <div className="rows">
          <Card label="What would be decided today">
            <h2>What would be decided today</h2>
            <Today cycle={cycle} />
          </Card>
          <CliLine command={`tidegate replay ${cycle.id}`} />
        </div>
      </div>
    </Page>
  );
}

/** The same knowledge, decided by this version and today's policy. */
function Today({ cycle }: { cycle: ReplayedCycle }) {
  const shown = cycle.differences.slice(0, DIFFERENCES_SHOWN);
  return (
    <>
      <p className="sentence">
        {cycle.difference_count === 0
          ? "The same."
          : `Something else for ${cycle.difference_count === 1 ? "1 job" : `${formatCount(cycle.difference_count)} jobs`}.`}
      </p>
      <p className="dim">
        By this version and {cycle.is_same_policy ? "the same policy" : "a policy that is not that of then"}, on what the
        cycle knew then.
      </p>
      {shown.length > 0 && (
        <DataTable
          rows={shown}
          rowKey={(each, i) => each.job.id ?? i}
          columns={[
            { header: "Job", isHeading: true, cell: (each) => <JobName job={each.job} /> },
            { header: "Then", cell: (each) => fateWords(each.then) },
            { header: "Today", cell: (each) => fateWords(each.today) },
          ]}
        />
      )}
      {cycle.difference_count > shown.length && (
        <p className="small dim">The first {shown.length}; the command below has more.</p>
      )}
    </>
  );
}

import { useQuery } from "@tanstack/react-query";
import { Link, useParams } from "@tanstack/react-router";

import { ApiError } from "../api/client";
import type { ReplayedCycle } from "../api/types";
import { CliLine } from "../ui/CliLine";
import { Lines, QueryView } from "../ui/states";
import { Time } from "../ui/Time";
import { formatCount } from "../ui/units";
import { usePageTitle } from "../ui/usePageTitle";
import { DecisionList, JobName } from "./DecisionList";
import { NotYours } from "./DecisionsPage";
import { cycleQuery } from "./queries";
import { cycleWords, fateWords } from "./words";

const DECISIONS_SHOWN = 50;
const DIFFERENCES_SHOWN = 50;

export function CyclePage() {
  const { cycleId } = useParams({ from: "/shell/decisions/$cycleId" });
  usePageTitle("Decision");
  const cycle = useQuery(cycleQuery(cycleId));
  if (cycle.error instanceof ApiError && cycle.error.status === 403) return <NotYours />;
  return (
    <QueryView
      query={cycle}
      loading={
        <div className="card">
          <Lines count={8} label="Loading the decision" />
        </div>
      }
    >
      {(found) => <CycleView cycle={found} />}
    </QueryView>
  );
}

function CycleView({ cycle }: { cycle: ReplayedCycle }) {
  const shown = cycle.decisions.slice(0, DECISIONS_SHOWN);
  const rest = cycle.decisions.slice(DECISIONS_SHOWN);
  return (
    <>
      <h1>
        Decided <Time at={cycle.decided_at} show="exact" />
      </h1>
      <p className="sub">
        {formatCount(cycle.queued)} jobs waited and {formatCount(cycle.running)} ran: {cycleWords(cycle)} · by version{" "}
        {cycle.version} · <Link to="/decisions" search={{ view: "cycles" }}>
          all cycles
        </Link>
      </p>
      <div className="two">
        <section className="card" aria-label="What it did and why">
          <h2>What it did and why</h2>
          <DecisionList decisions={shown} shows="jobs" />
          {rest.length > 0 && (
            <details>
              <summary>{formatCount(rest.length)} more</summary>
              <DecisionList decisions={rest} shows="jobs" />
            </details>
          )}
        </section>
        <div className="rows">
          <section className="card" aria-label="What would be decided today">
            <h2>What would be decided today</h2>
            <Today cycle={cycle} />
          </section>
          <CliLine command={`tidegate replay ${cycle.id}`} />
        </div>
      </div>
    </>
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
        <table>
          <thead>
            <tr>
              <th scope="col">Job</th>
              <th scope="col">Then</th>
              <th scope="col">Today</th>
            </tr>
          </thead>
          <tbody>
            {shown.map((each, i) => (
              <tr key={each.job.id ?? i}>
                <th scope="row">
                  <JobName job={each.job} />
                </th>
                <td>{fateWords(each.then)}</td>
                <td>{fateWords(each.today)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {cycle.difference_count > shown.length && (
        <p className="small dim">The first {shown.length}; the command below has more.</p>
      )}
    </>
  );
}

import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";

import { todayQuery } from "../api/queries";
import type { Today } from "../api/types";
import { codeWords, lastPart } from "../jobs/words";
import { describeChange } from "../quotas/changes";
import { CliLine } from "../ui/CliLine";
import { Lines, QueryView } from "../ui/states";
import { Time } from "../ui/Time";
import {
  deviceTime,
  formatDuration,
  formatGpuCount,
  formatGpuHours,
  formatShare,
  headOf,
  hoursUnder,
} from "../ui/units";

type Loss = Today["waste"][number];
type End = Today["ends"][number];
type Change = Today["quota_changes"][number];

const LOST_WORDS: Record<Loss["how"], string> = {
  failed: "failed",
  timed_out: "reached its time limit",
  preempted: "preempted",
  withdrawn: "withdrawn from its cluster",
  node_lost: "lost its node",
};
const END_WORDS: Record<End["how"], string> = {
  ...LOST_WORDS,
  succeeded: "succeeded",
  cancelled: "cancelled",
  unknown: "ended; outcome unknown",
};
const EVENTS_SHOWN = 12;

/** Work of the last 24 hours that was lost, the most first. */
export function Waste({ scope }: { scope: string | undefined }) {
  const today = useQuery(todayQuery(scope));
  return (
    <section className="card" aria-label="Lost work">
      <div className="spread">
        <h2>Lost work</h2>
        <span className="small faint">last 24 h · since the last checkpoint, or the start</span>
      </div>
      <QueryView query={today} loading={<Lines count={3} label="Loading lost work" />}>
        {(data) =>
          data.waste.length === 0 ? (
            <p className="dim">No work was lost.</p>
          ) : (
            <LossTable today={data} />
          )
        }
      </QueryView>
    </section>
  );
}

function LossTable({ today }: { today: Today }) {
  const head = headOf(today.waste);
  return (
    <table aria-label="Lost work">
      <thead>
        <tr>
          <th scope="col">Job</th>
          <th scope="col">What happened</th>
          <th scope="col" className="n">
            {deviceTime(head, "h")}
          </th>
        </tr>
      </thead>
      <tbody>
        {today.waste.map((loss) => (
          <tr key={`${loss.id} ${loss.how}`}>
            <th scope="row">
              <JobLink of={loss} />
            </th>
            <td>
              {LOST_WORDS[loss.how]}
              {loss.attempts > 1 && ` ${loss.attempts} times`}
              <div className="small faint">{loss.has_checkpoint ? "since its checkpoint" : "no checkpoint"}</div>
            </td>
            <td className="n">{hoursUnder(head, loss.lost_mgpu_s, loss.device)}</td>
          </tr>
        ))}
      </tbody>
      <tfoot>
        {today.totals
          .filter(({ lost_mgpu_s }) => lost_mgpu_s > 0)
          .map((total) => (
            <tr key={total.device}>
              <th scope="row">Total</th>
              <td className="dim">
                {formatShare(total.lost_mgpu_s, total.used_mgpu_s)} of {formatGpuHours(total.used_mgpu_s)}{" "}
                {deviceTime(total.device, "h")} that ended
              </td>
              <td className="n">{hoursUnder(head, total.lost_mgpu_s, total.device)}</td>
            </tr>
          ))}
      </tfoot>
    </table>
  );
}

/** What ended and which quotas changed in the last 24 hours, newest first. */
export function SinceYesterday({ scope }: { scope: string | undefined }) {
  const today = useQuery(todayQuery(scope));
  return (
    <section className="card" aria-label="Since yesterday">
      <h2>Since yesterday</h2>
      <QueryView query={today} loading={<Lines count={4} label="Loading the last day" />}>
        {(data) => {
          const events = eventsOf(data);
          return events.length === 0 ? (
            <p className="dim">No job ended and no quota changed.</p>
          ) : (
            <table className="facts left" aria-label="Since yesterday">
              <tbody>
                {events.slice(0, EVENTS_SHOWN).map(({ key, at, what }) => (
                  <tr key={key}>
                    <th scope="row" className="mono">
                      <Time at={at} show="clock" />
                    </th>
                    <td>{what}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          );
        }}
      </QueryView>
      <div className="spread more">
        <Link to="/jobs">All jobs</Link>
        <CliLine command={`tidegate today${scope ? ` ${scope}` : ""}`} />
      </div>
    </section>
  );
}

function eventsOf(today: Today): { key: string; at: string; what: React.ReactNode }[] {
  const ends = today.ends.map((end) => ({
    key: `${end.id} ${end.attempt}`,
    at: end.ended_at,
    what: <Ended end={end} />,
  }));
  const changes = today.quota_changes.map((change) => ({
    key: change.id,
    at: change.at,
    what: <Changed change={change} />,
  }));
  return [...ends, ...changes].sort((a, b) => (a.at < b.at ? 1 : -1));
}

function Ended({ end }: { end: End }) {
  const reason = end.how === "failed" && end.end_reason !== null ? codeWords(end.end_reason, end.device) : null;
  return (
    <>
      <Link to="/jobs/$jobId" params={{ jobId: end.id }}>
        {end.name}
      </Link>{" "}
      {END_WORDS[end.how]}
      {reason !== null && `: ${reason}${end.exit_code === null ? "" : ` ${end.exit_code}`}`}
      <div className="small faint">
        {lastPart(end.team)} · {end.user} · {formatGpuCount(end.mgpu, end.device)} ×{" "}
        {formatDuration(Math.round(end.used_mgpu_s / end.mgpu))}
        {end.attempt > 1 && ` · attempt ${end.attempt}`}
      </div>
    </>
  );
}

function Changed({ change }: { change: Change }) {
  return (
    <>
      <Link to="/quotas" search={{ pool: change.pool, node: change.node }}>
        {lastPart(change.node)}
      </Link>
      : {describeChange(change.before, change.after).join(", ")}
      <div className="small faint">
        {change.actor ?? "Tidegate"} · {change.reason}
      </div>
    </>
  );
}

function JobLink({ of }: { of: Loss }) {
  return (
    <>
      <Link to="/jobs/$jobId" params={{ jobId: of.id }}>
        {of.name}
      </Link>
      <div className="small faint">
        {lastPart(of.team)} · {of.user}
      </div>
    </>
  );
}

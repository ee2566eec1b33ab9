import { Link } from "@tanstack/react-router";

import type { Decision, NamedJob } from "../api/types";
import { lastPart } from "../jobs/words";
import { Time } from "../ui/Time";
import { DEVICE_HEADS, formatDuration, formatGpus, type Device } from "../ui/units";
import { kindTone, kindWords, rightWords } from "./words";
import "./decisions.css";

/** Decisions with their reasons: the sentence, the use of that moment, and who had to go. */
export function DecisionList({
  decisions,
  shows,
}: {
  decisions: readonly Decision[];
  /** What tells them apart: the jobs of one cycle, or the cycles of one job. */
  shows: "jobs" | "cycles";
}) {
  return (
    <ol className="decisions">
      {decisions.map((each, i) => (
        <li key={`${each.cycle} ${each.job.id ?? ""} ${i}`}>
          <div className="spread">
            <span>
              {shows === "jobs" ? (
                <b>
                  <JobName job={each.job} />
                </b>
              ) : (
                <Time at={each.decided_at} show="exact" />
              )}{" "}
              <span className={`pill ${kindTone(each.decision)}`}>{kindWords(each.decision, each.device)}</span>
            </span>
            {shows === "jobs" && each.job.team !== null && <span className="faint small">{each.job.team}</span>}
          </div>
          <p>{each.sentence}</p>
          {each.standings.length > 0 && (
            <p className="small dim">
              Use then:{" "}
              {each.standings
                .map(
                  (one) =>
                    `${lastPart(one.node)} ${formatGpus(one.in_use_mgpu)} of ${formatGpus(one.guaranteed_mgpu)} guaranteed`,
                )
                .join(" · ")}
            </p>
          )}
          {each.beneficiary?.id != null && (
            <p className="small dim">
              For <JobName job={each.beneficiary} />
            </p>
          )}
          {each.victims.length > 0 && <Victims victims={each.victims} device={each.device} />}
        </li>
      ))}
    </ol>
  );
}

export function JobName({ job }: { job: NamedJob }) {
  if (job.id === null) {
    return <span className="dim">{job.team ? `a job of ${job.team}` : "a job that you may not see"}</span>;
  }
  return (
    <Link to="/jobs/$jobId" params={{ jobId: job.id }}>
      {job.name}
    </Link>
  );
}

function Victims({ victims, device }: { victims: Decision["victims"]; device: Device }) {
  return (
    <table aria-label="Jobs that had to go">
      <thead>
        <tr>
          <th scope="col">Had to go</th>
          <th scope="col" className="n">
            {DEVICE_HEADS[device]}
          </th>
          <th scope="col">Because</th>
          <th scope="col" className="n hide">
            Not saved
          </th>
          <th scope="col" className="n hide">
            Grace
          </th>
        </tr>
      </thead>
      <tbody>
        {victims.map((victim, i) => (
          <tr key={victim.id ?? i}>
            <th scope="row">
              <JobName job={victim} />
            </th>
            <td className="n">{formatGpus(victim.mgpu)}</td>
            <td>{rightWords(victim.right, device)}</td>
            <td className="n hide">
              {victim.unsaved_s === null ? <span className="faint">–</span> : formatDuration(victim.unsaved_s)}
            </td>
            <td className="n hide">{formatDuration(victim.grace_s)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

import { Link } from "@tanstack/react-router";

import type { Decision, NamedJob } from "../api/types";
import { lastPart } from "../jobs/words";
import { DataTable } from "../ui/DataTable";
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
    <DataTable
      label="Jobs that had to go"
      rows={victims}
      rowKey={(victim, i) => victim.id ?? i}
      columns={[
        { header: "Preempted", isHeading: true, cell: (victim) => <JobName job={victim} /> },
        { header: DEVICE_HEADS[device], isRight: true, cell: (victim) => formatGpus(victim.mgpu) },
        { header: "Because", cell: (victim) => rightWords(victim.right, device) },
        {
          header: "Not saved",
          isRight: true,
          only: "wide",
          cell: (victim) =>
            victim.unsaved_s === null ? <span className="faint">–</span> : formatDuration(victim.unsaved_s),
        },
        {
          header: "Grace",
          isRight: true,
          only: "wide",
          cell: (victim) => formatDuration(victim.grace_s),
        },
      ]}
    />
  );
}

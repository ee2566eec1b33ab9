import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";

import type { Explanation } from "../api/types";
import { Card } from "../ui/Card";
import { DataTable } from "../ui/DataTable";
import { useNowMs } from "../ui/now";
import { Countdown, Time } from "../ui/Time";
import { DEVICE_HEADS, deviceTime, formatDuration, formatExact, formatGpuHours, formatGpus, formatShare, type Device } from "../ui/units";
import { LookAhead } from "./LookAhead";
import { aroundTimeLeft, codeWords, HANDLING_WORDS, hasFuture, lastPart, methodWords, reclaimDeadline, WAITS_FOR_JOBS, withoutEstimate } from "./words";
import "./why.css";

/** Times, which the sentence tells in words. */
const IN_SENTENCE = new Set(["grace_left_s", "overdue_s", "given_up_in_s"]);

/** "Why is it waiting?": the sentence first, then the numbers, then who gives back and when. */
export function WhyCard({
  explanation,
  device,
  title: asked = "Why is it waiting?",
  jobId,
  help,
}: {
  explanation: Explanation;
  /** What the job asks for, and what all its numbers count. */
  device: Device;
  title?: string;
  /** Of a job that waits: its start can be looked ahead for. */
  jobId?: string | undefined;
  /** What the reader can do about it. */
  help?: ReactNode;
}) {
  // What can never start waits for nothing: no line, no time.
  const isHopeless = explanation.code === "never_fits";
  const title = isHopeless ? "Why can it never start?" : asked;
  const deadline = reclaimDeadline(explanation);
  const [before, after] = aroundTimeLeft(explanation);
  const numbers = Object.entries(explanation.numbers).filter(([name]) => !IN_SENTENCE.has(name));
  return (
    <Card label={title} tone="note">
      <h2>{title}</h2>
      <p className="sentence">
        {deadline === null || after === undefined ? (
          explanation.sentence
        ) : (
          <>
            {before}
            <Countdown until={deadline} />
            {after}
          </>
        )}
      </p>
      <dl className="evidence">
        <div>
          <dt>Cause</dt>
          <dd>
            {codeWords(explanation.code, device)}{" "}
            <Link
              to="/guide/$document"
              params={{ document: "reference-reason-codes" }}
              hash={explanation.code}
              className="small"
            >
              What helps
            </Link>
          </dd>
        </div>
        {numbers.map(([name, value]) => (
          <div key={name}>
            <dt>{numberLabel(name, device)}</dt>
            <dd>{numberText(name, value)}</dd>
          </div>
        ))}
        {explanation.node && (
          <div>
            <dt>{explanation.code === "behind_credits" ? "Comes first" : "Decided at"}</dt>
            <dd title={explanation.node}>{lastPart(explanation.node)}</dd>
          </div>
        )}
        {!isHopeless && !WAITS_FOR_JOBS.has(explanation.code) && (
          <div>
            <dt>Jobs ahead</dt>
            <dd>{explanation.jobs_ahead === 0 ? "none" : explanation.jobs_ahead}</dd>
          </div>
        )}
      </dl>
      {explanation.victims.length > 0 && <GivingBack explanation={explanation} device={device} />}
      {!isHopeless && (
        <>
          <h2 className="gap">When will it start?</h2>
          <WhenItStarts explanation={explanation} jobId={jobId} />
        </>
      )}
      {help}
      <p className="small faint decided">
        Decided <Time at={explanation.as_of} />
      </p>
    </Card>
  );
}

function GivingBack({ explanation, device }: { explanation: Explanation; device: Device }) {
  const total = explanation.victims.reduce((sum, victim) => sum + victim.mgpu, 0);
  const atRisk = explanation.victims.reduce((sum, victim) => sum + (victim.at_risk_mgpu_s ?? 0), 0);
  const isRiskKnown = explanation.victims.every((victim) => victim.at_risk_mgpu_s !== null);
  // Jobs give back whole: that can be more than this job still waits for.
  const awaited = explanation.numbers["coming_back_mgpu"] ?? total;
  return (
    <>
      <h2 className="gap">Jobs being preempted</h2>
      <DataTable
        rows={explanation.victims}
        rowKey={(victim, i) => victim.job ?? i}
        totals={[{ total, atRisk: isRiskKnown ? atRisk : null }]}
        columns={[
          {
            header: "Job",
            isHeading: true,
            cell: (victim) =>
              victim.job === null ? (
                <span className="dim">a job that you may not see</span>
              ) : (
                <Link to="/jobs/$jobId" params={{ jobId: victim.job }}>
                  {victim.name}
                </Link>
              ),
            total: () => (
              <>
                Total held by these jobs
                {awaited < total && <div className="small faint">this job needs {formatGpus(awaited)}</div>}
              </>
            ),
          },
          {
            header: "Team",
            only: "wide",
            title: (victim) => victim.team ?? undefined,
            cell: (victim) => (victim.team === null ? <span className="faint">–</span> : lastPart(victim.team)),
          },
          {
            header: DEVICE_HEADS[device],
            isRight: true,
            cell: (victim) => formatGpus(victim.mgpu),
            total: (sums) => formatGpus(sums.total),
          },
          {
            header: "At risk",
            isRight: true,
            only: "wide",
            cell: (victim) =>
              victim.at_risk_mgpu_s === null ? (
                <span className="faint">–</span>
              ) : (
                `${formatGpuHours(victim.at_risk_mgpu_s)} ${deviceTime(device, "h")}`
              ),
            total: (sums) => sums.atRisk !== null && `${formatGpuHours(sums.atRisk)} ${deviceTime(device, "h")}`,
          },
          {
            header: "At its notice",
            only: "wide",
            cell: (victim) =>
              victim.notice_handling === null ? (
                <span className="faint">not known</span>
              ) : (
                HANDLING_WORDS[victim.notice_handling]
              ),
          },
          {
            header: "Left",
            isRight: true,
            cell: (victim) => (victim.grace_until ? <Countdown until={victim.grace_until} /> : "–"),
          },
        ]}
      />
      <p className="small faint">At risk: the work since the last checkpoint, or since the start.</p>
    </>
  );
}

/** What the arbiter foresees of the start; where it foresees nothing, what a look ahead finds. */
function WhenItStarts({ explanation, jobId }: { explanation: Explanation; jobId: string | undefined }) {
  const estimate = explanation.estimated_start;
  const isForeseen = estimate !== null && (estimate.earliest !== null || estimate.latest !== null);
  const canLookAhead = jobId !== undefined && hasFuture(explanation.code);
  const unknown = isForeseen ? null : <p>{withoutEstimate(explanation, canLookAhead)}</p>;
  return (
    <>
      {isForeseen && <EstimatedStart estimate={estimate} />}
      {jobId === undefined ? unknown : <LookAhead jobId={jobId} code={explanation.code} unknown={unknown} />}
    </>
  );
}

/** A range with its method, never a bare moment. */
function EstimatedStart({ estimate }: { estimate: NonNullable<Explanation["estimated_start"]> }) {
  const now = useNowMs();
  const { earliest, latest, method } = estimate;
  const isPast = latest !== null && new Date(latest).getTime() < now;
  return (
    <p>
      {earliest !== null && latest !== null ? (
        <>
          Between <Time at={earliest} show="clock" /> and <Time at={latest} show="clock" />
        </>
      ) : earliest !== null ? (
        <>
          Not before <Time at={earliest} show="clock" />
        </>
      ) : (
        latest !== null && (
          <>
            By <Time at={latest} show="clock" /> at the latest
          </>
        )
      )}
      {latest !== null && !isPast && (
        <>
          {" "}
          (<Time at={latest} />
          {earliest !== null && " at the latest"})
        </>
      )}
      {isPast && <span className="dim"> · that has passed; the next decision gives a new time</span>}
      <span className="faint"> · {methodWords(method)}</span>
    </p>
  );
}

const NUMBER_LABELS: Record<string, string> = {
  need_mgpu: "Needs",
  free_mgpu: "Free now",
  largest_free_on_a_cluster_mgpu: "Free on one cluster",
  available_by_quota_mgpu: "Left by quota",
  guaranteed_mgpu: "Guarantee of the team",
  within_guarantee_mgpu: "Inside the guarantee",
  earmarked_mgpu: "Already available",
  coming_back_mgpu: "Being reclaimed",
  limit_mgpu: "Limit",
  held_mgpu: "In use under the limit",
  leaving_mgpu: "Being stopped",
  unlimited_jobs: "Jobs without a time limit",
  unlimited_mgpu: "Held by these jobs",
  capacity_mgpu: "Working in the pool",
  could_ever_mgpu: "Most possible",
  nodes_needed: "Nodes needed",
  nodes_fitting: "Nodes that fit",
  nodes_in_one_domain: "Fit in the best domain",
  nodes_with_features: "Nodes with these features",
  in_use_mgpu: "Team in use",
  protected_mgpu: "Protected",
  being_freed_mgpu: "Being freed for its jobs",
  reserved_mgpu: "Reserved for larger jobs",
  taken_mgpu: "Given to other teams",
  credits_tenths: "Credits, in days of guarantee",
  ahead_credits_tenths: "Credits of the team ahead",
  floor_tenths: "At the floor of",
  weight_permille: "Share of the weight",
  used_permille: "Share of recent use",
  use_factor_percent: "Use of its class counts at (%)",
  user_cap_mgpu: "Cap of the user",
  user_in_use_mgpu: "User in use",
  class_cap_mgpu: "Cap of the class",
  class_in_use_mgpu: "Class in use",
  victims: "Jobs being preempted",
  victims_of_team: "Of them in your team",
  jobs_waited_for: "Jobs waited for",
  tasks_at_once_max: "Tasks at once",
  tasks_active: "Tasks active",
  tasks_first: "Tasks to start next",
  begin_at: "Begins",
  room_at: "Budget has room",
};

function numberLabel(name: string, device: Device): string {
  if (name === "mgpu_per_node") return `${DEVICE_HEADS[device]} per node`;
  const known = NUMBER_LABELS[name];
  if (known !== undefined) return known;
  const words = name.replace(/_(?:mgpu|s)$/, "").replaceAll("_", " ");
  return words.charAt(0).toUpperCase() + words.slice(1);
}

function numberText(name: string, value: number): string {
  if (/(?:^|_)mgpu(?:$|_)/.test(name)) return formatGpus(value);
  if (name.endsWith("_permille")) return formatShare(value, 1000);
  if (name.endsWith("_tenths")) return `${String(value / 10)} d`;
  if (name.endsWith("_at")) return formatExact(new Date(1000 * value));
  return name.endsWith("_s") ? formatDuration(value) : String(value);
}

import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";

import { someJobsQuery } from "../api/queries";
import type { Explanation, Job } from "../api/types";
import { Beneficiary } from "../jobs/Beneficiary";
import { codeWords, HANDLING_WORDS, methodWords } from "../jobs/words";
import { may } from "../session/access";
import { useSession } from "../session/useSession";
import { Card } from "../ui/Card";
import { CliLine } from "../ui/CliLine";
import { DataTable } from "../ui/DataTable";
import { useNowMs } from "../ui/now";
import { Empty, Lines, QueryView } from "../ui/states";
import { Countdown, Time } from "../ui/Time";
import { countUnder, DEVICE_HEADS, deviceTime, formatCount, formatDuration, formatGpuHours, headOf } from "../ui/units";
import { OpenLog, STOP_ANOTHER_HINT, StopAnother } from "./NoticeLinks";

const SHOWN = 5;

/** Jobs of the teams that the reader manages: those on notice, and those that wait the longest. */
export function TeamJobs({ scope }: { scope: string | undefined }) {
  const below = scope ? { team: scope } : {};
  const stopping = useQuery(someJobsQuery({ state: ["preempting"], ...below }, SHOWN));
  const waiting = useQuery(someJobsQuery({ state: ["queued"], sort: "submitted_at", ...below }, SHOWN));
  const notices = stopping.data?.items ?? [];
  return (
    <>
      {notices.length > 0 && (
        <Card label="Preemption notices" tone="warn">
          <div className="spread">
            <h2>Preemption notices</h2>
            <Shown jobs={notices} hasMore={stopping.data?.next != null} />
          </div>
          <NoticeTable jobs={notices} />
          <div className="inline more">
            {notices.map((job) => (
              <OpenLog key={job.id} job={job} isOnly={notices.length === 1} />
            ))}
            <StopAnother scope={teamOf(notices) ?? scope} pool={only(notices.map(({ pool }) => pool))} />
            <span className="small faint">{STOP_ANOTHER_HINT}</span>
          </div>
        </Card>
      )}
      <Card label="Waiting jobs">
        <div className="spread">
          <h2>Waiting jobs</h2>
          <Shown jobs={waiting.data?.items ?? []} hasMore={waiting.data?.next != null} />
        </div>
        <QueryView query={waiting} loading={<Lines count={3} label="Loading waiting jobs" />}>
          {({ items }) =>
            items.length === 0 ? <Empty>No job of your teams is waiting.</Empty> : <WaitingTable jobs={items} />
          }
        </QueryView>
        <div className="spread more">
          <Link to="/jobs" search={{ state: "queued" }}>
            All waiting jobs
          </Link>
          <CliLine command={`tidegate ls --state queued${scope ? ` --team ${scope}` : ""}`} />
        </div>
      </Card>
    </>
  );
}

/** How many jobs a table has, with their size where it has all of them. */
function Shown({ jobs, hasMore }: { jobs: readonly Job[]; hasMore: boolean }) {
  if (jobs.length === 0) return null;
  const head = headOf(jobs);
  const mgpu = jobs.filter(({ device }) => device === head).reduce((sum, job) => sum + job.mgpu, 0);
  return (
    <span className="small faint">
      {hasMore
        ? `the first ${formatCount(jobs.length)}`
        : `${formatCount(jobs.length)} ${jobs.length === 1 ? "job" : "jobs"} · ${countUnder(head, mgpu, head)} ${DEVICE_HEADS[head]}`}
    </span>
  );
}

/** The one value of a list; nothing where it has several. */
function only(values: readonly string[]): string | undefined {
  const [value, ...others] = new Set(values);
  return others.length === 0 ? value : undefined;
}

function teamOf(jobs: readonly Job[]): string | undefined {
  return only(jobs.map(({ team }) => team));
}

function NoticeTable({ jobs }: { jobs: readonly Job[] }) {
  const head = headOf(jobs);
  return (
    <DataTable
      label="Preemption notices"
      rows={jobs}
      rowKey={(job) => job.id}
      columns={[
        {
          header: "Job",
          isHeading: true,
          cell: (job) => (
            <JobName job={job}>
              {job.user}
              {(job.current_attempt?.borrowed_mgpu ?? 0) > 0 && " · borrowed"}
              {job.is_requeueable ? ` · then attempt ${String(job.attempt + 1)}` : " · then it ends"}
            </JobName>
          ),
        },
        { header: DEVICE_HEADS[head], isRight: true, cell: (job) => countUnder(head, job.mgpu, job.device) },
        {
          header: "Reclaimed for",
          only: "wide",
          cell: ({ current_attempt: attempt, device }) =>
            attempt?.made_room_for ? <Beneficiary job={attempt.made_room_for} device={device} /> : <None />,
        },
        {
          header: "On notice",
          hint: "Why the job is expected to save its work.",
          only: "wide",
          cell: ({ notice_handling: handling }) =>
            handling === null ? <span className="dim">not known</span> : HANDLING_WORDS[handling],
        },
        {
          header: "Last checkpoint",
          isRight: true,
          only: "wide",
          cell: ({ current_attempt: attempt }) =>
            attempt?.checkpoint_at != null ? <Time at={attempt.checkpoint_at} /> : <span className="dim">none reported</span>,
        },
        {
          header: "Work at risk",
          hint: "The work since the last checkpoint, or since the start.",
          isRight: true,
          only: "wide",
          cell: (job) => <AtRisk job={job} />,
        },
        {
          header: "Stops in",
          isRight: true,
          cell: ({ current_attempt: attempt }) =>
            attempt?.grace_until != null ? <GraceLeft from={attempt.notice_at} until={attempt.grace_until} /> : <None />,
        },
      ]}
    />
  );
}

/** The time until the stop as a clock, and as a bar of its whole grace. */
function GraceLeft({ from, until }: { from: string | null; until: string }) {
  const now = useNowMs();
  const end = Date.parse(until);
  const share = from === null ? 0 : Math.min(1, Math.max(0, (end - now) / Math.max(1, end - Date.parse(from))));
  return (
    <>
      <Countdown until={until} />
      {from !== null && (
        <span className="grace-bar" aria-hidden="true">
          <i style={{ width: `${(100 * share).toFixed(1)}%` }} />
        </span>
      )}
    </>
  );
}

/** What a stop at this moment would lose. */
function AtRisk({ job: { current_attempt: attempt, mgpu, device } }: { job: Job }) {
  const now = useNowMs();
  const since = attempt?.checkpoint_at ?? attempt?.started_at;
  if (since == null) return <None />;
  const lostS = Math.max(0, Math.floor((now - Date.parse(since)) / 1000));
  return (
    <>
      {formatGpuHours(mgpu * lostS)} {deviceTime(device, "h")}
    </>
  );
}

function WaitingTable({ jobs }: { jobs: readonly Job[] }) {
  const head = headOf(jobs);
  const now = useNowMs();
  return (
    <DataTable
      label="Waiting jobs, the oldest first"
      rows={jobs}
      rowKey={(job) => job.id}
      columns={[
        {
          header: "Job",
          isHeading: true,
          cell: (job) => (
            <JobName job={job}>
              {job.user} · {job.priority_class}
            </JobName>
          ),
        },
        { header: DEVICE_HEADS[head], isRight: true, cell: (job) => countUnder(head, job.mgpu, job.device) },
        { header: "Why", only: "wide", cell: (job) => <Why job={job} /> },
        {
          header: "Waited",
          isRight: true,
          only: "wide",
          cell: (job) => formatDuration(Math.max(0, Math.floor((now - Date.parse(job.submitted_at)) / 1000))),
        },
        { header: "Expected start", isRight: true, cell: (job) => <Expected estimate={job.explanation?.estimated_start ?? null} /> },
      ]}
    />
  );
}

function Why({ job: { explanation, device, team } }: { job: Job }) {
  const session = useSession();
  if (explanation === null) return <span className="dim">not decided yet</span>;
  const ahead = explanation.jobs_ahead;
  return (
    <>
      {explanation.sentence}
      <div className="small faint">
        {codeWords(explanation.code, device)}
        {ahead > 0 && ` · ${formatCount(ahead)} ${ahead === 1 ? "job" : "jobs"} ahead`}
        {explanation.code === "user_cap_reached" && may(session, "manage_quota", team) && (
          <>
            {" · "}
            <Link to="/budgets" search={{ scope: team }}>
              Raise the cap
            </Link>
          </>
        )}
      </div>
    </>
  );
}

/** A range with its method; "unknown" rather than a guess. */
function Expected({ estimate }: { estimate: Explanation["estimated_start"] }) {
  if (estimate === null || (estimate.earliest === null && estimate.latest === null)) return <span className="dim">unknown</span>;
  const { earliest, latest, method } = estimate;
  return (
    <>
      {earliest !== null && (
        <>
          {latest === null && "from "}
          <Time at={earliest} show="clock" />
        </>
      )}
      {latest !== null && (
        <>
          {earliest === null ? "by " : " … "}
          <Time at={latest} show="clock" />
        </>
      )}
      <div className="small faint hide">{methodWords(method)}</div>
    </>
  );
}

function JobName({ job, children }: { job: Job; children: React.ReactNode }) {
  return (
    <>
      <Link to="/jobs/$jobId" params={{ jobId: job.id }}>
        {job.name}
      </Link>
      <div className="small faint">{children}</div>
    </>
  );
}

function None() {
  return <span className="faint">–</span>;
}

import { Button, Tabs } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { useState } from "react";

import { ApiError } from "../api/client";
import { attemptCostsQuery, jobAttemptsQuery, jobHistoryQuery, jobQuery } from "../api/queries";
import type { JobDetail } from "../api/types";
import { BudgetsAfter } from "../budgets/BudgetsAfter";
import { JobDecisions } from "../decisions/JobDecisions";
import { JobMetrics } from "../metrics/JobMetrics";
import { costWords } from "../prices/costWords";
import { memoryText } from "../submit/draft";
import { Card } from "../ui/Card";
import { CliLine } from "../ui/CliLine";
import { DataTable } from "../ui/DataTable";
import { Fact, Facts } from "../ui/Facts";
import { NoPage, Page, PageLoading } from "../ui/Page";
import { QueryView } from "../ui/states";
import { Countdown, Time } from "../ui/Time";
import { DEVICE_HEADS, DEVICE_WORDS, deviceTime, formatCount, formatDuration, formatGpuCount, formatGpuHours, formatGpus, formatMoney } from "../ui/units";
import { JOB_TABS } from "./search";
import { describeDetail } from "./history";
import { ArrayCard } from "./ArrayCard";
import { AttemptComparison } from "./AttemptComparison";
import { AttemptGantt } from "./AttemptGantt";
import { AttemptTable } from "./AttemptTable";
import { Beneficiary } from "./Beneficiary";
import { CheckpointsCard } from "./CheckpointsCard";
import { JobActions } from "./JobActions";
import { JobFiles } from "./JobFiles";
import { JobLog } from "./JobLog";
import { OrderCard } from "./OrderCard";
import { Outcome } from "./Outcome";
import { Reasons } from "./Reasons";
import { SbatchNotes } from "./SbatchNotes";
import { SoonerCard } from "./SoonerCard";
import { BorrowedPill, NativePill, StatePill } from "./StatePill";
import {
  batchText,
  CONDITION_WORDS,
  gpusOf,
  isEnded,
  LEVEL_WORDS,
  methodWords,
  nodeSpan,
  poolsText,
  shortId,
  stateWord,
  usageClass,
} from "./words";
import { AskForMore } from "./AskForMore";
import { WhyCard } from "./WhyCard";

export function JobPage() {
  const { jobId } = useParams({ from: "/shell/jobs/$jobId" });
  const job = useQuery(jobQuery(jobId));
  const isGone = job.error instanceof ApiError && job.error.status === 404;
  if (isGone) {
    return (
      <NoPage title="Job" heading="No such job">
        <p>The job does not exist, or it belongs to a team that you cannot see.</p>
        <Link to="/jobs">All jobs</Link>
      </NoPage>
    );
  }
  return (
    <QueryView
      query={job}
      loading={<PageLoading title="Job" label="Loading the job" lines={10} />}
    >
      {(data) => <JobView job={data} />}
    </QueryView>
  );
}

function JobView({ job }: { job: JobDetail }) {
  const shape =
    job.node_count > 1
      ? `${nodeSpan(job)} nodes × ${formatGpus(job.mgpu_per_node)} ${poolsText(job)}`
      : `${formatGpus(job.mgpu)} ${poolsText(job)}`;
  return (
    <Page
      title={job.name}
      heading={
        <>
          {job.name} <StatePill job={job} /> <BorrowedPill job={job} /> <NativePill job={job} />
        </>
      }
      lead={
        <>
          job <span title={job.id}>{shortId(job.id)}</span> · {shape} · {job.priority_class} · submitted{" "}
          <Time at={job.submitted_at} /> by {job.user} in{" "}
          <Link to="/jobs" search={{ scope: job.team }}>
            {job.team}
          </Link>{" "}
          · {clusterOf(job) ?? "any cluster"} ·{" "}
          <Link to="/notices" search={{ object: `job/${job.id}` }}>
            Notices
          </Link>
        </>
      }
    >
      <StateAnnouncer job={job} />
      <div className="two">
        <div className="rows">
          <PreemptionNotice job={job} />
          <CancelNotice job={job} />
          {job.explanation && (job.state === "queued" || job.state === "held") && (
            <WhyCard
              device={job.device}
              explanation={job.explanation}
              title={job.state === "held" ? "Why is it held?" : "Why is it waiting?"}
              jobId={job.state === "queued" ? job.id : undefined}
              help={<AskForMore job={job} code={job.explanation.code} />}
            />
          )}
          <SoonerCard job={job} />
          {job.state === "queued" && job.explanation === null && (
            <Card tone="note">
              <h2>Why is it waiting?</h2>
              <p className="sentence">
                It has just been queued. The next decision, a few seconds from now, says what it waits for.
              </p>
            </Card>
          )}
          {job.state === "starting" && job.current_attempt?.message && (
            <Card label="What the cluster says" tone="note">
              <h2>What {job.current_attempt.cluster} says</h2>
              <p className="sentence">{job.current_attempt.message}</p>
            </Card>
          )}
          <Outcome job={job} />
          <WaitsFor job={job} />
          <Details job={job} />
        </div>
        <div className="rows">
          {job.array !== null && <ArrayCard id={job.array.id} index={job.array.index} />}
          <CheckpointsCard job={job} />
          <PlanCard job={job} />
          <OrderCard job={job} />
          <JobActions job={job} />
          <CliLine command={job.state === "queued" ? `tidegate why ${job.id}` : `tidegate get ${job.id}`} />
        </div>
      </div>
    </Page>
  );
}

/** Where the latest attempt was placed, else the only cluster that the job allows; null for any. */
function clusterOf(job: JobDetail): string | null {
  return job.current_attempt?.cluster ?? job.cluster;
}

/** Says a change of state to those who listen rather than look. */
function StateAnnouncer({ job }: { job: JobDetail }) {
  const [first] = useState(job.state);
  return (
    <div className="visually-hidden" role="status" aria-live="polite">
      {job.state === first ? "" : `${job.name} is now ${stateWord(job.state)}`}
    </div>
  );
}

/** The job must give its GPUs back: to whom and until when. */
function PreemptionNotice({ job }: { job: JobDetail }) {
  const attempt = job.current_attempt;
  if (job.state !== "preempting" || attempt === null) return null;
  return (
    <Card label="Giving back" tone="warn">
      <h2>It is giving its {DEVICE_WORDS[job.device]} back</h2>
      <p className="sentence">
        {formatGpuCount(attempt.guaranteed_mgpu + attempt.borrowed_mgpu, job.device)} were asked back
        {attempt.made_room_for && (
          <>
            {" "}
            for <Beneficiary job={attempt.made_room_for} device={job.device} />
          </>
        )}
        {attempt.notice_at && (
          <>
            {" "}
            <Time at={attempt.notice_at} />
          </>
        )}
        .{" "}
        {attempt.grace_until && (
          <>
            It is stopped in <Countdown until={attempt.grace_until} /> unless it ends by itself.
          </>
        )}
      </p>
      <p>
        {job.is_requeueable
          ? `Then it is requeued as attempt ${job.attempt + 1}${job.checkpoint_path ? `, with its checkpoint at ${job.checkpoint_path}` : ""}.`
          : "It is not requeued: it ends as failed, reason preempted."}
      </p>
    </Card>
  );
}

/** It has been told to end, and has not ended yet. */
function CancelNotice({ job }: { job: JobDetail }) {
  const attempt = job.current_attempt;
  if (attempt?.state !== "stopping" || job.state === "preempting" || isEnded(job.state)) return null;
  return (
    <Card label="Being stopped" tone="warn">
      <h2>It is being stopped</h2>
      <p className="sentence">
        It was told to end
        {attempt.notice_at && (
          <>
            {" "}
            <Time at={attempt.notice_at} />
          </>
        )}
        .{" "}
        {attempt.grace_until && (
          <>
            It is stopped by force in <Countdown until={attempt.grace_until} /> unless it ends by itself.
          </>
        )}
      </p>
    </Card>
  );
}

/** The jobs that this one waits or waited for. */
function WaitsFor({ job }: { job: JobDetail }) {
  if (job.depends_on.length === 0) return null;
  return (
    <Card label="Starts after">
      <h2>Starts after</h2>
      <DataTable
        rows={job.depends_on}
        rowKey={(each, i) => each.job ?? each.array ?? i}
        columns={[
          {
            header: "Job",
            isHeading: true,
            cell: (each) =>
              each.array !== null ? (
                <Link to="/jobs" search={{ array: each.array }}>
                  array {each.name}
                </Link>
              ) : each.job === null ? (
                <span className="dim">a job that you may not see</span>
              ) : (
                <Link to="/jobs/$jobId" params={{ jobId: each.job }}>
                  {each.name}
                </Link>
              ),
          },
          { header: "Condition", cell: (each) => CONDITION_WORDS[each.condition] },
          {
            header: "It is",
            only: "wide",
            cell: (each) => (each.state === null ? <span className="faint">–</span> : stateWord(each.state)),
          },
          {
            header: "Met",
            cell: (each) =>
              each.is_met === null ? (isEnded(job.state) ? "not decided" : "not yet") : each.is_met ? "yes" : "never",
          },
        ]}
      />
    </Card>
  );
}

/** The most that a waiting job costs; nothing for readers who may not see it. */
function PlannedCost({ plan, before }: { plan: NonNullable<JobDetail["plan"]>; before: string }) {
  const { cost_nano: nano, unbilled_nano: unbilled, price_mode: mode, currency } = plan;
  if (nano === null || currency === null) return null;
  return (
    <>
      {before}
      {costWords(nano, unbilled, mode, currency)}
    </>
  );
}

function PlanCard({ job }: { job: JobDetail }) {
  const used = usageClass(job);
  const { guaranteed_mgpu_s: guaranteed, borrowed_mgpu_s: borrowed } = job.usage;
  return (
    <Card label="How it runs">
      <h2>How it runs</h2>
      <Facts>
          <Fact name="Runs as">{used ?? <span className="faint">not running</span>}</Fact>
          {job.node_count_min < job.node_count && <Fact name={DEVICE_HEADS[job.device]}>{gpusOf(job)}</Fact>}
          {job.begin_at && (
            <Fact name="Begins">
              <Time at={job.begin_at} show="both" />
            </Fact>
          )}
          {job.is_singleton && <Fact name="Starts">after your other jobs of this name</Fact>}
          <Fact name="Can be preempted">
            {job.is_preemptible ? "yes" : used === "guaranteed" ? "not inside the guarantee" : "while borrowed"}
          </Fact>
          <Fact name="After preemption">{job.is_requeueable ? "requeued" : "ends as failed"}</Fact>
          {job.requeue_on.length > 0 && (
            <Fact name="Requeued also after">
              {job.requeue_on.map((cause) => (cause === "time_limit" ? "its time limit" : `exit code ${cause}`)).join(", ")}
              <div className="small faint">at most {formatCount(job.requeue_max)} times</div>
            </Fact>
          )}
          {job.folder && <Fact name="Folder"><span className="mono">{job.folder}</span></Fact>}
          {job.output_file && (
            <Fact name="Output file">
              <span className="mono">{job.output_file}</span>
              {job.appends_output && <div className="small faint">added to</div>}
            </Fact>
          )}
          {job.error_file && <Fact name="Error file"><span className="mono">{job.error_file}</span></Fact>}
          <Fact name="Time limit">{job.time_limit_s === null ? "none" : formatDuration(job.time_limit_s)}</Fact>
          {job.time_limit_s !== null && (
            <Fact name="At most">
              {formatGpuHours(job.mgpu * job.time_limit_s)} {deviceTime(job.device, "h")}
              {job.plan !== null && <PlannedCost plan={job.plan} before=" · " />}
            </Fact>
          )}
          {job.time_limit_s === null && job.plan?.currency != null && (
            <Fact name="Cost per hour">
              <PlannedCost plan={job.plan} before="at most " />
            </Fact>
          )}
          {job.plan !== null && <BudgetsAfter budgets={job.plan.budgets} hasTimeLimit={job.time_limit_s !== null} />}
          <Fact name="Used so far">
            {formatGpuHours(guaranteed + borrowed)} {deviceTime(job.device, "h")}
            {borrowed > 0 && <div className="small faint">{formatGpuHours(borrowed)} of it borrowed</div>}
          </Fact>
          {job.cost && <Fact name="Cost so far">{formatMoney(job.cost.cost_nano, job.cost.currency)}</Fact>}
          {job.started_at && (
            <Fact name="Started">
              <Time at={job.started_at} show="both" />
            </Fact>
          )}
          {job.state === "running" || job.state === "preempting" ? (
            <Fact name="Last checkpoint">
              {job.current_attempt?.checkpoint_at != null ? (
                <Time at={job.current_attempt.checkpoint_at} show="both" />
              ) : (
                <>
                  <span className="faint">none reported</span>
                  <div className="small faint">
                    Run <code>tidegate checkpoint</code> inside the job to report one.
                  </div>
                </>
              )}
            </Fact>
          ) : null}
          <Fact name="Attempt">{job.attempt === 0 ? "none yet" : job.attempt}</Fact>
          <Fact name="Cluster">{clusterOf(job) ?? "any"}</Fact>
          {job.required_topology && <Fact name="Together in">one {LEVEL_WORDS[job.required_topology]}</Fact>}
          {job.preferred_topology && (
            <Fact name="Together in">one {LEVEL_WORDS[job.preferred_topology]}, if there is room</Fact>
          )}
          {job.cpus_per_node !== null && <Fact name={`${job.device === "cpu" ? "Cores" : "CPUs"} on each node`}>{job.cpus_per_node}</Fact>}
          {job.memory_mib_per_node !== null && (
            <Fact name="Memory on each node">{memoryText(job.memory_mib_per_node)}</Fact>
          )}
          {job.features.length > 0 && <Fact name="Nodes with">{job.features.join(", ")}</Fact>}
          {job.image && (
            <Fact name="Image">
              <code>{job.image}</code>
            </Fact>
          )}
          {job.launch === "batch" && <Fact name="Script">{batchText(job)}</Fact>}
          {job.launch === "manifest" && <Fact name="Script">Kubernetes manifest</Fact>}
          {job.schedule && (
            <Fact name="Schedule">
              <Link to="/schedules/$scheduleId" params={{ scheduleId: job.schedule.id }}>
                {job.schedule.name}
              </Link>
            </Fact>
          )}
          <Fact name="Type">{job.type.replaceAll("_", " ")}</Fact>
          {job.checkpoint_path && (
            <Fact name="Checkpoint">
              <code>{job.checkpoint_path}</code>
            </Fact>
          )}
        </Facts>
    </Card>
  );
}

function Details({ job }: { job: JobDetail }) {
  const search = useSearch({ from: "/shell/jobs/$jobId" });
  const navigate = useNavigate({ from: "/jobs/$jobId" });
  const hasLog = job.attempt > 0 && job.can.includes("logs");
  const isNative = job.origin === "native";
  const hasFiles = hasLog && !isNative;
  const hasMetrics = job.attempt > 0 && !isNative;
  const hasContent = job.script !== null && !isNative;
  const tab = search.tab ?? (hasLog ? "log" : "timeline");
  return (
    <Card label="Details">
      <Tabs
        value={tab}
        keepMounted={false}
        onChange={(next) =>
          void navigate({
            search: (before) => ({ ...before, tab: JOB_TABS.find((each) => each === next) }),
            replace: true,
          })
        }
      >
        <Tabs.List mb={12}>
          {(hasLog || isNative) && <Tabs.Tab value="log">Log</Tabs.Tab>}
          {hasFiles && <Tabs.Tab value="files">Files</Tabs.Tab>}
          <Tabs.Tab value="timeline">Timeline</Tabs.Tab>
          <Tabs.Tab value="reasons">Reasons</Tabs.Tab>
          <Tabs.Tab value="decisions">Decisions</Tabs.Tab>
          {job.attempt > 0 && <Tabs.Tab value="attempts">Attempts</Tabs.Tab>}
          {hasMetrics && <Tabs.Tab value="metrics">Metrics</Tabs.Tab>}
          {hasContent && <Tabs.Tab value="script">Script</Tabs.Tab>}
        </Tabs.List>
        {hasLog && (
          <Tabs.Panel value="log">
            <JobLog job={job} />
          </Tabs.Panel>
        )}
        {isNative && (
          <Tabs.Panel value="log">
            <p className="dim">
              Not available: it was given to its cluster beside the portal. Its user finds the log where they had it
              written.
            </p>
          </Tabs.Panel>
        )}
        {hasFiles && (
          <Tabs.Panel value="files">
            <JobFiles job={job} />
          </Tabs.Panel>
        )}
        <Tabs.Panel value="timeline">
          <Timeline job={job} />
        </Tabs.Panel>
        <Tabs.Panel value="reasons">
          <Reasons job={job} />
        </Tabs.Panel>
        <Tabs.Panel value="decisions">
          <JobDecisions job={job} />
        </Tabs.Panel>
        {job.attempt > 0 && (
          <Tabs.Panel value="attempts">
            <JobAttempts job={job} />
          </Tabs.Panel>
        )}
        {hasMetrics && (
          <Tabs.Panel value="metrics">
            <JobMetrics job={job} />
          </Tabs.Panel>
        )}
        {hasContent && (
          <Tabs.Panel value="script">
            <Content job={job} />
          </Tabs.Panel>
        )}
      </Tabs>
    </Card>
  );
}

type EstimatedStart = NonNullable<NonNullable<JobDetail["explanation"]>["estimated_start"]>;

function Timeline({ job }: { job: JobDetail }) {
  const history = useQuery(jobHistoryQuery(job.id));
  const estimate = job.state === "queued" ? (job.explanation?.estimated_start ?? null) : null;
  return (
    <QueryView query={history}>
      {(events) => (
        <DataTable
          label="Timeline"
          isHeadHidden
          rows={[...events, ...(estimate?.latest ? [estimate] : [])]}
          rowKey={(_, i) => i}
          rowClass={(row) => ("event" in row ? undefined : "dim")}
          columns={[
            {
              header: "When",
              className: "mono nowrap",
              cell: (row) => ("event" in row ? <Time at={row.at} show="clock" /> : <Foreseen estimate={row} />),
            },
            {
              header: "What",
              isHeading: true,
              cell: (row) => ("event" in row ? row.event.replaceAll("_", " ") : "expected start"),
            },
            {
              header: "Detail",
              className: "dim",
              cell: (row) => ("event" in row ? describeDetail(row.detail, job.device) : methodWords(row.method)),
            },
          ]}
        />
      )}
    </QueryView>
  );
}

function Foreseen({ estimate }: { estimate: EstimatedStart }) {
  return (
    <>
      {estimate.earliest && (
        <>
          <Time at={estimate.earliest} show="clock" />
          {" – "}
        </>
      )}
      {estimate.latest && <Time at={estimate.latest} show="clock" />}
    </>
  );
}

function JobAttempts({ job }: { job: JobDetail }) {
  const attempts = useQuery(jobAttemptsQuery(job.id));
  const costs = useQuery(attemptCostsQuery(job.id)).data;
  return (
    <QueryView query={attempts}>
      {(items) => (
        <>
          <AttemptGantt attempts={items} job={job} />
          <AttemptTable attempts={items} job={job} costs={costs} />
          {items.length > 1 && <AttemptComparison attempts={items} job={job} costs={costs} />}
        </>
      )}
    </QueryView>
  );
}

function Content({ job }: { job: JobDetail }) {
  const environment = Object.entries(job.environment ?? {});
  const [isWrapped, setWrapped] = useState(true);
  return (
    <div className="stack">
      <div className="inline end">
        <Button variant="default" size="xs" aria-pressed={isWrapped} onClick={() => setWrapped(!isWrapped)}>
          {isWrapped ? "Do not wrap lines" : "Wrap lines"}
        </Button>
      </div>
      <pre className="code" tabIndex={0} aria-label="Script" style={isWrapped ? undefined : { whiteSpace: "pre" }}>
        {job.script}
      </pre>
      {environment.length > 0 && (
        <>
          <h2>Environment</h2>
          <Facts isLeft>
              {environment.map(([name, value]) => (
                <Fact key={name} name={<code>{name}</code>}>
                  <code>{value}</code>
                </Fact>
              ))}
            </Facts>
        </>
      )}
      {job.notes.length > 0 && (
        <>
          <h2>
            {job.notes.some((note) => note.line > 0) ? "What was read from the #SBATCH lines" : "How the request was read"}
          </h2>
          <SbatchNotes notes={job.notes} />
        </>
      )}
    </div>
  );
}

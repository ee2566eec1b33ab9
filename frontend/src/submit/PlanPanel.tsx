import type { UseQueryResult } from "@tanstack/react-query";

import type { JobPlan, SchedulePlan } from "../api/types";
import { BudgetsAfter } from "../budgets/BudgetsAfter";
import { WholeNotes } from "../jobs/SbatchNotes";
import { WhyCard } from "../jobs/WhyCard";
import { gpuSpan, nodeSpan } from "../jobs/words";
import { costWords } from "../prices/costWords";
import { Card } from "../ui/Card";
import { Fact, Facts } from "../ui/Facts";
import { Lines } from "../ui/states";
import { Time } from "../ui/Time";
import { deviceTime, formatDuration, formatGpuCount, formatGpuHours, formatGpus, formatMoney } from "../ui/units";

/** The plan of a job; of a schedule, that of a run, and when the next ones are due. */
export type SubmissionPlan = JobPlan & { schedule?: SchedulePlan };

/** When a cost cap is reached. The grace after it is charged, too. */
function capWords(afterS: number, limitS: number | null): string {
  if (limitS !== null && afterS >= limitS) return ", not reached within its time limit at present prices";
  return `, reached after ${formatDuration(afterS)} at present prices; the grace after it is charged, too`;
}

/** What would happen if this were submitted now. A feasibility check, not a reservation. */
export function PlanPanel({ plan, hasRequest }: { plan: UseQueryResult<SubmissionPlan>; hasRequest: boolean }) {
  return (
    <div className="rows" aria-live="polite" aria-busy={plan.isFetching}>
      <Card label="What would happen">
        <h2>What would happen</h2>
        {!hasRequest ? (
          <p className="dim">Complete the form to see where and when the job would run.</p>
        ) : plan.error ? (
          <p className="bad-text">{plan.error.message}</p>
        ) : plan.data === undefined ? (
          <Lines count={5} label="Asking for a plan" />
        ) : (
          <Plan plan={plan.data} />
        )}
      </Card>
      {hasRequest && !plan.error && plan.data?.explanation && !plan.data.would_start_now && (
        <WhyCard explanation={plan.data.explanation} device={plan.data.job.device} title="Why would it wait?" />
      )}
    </div>
  );
}

function verdict(plan: JobPlan): { text: string; tone: string } {
  if (!plan.fits) return { text: "It can never start as asked.", tone: "bad-text" };
  const it = plan.job.tasks > 1 ? "Its first task" : "It";
  if (plan.would_start_now) {
    const on = plan.cluster ? ` on ${plan.cluster}` : "";
    const size = plan.job.node_count_min < plan.job.node_count ? ` with ${formatGpuCount(plan.mgpu, plan.job.device)}` : "";
    return { text: `${it} would start now${on}${size}.`, tone: "good-text" };
  }
  return { text: `${it} would wait.`, tone: "" };
}

function Plan({ plan }: { plan: SubmissionPlan }) {
  const { text, tone } = verdict(plan);
  const { job } = plan;
  const each = job.tasks > 1 ? " for each task" : "";
  // Of a range it waits for the least, and costs that then if it gets no more.
  const isLeast = !plan.would_start_now && plan.mgpu === job.mgpu_min && job.mgpu_min < job.mgpu;
  const runsAs =
    plan.borrowed_mgpu === 0
      ? "guaranteed"
      : plan.guaranteed_mgpu === 0
        ? "borrowed: may be reclaimed"
        : `${formatGpus(plan.guaranteed_mgpu)} guaranteed, ${formatGpus(plan.borrowed_mgpu)} borrowed`;
  return (
    <>
      <p className={`sentence ${tone}`}>{text}</p>
      <WholeNotes notes={plan.notes} />
      <Facts>
          <Fact name="Name">{job.name}</Fact>
          {plan.schedule && (
            <Fact name="Next runs">
              {plan.schedule.next_runs.map((moment) => (
                <div key={moment}>
                  <Time at={moment} show="exact" />
                </div>
              ))}
            </Fact>
          )}
          <Fact name="Asks for">
            {gpuSpan(job)} of {job.pools.join(", else ")}
            {job.node_count > 1 && ` on ${nodeSpan(job)} nodes`}
            {each}
          </Fact>
          {job.tasks > 1 && (
            <Fact name="Tasks">
              {job.tasks.toLocaleString("en")}, each for itself
              {job.tasks_at_once !== null && `; at most ${job.tasks_at_once.toLocaleString("en")} at once`}
            </Fact>
          )}
          <Fact name="Would run as">{plan.fits ? `${runsAs}${each}` : "–"}</Fact>
          <Fact name="Can be preempted">
            {job.is_preemptible ? "yes" : plan.borrowed_mgpu > 0 ? "while borrowed" : "no"}
          </Fact>
          <Fact name="Time limit">
            {job.time_limit_s === null ? "none" : formatDuration(job.time_limit_s)}
          </Fact>
          {job.time_limit_s !== null && (
            <Fact name="At most">{formatGpuHours(job.mgpu * job.time_limit_s)} {deviceTime(job.device, "h")}{each}</Fact>
          )}
          {plan.cost_per_hour_nano !== null && plan.currency !== null && (
            <Fact name="Cost per hour">
              {isLeast && "at least "}
              {costWords(plan.cost_per_hour_nano, plan.unbilled_per_hour_nano, plan.price_mode, plan.currency)}
              {each}
            </Fact>
          )}
          {job.cost_cap_nano !== null && plan.currency !== null && (
            <Fact name="Cost cap">
              {formatMoney(job.cost_cap_nano, plan.currency)}
              {plan.cost_cap_after_s !== null && capWords(plan.cost_cap_after_s, job.time_limit_s)}
              {each}
            </Fact>
          )}
          <BudgetsAfter budgets={plan.budgets} tasks={job.tasks} hasTimeLimit={job.time_limit_s !== null} />
        </Facts>
      <p className="small faint">A check of what fits, not a reservation.</p>
    </>
  );
}

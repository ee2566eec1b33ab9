import { useQuery } from "@tanstack/react-query";

import { useSession } from "../session/useSession";
import { Kpi } from "../ui/Kpi";
import { Time } from "../ui/Time";
import { capitalised, deviceTime, formatCost, formatCount, formatGpuHours, formatShare } from "../ui/units";
import { idleQuery, type GroupedReport, type Idle, type Narrowed } from "./groupQueries";
import { JobsLink, jobsOf } from "./JobsLink";
import { totalsOf, usedMgpuS } from "./totals";

/** When a report was made, its costs, and the time of each kind of devices. */
export function Figures({ report, asked }: { report: GroupedReport; asked: Narrowed }) {
  const session = useSession();
  const { start, end, pool, node } = asked;
  const idle = useQuery(idleQuery({ start, end, ...(pool ? { pool } : {}), share: "none" }));
  // Capacity is that of all teams.
  const pools = node === undefined ? (idle.data?.pools ?? []) : [];
  const behind = jobsOf(report, { keys: {} }, session, asked);
  const isOnly = report.by_currency.length === 1;
  return (
    <>
      <p className="sub" style={{ margin: 0 }}>
        As of <Time at={report.as_of} show="both" /> · days of {report.time_zone}
        {Date.parse(report.as_of) < Date.parse(report.end) && " · the period is still running"}
      </p>
      <div className="kpis" style={{ margin: 0 }}>
        {report.by_currency.map(({ currency, totals, organizations }) => (
          <Kpi
            key={currency}
            value={formatCost(totals.cost_nano, currency)}
            label={isOnly ? "cost" : `cost of ${organizations.length > 3 ? `${organizations.length} organizations` : organizations.join(", ")}`}
            context={
              <JobsLink behind={isOnly ? behind : null} isEmpty={totals.jobs === 0}>
                {jobCount(totals.jobs)}
              </JobsLink>
            }
          />
        ))}
        {totalsOf(report).map((each) => (
          <FiguresOf key={each.device} currency={report.currency} totals={each} pools={pools} />
        ))}
      </div>
    </>
  );
}

function jobCount(jobs: number): string {
  return `${formatCount(jobs)} ${jobs === 1 ? "job" : "jobs"}`;
}

/** How long such devices were held, and how long they were idle. */
function FiguresOf({
  currency,
  totals,
  pools,
}: {
  currency: string | null;
  totals: GroupedReport["totals_by_device"][number];
  pools: Idle["pools"];
}) {
  const capacity = pools.filter(({ device }) => device === totals.device);
  const cost = (nano: number | null) => (nano === null ? undefined : formatCost(nano, currency));
  const hours = capitalised(deviceTime(totals.device, "hours"));
  const sum = (value: "capacity_mgpu_s" | "idle_mgpu_s" | "spare_mgpu_s") =>
    capacity.reduce((total, pool) => total + pool[value], 0);
  const unused = sum("idle_mgpu_s") + sum("spare_mgpu_s");
  return (
    <>
      <Kpi
        value={formatGpuHours(totals.guaranteed_mgpu_s)}
        label={`${hours} guaranteed`}
        context={cost(totals.guaranteed_cost_nano)}
      />
      <Kpi
        tone={totals.borrowed_mgpu_s > 0 ? "borrow" : undefined}
        value={formatGpuHours(totals.borrowed_mgpu_s)}
        label={`${hours} borrowed`}
        context={cost(totals.borrowed_cost_nano)}
      />
      {totals.unpaid_mgpu_s > 0 && (
        <Kpi
          tone="borrow"
          value={formatGpuHours(totals.unpaid_mgpu_s)}
          label={`${hours} unpaid`}
          context={cost(totals.unpaid_cost_nano)}
        />
      )}
      {totals.fault_mgpu_s > 0 && (
        <Kpi value={formatGpuHours(totals.fault_mgpu_s)} label={`${hours} free`} context="faults" />
      )}
      {totals.commitment_mgpu_s > 0 && (
        <Kpi
          value={formatGpuHours(totals.commitment_mgpu_s)}
          label={`${hours} committed, used or not`}
          context={cost(totals.commitment_cost_nano)}
        />
      )}
      {totals.top_up_mgpu_s > 0 && (
        <Kpi
          value={formatGpuHours(totals.top_up_mgpu_s)}
          label={`${hours} of minimums and increments`}
          context={cost(totals.top_up_cost_nano)}
        />
      )}
      {totals.showback_nano !== null && totals.showback_nano > 0 && (
        <Kpi value={cost(totals.showback_nano)} label={`showback of ${totals.device.toUpperCase()}s`} context="not billed" />
      )}
      {capacity.length === 0 ? (
        <Kpi
          value={formatGpuHours(usedMgpuS(totals))}
          label={`${hours} in all`}
          context="all classes"
        />
      ) : (
        <Kpi
          value={formatGpuHours(unused)}
          label={`${hours} not used`}
          context={`${formatShare(unused, sum("capacity_mgpu_s"))} of the capacity`}
        />
      )}
    </>
  );
}

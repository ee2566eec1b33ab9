import { Button, SegmentedControl, Select, TextInput } from "@mantine/core";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";

import { chargebackQuery, poolsQuery, type ReportFilter } from "../api/queries";
import type { Chargeback } from "../api/types";
import { may } from "../session/access";
import { useSession } from "../session/useSession";
import { Card } from "../ui/Card";
import { CliLine } from "../ui/CliLine";
import { DataTable } from "../ui/DataTable";
import { Kpi } from "../ui/Kpi";
import { Page } from "../ui/Page";
import { useNowMs } from "../ui/now";
import { Empty, isSettled, Lines, QueryView } from "../ui/states";
import { Time } from "../ui/Time";
import {
  capitalised,
  deviceTime,
  formatCost,
  formatCount,
  formatGpuHours,
  formatShare,
  headOf,
  hoursUnder,
} from "../ui/units";
import { ChargebackTable, JobsLink, wholeOf, type BehindRow } from "./ChargebackTable";
import { Corrections } from "./Corrections";
import { DaysChart } from "./DaysChart";
import { Deliveries } from "./Deliveries";
import { Exports } from "./Exports";
import { GroupsCard } from "./GroupsCard";
import { MovesCard } from "./MovesCard";
import { NoCosts } from "./NoCosts";
import { asDays, PERIOD_LABELS, resolvePeriod, toIso, type PeriodName } from "./period";
import { byCurrency, totalsOf, usedMgpuS, type CurrencyReport } from "./totals";
import { WithheldCapacity } from "./WithheldCapacity";
import "../quotas/quota-bar.css";
import "./billing.css";

export function ChargebackPage() {
  const session = useSession();
  const search = useSearch({ from: "/shell/chargeback" });
  const now = useNowMs();
  const name = search.period ?? "month";
  const period = resolvePeriod(name, now, search);
  const group = search.group ?? "team";
  if (!may(session, "view_costs")) {
    return (
      <Page title="Chargeback" lead="Use and cost by team.">
        <NoCosts />
      </Page>
    );
  }
  const narrowed = {
    ...asDays(period ?? { start: "", end: "" }),
    ...(search.scope ? { node: search.scope } : {}),
    ...(search.pool ? { pool: search.pool } : {}),
  };
  return (
    <Page title={period ? `Chargeback · ${period.label}` : "Chargeback"}>
      <Controls name={name} group={group} />
      {period === null ? (
        <Card>
          <Empty>Choose a start that lies before the end.</Empty>
        </Card>
      ) : (
        <>
        <Report
          filter={{
            start: period.start,
            end: period.end,
            group_by: group,
            ...(search.scope ? { team: search.scope } : {}),
            ...(search.pool ? { pool: search.pool } : {}),
          }}
          groupLabel={group === "team" ? "Team" : "Department"}
        />
        <GroupsCard narrowed={narrowed} />
        <MovesCard narrowed={narrowed} />
        </>
      )}
    </Page>
  );
}

function Controls({ name, group }: { name: PeriodName; group: "team" | "department" }) {
  const search = useSearch({ from: "/shell/chargeback" });
  const navigate = useNavigate({ from: "/chargeback" });
  const pools = useQuery(poolsQuery);
  const poolNames = pools.data?.map((pool) => pool.name) ?? [];
  const change = (changes: Partial<typeof search>) =>
    void navigate({ search: (before) => ({ ...before, ...changes }), replace: true });
  return (
    <div className="filters" role="group" aria-label="Period and grouping">
      <Select
        label="Period"
        allowDeselect={false}
        data={PERIOD_LABELS.map(([value, label]) => ({ value, label }))}
        value={name}
        onChange={(value) => {
          const next = PERIOD_LABELS.find(([each]) => each === value)?.[0];
          if (next === undefined) return;
          const current = resolvePeriod(name, Date.now(), search);
          change(
            next === "custom"
              ? { period: next, start: current?.start, end: current?.end }
              : { period: next, start: undefined, end: undefined },
          );
        }}
      />
      {name === "custom" && (
        <>
          <MomentInput label="From (UTC)" value={search.start} onChange={(start) => change({ start })} />
          <MomentInput label="To (UTC, not included)" value={search.end} onChange={(end) => change({ end })} />
        </>
      )}
      <SegmentedControl
        className="fit"
        aria-label="Group by"
        data={[
          { value: "team", label: "by team" },
          { value: "department", label: "by department" },
        ]}
        value={group}
        onChange={(value) => change({ group: value === "department" ? "department" : "team" })}
      />
      {poolNames.length > 1 && (
        <Select
          label="Pool"
          placeholder="all"
          clearable
          clearButtonProps={{ "aria-label": "All pools" }}
          data={poolNames}
          value={search.pool ?? null}
          onChange={(pool) => change({ pool: pool ?? undefined })}
        />
      )}
    </div>
  );
}

/** A UTC date and time; the browser's own picker. */
function MomentInput({
  label,
  value,
  onChange,
}: {
  label: string;
  value: string | undefined;
  onChange: (iso: string | undefined) => void;
}) {
  return (
    <TextInput
      type="datetime-local"
      label={label}
      value={value?.slice(0, 16) ?? ""}
      onChange={(event) => {
        const ms = Date.parse(`${event.currentTarget.value}:00Z`);
        onChange(Number.isNaN(ms) ? undefined : toIso(ms));
      }}
    />
  );
}

function csvAddress(filter: ReportFilter): string {
  return `/api/v1/reports/chargeback?${new URLSearchParams({ ...filter, format: "csv" }).toString()}`;
}

function Report({ filter, groupLabel }: { filter: ReportFilter; groupLabel: string }) {
  const session = useSession();
  const report = useQuery({ ...chargebackQuery(filter), placeholderData: keepPreviousData });
  const command = [
    `tidegate report chargeback --start ${filter.start} --end ${filter.end} --by ${filter.group_by === "department" ? "department,team" : "team,pool"}`,
    filter.team && `--team ${filter.team}`,
    filter.pool && `--pool ${filter.pool}`,
  ]
    .filter(Boolean)
    .join(" ");
  if (filter.team && report.error && isSettled(report.error)) return <NoCosts node={filter.team} />;
  return (
    <QueryView
      query={report}
      loading={
        <Card>
          <Lines count={8} label="Loading the report" />
        </Card>
      }
    >
      {(data) => {
        const parts = byCurrency(data).map((part) => {
          const node = wholeOf(part, session, filter.team);
          return { part, whole: node === null ? null : { node, pool: filter.pool } };
        });
        const [only] = parts.length === 1 ? parts : [];
        return (
          <div className="rows" aria-busy={report.isPlaceholderData}>
            <p className="sub" style={{ margin: 0 }}>
              As of <Time at={data.as_of} show="both" /> · periods and days in UTC
              {Date.parse(data.as_of) < Date.parse(data.end) && " · the period is still running"}
            </p>
            <div className="kpis" style={{ margin: 0 }}>
              {only && <Cost {...only} />}
              {totalsOf(data).map((each) => (
                <FiguresOf key={each.device} report={data} totals={each} />
              ))}
            </div>
            {totalsOf(data).map(({ device }) => (
              <DaysChart key={device} report={data} device={device} />
            ))}
            {parts.map(({ part, whole }) => (
              <Card key={part.currency} label={`Charges in ${part.currency ?? "no currency"}`}>
                {!only && <CurrencyHead part={part} />}
                {part.rows.length === 0 ? (
                  <Empty cli={command}>Nothing ran in this period, so there is nothing to charge.</Empty>
                ) : (
                  <ChargebackTable report={part} groupLabel={groupLabel} whole={whole} isOneOfSeveral={!only} />
                )}
              </Card>
            ))}
            <Corrections report={data} />
            <Capacity report={data} />
            <WithheldCapacity report={data} />
            <Exports filter={filter} node={filter.team ?? only?.whole?.node} />
            {only?.whole?.node !== undefined && !only.whole.node.includes("/") && (
              <Deliveries organization={only.whole.node} />
            )}
            <div className="inline">
              <Button component="a" href={csvAddress(filter)} download variant="default">
                Download CSV
              </Button>
              <CliLine command={command} />
            </div>
          </div>
        );
      }}
    </QueryView>
  );
}

function Cost({ part, whole }: { part: CurrencyReport; whole: BehindRow | null }) {
  const { totals, currency } = part;
  return (
    <Kpi
      value={formatCost(totals.cost_nano, currency)}
      label="cost"
      context={
        <JobsLink report={part} row={whole} mgpuS={usedMgpuS(totals)}>
          {jobCount(totals.jobs)}
        </JobsLink>
      }
    />
  );
}

function jobCount(jobs: number): string {
  return `${formatCount(jobs)} ${jobs === 1 ? "job" : "jobs"}`;
}

/** The cost and the organizations of one currency, where a report has several. */
function CurrencyHead({ part }: { part: CurrencyReport }) {
  const { currency, organizations, totals } = part;
  const names = organizations.length > 3 ? `${organizations.length} organizations` : organizations.join(", ");
  return (
    <div className="spread">
      <h2>{currency === null ? "No rate card" : `${currency} · ${formatCost(totals.cost_nano, currency)}`}</h2>
      <span className="dim">
        {names} · {jobCount(totals.jobs)}
      </span>
    </div>
  );
}

/** How long such devices were held, and how long they were idle. */
function FiguresOf({ report, totals }: { report: Chargeback; totals: Chargeback["totals_by_device"][number] }) {
  const { currency } = report;
  const capacity = report.capacity.filter(({ device }) => device === totals.device);
  const cost = (nano: number | null) => (nano === null ? undefined : formatCost(nano, currency));
  const hours = capitalised(deviceTime(totals.device, "hours"));
  const sum = (value: "capacity_mgpu_s" | "idle_mgpu_s") =>
    capacity.reduce((total, pool) => total + pool[value], 0);
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
          value={formatGpuHours(sum("idle_mgpu_s"))}
          label={`${hours} idle`}
          context={`${formatShare(sum("idle_mgpu_s"), sum("capacity_mgpu_s"))} of the capacity`}
        />
      )}
    </>
  );
}

/** Every second of every device is either in use or idle. */
function Capacity({ report }: { report: Chargeback }) {
  if (report.capacity.length === 0) return null;
  const head = headOf(report.capacity);
  const percent = (part: number, whole: number) => `${whole > 0 ? ((part / whole) * 100).toFixed(3) : 0}%`;
  return (
    // A wide table scrolls inside the card, also by keyboard.
    <Card label="Capacity" tabIndex={0}>
      <h2>In use and idle</h2>
      <DataTable
        rows={report.capacity}
        rowKey={(pool) => pool.pool}
        columns={[
          { header: "Pool", isHeading: true, cell: (pool) => pool.pool },
          {
            header: "Of the capacity",
            only: "wide",
            className: "share",
            cell: (pool) => (
              <span
                className="bar"
                role="img"
                aria-label={`${formatShare(pool.in_use_mgpu_s, pool.capacity_mgpu_s)} in use`}
              >
                <i className="e" style={{ left: 0, width: "100%" }} />
                <i className="g" style={{ left: 0, width: percent(pool.in_use_mgpu_s, pool.capacity_mgpu_s) }} />
              </span>
            ),
          },
          {
            header: <>In use {deviceTime(head, "h")}</>,
            isRight: true,
            cell: (pool) => hoursUnder(head, pool.in_use_mgpu_s, pool.device),
          },
          {
            header: <>Idle {deviceTime(head, "h")}</>,
            isRight: true,
            cell: (pool) => (
              <>
                {hoursUnder(head, pool.idle_mgpu_s, pool.device)}
                <span className="faint hide"> · {formatShare(pool.idle_mgpu_s, pool.capacity_mgpu_s)}</span>
              </>
            ),
          },
          {
            header: <>Capacity {deviceTime(head, "h")}</>,
            isRight: true,
            only: "wide",
            cell: (pool) => hoursUnder(head, pool.capacity_mgpu_s, pool.device),
          },
        ]}
      />
    </Card>
  );
}

import { Button, SegmentedControl, Select, TextInput } from "@mantine/core";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";

import { chargebackQuery, poolsQuery, type ReportFilter } from "../api/queries";
import type { Chargeback } from "../api/types";
import { may } from "../session/access";
import { useSession } from "../session/useSession";
import { CliLine } from "../ui/CliLine";
import { Kpi } from "../ui/Kpi";
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
import { usePageTitle } from "../ui/usePageTitle";
import { ChargebackTable, JobsLink, wholeOf, type BehindRow } from "./ChargebackTable";
import { DaysChart } from "./DaysChart";
import { NoCosts } from "./NoCosts";
import { PERIOD_LABELS, resolvePeriod, toIso, type PeriodName } from "./period";
import { Reconciliation } from "./Reconciliation";
import { byCurrency, totalsOf, type CurrencyReport } from "./totals";
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
  usePageTitle(period ? `Chargeback · ${period.label}` : "Chargeback");
  if (!may(session, "view_costs")) {
    return (
      <>
        <h1>Chargeback</h1>
        <p className="sub">Who used what, and what it costs.</p>
        <NoCosts />
      </>
    );
  }
  return (
    <>
      <h1>Chargeback{period && ` · ${period.label}`}</h1>
      <Controls name={name} group={group} />
      {period === null ? (
        <div className="card">
          <Empty>Choose a start that lies before the end.</Empty>
        </div>
      ) : (
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
      )}
    </>
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
    `tidegate report chargeback --start ${filter.start} --end ${filter.end} --group-by ${filter.group_by ?? "team"}`,
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
        <div className="card">
          <Lines count={8} label="Loading the report" />
        </div>
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
              <section className="card" key={part.currency} aria-label={`Charges in ${part.currency ?? "no currency"}`}>
                {!only && <CurrencyHead part={part} />}
                {part.rows.length === 0 ? (
                  <Empty cli={command}>Nothing ran in this period, so there is nothing to charge.</Empty>
                ) : (
                  <ChargebackTable report={part} groupLabel={groupLabel} whole={whole} isOneOfSeveral={!only} />
                )}
              </section>
            ))}
            <Capacity report={data} />
            <WithheldCapacity report={data} />
            <Reconciliation />
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
        <JobsLink report={part} row={whole} mgpuS={totals.guaranteed_mgpu_s + totals.borrowed_mgpu_s}>
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
      {capacity.length === 0 ? (
        <Kpi
          value={formatGpuHours(totals.guaranteed_mgpu_s + totals.borrowed_mgpu_s)}
          label={`${hours} in all`}
          context="guaranteed and borrowed"
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
    <section className="card" aria-label="Capacity" tabIndex={0}>
      <h2>In use and idle</h2>
      <table>
        <thead>
          <tr>
            <th scope="col">Pool</th>
            <th scope="col" className="hide share">
              Of the capacity
            </th>
            <th scope="col" className="n">
              In use {deviceTime(head, "h")}
            </th>
            <th scope="col" className="n">
              Idle {deviceTime(head, "h")}
            </th>
            <th scope="col" className="n hide">
              Capacity {deviceTime(head, "h")}
            </th>
          </tr>
        </thead>
        <tbody>
          {report.capacity.map((pool) => (
            <tr key={pool.pool}>
              <th scope="row">{pool.pool}</th>
              <td className="hide share">
                <span
                  className="bar"
                  role="img"
                  aria-label={`${formatShare(pool.in_use_mgpu_s, pool.capacity_mgpu_s)} in use`}
                >
                  <i className="e" style={{ left: 0, width: "100%" }} />
                  <i className="g" style={{ left: 0, width: percent(pool.in_use_mgpu_s, pool.capacity_mgpu_s) }} />
                </span>
              </td>
              <td className="n">{hoursUnder(head, pool.in_use_mgpu_s, pool.device)}</td>
              <td className="n">
                {hoursUnder(head, pool.idle_mgpu_s, pool.device)}
                <span className="faint hide"> · {formatShare(pool.idle_mgpu_s, pool.capacity_mgpu_s)}</span>
              </td>
              <td className="n hide">{hoursUnder(head, pool.capacity_mgpu_s, pool.device)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

import { Button, SegmentedControl, Select, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useState, type ReactNode } from "react";

import { may } from "../session/access";
import type { Session } from "../api/types";
import { useSession } from "../session/useSession";
import { Card } from "../ui/Card";
import { CliLine } from "../ui/CliLine";
import { DataTable } from "../ui/DataTable";
import { Empty, Lines, QueryView } from "../ui/states";
import { capitalised, DEVICES, deviceTime, formatCost, formatCount, formatGpuHours, headOf, hoursUnder, type Device } from "../ui/units";
import { costColumns, costsAgree, type CostColumn } from "./costs";
import { groupsQuery, type Dimension, type GroupedReport, type GroupRow, type Narrowed } from "./groupQueries";
import { DIMENSIONS, USAGE_CLASSES, type ChargebackJobsSearch } from "./search";
import { StackChart } from "./StackChart";
import { keyOf, MEASURES, stackOf, type Measure } from "./stacks";
import { usedMgpuS } from "./totals";

/** Rows that the page shows; the CSV has all. */
const ROWS_SHOWN = 500;
const TIMES: readonly Dimension[] = ["hour", "day", "week", "month"];

export function dimensionWords(dimension: Dimension): string {
  return dimension.replace("_", " ");
}

/** Use and cost by any one or two dimensions. */
export function GroupsCard({ narrowed }: { narrowed: Narrowed }) {
  const search = useSearch({ from: "/shell/chargeback" });
  const first = search.by ?? "team";
  const second = search.and === first || (isTime(first) && isTime(search.and)) ? undefined : search.and;
  const by = second === undefined ? [first] : [first, second];
  const asked = {
    ...narrowed,
    ...(search.user ? { user: search.user } : {}),
    ...(search.usage ? { usage_class: search.usage } : {}),
  };
  const report = useQuery(groupsQuery(by, asked));
  return (
    <Card label="Charges by groups">
      <h2>By any two groupings</h2>
      <Controls first={first} second={second} />
      <QueryView query={report} loading={<Lines count={6} label="Loading the groups" />}>
        {(data) =>
          data.rows.length === 0 ? (
            <Empty>Nothing ran in this period, or the filters leave nothing.</Empty>
          ) : (
            <div className="rows" aria-busy={report.isPlaceholderData}>
              <Chart by={by} asked={asked} />
              <Groups report={data} asked={asked} />
            </div>
          )
        }
      </QueryView>
      <div className="inline">
        <Button component="a" href={csvAddress(by, asked)} download variant="default">
          Download these rows
        </Button>
        <CliLine command={commandOf(by, asked)} />
      </div>
    </Card>
  );
}

/** Groupings of jobs, which commitments lack. */
function isOfJobs(dimension: Dimension): boolean {
  return dimension === "user" || dimension === "cluster" || dimension === "priority_class";
}

function isTime(dimension: Dimension | undefined): boolean {
  return dimension !== undefined && TIMES.includes(dimension);
}

function csvAddress(by: readonly Dimension[], asked: Narrowed): string {
  const query = new URLSearchParams({ by: by.join(","), ...asked, format: "csv" });
  return `/api/v1/reports/chargeback/groups?${query.toString()}`;
}

function commandOf(by: readonly Dimension[], asked: Narrowed): string {
  return [
    `tidegate report chargeback --by ${by.join(",")} --start ${asked.start} --end ${asked.end}`,
    asked.node && `--team ${asked.node}`,
    asked.pool && `--pool ${asked.pool}`,
    asked.user && `--user ${asked.user}`,
    asked.usage_class && `--usage-class ${asked.usage_class}`,
  ]
    .filter(Boolean)
    .join(" ");
}

function Controls({ first, second }: { first: Dimension; second: Dimension | undefined }) {
  const search = useSearch({ from: "/shell/chargeback" });
  const navigate = useNavigate({ from: "/chargeback" });
  const change = (changes: Partial<typeof search>) =>
    void navigate({ search: (before) => ({ ...before, ...changes }), replace: true });
  const choices = DIMENSIONS.map((value) => ({ value, label: dimensionWords(value) }));
  return (
    <div className="filters" role="group" aria-label="Groupings and filters">
      <Select
        label="Group by"
        allowDeselect={false}
        data={choices}
        value={first}
        onChange={(value) => change({ by: DIMENSIONS.find((each) => each === value) })}
      />
      <Select
        label="and by"
        placeholder="nothing"
        clearable
        clearButtonProps={{ "aria-label": "No second grouping" }}
        data={choices.filter(({ value }) => value !== first && !(isTime(first) && isTime(value)))}
        value={second ?? null}
        onChange={(value) => change({ and: DIMENSIONS.find((each) => each === value) })}
      />
      <Select
        label="Usage class"
        placeholder="all"
        clearable
        clearButtonProps={{ "aria-label": "All usage classes" }}
        data={[...USAGE_CLASSES]}
        value={search.usage ?? null}
        onChange={(value) => change({ usage: USAGE_CLASSES.find((each) => each === value) })}
      />
      <TextInput
        key={search.user ?? ""}
        label="User"
        placeholder="all"
        defaultValue={search.user ?? ""}
        onBlur={(event) => change({ user: event.currentTarget.value.trim() || undefined })}
        onKeyDown={(event) => {
          if (event.key === "Enter") change({ user: event.currentTarget.value.trim() || undefined });
        }}
      />
    </div>
  );
}

/** The first grouping day by day, of the same use and costs as the table. */
function Chart({ by, asked }: { by: readonly Dimension[]; asked: Narrowed }) {
  const name = by.find((each) => !isTime(each)) ?? "usage_class";
  const time = by.find((each) => isTime(each)) ?? "day";
  const report = useQuery(groupsQuery([name, time], asked));
  const [wanted, setWanted] = useState<Measure>("hours");
  if (report.data === undefined || report.data.buckets.length < 2) return null;
  if (report.data.by[0] !== name || report.data.by[1] !== time) return null;
  const { currency, totals } = report.data;
  const choices = measuresOf(totals);
  const measure = choices.includes(wanted) ? wanted : "hours";
  const { title } = MEASURES[measure];
  return (
    <>
      {choices.length > 1 && (
        <SegmentedControl
          className="fit"
          aria-label="What the chart shows"
          data={choices.map((value) => ({ value, label: MEASURES[value].title }))}
          value={measure}
          onChange={setWanted}
        />
      )}
      <StackChart
        stack={stackOf(report.data, name, time, measure)}
        title={`${title}${measure === "showback" ? ", not billed," : ""} by ${dimensionWords(name)} and ${time}`}
        unit={measure === "hours" ? "GPU-h" : ""}
        format={measure === "hours" ? formatGpuHours : (nano) => formatCost(nano, currency)}
      />
    </>
  );
}

/** Costs have a chart of their own where some are not of use; costs in several currencies have none. */
function measuresOf({ commitment_cost_nano, top_up_cost_nano, showback_nano }: GroupedReport["totals"]): Measure[] {
  const isShown = (showback_nano ?? 0) > 0;
  const hasExtras = (commitment_cost_nano ?? 0) + (top_up_cost_nano ?? 0) > 0;
  return ["hours", ...(hasExtras || isShown ? (["cost"] as const) : []), ...(isShown ? (["showback"] as const) : [])];
}

function Groups({ report, asked }: { report: GroupedReport; asked: Narrowed }) {
  const session = useSession();
  const head = headOf(report.rows);
  const unit = deviceTime(head, "h");
  const { by } = report;
  const link = (row: GroupRow, text: string, mgpuS: number, usage?: ChargebackJobsSearch["usage"]): ReactNode => {
    const behind = jobsOf(report, row, session, asked);
    if (behind === null || mgpuS === 0) return text;
    return (
      <Link
        to="/chargeback/jobs"
        search={{ ...behind, usage: usage ?? behind.usage }}
        aria-label={`${text}: the jobs behind it`}
      >
        {text}
      </Link>
    );
  };
  const { parts, shown } = costColumns(report.rows);
  const costColumn = ({ header, hint, nano }: CostColumn) => ({
    header,
    hint,
    isRight: true,
    only: "wide" as const,
    cell: (row: GroupRow) => formatCost(nano(row), row.currency),
    total: ({ of }: GroupTotal) => costOf(of, nano),
  });
  const some = (["unpaid", "fault"] as const).filter((name) => report.rows.some((row) => row[`${name}_mgpu_s`] > 0));
  return (
    <div>
      <div className="scrolls" role="group" aria-label="Rows of the groups" tabIndex={0}>
        <DataTable
          label={`Use and cost by ${by.map(dimensionWords).join(" and ")}`}
          rows={report.rows}
          rowKey={(row) => `${Object.values(row.keys).join(" ")} ${row.device} ${row.currency ?? ""}`}
          limit={ROWS_SHOWN}
          totals={byDevice(report.rows)}
          columns={[
            ...by.map((name, place) => ({
              header: capitalised(dimensionWords(name)),
              isHeading: place === 0,
              className: "key-cell",
              cell: (row: GroupRow) => keyOf(row, name),
              sortBy: (row: GroupRow) => keyOf(row, name),
              total: ({ title }: GroupTotal) => (place === 0 ? title : null),
            })),
            ...(["guaranteed", "borrowed"] as const).map((name) => ({
              header: `${name === "guaranteed" ? "Guaranteed" : "Borrowed"} ${unit}`,
              isRight: true,
              only: "wide" as const,
              cell: (row: GroupRow) =>
                link(row, hoursUnder(head, row[`${name}_mgpu_s`], row.device), row[`${name}_mgpu_s`], name),
              sortBy: (row: GroupRow) => row[`${name}_mgpu_s`],
              total: ({ sums, device }: GroupTotal) => hoursUnder(head, sums[name], device),
            })),
            ...some.map((name) => ({
              header: `${name === "unpaid" ? "Unpaid" : "Free"} ${unit}`,
              isRight: true,
              only: "wide" as const,
              cell: (row: GroupRow) =>
                link(row, hoursUnder(head, row[`${name}_mgpu_s`], row.device), row[`${name}_mgpu_s`], name),
              total: ({ sums, device }: GroupTotal) => hoursUnder(head, sums[name], device),
            })),
            {
              header: unit,
              isRight: true,
              cell: (row) => link(row, hoursUnder(head, usedMgpuS(row), row.device), usedMgpuS(row)),
              sortBy: usedMgpuS,
              total: ({ sums, device }) => hoursUnder(head, sums.all, device),
            },
            { header: "Jobs", isRight: true, only: "wide", cell: (row) => formatCount(row.jobs), sortBy: (row) => row.jobs },
            ...parts.map(costColumn),
            {
              header: "Cost",
              isRight: true,
              cell: (row) => link(row, formatCost(row.cost_nano, row.currency), usedMgpuS(row)),
              sortBy: (row) => row.cost_nano,
              total: ({ of }) => costOf(of, (row) => BigInt(row.cost_nano)),
            },
            ...shown.map(costColumn),
          ]}
        />
      </div>
      {report.rows.length > ROWS_SHOWN && (
        <p className="sub">
          The first {formatCount(ROWS_SHOWN)} of {formatCount(report.rows.length)} rows. The file has all of them.
        </p>
      )}
      <GroupsCheck report={report} />
    </div>
  );
}

interface GroupTotal {
  device: Device;
  title: string;
  sums: Record<"guaranteed" | "borrowed" | "unpaid" | "fault" | "all", bigint>;
  of: readonly GroupRow[];
}

/** The sum of a cost in each currency: "€5.00 + $7.00". */
function costOf(rows: readonly GroupRow[], nano: (row: GroupRow) => bigint): string {
  return [...new Set(rows.map(({ currency }) => currency))]
    .map((currency) => {
      const own = rows.filter((row) => row.currency === currency);
      return formatCost(own.reduce((sum, row) => sum + nano(row), 0n), currency);
    })
    .join(" + ");
}

/** The sums of the rows for each kind of devices. */
export function byDevice(rows: readonly GroupRow[]): GroupTotal[] {
  return DEVICES.map((device) => ({ device, of: rows.filter((row) => row.device === device) }))
    .filter(({ of }) => of.length > 0)
    .map(({ device, of }, _, all) => {
      const sum = (value: (row: GroupRow) => number) => of.reduce((sum, row) => sum + BigInt(value(row)), 0n);
      return {
        device,
        title: all.length > 1 ? `Total of ${device === "gpu" ? "GPUs" : "cores"}` : "Total",
        sums: {
          guaranteed: sum((row) => row.guaranteed_mgpu_s),
          borrowed: sum((row) => row.borrowed_mgpu_s),
          unpaid: sum((row) => row.unpaid_mgpu_s),
          fault: sum((row) => row.fault_mgpu_s),
          all: sum(usedMgpuS),
        },
        of,
      };
    });
}

/** The check that the rows are what was metered, and the zone of their days. */
export function GroupsCheck({ report }: { report: GroupedReport }) {
  const rows = report.rows.reduce(
    (sum, row) =>
      sum + BigInt(row.guaranteed_mgpu_s) + BigInt(row.borrowed_mgpu_s) + BigInt(row.unpaid_mgpu_s) + BigInt(row.fault_mgpu_s),
    0n,
  );
  const segments = BigInt(report.check.segments_mgpu_s);
  const costsSum = report.by_currency.every(({ currency, totals }) =>
    costsAgree(report.rows.filter((row) => row.currency === currency), totals),
  );
  const hasCommitments = report.rows.some((row) => row.commitment_cost_nano > 0);
  return report.check.is_equal && rows === segments && costsSum ? (
    <p className="check">
      Sum of classes {formatGpuHours(rows)} h = segments {formatGpuHours(segments)} h{" "}
      <b className="good-text">
        <span aria-hidden="true">✓</span> equal
      </b>{" "}
      · days of {report.time_zone}
      {hasCommitments && report.by.some(isOfJobs) && " · commitments belong to teams, not to jobs: see (none)"}
    </p>
  ) : (
    <p className="check bad-text" role="alert">
      ✕ The rows do not add up to what was metered: {formatGpuHours(rows)} h in these rows, {formatGpuHours(segments)} h
      metered. Do not bill from this; tell your administrator.
    </p>
  );
}

/** What the list of jobs behind a row is of; null where the reader may not ask for it, or no node covers it. */
export function jobsOf(
  report: Pick<GroupedReport, "start" | "end" | "as_of" | "by" | "buckets" | "by_currency">,
  row: Pick<GroupRow, "keys">,
  session: Session,
  asked: Pick<Narrowed, "node" | "pool" | "user" | "usage_class">,
): ChargebackJobsSearch | null {
  const { keys } = row;
  if (keys.department === "") return null;
  const organizations = report.by_currency.flatMap(({ organizations }) => organizations);
  const nodes = [asked.node, keys.organization, keys.department, keys.team, organizations.length === 1 ? organizations[0] : undefined];
  const node = nodes.filter((each) => each !== undefined).sort((a, b) => b.split("/").length - a.split("/").length)[0];
  if (node === undefined || !may(session, "view_costs", node)) return null;
  const time = TIMES.find((each) => report.by.includes(each));
  const bucket = time && report.buckets.find(({ label }) => label === keys[time]);
  return {
    start: bucket?.start ?? report.start,
    end: bucket?.end ?? report.end,
    as_of: report.as_of,
    node,
    pool: keys.pool ?? asked.pool ?? undefined,
    user: keys.user ?? asked.user ?? undefined,
    cluster: keys.cluster,
    priority: keys.priority_class,
    usage: USAGE_CLASSES.find((each) => each === (keys.usage_class ?? asked.usage_class)),
  };
}

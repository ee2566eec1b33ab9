import type { ChargeClass } from "../api/types";
import { useSession } from "../session/useSession";
import { DataTable } from "../ui/DataTable";
import { capitalised, DEVICES, deviceTime, formatCost, formatCount, formatGpuHours, headOf, hoursUnder, type Device } from "../ui/units";
import { costColumns, costsAgree, type CostColumn } from "./costs";
import { dimensionWords, isOfJobs } from "./dimensions";
import type { GroupedReport, GroupRow, Narrowed } from "./groupQueries";
import { JobsLink, jobsOf } from "./JobsLink";
import { keyOf } from "./stacks";
import { totalsOf, usedMgpuS } from "./totals";

/** Rows that the page shows; the CSV has all. */
const ROWS_SHOWN = 500;

export function GroupsTable({ report, asked }: { report: GroupedReport; asked: Narrowed }) {
  const session = useSession();
  const head = headOf(report.rows);
  const unit = deviceTime(head, "h");
  const { by } = report;
  const link = (keys: GroupRow["keys"], text: string, amount: number | bigint, usage?: ChargeClass) => (
    <JobsLink behind={jobsOf(report, { keys }, session, asked)} isEmpty={!amount} usage={usage}>
      {text}
    </JobsLink>
  );
  /** A total's jobs, where it is of all devices. */
  const linkTotal = (total: GroupTotal, text: string, amount: number | bigint, usage?: ChargeClass) =>
    total.isWhole ? link({}, text, amount, usage) : text;
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
                link(row.keys, hoursUnder(head, row[`${name}_mgpu_s`], row.device), row[`${name}_mgpu_s`], name),
              sortBy: (row: GroupRow) => row[`${name}_mgpu_s`],
              total: (total: GroupTotal) =>
                linkTotal(total, hoursUnder(head, total.sums[name], total.device), total.sums[name], name),
            })),
            ...some.map((name) => ({
              header: `${name === "unpaid" ? "Unpaid" : "Free"} ${unit}`,
              isRight: true,
              only: "wide" as const,
              cell: (row: GroupRow) =>
                link(row.keys, hoursUnder(head, row[`${name}_mgpu_s`], row.device), row[`${name}_mgpu_s`], name),
              total: (total: GroupTotal) =>
                linkTotal(total, hoursUnder(head, total.sums[name], total.device), total.sums[name], name),
            })),
            {
              header: unit,
              isRight: true,
              cell: (row) => link(row.keys, hoursUnder(head, usedMgpuS(row), row.device), usedMgpuS(row)),
              sortBy: usedMgpuS,
              total: (total) => linkTotal(total, hoursUnder(head, total.sums.all, total.device), total.sums.all),
            },
            {
              header: "Jobs",
              isRight: true,
              only: "wide",
              cell: (row) => link(row.keys, formatCount(row.jobs), row.jobs),
              sortBy: (row) => row.jobs,
              total: (total) => {
                const jobs = report.totals_by_device.find(({ device }) => device === total.device)?.jobs ?? 0;
                return linkTotal(total, formatCount(jobs), jobs);
              },
            },
            ...parts.map(costColumn),
            {
              header: "Cost",
              isRight: true,
              cell: (row) => link(row.keys, formatCost(row.cost_nano, row.currency), usedMgpuS(row) + row.cost_nano),
              sortBy: (row) => row.cost_nano,
              total: (total) => linkTotal(total, costOf(total.of, (row) => BigInt(row.cost_nano)), total.sums.all),
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
      <Unpriced report={report} />
    </div>
  );
}

interface GroupTotal {
  device: Device;
  /** Whether it is of all devices of the report. */
  isWhole: boolean;
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
        isWhole: all.length === 1,
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

/** Use without a price, which costs nothing. */
function Unpriced({ report }: { report: GroupedReport }) {
  const unpriced = totalsOf(report).filter(({ unpriced_mgpu_s }) => unpriced_mgpu_s > 0);
  if (unpriced.length === 0) return null;
  return (
    <p className="check bad-text">
      ▲ {unpriced.map(({ unpriced_mgpu_s, device }) => `${formatGpuHours(unpriced_mgpu_s)} ${deviceTime(device, "h")}`).join(" and ")}{" "}
      had no price and count as 0. Add a price to the rate card before you bill.
    </p>
  );
}

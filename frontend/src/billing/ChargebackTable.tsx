import { Link } from "@tanstack/react-router";

import type { Session } from "../api/types";
import { lastPart } from "../jobs/words";
import { indented } from "../quotas/tree";
import { may } from "../session/access";
import { DataTable } from "../ui/DataTable";
import {
  deviceTime,
  formatCost,
  formatCount,
  formatGpuHours,
  formatGpuSeconds,
  headOf,
  hoursUnder,
} from "../ui/units";
import { costColumns, type CostColumn, type Costs } from "./costs";
import type { USAGE_CLASSES } from "./search";
import { reconcile, totalsOf, usedMgpuS, type CurrencyReport, type DeviceTotals, type UsedByClass } from "./totals";

type UsageClass = (typeof USAGE_CLASSES)[number];
type Used = UsedByClass & Costs & Pick<DeviceTotals, "device">;
type Line = { name: string; used: Used | null; behind: BehindRow | null };

/** Classes that have a column only where a row has such use. */
const SOME = [
  { usage: "unpaid", name: "Unpaid", title: "Borrowed without credits: served last and reclaimed first" },
  { usage: "fault", name: "Free", title: "Lost by a fault of the cluster or an early preemption; costs nothing" },
] as const;

/** Rows, totals under them, and in sight the check that both are what was metered. */
export function ChargebackTable({
  report,
  groupLabel,
  whole,
  isOneOfSeveral,
}: {
  report: CurrencyReport;
  groupLabel: string;
  /** Whether the report has other currencies, too. */
  isOneOfSeveral: boolean;
  /** What the totals are of; null where no single node covers them. */
  whole: BehindRow | null;
}) {
  const { rows, totals, currency } = report;
  const head = headOf(rows);
  const unit = deviceTime(head, "h");
  const byDevice = totalsOf(report);
  const hasPools = new Set(rows.map((row) => row.pool)).size > 1;
  const common = commonParent(rows.map((row) => row.node));
  const isTree = rows.some((row) => row.node_kind !== "team");
  const inCurrency = isOneOfSeveral ? `, ${currency ?? "no rate card"}` : "";
  const top = Math.min(...rows.map((row) => row.node.split("/").length));
  const linked = (row: BehindRow | null, mgpuS: number, text: string, usage?: UsageClass) => (
    <JobsLink report={report} row={row} usage={usage} mgpuS={mgpuS}>
      {text}
    </JobsLink>
  );
  const behindUse = (row: BehindRow | null, used: Used, text: string) =>
    linked(row, usedMgpuS(used), text);
  const { parts, shown } = costColumns(rows);
  const costColumn = ({ header, hint, nano }: CostColumn) => ({
    header,
    hint,
    isRight: true,
    only: "wide" as const,
    cell: (row: (typeof rows)[number]) => formatCost(nano(row), currency),
    total: ({ used }: Line) => formatCost(nano(used ?? totals), currency),
  });
  const hours = (row: BehindRow | null, used: Used, usage?: UsageClass) => {
    const mgpuS = usage === undefined ? usedMgpuS(used) : used[`${usage}_mgpu_s`];
    return linked(row, mgpuS, hoursUnder(head, mgpuS, used.device), usage);
  };
  return (
    <>
      <DataTable
        label={`Chargeback by ${groupLabel.toLowerCase()}${inCurrency}`}
        rows={rows}
        rowKey={(row) => `${row.node} ${row.pool}`}
        // The jobs behind the devices of one kind are no total of the jobs of all pools.
        totals={[
          ...byDevice.map((used) => ({ name: "Total", used, behind: byDevice.length > 1 ? null : whole })),
          ...(byDevice.length > 1 ? [{ name: "Total cost", used: null, behind: whole }] : []),
        ]}
        columns={[
          {
            header: groupLabel,
            isHeading: true,
            title: (row) => row.node,
            style: (row) => (isTree ? indented(row.node.split("/").length - top) : undefined),
            cell: (row) => (isTree ? lastPart(row.node) : <NodeName path={row.node} common={common} />),
            total: ({ name }) => name,
          },
          hasPools && { header: "Pool", cell: (row) => row.pool },
          {
            header: `Guaranteed ${unit}`,
            isRight: true,
            only: "wide",
            cell: (row) => hours(row, row, "guaranteed"),
            total: ({ used, behind }) => used && hours(behind, used, "guaranteed"),
          },
          {
            header: `Borrowed ${unit}`,
            isRight: true,
            only: "wide",
            cell: (row) => hours(row, row, "borrowed"),
            total: ({ used, behind }) => used && hours(behind, used, "borrowed"),
          },
          ...SOME.filter(({ usage }) => rows.some((row) => row[`${usage}_mgpu_s`] > 0)).map(({ usage, name, title }) => ({
            header: <span title={title}>{`${name} ${unit}`}</span>,
            isRight: true,
            only: "wide" as const,
            cell: (row: (typeof rows)[number]) => hours(row, row, usage),
            total: ({ used, behind }: Line) =>
              used && hours(behind, used, usage),
          })),
          {
            header: unit,
            isRight: true,
            only: "phone",
            cell: (row) => hours(row, row),
            total: ({ used, behind }) => used && hours(behind, used),
          },
          {
            header: "Jobs",
            isRight: true,
            only: "wide",
            cell: (row) => behindUse(row, row, formatCount(row.jobs)),
            total: ({ used, behind }) =>
              used === null
                ? linked(behind, totals.jobs, formatCount(totals.jobs))
                : behindUse(behind, used, formatCount(used.jobs)),
          },
          ...parts.map(costColumn),
          {
            header: "Cost",
            isRight: true,
            // A commitment has a cost without any job.
            cell: (row) =>
              usedMgpuS(row) === 0
                ? formatCost(row.cost_nano, currency)
                : behindUse(row, row, formatCost(row.cost_nano, currency)),
            total: ({ used, behind }) =>
              used === null
                ? linked(behind, totals.jobs, formatCost(totals.cost_nano, currency))
                : behindUse(behind, used, formatCost(used.cost_nano, currency)),
          },
          ...shown.map(costColumn),
        ]}
      />
      <Check report={report} />
      {totals.unpriced_mgpu_s > 0 && (
        <p className="check bad-text">
          ▲{" "}
          {byDevice
            .filter(({ unpriced_mgpu_s }) => unpriced_mgpu_s > 0)
            .map(({ unpriced_mgpu_s, device }) => `${formatGpuHours(unpriced_mgpu_s)} ${deviceTime(device, "h")}`)
            .join(" and ")}{" "}
          had no price and count as 0. Add a price to the rate card before you bill.
        </p>
      )}
    </>
  );
}

/** "Segments = rows", or by how much they differ. */
export function Check({ report }: { report: CurrencyReport }) {
  const { isEqual, segmentsMgpuS, rowsMgpuS } = reconcile(report);
  const kinds = new Set(report.rows.map(({ device }) => device));
  const head = headOf(report.rows);
  const seconds = kinds.size > 1 ? "seconds of cores and GPUs" : deviceTime(head, "seconds");
  const exact = `${formatGpuSeconds(segmentsMgpuS)} ${seconds} metered, ${formatGpuSeconds(rowsMgpuS)} in these rows`;
  return isEqual ? (
    <p className="check" title={exact}>
      {kinds.size > 1
        ? "The segments are what the rows are"
        : `Segments ${formatGpuHours(segmentsMgpuS)} ${deviceTime(head, "h")} = rows ${formatGpuHours(rowsMgpuS)} ${deviceTime(head, "h")}`}{" "}
      <b className="good-text">
        <span aria-hidden="true">✓</span> to the {kinds.size > 1 ? "second" : deviceTime(head, "seconds").slice(0, -1)}
      </b>
    </p>
  ) : (
    <p className="check bad-text" role="alert" title={exact}>
      ✕ The rows do not add up to what was metered: {exact}. Do not bill from this; tell your administrator.
    </p>
  );
}

function NodeName({ path, common }: { path: string; common: string }) {
  const rest = common === "" ? path : path.slice(common.length + 1) || path;
  const parts = rest.split("/");
  const name = parts.pop() ?? rest;
  return (
    <>
      {parts.length > 0 && <span className="faint">{parts.join(" / ")} / </span>}
      {name}
    </>
  );
}

/** The longest path that is strictly above all of them; "" when there is none. */
export function commonParent(paths: readonly string[]): string {
  const [first, ...others] = paths;
  if (first === undefined) return "";
  let parts = first.split("/").slice(0, -1);
  for (const path of others) {
    const other = path.split("/").slice(0, -1);
    let same = 0;
    while (same < parts.length && same < other.length && parts[same] === other[same]) same += 1;
    parts = parts.slice(0, same);
  }
  return parts.join("/");
}

/** The node (and pool, if it is one) whose jobs make a number. */
export interface BehindRow {
  node: string;
  pool?: string | undefined;
}

/** The node whose jobs are all those of the report, if the reader may ask for it as a whole. */
export function wholeOf(report: Pick<CurrencyReport, "rows">, session: Session, scope?: string): string | null {
  // With a slash at its end, a path is above itself.
  const above = scope ?? commonParent(report.rows.map((row) => `${row.node}/`));
  return above !== "" && may(session, "view_costs", above) ? above : null;
}

export function JobsLink({
  report,
  row,
  usage,
  mgpuS,
  children,
}: {
  report: CurrencyReport;
  row: BehindRow | null;
  usage?: UsageClass | undefined;
  mgpuS: number;
  children: string;
}) {
  if (row === null) return children;
  if (mgpuS === 0) return <span className="faint">{children}</span>;
  return (
    <Link
      to="/chargeback/jobs"
      search={{
        start: report.start,
        end: report.end,
        as_of: report.as_of,
        node: row.node,
        pool: row.pool,
        usage,
      }}
      aria-label={`${children}: the jobs behind it`}
    >
      {children}
    </Link>
  );
}

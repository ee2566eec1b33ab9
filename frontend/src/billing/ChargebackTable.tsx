import { Link } from "@tanstack/react-router";

import type { Session } from "../api/types";
import { lastPart } from "../jobs/words";
import { indented } from "../quotas/tree";
import { may } from "../session/access";
import {
  deviceTime,
  formatCost,
  formatCount,
  formatGpuHours,
  formatGpuSeconds,
  headOf,
  hoursUnder,
  type Device,
} from "../ui/units";
import { reconcile, totalsOf, type CurrencyReport, type DeviceTotals } from "./totals";

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
  return (
    <>
      <table aria-label={`Chargeback by ${groupLabel.toLowerCase()}${inCurrency}`}>
        <thead>
          <tr>
            <th scope="col">{groupLabel}</th>
            {hasPools && <th scope="col">Pool</th>}
            <th scope="col" className="n hide">
              Guaranteed {unit}
            </th>
            <th scope="col" className="n hide">
              Borrowed {unit}
            </th>
            <th scope="col" className="n only-phone">
              {unit}
            </th>
            <th scope="col" className="n hide">
              Jobs
            </th>
            <th scope="col" className="n">
              Cost
            </th>
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={`${row.node} ${row.pool}`}>
              <th
                scope="row"
                title={row.node}
                style={isTree ? indented(row.node.split("/").length - top) : undefined}
              >
                {isTree ? lastPart(row.node) : <NodeName path={row.node} common={common} />}
              </th>
              {hasPools && <td>{row.pool}</td>}
              <UseCells report={report} row={row} used={row} head={head} />
            </tr>
          ))}
        </tbody>
        <tfoot>
          {byDevice.map((total) => (
            <TotalRow
              key={total.device}
              report={report}
              total={total}
              head={head}
              // The jobs behind it are those of all pools, so they make no total of some.
              whole={byDevice.length > 1 ? null : whole}
              hasPools={hasPools}
            />
          ))}
          {byDevice.length > 1 && (
            <tr>
              <th scope="row">Total cost</th>
              {hasPools && <td />}
              <td className="n hide" />
              <td className="n hide" />
              <td className="n only-phone" />
              <td className="n hide">
                <JobsLink report={report} row={whole} mgpuS={totals.jobs}>
                  {formatCount(totals.jobs)}
                </JobsLink>
              </td>
              <td className="n">
                <JobsLink report={report} row={whole} mgpuS={totals.jobs}>
                  {formatCost(totals.cost_nano, currency)}
                </JobsLink>
              </td>
            </tr>
          )}
        </tfoot>
      </table>
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

/** The total of all rows with such devices. */
function TotalRow({
  report,
  total,
  head,
  whole,
  hasPools,
}: {
  report: CurrencyReport;
  total: DeviceTotals;
  head: Device;
  whole: BehindRow | null;
  hasPools: boolean;
}) {
  return (
    <tr>
      <th scope="row">Total</th>
      {hasPools && <td />}
      <UseCells report={report} row={whole} used={total} head={head} />
    </tr>
  );
}

/** What was used, by how many jobs, and what it costs; `row` is whose jobs make it. */
function UseCells({
  report,
  row,
  used,
  head,
}: {
  report: CurrencyReport;
  row: BehindRow | null;
  used: Pick<DeviceTotals, "device" | "guaranteed_mgpu_s" | "borrowed_mgpu_s" | "jobs" | "cost_nano">;
  head: Device;
}) {
  const mgpuS = used.guaranteed_mgpu_s + used.borrowed_mgpu_s;
  return (
    <>
      <td className="n hide">
        <JobsLink report={report} row={row} usage="guaranteed" mgpuS={used.guaranteed_mgpu_s}>
          {hoursUnder(head, used.guaranteed_mgpu_s, used.device)}
        </JobsLink>
      </td>
      <td className="n hide">
        <JobsLink report={report} row={row} usage="borrowed" mgpuS={used.borrowed_mgpu_s}>
          {hoursUnder(head, used.borrowed_mgpu_s, used.device)}
        </JobsLink>
      </td>
      <td className="n only-phone">
        <JobsLink report={report} row={row} mgpuS={mgpuS}>
          {hoursUnder(head, mgpuS, used.device)}
        </JobsLink>
      </td>
      <td className="n hide">
        <JobsLink report={report} row={row} mgpuS={mgpuS}>
          {formatCount(used.jobs)}
        </JobsLink>
      </td>
      <td className="n">
        <JobsLink report={report} row={row} mgpuS={mgpuS}>
          {formatCost(used.cost_nano, report.currency)}
        </JobsLink>
      </td>
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
  usage?: "guaranteed" | "borrowed";
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

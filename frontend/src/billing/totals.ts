import type { Chargeback, ChargebackRow } from "../api/types";
import { costsAgree } from "./costs";

type CurrencySums = Chargeback["by_currency"][number];

/** The part of a report whose costs are all in one currency. */
export type CurrencyReport = Pick<Chargeback, "start" | "end" | "as_of" | "rows"> & CurrencySums;

/** A report by currency, each part with its own rows. */
export function byCurrency(report: Chargeback): readonly CurrencyReport[] {
  const { start, end, as_of } = report;
  return report.by_currency.map((sums) => {
    const organizations = new Set(sums.organizations);
    const rows = report.rows.filter(({ node }) => organizations.has(node.split("/")[0] ?? node));
    return { start, end, as_of, ...sums, rows };
  });
}

export type DeviceTotals = CurrencySums["totals_by_device"][number];

/** The totals of each kind of devices; of GPUs, which are zeros then, where nothing was used. */
export function totalsOf<Totals extends { device: DeviceTotals["device"] }>(report: {
  totals: Omit<Totals, "device">;
  totals_by_device: readonly Totals[];
}): readonly (Totals | (Omit<Totals, "device"> & { device: "gpu" }))[] {
  return report.totals_by_device.length > 0 ? report.totals_by_device : [{ ...report.totals, device: "gpu" as const }];
}

/** The use of all classes, in milli-GPU-seconds. */
export function usedMgpuS(amounts: UsedByClass): number {
  return amounts.guaranteed_mgpu_s + amounts.borrowed_mgpu_s + amounts.unpaid_mgpu_s + amounts.fault_mgpu_s;
}

export type UsedByClass = Pick<
  DeviceTotals,
  "guaranteed_mgpu_s" | "borrowed_mgpu_s" | "unpaid_mgpu_s" | "fault_mgpu_s"
>;

export interface Sums {
  guaranteedMgpuS: bigint;
  borrowedMgpuS: bigint;
  unpaidMgpuS: bigint;
  faultMgpuS: bigint;
}

/** The rows of teams. Those of organizations and departments are sums of their teams already. */
function teamsOf(rows: readonly ChargebackRow[]): readonly ChargebackRow[] {
  return rows.filter((row) => row.node_kind === "team");
}

/** Adds the rows of teams up again, exactly, to hold them against what the server says. */
export function sumRows(rows: readonly ChargebackRow[]): Sums {
  const teams = teamsOf(rows);
  const sum = (value: (row: ChargebackRow) => number) =>
    teams.reduce((total, row) => total + BigInt(value(row)), 0n);
  return {
    guaranteedMgpuS: sum((row) => row.guaranteed_mgpu_s),
    borrowedMgpuS: sum((row) => row.borrowed_mgpu_s),
    unpaidMgpuS: sum((row) => row.unpaid_mgpu_s),
    faultMgpuS: sum((row) => row.fault_mgpu_s),
  };
}

export interface Reconciliation {
  /** The server's own check, and the rows on screen add up to its totals. */
  isEqual: boolean;
  segmentsMgpuS: bigint;
  rowsMgpuS: bigint;
}

/** Are the metered segments, the rows and the totals one and the same, to the milli-GPU-second and its cost? */
export function reconcile(report: CurrencyReport): Reconciliation {
  const sums = sumRows(report.rows);
  const rowsMgpuS = sums.guaranteedMgpuS + sums.borrowedMgpuS + sums.unpaidMgpuS + sums.faultMgpuS;
  const segmentsMgpuS = BigInt(report.check.segments_mgpu_s);
  return {
    segmentsMgpuS,
    rowsMgpuS,
    isEqual:
      report.check.is_equal &&
      segmentsMgpuS === rowsMgpuS &&
      costsAgree(teamsOf(report.rows), report.totals) &&
      sums.guaranteedMgpuS === BigInt(report.totals.guaranteed_mgpu_s) &&
      sums.borrowedMgpuS === BigInt(report.totals.borrowed_mgpu_s) &&
      sums.unpaidMgpuS === BigInt(report.totals.unpaid_mgpu_s) &&
      sums.faultMgpuS === BigInt(report.totals.fault_mgpu_s),
  };
}

import type { GroupedReport, GroupRow } from "./groupQueries";

type CurrencySums = GroupedReport["by_currency"][number];
export type DeviceTotals = CurrencySums["totals_by_device"][number];

/** The part of a report whose costs are all in one currency. */
export type CurrencyReport = CurrencySums & { rows: readonly GroupRow[] };

/** A report by currency, each part with its own rows. */
export function byCurrency(report: GroupedReport): readonly CurrencyReport[] {
  const isOnly = report.by_currency.length === 1;
  return report.by_currency.map((sums) => ({
    ...sums,
    rows: isOnly ? report.rows : report.rows.filter(({ currency }) => currency === sums.currency),
  }));
}

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

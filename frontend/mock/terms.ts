/** Made-up charges of a month with terms of pools, in which all parts of costs appear. */
import type { Chargeback, ChargebackRow } from "../src/api/types";
import { aChargeback } from "./company.ts";

const HOUR_MGPU_S = 3_600_000;
const NANO = 1_000_000_000;

/** Inference has a commitment of 160,000 GPU-hours, training top-ups of 100, and nlp showback. */
export function aChargebackWithTerms(start: string, end: string, groupBy = "team"): Chargeback {
  const report = aChargeback(start, end, groupBy);
  for (const row of report.rows) Object.assign(row, termsOf(row));
  const teams = report.rows.filter((row) => row.node_kind === "team");
  const sum = (value: (row: ChargebackRow) => number) => teams.reduce((total, row) => total + value(row), 0);
  const changed = {
    guaranteed_cost_nano: sum((row) => row.guaranteed_cost_nano),
    borrowed_cost_nano: sum((row) => row.borrowed_cost_nano),
    commitment_mgpu_s: sum((row) => row.commitment_mgpu_s),
    commitment_cost_nano: sum((row) => row.commitment_cost_nano),
    top_up_mgpu_s: sum((row) => row.top_up_mgpu_s),
    top_up_cost_nano: sum((row) => row.top_up_cost_nano),
    cost_nano: sum((row) => row.cost_nano),
    showback_nano: sum((row) => row.showback_nano),
  };
  for (const sums of [report, ...report.by_currency]) {
    Object.assign(sums.totals, changed);
    for (const totals of sums.totals_by_device) Object.assign(totals, changed);
  }
  return report;
}

function termsOf(row: ChargebackRow): Partial<ChargebackRow> {
  if (row.node.endsWith("/inference")) {
    const commitment_cost_nano = 320_000 * NANO;
    return {
      guaranteed_cost_nano: 0,
      commitment_mgpu_s: 160_000 * HOUR_MGPU_S,
      commitment_cost_nano,
      cost_nano: row.borrowed_cost_nano + commitment_cost_nano,
    };
  }
  if (row.node.endsWith("/training")) {
    const top_up_cost_nano = 200 * NANO;
    return { top_up_mgpu_s: 100 * HOUR_MGPU_S, top_up_cost_nano, cost_nano: row.cost_nano + top_up_cost_nano };
  }
  if (row.node.endsWith("/nlp")) {
    return { guaranteed_cost_nano: 0, borrowed_cost_nano: 0, cost_nano: 0, showback_nano: row.cost_nano };
  }
  return {};
}

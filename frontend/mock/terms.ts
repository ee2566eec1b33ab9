/** Made-up charges of a month with terms of pools, in which all parts of costs appear. */
import type { GroupedReport, GroupRow } from "../src/billing/groupQueries";
import { aChargeback, sumsOf } from "./groups.ts";

const HOUR_MGPU_S = 3_600_000;
const NANO = 1_000_000_000;

/** Inference has a commitment of 160,000 GPU-hours, training top-ups of 100, and nlp showback. */
export function aChargebackWithTerms(start: string, end: string): GroupedReport {
  const report = aChargeback(start, end);
  const rows = report.rows.map((row) => ({ ...row, ...termsOf(row) }));
  const sums = sumsOf(rows);
  return { ...report, rows, ...sums, by_currency: report.by_currency.map((part) => ({ ...part, ...sums })) };
}

function termsOf(row: GroupRow): Partial<GroupRow> {
  if (row.keys.team?.endsWith("/inference")) {
    const commitment_cost_nano = 320_000 * NANO;
    return {
      guaranteed_cost_nano: 0,
      commitment_mgpu_s: 160_000 * HOUR_MGPU_S,
      commitment_cost_nano,
      cost_nano: row.borrowed_cost_nano + commitment_cost_nano,
    };
  }
  if (row.keys.team?.endsWith("/training")) {
    const top_up_cost_nano = 200 * NANO;
    return { top_up_mgpu_s: 100 * HOUR_MGPU_S, top_up_cost_nano, cost_nano: row.cost_nano + top_up_cost_nano };
  }
  if (row.keys.team?.endsWith("/nlp")) {
    return { guaranteed_cost_nano: 0, borrowed_cost_nano: 0, cost_nano: 0, showback_nano: row.cost_nano };
  }
  return {};
}

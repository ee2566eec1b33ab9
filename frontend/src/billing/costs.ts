import type { DeviceTotals } from "./totals";

/** The parts of a cost, the cost, and what showback shows, in nano-currency. */
export type Costs = Pick<
  DeviceTotals,
  | "guaranteed_cost_nano"
  | "borrowed_cost_nano"
  | "unpaid_cost_nano"
  | "commitment_cost_nano"
  | "top_up_cost_nano"
  | "cost_nano"
  | "showback_nano"
>;

export interface CostColumn {
  header: string;
  hint: string;
  nano: (costs: Costs) => bigint;
}

const USE: CostColumn = {
  header: "Use",
  hint: "The cost of all classes of use",
  nano: (costs) =>
    BigInt(costs.guaranteed_cost_nano) + BigInt(costs.borrowed_cost_nano) + BigInt(costs.unpaid_cost_nano),
};
const COMMITMENTS: CostColumn = {
  header: "Commitments",
  hint: "The guarantee of pools that bill commitments, used or not",
  nano: (costs) => BigInt(costs.commitment_cost_nano),
};
const TOP_UPS: CostColumn = {
  header: "Top-ups",
  hint: "Minimums and increments: what attempts lacked of them",
  nano: (costs) => BigInt(costs.top_up_cost_nano),
};
const SHOWBACK: CostColumn = {
  header: "Showback, not billed",
  hint: "What use of pools in showback would cost. It is in no cost",
  nano: (costs) => BigInt(costs.showback_nano),
};

/**
 * The columns beside the cost that some row needs: the parts before it, which sum to it, and showback
 * after it. Rows whose costs are all of use need none.
 */
export function costColumns(rows: readonly Costs[]): { parts: readonly CostColumn[]; shown: readonly CostColumn[] } {
  const needed = (column: CostColumn) => rows.some((row) => column.nano(row) !== 0n);
  const extras = [COMMITMENTS, TOP_UPS].filter(needed);
  return { parts: extras.length > 0 ? [USE, ...extras] : [], shown: [SHOWBACK].filter(needed) };
}

/** Is each cost the sum of its parts, and the sum of the rows the total? */
export function costsAgree(rows: readonly Costs[], totals: Costs): boolean {
  const whole: CostColumn["nano"][] = [(costs) => BigInt(costs.cost_nano), ...[USE, COMMITMENTS, TOP_UPS, SHOWBACK].map(({ nano }) => nano)];
  return (
    [...rows, totals].every(
      (costs) => BigInt(costs.cost_nano) === [USE, COMMITMENTS, TOP_UPS].reduce((sum, { nano }) => sum + nano(costs), 0n),
    ) && whole.every((nano) => rows.reduce((sum, row) => sum + nano(row), 0n) === nano(totals))
  );
}

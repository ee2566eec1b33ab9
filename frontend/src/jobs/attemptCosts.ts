import type { Attempt, AttemptCosts } from "../api/types";
import { formatGpuHours, formatMoney } from "../ui/units";

function costOf({ id }: Pick<Attempt, "id">, costs: AttemptCosts | undefined) {
  return costs?.items.find(({ attempt }) => attempt === id);
}

/** Device hours that the attempt is charged for: "160.00". */
export function hoursText(attempt: Pick<Attempt, "id">, costs: AttemptCosts | undefined): string {
  const cost = costOf(attempt, costs);
  return cost === undefined ? "–" : formatGpuHours(cost.mgpu_s);
}

/** The cost of the attempt so far; of one without use a dash. */
export function costText(attempt: Pick<Attempt, "id">, costs: AttemptCosts | undefined): string {
  const cost = costOf(attempt, costs);
  return cost === undefined || costs?.currency == null ? "–" : formatMoney(cost.cost_nano, costs.currency);
}

import type { JobPlan } from "../api/types";
import { formatMoney } from "../ui/units";

/** "€8.00; covered by the commitment: €16.00": the billed cost, and what showback or a commitment leaves unbilled. */
export function costWords(nano: number, unbilledNano: number | null, mode: JobPlan["price_mode"], currency: string): string {
  const billed = formatMoney(nano, currency);
  if (unbilledNano === null || unbilledNano === 0) return billed;
  const unbilled = formatMoney(unbilledNano, currency);
  return mode === "showback"
    ? `showback: not billed (would cost ${unbilled})`
    : `${billed}; covered by the commitment: ${unbilled}`;
}

import type { Today } from "../api/types";
import { formatMoney } from "../ui/units";

export type CostMode = NonNullable<Today["waste"][number]["cost"]>["price_mode"];

/** "€8.00; covered by the commitment: €16.00": the billed cost, and what showback or a commitment leaves unbilled. */
export function costWords(nano: number, unbilledNano: number | null, mode: CostMode | null, currency: string): string {
  const billed = formatMoney(nano, currency);
  if (unbilledNano === null || unbilledNano === 0) return billed;
  const unbilled = formatMoney(unbilledNano, currency);
  if (mode === "mixed") return `${billed}; not billed: ${unbilled}`;
  if (mode !== "showback") return `${billed}; covered by the commitment: ${unbilled}`;
  return nano === 0 ? `showback: not billed (would cost ${unbilled})` : `${billed}; showback, not billed: ${unbilled}`;
}

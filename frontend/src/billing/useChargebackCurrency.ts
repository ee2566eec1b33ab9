import { useQuery } from "@tanstack/react-query";
import { useSearch } from "@tanstack/react-router";

import { chargebackQuery } from "../api/queries";

/** The currency of the report that this list belongs to; empty until it is known. */
export function useChargebackCurrency(): string {
  const { start, end, node } = useSearch({ from: "/shell/chargeback/jobs" });
  const report = useQuery(chargebackQuery({ start, end, group_by: "team", team: node }));
  return report.data?.currency ?? "";
}

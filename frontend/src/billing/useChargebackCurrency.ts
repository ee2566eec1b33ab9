import { useQuery } from "@tanstack/react-query";

import { groupsQuery } from "./groupQueries";
import { useJobsPeriod } from "./useJobsPeriod";

/** The currency of the report that this list belongs to; null until it is known and where there is no price. */
export function useChargebackCurrency(): string | null {
  const { start, end, node } = useJobsPeriod();
  const report = useQuery(groupsQuery(["organization"], { start, end, node }));
  return report.data?.currency ?? null;
}

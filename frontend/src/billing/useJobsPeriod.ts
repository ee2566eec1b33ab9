import { useSearch } from "@tanstack/react-router";

import { useSession } from "../session/useSession";
import { useNowMs } from "../ui/now";
import { type Period, resolvePeriod, thisMonth } from "./period";

/** What the list of jobs behind a charge is of. The running month and all that I may see costs of, unless the address says. */
export function useJobsPeriod(): Period & { node: string } {
  const { start, end, node, scope } = useSearch({ from: "/shell/chargeback/jobs" });
  const session = useSession();
  const nowMs = useNowMs();
  const period = resolvePeriod("custom", 0, { start, end }) ?? thisMonth(nowMs);
  const granted = Object.entries(session.permissions).find(([, may]) => may.includes("view_costs"));
  return { ...period, node: node ?? scope ?? (granted?.[0] || session.user.organization?.slug) ?? "" };
}

import type { Explanation, JobDetail, AskedKind } from "../api/types";
import { AskLink } from "../requests/AskLink";
import { may } from "../session/access";
import { useSession } from "../session/useSession";
import { formatGpus } from "../ui/units";

/** The request that would help a job which waits for this reason. */
const HELPS: Partial<Record<Explanation["code"], AskedKind>> = {
  waiting_for_guarantee: "guarantee",
  waiting_for_free_gpus: "guarantee",
  waiting_for_reclaim: "guarantee",
  behind_higher_priority: "guarantee",
  behind_credits: "guarantee",
  behind_fair_share: "guarantee",
  reserved_for_larger_job: "guarantee",
  borrow_limit_reached: "borrow_limit",
  class_cap_reached: "class_cap",
  budget_exhausted: "budget",
};

const LABELS: Partial<Record<AskedKind, string>> = {
  guarantee: "Ask for more guaranteed GPUs…",
  borrow_limit: "Ask for a higher borrow limit…",
  class_cap: "Ask for a higher cap…",
  budget: "Ask for a larger budget…",
};

/** Leads from a waiting job to the request that would help it, filled with its team; of a quota, with its size, too. */
export function AskForMore({ job, code }: { job: JobDetail; code: Explanation["code"] }) {
  const session = useSession();
  const kind = HELPS[code];
  if (kind === undefined || job.device !== "gpu" || !may(session, "submit_jobs", job.team)) return null;
  const gpus = kind === "guarantee" || kind === "borrow_limit" ? formatGpus(job.mgpu).replaceAll(",", "") : undefined;
  const pool = job.pools.length === 1 ? job.pools[0] : undefined;
  return (
    <p className="more">
      <AskLink asked={{ ask: kind, node: job.team, pool, gpus }}>
        {LABELS[kind] ?? "Ask for more…"}
      </AskLink>
    </p>
  );
}

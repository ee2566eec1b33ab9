import type { Cluster } from "../api/types";
import { DataTable } from "../ui/DataTable";
import { countUnder, DEVICE_HEADS, DEVICE_WORDS, DEVICES, formatGpuCount, headOf } from "../ui/units";

const WHY = {
  other_organization: "the user is of another organization",
  no_priority_class: "the organization has no priority class",
  given_up: "it had been given up as lost",
  copy_of_ours: "it bears the name of a job of the portal and is not that job",
  several_pools: "it holds parts of several pools at once",
  makes_no_sense: "what the cluster says of it makes no sense",
  ended_and_back: "it had ended here and is back on the cluster",
  not_yet_counted: "counted from the next look on",
} as const;

/** What runs and waits on the cluster beside the portal; by name for those who manage clusters. */
export function OutsideUse({ cluster }: { cluster: Cluster }) {
  const why = { ...WHY, unknown_account: cluster.words.unknown_account, unknown_user: cluster.words.unknown_user };
  const { running, running_mgpu, pending, pending_mgpu, holders } = cluster.outside;
  const deviceOf = new Map(cluster.pools.map((pool) => [pool.pool, pool.device]));
  const kinds = new Set(deviceOf.values());
  const head = headOf(cluster.pools);
  // The server's sums are of all pools: of a cluster with cores and GPUs they would count both as one.
  const isOfOne = kinds.size < 2;
  if (running === 0 && pending === 0) return null;
  return (
    <section aria-label="Beside the portal">
      <p>
        {running > 0 &&
          `${isOfOne ? formatGpuCount(running_mgpu, head) : heldOf(cluster)} are held by ${running} ${running === 1 ? "job" : "jobs"} of no team here and are not offered. `}
        {pending > 0 &&
          `${pending} ${pending === 1 ? "job waits" : "jobs wait"} in the cluster's own queue${isOfOne && pending_mgpu > 0 ? `, for ${formatGpuCount(pending_mgpu, head)}` : ""}.`}
      </p>
      {holders !== null && holders.length > 0 && (
        <DataTable
          label={`Who holds ${DEVICE_WORDS[head]} of ${cluster.name} beside the portal`}
          rows={holders}
          rowKey={(holder) => `${holder.account} ${holder.user} ${holder.pool} ${holder.reason}`}
          columns={[
            {
              header: cluster.words.account,
              isHeading: true,
              cell: (holder) => holder.account || "–",
            },
            { header: "User", cell: (holder) => holder.user || "–" },
            {
              header: DEVICE_HEADS[head],
              isRight: true,
              cell: (holder) => (
                <>
                  {countUnder(head, holder.mgpu, deviceOf.get(holder.pool) ?? head)}{" "}
                  <span className="faint">{holder.pool}</span>
                </>
              ),
            },
            {
              header: "Why for no team",
              only: "wide",
              cell: (holder) => why[holder.reason],
            },
          ]}
        />
      )}
    </section>
  );
}

/** What is held of the healthy nodes, of each kind: "8 GPUs and 4 cores". */
function heldOf(cluster: Cluster): string {
  const sums = DEVICES.map((device) => {
    const pools = cluster.pools.filter((pool) => pool.device === device);
    return [device, pools.reduce((sum, pool) => sum + pool.outside_mgpu, 0)] as const;
  });
  return sums
    .filter(([, mgpu]) => mgpu > 0)
    .map(([device, mgpu]) => formatGpuCount(mgpu, device))
    .join(" and ");
}

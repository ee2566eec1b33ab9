import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";

import { quotasQuery } from "../api/queries";
import { formatLent, quotaUse } from "../quotas/use";
import { Card } from "../ui/Card";
import { DataTable } from "../ui/DataTable";
import type { Idle } from "./groupQueries";
import { deviceTime, DEVICE_WORDS, formatShare, headOf, hoursUnder } from "../ui/units";

type WithheldPool = Idle["withheld"][number];

const REASONS: Record<WithheldPool["reason"], string> = {
  shared: "Idle time of the whole pool is not shown: it would tell what other organizations use.",
  partial: "Idle time is shown to readers of the whole organization's costs.",
};

/** Why the idle time of some pools is missing, and the unused part of the reader's own guarantee there. */
export function WithheldCapacity({ pools, isRunning }: { pools: readonly WithheldPool[]; isRunning: boolean }) {
  const shared = pools.filter(({ reason }) => reason === "shared");
  const partial = pools.filter(({ reason }) => reason === "partial");
  return (
    <>
      {shared.length > 0 && (
        <Card label="Your guarantee in shared pools">
          <h2>Your guarantee in shared pools</h2>
          <GuaranteeTable pools={shared} isRunning={isRunning} />
          <p className="check">{REASONS.shared}</p>
        </Card>
      )}
      {partial.length > 0 && (
        <p className="sub" style={{ margin: 0 }}>
          {REASONS.partial}
        </p>
      )}
    </>
  );
}

function GuaranteeTable({ pools, isRunning }: { pools: readonly WithheldPool[]; isRunning: boolean }) {
  const head = headOf(pools);
  const unit = deviceTime(head, "h");
  return (
    <DataTable
      rows={pools.map(({ pool, device, guaranteed_mgpu_s, unused_mgpu_s }) => ({
        pool,
        device,
        guaranteed: guaranteed_mgpu_s ?? 0,
        unused: unused_mgpu_s ?? 0,
      }))}
      rowKey={({ pool }) => pool}
      columns={[
        {
          header: "Pool",
          isHeading: true,
          cell: ({ pool }) => (
            <Link to="/quotas" search={{ pool }}>
              {pool}
            </Link>
          ),
        },
        {
          header: `Guaranteed ${unit}`,
          isRight: true,
          only: "wide",
          cell: ({ guaranteed, device }) => hoursUnder(head, guaranteed, device),
        },
        {
          header: `Used by your jobs ${unit}`,
          isRight: true,
          only: "wide",
          cell: ({ guaranteed, unused, device }) => hoursUnder(head, guaranteed - unused, device),
        },
        {
          header: `Not used ${unit}`,
          hint: "Idle, or lent to other organizations.",
          isRight: true,
          cell: ({ guaranteed, unused, device }) => (
            <>
              {hoursUnder(head, unused, device)}
              <span className="faint hide"> · {formatShare(unused, guaranteed)}</span>
            </>
          ),
        },
        isRunning && { header: "Lent now", isRight: true, cell: ({ pool }) => <LentNow pool={pool} /> },
      ]}
    />
  );
}

/** What other organizations use now of the guarantees that the reader may see. */
function LentNow({ pool }: { pool: string }) {
  const quotas = useQuery(quotasQuery({ pool }));
  if (quotas.data === undefined) return "…";
  const own = quotas.data.filter(({ parent }) => parent === null).map(quotaUse);
  const [first] = own;
  const lentMgpu = own.reduce((sum, use) => sum + use.lentMgpu, 0);
  return `${formatLent(lentMgpu)} ${first ? DEVICE_WORDS[first.device] : ""}`;
}

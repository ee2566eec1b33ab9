import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";

import { quotasQuery } from "../api/queries";
import type { Chargeback } from "../api/types";
import { formatLent, quotaUse } from "../quotas/use";
import { deviceTime, DEVICE_WORDS, formatShare, headOf, hoursUnder } from "../ui/units";

type WithheldPool = Chargeback["capacity_withheld"][number];

const REASONS: Record<WithheldPool["reason"], string> = {
  shared: "Idle time of the whole pool is not shown: it would tell what other organizations use.",
  partial: "Idle time is shown to readers of the whole organization's costs.",
};

/** Why the idle time of some pools is missing, and the unused part of the reader's own guarantee there. */
export function WithheldCapacity({ report }: { report: Chargeback }) {
  const pools = report.capacity_withheld;
  const shared = pools.filter(({ reason }) => reason === "shared");
  const partial = pools.filter(({ reason }) => reason === "partial");
  return (
    <>
      {shared.length > 0 && (
        <section className="card" aria-label="Your guarantee in shared pools">
          <h2>Your guarantee in shared pools</h2>
          <GuaranteeTable pools={shared} isRunning={Date.parse(report.as_of) < Date.parse(report.end)} />
          <p className="check">{REASONS.shared}</p>
        </section>
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
    <table>
      <thead>
        <tr>
          <th scope="col">Pool</th>
          <th scope="col" className="n hide">
            Guaranteed {unit}
          </th>
          <th scope="col" className="n hide">
            Used by your jobs {unit}
          </th>
          <th scope="col" className="n" title="Idle, or lent to other organizations.">
            Not used {unit}
          </th>
          {isRunning && (
            <th scope="col" className="n">
              Lent now
            </th>
          )}
        </tr>
      </thead>
      <tbody>
        {pools.map(({ pool, device, guaranteed_mgpu_s, unused_mgpu_s }) => {
          const guaranteed = guaranteed_mgpu_s ?? 0;
          const unused = unused_mgpu_s ?? 0;
          return (
            <tr key={pool}>
              <th scope="row">
                <Link to="/quotas" search={{ pool }}>
                  {pool}
                </Link>
              </th>
              <td className="n hide">{hoursUnder(head, guaranteed, device)}</td>
              <td className="n hide">{hoursUnder(head, guaranteed - unused, device)}</td>
              <td className="n">
                {hoursUnder(head, unused, device)}
                <span className="faint hide"> · {formatShare(unused, guaranteed)}</span>
              </td>
              {isRunning && (
                <td className="n">
                  <LentNow pool={pool} />
                </td>
              )}
            </tr>
          );
        })}
      </tbody>
    </table>
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

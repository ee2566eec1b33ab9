import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";

import { quotasQuery } from "../api/queries";
import type { JobDetail } from "../api/types";
import { formatSignedHours } from "../credits/amounts";
import { levelText } from "../shares/levels";
import { summariesQuery } from "../shares/queries";
import { Card } from "../ui/Card";
import { Fact, Facts } from "../ui/Facts";
import { deviceTime, formatShare } from "../ui/units";
import { lastPart } from "./words";

/** By what the scheduler orders the team of a waiting job among its siblings. Nothing where the reader may not see it. */
export function OrderCard({ job }: { job: JobDetail }) {
  const isWaiting = job.state === "queued";
  const { team, pool } = job;
  const quotas = useQuery({ ...quotasQuery({ subtree: team, pool }), enabled: isWaiting });
  const summaries = useQuery({ ...summariesQuery(team, pool), enabled: isWaiting });
  const quota = quotas.data?.find(({ node }) => node === team);
  const summary = summaries.data?.nodes.find(({ node }) => node === team);
  if (!isWaiting || summary === undefined) return null;
  return (
    <Card label="Order among teams">
      <h2>Order among teams</h2>
      <Facts label="Order among teams">
        {quota !== undefined && (
          <>
            <Fact name="Inside the guarantee">
              {quota.use.in_use_mgpu + job.mgpu <= quota.guaranteed_mgpu ? "yes: it comes first" : "no"}
            </Fact>
            {quota.guaranteed_mgpu > 0 && (
              <Fact name={`${lastPart(team)} uses of its guarantee`}>{formatShare(quota.use.in_use_mgpu, quota.guaranteed_mgpu)}</Fact>
            )}
          </>
        )}
        <Fact name="Fair share (1 = even)">
          <Link to="/fair-share" search={{ node: team, pool }}>
            {levelText(summary.level_permille)}
          </Link>
        </Fact>
        <Fact name="Place among siblings">
          {summary.place} of {summary.siblings}
        </Fact>
        {summary.credits_ugpu_s !== null && (
          <Fact name="Credits">
            {formatSignedHours(summary.credits_ugpu_s)} {deviceTime(job.device, "h")}
          </Fact>
        )}
      </Facts>
    </Card>
  );
}

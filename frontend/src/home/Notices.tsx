import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";

import { clustersQuery, quarantineQuery, someJobsQuery } from "../api/queries";
import type { Session } from "../api/types";
import { freshnessOf } from "../shell/Freshness";
import { Card } from "../ui/Card";
import { useNowMs } from "../ui/now";
import { Countdown } from "../ui/Time";
import { formatGpuCount } from "../ui/units";
import { OpenLog, StopAnother } from "./NoticeLinks";

const SHOWN = 8;

/** Quarantine, GPUs that the reader's jobs give back, and clusters with old numbers. */
export function Notices({ session }: { session: Session }) {
  const now = useNowMs();
  const clusters = useQuery(clustersQuery);
  const quarantine = useQuery(quarantineQuery).data?.sentence ?? "";
  const giving = useQuery(
    someJobsQuery({ state: ["preempting"], user: session.user.username }, SHOWN),
  );
  const stale = (clusters.data ?? []).filter(
    (cluster) => cluster.is_enabled && !freshnessOf(cluster, now).isFresh,
  );
  const mine = giving.data?.items ?? [];
  if (stale.length === 0 && mine.length === 0 && quarantine === "") return null;
  return (
    <Card label="Notices" tone="warn">
      <h2>Notices</h2>
      {quarantine !== "" && <p>▲ {quarantine}</p>}
      {mine.map((job) => (
        <div key={job.id} className="notice-line more">
          <span>
            ▲{" "}
            <Link to="/jobs/$jobId" params={{ jobId: job.id }}>
              {job.name}
            </Link>{" "}
            must give back {formatGpuCount(job.mgpu, job.device)}
            {job.current_attempt?.grace_until && (
              <>
                : <Countdown until={job.current_attempt.grace_until} /> left to save its work
              </>
            )}
            . {job.is_requeueable ? `Then it is requeued as attempt ${String(job.attempt + 1)}.` : "Then it ends."}
          </span>
          <OpenLog job={job} isOnly />
          <StopAnother scope={job.team} pool={job.pool} user={session.user.username} />
        </div>
      ))}
      {stale.map((cluster) => (
        <p key={cluster.id}>
          ▲{" "}
          <Link to="/clusters/$name" params={{ name: cluster.name }}>
            {cluster.name}
          </Link>{" "}
          is {freshnessOf(cluster, now).words}: its numbers may be old
          {(clusters.data ?? []).length > 1 && ", the other clusters are not affected"}.
        </p>
      ))}
    </Card>
  );
}

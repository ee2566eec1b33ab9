import { Button } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";

import { client, unwrap } from "../api/client";
import type { JobAlternatives, JobDetail, JobPlan } from "../api/types";
import { may } from "../session/access";
import { useSession } from "../session/useSession";
import { insteadText } from "../submit/instead";
import { Card } from "../ui/Card";
import { CliLine } from "../ui/CliLine";
import { DataTable } from "../ui/DataTable";
import { Lines } from "../ui/states";
import { Time } from "../ui/Time";
import { codeWords, methodWords } from "./words";

/** What would start it sooner: the same work asked for otherwise, tried on the arbiter without effect. */
export function SoonerCard({ job }: { job: JobDetail }) {
  const session = useSession();
  const trial = useMutation({
    mutationFn: () =>
      unwrap(client.POST("/api/v1/jobs/{job_id}/alternatives", { params: { path: { job_id: job.id } } })),
  });
  if (job.state !== "queued" || !may(session, "submit_jobs", job.team)) return null;
  return (
    <Card label="What would start it sooner" aria-busy={trial.isPending}>
      <div className="spread">
        <h2>What would start it sooner?</h2>
        <Button size="xs" variant="default" loading={trial.isPending} onClick={() => trial.mutate()}>
          {trial.data ? "Try again" : "Try it"}
        </Button>
      </div>
      {trial.isPending && <Lines count={4} label="Trying" />}
      {trial.isIdle && (
        <p className="dim">
          Tests other sizes, time limits and pools for this job. Nothing is changed.
        </p>
      )}
      {trial.error && (
        <p className="bad-text" role="alert">
          {trial.error.message}
        </p>
      )}
      {trial.data && <Found found={trial.data} jobId={job.id} />}
    </Card>
  );
}

function Found({ found, jobId }: { found: JobAlternatives; jobId: string }) {
  if (found.items.length === 0) return <p className="dim">{found.sentence}</p>;
  return (
    <>
      <p>{found.sentence}</p>
      <DataTable
        rows={found.items}
        rowKey={({ label }) => label}
        columns={[
          { header: "Asked for otherwise", isHeading: true, cell: ({ label }) => label },
          {
            header: "It would start",
            cell: ({ label, plan, changes, request }) => (
              <>
                <Outcome plan={plan} />
                {plan.fits && request !== null && (
                  <div>
                    <Link
                      to="/submit"
                      search={{ from: jobId, instead: insteadText(changes) }}
                      aria-label={`Submit this instead: ${label}`}
                    >
                      Submit this instead
                    </Link>
                  </div>
                )}
              </>
            ),
          },
        ]}
      />
      <p className="small dim">
        Estimates for a new job in its place. Nothing is reserved.
        {found.items.some(({ request }) => request === null) &&
          " To submit these from here, you need the right to read the job's script."}
      </p>
      <CliLine command={`tidegate why ${jobId} --alternatives`} />
    </>
  );
}

function Outcome({ plan }: { plan: JobPlan }) {
  if (plan.would_start_now) {
    return (
      <>
        <b className="good-text">now</b>
        {plan.cluster && ` on ${plan.cluster}`}
        {plan.borrowed_mgpu > 0 && <span className="faint"> · borrowed</span>}
      </>
    );
  }
  if (!plan.fits) return <span className="dim">never: {plan.explanation.sentence}</span>;
  const estimate = plan.explanation.estimated_start;
  const why = codeWords(plan.explanation.code, plan.job.device);
  if (estimate?.latest == null) return <span className="dim">unknown: {why}</span>;
  return (
    <>
      <Time at={estimate.latest} /> at the latest, {methodWords(estimate.method)}{" "}
      <span className="faint">· {why}</span>
    </>
  );
}

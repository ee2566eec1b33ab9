import { Button } from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";

import { client, unwrap } from "../api/client";
import { poolsQuery } from "../api/queries";
import type { JobDetail, JobPlan } from "../api/types";
import { may } from "../session/access";
import { useSession } from "../session/useSession";
import { Lines } from "../ui/states";
import { Time } from "../ui/Time";
import { couldBeSooner, outcomeRank, variantsOf } from "./sooner";
import { codeWords } from "./words";

/** What would start it sooner: the same work asked for otherwise, tried on the arbiter without effect. */
export function SoonerCard({ job }: { job: JobDetail }) {
  const session = useSession();
  const pools = useQuery(poolsQuery);
  const trial = useMutation({
    mutationFn: async () => {
      const found: { label: string; plan: JobPlan | null }[] = [];
      // One after the other: each is a whole decision of the arbiter.
      for (const { label, request } of variantsOf(job, (pools.data ?? []).map(({ name }) => name))) {
        try {
          const plan = await unwrap(
            client.POST("/api/v1/jobs", { params: { query: { dry_run: true } }, body: request }),
          );
          found.push({ label, plan: plan as JobPlan });
        } catch {
          found.push({ label, plan: null });
        }
      }
      const rank = (plan: JobPlan | null) => (plan === null ? 4 : outcomeRank(plan));
      return found.sort((a, b) => rank(a.plan) - rank(b.plan));
    },
  });
  if (!couldBeSooner(job) || !may(session, "submit_jobs", job.team)) return null;
  return (
    <section className="card" aria-label="What would start it sooner" aria-busy={trial.isPending}>
      <div className="spread">
        <h2>What would start it sooner?</h2>
        <Button size="xs" variant="default" loading={trial.isPending} onClick={() => trial.mutate()}>
          {trial.data ? "Try again" : "Try it"}
        </Button>
      </div>
      {trial.isPending && <Lines count={4} label="Trying" />}
      {!trial.data && !trial.isPending && (
        <p className="dim">
          Asks the arbiter about the same work with fewer GPUs, a shorter limit, other pools. It changes nothing.
        </p>
      )}
      {trial.data && <Outcomes found={trial.data} jobId={job.id} />}
    </section>
  );
}

function Outcomes({ found, jobId }: { found: { label: string; plan: JobPlan | null }[]; jobId: string }) {
  if (found.length === 0) return <p className="dim">There is nothing that it could ask for otherwise.</p>;
  return (
    <>
      <table>
        <thead>
          <tr>
            <th scope="col">Asked for otherwise</th>
            <th scope="col">It would start</th>
          </tr>
        </thead>
        <tbody>
          {found.map(({ label, plan }) => (
            <tr key={label}>
              <th scope="row">{label}</th>
              <td>{plan === null ? <span className="faint">no answer</span> : <Outcome plan={plan} />}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <p className="small dim">
        As a new job beside this one, as things stand; no reservation.{" "}
        <Link to="/submit" search={{ from: jobId }}>
          Clone it
        </Link>{" "}
        to ask for one of these, and cancel this one.
      </p>
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
  const latest = plan.explanation.estimated_start?.latest;
  if (latest != null) {
    return (
      <>
        <Time at={latest} /> at the latest <span className="faint">· {codeWords(plan.explanation.code, plan.job.device)}</span>
      </>
    );
  }
  return <span className="dim">unknown: {codeWords(plan.explanation.code, plan.job.device)}</span>;
}

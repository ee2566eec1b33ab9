import { Button } from "@mantine/core";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { Link, useSearch } from "@tanstack/react-router";
import { Fragment } from "react";

import { chargebackQuery, clustersQuery, comparePaths, quotasQuery, someJobsQuery } from "../api/queries";
import type { Job, JobState, Quota, Session } from "../api/types";
import { thisMonth } from "../billing/period";
import { byCurrency, totalsOf } from "../billing/totals";
import { JobTable } from "../jobs/JobTable";
import { JOB_STATES, lastPart, stateTone, stateWord } from "../jobs/words";
import { QuotaBar, QuotaLegend } from "../quotas/QuotaBar";
import { commonScale, formatLent, quotaUse } from "../quotas/use";
import { isWithin, may } from "../session/access";
import { useSession } from "../session/useSession";
import { freshnessOf } from "../shell/Freshness";
import { CliLine } from "../ui/CliLine";
import { useNowMs } from "../ui/now";
import { Empty, Lines, QueryView } from "../ui/states";
import { Countdown } from "../ui/Time";
import {
  capitalised,
  countUnder,
  devicesIn,
  deviceTime,
  formatCost,
  formatCount,
  formatGpuCount,
  formatGpuHours,
  headOf,
  type Device,
} from "../ui/units";
import { usePageTitle } from "../ui/usePageTitle";

const ACTIVE: readonly JobState[] = ["queued", "held", "starting", "running", "preempting"];
const COUNTED = 200;
const SHOWN = 8;
const TEAMS_SHOWN = 8;

export function HomePage() {
  usePageTitle("Home");
  const session = useSession();
  const { scope } = useSearch({ from: "/shell" });
  return (
    <>
      <h1>Hello, {session.user.name || session.user.username}</h1>
      <p className="sub">{session.user.organization?.name ?? "All organizations"}</p>
      <div className="rows">
        <Notices session={session} />
        {may(session, "submit_jobs") ? (
          <MyJobs session={session} />
        ) : may(session, "view_costs") ? (
          <Costs scope={scope} />
        ) : (
          <section className="card" aria-label="No role yet">
            <Empty>You have no role yet with which to submit jobs. An administrator of yours can give you one.</Empty>
          </section>
        )}
        {may(session, "view_tree") && <MyTeams session={session} scope={scope} />}
      </div>
    </>
  );
}

/** What needs attention: GPUs that I must give back, and clusters whose numbers are old. */
function Notices({ session }: { session: Session }) {
  const now = useNowMs();
  const clusters = useQuery(clustersQuery);
  const giving = useQuery(
    someJobsQuery({ state: ["preempting"], user: session.user.username }, SHOWN),
  );
  const stale = (clusters.data ?? []).filter(
    (cluster) => cluster.is_enabled && !freshnessOf(cluster, now).isFresh,
  );
  const mine = giving.data?.items ?? [];
  if (stale.length === 0 && mine.length === 0) return null;
  return (
    <section className="card mark warn" aria-label="Notices">
      <h2>Notices</h2>
      {mine.map((job) => (
        <p key={job.id}>
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
          .
        </p>
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
    </section>
  );
}

/** For those who count and check rather than submit: what this month cost, and where to look further. */
function Costs({ scope }: { scope: string | undefined }) {
  const period = thisMonth(useNowMs());
  const report = useQuery({
    ...chargebackQuery({
      start: period.start,
      end: period.end,
      group_by: "team",
      ...(scope ? { team: scope } : {}),
    }),
    placeholderData: keepPreviousData,
  });
  return (
    <section className="card" aria-label="Costs">
      <div className="spread">
        <h2>Costs · {period.label}</h2>
        <Button component={Link} to="/chargeback" size="xs">
          Chargeback
        </Button>
      </div>
      <QueryView query={report} loading={<Lines count={3} label="Loading the costs" />}>
        {(data) => (
          <div className="stack">
            <table className="facts">
              <tbody>
                <tr>
                  <th scope="row">Cost so far</th>
                  <td>
                    {byCurrency(data).map(({ currency, totals }) => (
                      <div key={currency}>{formatCost(totals.cost_nano, currency)}</div>
                    ))}
                  </td>
                </tr>
                {totalsOf(data).map((each) => (
                  <Fragment key={each.device}>
                    <tr>
                      <th scope="row">{capitalised(deviceTime(each.device, "hours"))} guaranteed</th>
                      <td>{formatGpuHours(each.guaranteed_mgpu_s)}</td>
                    </tr>
                    <tr>
                      <th scope="row">{capitalised(deviceTime(each.device, "hours"))} borrowed</th>
                      <td>{formatGpuHours(each.borrowed_mgpu_s)}</td>
                    </tr>
                  </Fragment>
                ))}
                <tr>
                  <th scope="row">Jobs</th>
                  <td>{formatCount(data.totals.jobs)}</td>
                </tr>
              </tbody>
            </table>
            <div className="spread">
              <span className="inline">
                <Link to="/chargeback" search={{ period: "last-month" }}>
                  Last month
                </Link>
                <Link to="/jobs">All jobs</Link>
              </span>
              <CliLine
                command={`tidegate report chargeback --start ${period.start} --end ${period.end}${scope ? ` --team ${scope}` : ""}`}
              />
            </div>
          </div>
        )}
      </QueryView>
    </section>
  );
}

function MyJobs({ session }: { session: Session }) {
  const user = session.user.username;
  const jobs = useQuery(someJobsQuery({ user, sort: "-submitted_at" }, COUNTED));
  return (
    <section className="card" aria-label="My jobs">
      <div className="spread">
        <h2>My jobs</h2>
        <Button component={Link} to="/submit" size="xs">
          Submit a job
        </Button>
      </div>
      <QueryView query={jobs} loading={<Lines count={4} label="Loading my jobs" />}>
        {({ items, next }) =>
          items.length === 0 ? (
            <Empty
              cli="tidegate submit --team TEAM --gpus 1 job.sh"
              action={
                <Button component={Link} to="/submit" variant="default">
                  Submit the first
                </Button>
              }
            >
              You have not submitted a job yet.
            </Empty>
          ) : (
            <div className="stack">
              <Counts jobs={items} isMore={next !== null} user={user} />
              <JobTable jobs={mostUrgent(items).slice(0, SHOWN)} caption="My jobs that need a look" />
              <div className="spread">
                <Link to="/jobs" search={{ user }}>
                  All my jobs
                </Link>
                <CliLine command={`tidegate ls --user ${user}`} />
              </div>
            </div>
          )
        }
      </QueryView>
    </section>
  );
}

/** What runs or waits first, newest first; then what ended. */
function mostUrgent(jobs: readonly Job[]): Job[] {
  const rank = (job: Job) => (ACTIVE.includes(job.state) ? 0 : 1);
  return [...jobs].sort((a, b) => rank(a) - rank(b) || (a.submitted_at < b.submitted_at ? 1 : -1));
}

function Counts({ jobs, isMore, user }: { jobs: readonly Job[]; isMore: boolean; user: string }) {
  const counts = JOB_STATES.map((state) => ({
    state,
    count: jobs.filter((job) => job.state === state).length,
  })).filter(({ count }) => count > 0);
  return (
    <div className="inline">
      {counts.map(({ state, count }) => (
        <Link key={state} to="/jobs" search={{ user, state }} className={`pill ${stateTone(state)}`}>
          {count} {stateWord(state)}
        </Link>
      ))}
      {isMore && <span className="small faint">of the newest {COUNTED}</span>}
    </div>
  );
}

/** Teams that I have a role in, or that lie below one; those with a bar of their own. */
function myTeams(session: Session, quotas: readonly Quota[]): Quota[] {
  const mine = session.grants.map((grant) => grant.node_path ?? "");
  return quotas
    .filter((quota) => quota.node_kind === "team" && mine.some((path) => isWithin(quota.node, path)))
    .sort((a, b) => comparePaths(a.node, b.node) || (a.pool < b.pool ? -1 : 1));
}

function MyTeams({ session, scope }: { session: Session; scope: string | undefined }) {
  const quotas = useQuery(quotasQuery(scope ? { subtree: scope } : {}));
  // Who does not submit looks after the teams of others.
  const devices = devicesIn(quotas.data ?? []);
  const title = may(session, "submit_jobs") ? `${devices} of my teams` : `${devices} of the teams`;
  return (
    <section className="card" aria-label={title}>
      <h2>{title}</h2>
      <QueryView query={quotas} loading={<Lines count={4} label="Loading quotas" />}>
        {(items) => {
          const teams = myTeams(session, items);
          return teams.length === 0 ? (
            <Empty cli="tidegate quota get ORGANIZATION --subtree" action={<Link to="/quotas">See the whole tree</Link>}>
              No team of yours has a quota here.
            </Empty>
          ) : (
            <TeamTable teams={teams} title={title} />
          );
        }}
      </QueryView>
    </section>
  );
}

function TeamTable({ teams, title }: { teams: readonly Quota[]; title: string }) {
  const hasPools = new Set(teams.map((team) => team.pool)).size > 1;
  const shown = teams.slice(0, TEAMS_SHOWN);
  const head = headOf(shown);
  // A core and a GPU are no one length.
  const scaleOf = (device: Device) => commonScale(shown.filter((team) => team.device === device).map(quotaUse));
  return (
    <>
      <table aria-label={title}>
        <thead>
          <tr>
            <th scope="col">Team</th>
            {hasPools && (
              <th scope="col" className="hide">
                Pool
              </th>
            )}
            <th scope="col" style={{ width: "42%" }}>
              In use against guarantee
            </th>
            <th
              scope="col"
              className="n"
              title="What its protected jobs leave of the guarantee. Others may use it now; they give it back."
            >
              Guaranteed, still due
            </th>
            <th scope="col" className="n hide">
              Can borrow now
            </th>
          </tr>
        </thead>
        <tbody>
          {shown.map((team) => {
            const use = quotaUse(team);
            const due = Math.max(0, team.guaranteed_mgpu - team.use.protected_mgpu);
            const borrowable = Math.max(0, team.use.available_mgpu - due);
            return (
              <tr key={team.id}>
                <th scope="row">
                  <Link to="/quotas" search={{ pool: team.pool, node: team.node }} title={team.node}>
                    {lastPart(team.node)}
                  </Link>
                  {hasPools && <div className="only-phone small faint">{team.pool}</div>}
                </th>
                {hasPools && <td className="hide">{team.pool}</td>}
                <td>
                  <QuotaBar use={use} scaleMgpu={scaleOf(team.device)} />
                </td>
                <td className="n">
                  {countUnder(head, due, team.device)}
                  {use.lentMgpu > 0 && (
                    <div className="small faint hide">{formatLent(Math.min(due, use.lentMgpu))} lent, back within the grace</div>
                  )}
                </td>
                <td className="n hide">{countUnder(head, borrowable, team.device)}</td>
              </tr>
            );
          })}
        </tbody>
      </table>
      <QuotaLegend />
      {teams.length > shown.length && (
        <p style={{ margin: "10px 0 0" }}>
          <Link to="/quotas">All {teams.length} teams</Link>
        </p>
      )}
    </>
  );
}

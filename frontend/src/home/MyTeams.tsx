import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";

import { comparePaths, quotasQuery } from "../api/queries";
import type { Quota, Session } from "../api/types";
import { lastPart } from "../jobs/words";
import { QuotaBar, QuotaLegend } from "../quotas/QuotaBar";
import { commonScale, formatLent, quotaUse } from "../quotas/use";
import { isWithin, may } from "../session/access";
import { Empty, Lines, QueryView } from "../ui/states";
import { countUnder, devicesIn, headOf, type Device } from "../ui/units";

const TEAMS_SHOWN = 8;

/** Teams that I have a role in, or that lie below one; those with a bar of their own. */
export function myTeams(session: Session, quotas: readonly Quota[]): Quota[] {
  const mine = session.grants.map((grant) => grant.node_path ?? "");
  return quotas
    .filter((quota) => quota.node_kind === "team" && mine.some((path) => isWithin(quota.node, path)))
    .sort((a, b) => comparePaths(a.node, b.node) || (a.pool < b.pool ? -1 : 1));
}

/** Use of the reader's teams against their guarantees. */
export function MyTeams({ session, scope }: { session: Session; scope: string | undefined }) {
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
              title="The part of the guarantee that the team does not use. Others may use it until the team needs it."
            >
              Guaranteed and free
            </th>
            <th scope="col" className="n hide">
              Can borrow now
            </th>
          </tr>
        </thead>
        <tbody>
          {shown.map((team) => {
            const use = quotaUse(team);
            const due = Math.max(0, team.guaranteed_mgpu - team.use.in_use_mgpu);
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

import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";

import { comparePaths, quotasQuery } from "../api/queries";
import type { Quota, Session } from "../api/types";
import { lastPart } from "../jobs/words";
import { QuotaBar, QuotaLegend } from "../quotas/QuotaBar";
import { commonScale, formatLent, quotaUse } from "../quotas/use";
import { isWithin, may } from "../session/access";
import { Card } from "../ui/Card";
import { DataTable } from "../ui/DataTable";
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

/** The bars of my teams, as far as they are loaded. */
export function useMyTeams(session: Session, scope: string | undefined): Quota[] {
  return myTeams(session, useQuery(quotasQuery(scope ? { subtree: scope } : {})).data ?? []);
}

/** Use of the reader's teams against their guarantees. */
export function MyTeams({ session, scope }: { session: Session; scope: string | undefined }) {
  const quotas = useQuery(quotasQuery(scope ? { subtree: scope } : {}));
  // Who does not submit looks after the teams of others.
  const devices = devicesIn(quotas.data ?? []);
  const title = may(session, "submit_jobs") ? `${devices} of my teams` : `${devices} of the teams`;
  return (
    <Card label={title}>
      <h2>{title}</h2>
      <QueryView query={quotas} loading={<Lines count={4} label="Loading quotas" />}>
        {(items) => {
          const teams = myTeams(session, items);
          return teams.length === 0 ? (
            <Empty cli="tidegate quota get ORGANIZATION --subtree" action={<Link to="/quotas">See the whole tree</Link>}>
              Your teams have no quota here.
            </Empty>
          ) : (
            <TeamTable teams={teams} title={title} />
          );
        }}
      </QueryView>
    </Card>
  );
}

/** What a team may still start inside its guarantee, and above it. */
function freeOf(team: Quota): { dueMgpu: number; borrowableMgpu: number } {
  const dueMgpu = Math.max(0, team.guaranteed_mgpu - team.use.in_use_mgpu);
  return { dueMgpu, borrowableMgpu: Math.max(0, team.use.available_mgpu - dueMgpu) };
}

function TeamTable({ teams, title }: { teams: readonly Quota[]; title: string }) {
  const hasPools = new Set(teams.map((team) => team.pool)).size > 1;
  const shown = teams.slice(0, TEAMS_SHOWN);
  const head = headOf(shown);
  // A core and a GPU are no one length.
  const scaleOf = (device: Device) => commonScale(shown.filter((team) => team.device === device).map(quotaUse));
  return (
    <>
      <DataTable
        label={title}
        rows={shown.map((team) => ({ team, use: quotaUse(team), ...freeOf(team) }))}
        rowKey={({ team }) => team.id}
        columns={[
          {
            header: "Team",
            isHeading: true,
            cell: ({ team }) => (
              <>
                <Link to="/quotas" search={{ pool: team.pool, node: team.node }} title={team.node}>
                  {lastPart(team.node)}
                </Link>
                {hasPools && <div className="only-phone small faint">{team.pool}</div>}
              </>
            ),
          },
          hasPools && { header: "Pool", only: "wide", cell: ({ team }) => team.pool },
          {
            header: "In use against guarantee",
            headClass: "team-bar",
            cell: ({ team, use }) => <QuotaBar use={use} scaleMgpu={scaleOf(team.device)} />,
          },
          {
            header: "Guaranteed and free",
            hint: "The part of the guarantee that the team does not use. Others may use it until the team needs it.",
            isRight: true,
            cell: ({ team, use, dueMgpu }) => (
              <>
                {countUnder(head, dueMgpu, team.device)}
                {use.lentMgpu > 0 && (
                  <div className="small faint hide">
                    {formatLent(Math.min(dueMgpu, use.lentMgpu))} lent, back within the grace
                  </div>
                )}
              </>
            ),
          },
          {
            header: "Can borrow now",
            isRight: true,
            only: "wide",
            cell: ({ team, borrowableMgpu }) => countUnder(head, borrowableMgpu, team.device),
          },
        ]}
      />
      <QuotaLegend />
      {teams.length > shown.length && (
        <p style={{ margin: "10px 0 0" }}>
          <Link to="/quotas">All {teams.length} teams</Link>
        </p>
      )}
    </>
  );
}

import { Button, Select } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useState } from "react";

import { poolsQuery, treeQuery } from "../api/queries";
import type { CreditHistory, CreditStatement, Pool, PoolCredits, TeamCredits, TreeNode } from "../api/types";
import { isWithin, may, teamsWhereIMay } from "../session/access";
import { useSession } from "../session/useSession";
import { Card } from "../ui/Card";
import { CliLine } from "../ui/CliLine";
import { Kpi } from "../ui/Kpi";
import { useNowMs } from "../ui/now";
import { Page } from "../ui/Page";
import { Empty, Lines, QueryView } from "../ui/states";
import { Time } from "../ui/Time";
import { deviceTime, formatGpuCount } from "../ui/units";
import { formatDays, formatHours, formatSignedHours, slugOf, totalsOf } from "./amounts";
import { BankMenu, BankIsOff } from "./BankSwitch";
import { BuysCard } from "./BuysCard";
import { ExpiringCard } from "./ExpiringCard";
import { HistoryCard, inDays } from "./HistoryCard";
import { dayLabel, monthChoices, monthLabel, monthOf } from "./months";
import { OrderCard } from "./OrderCard";
import { creditHistoryQuery, creditsQuery, creditStatementQuery } from "./queries";
import { StatementCard } from "./StatementCard";
import { TransferDialog } from "./TransferDialogs";
import { departmentOf, InboxCard, TransfersCard } from "./TransfersCard";
import "./credits.css";

const LEAD = "Lending idle guaranteed GPUs earns credits, and borrowing pays them.";
const NAMED_MAX = 2;

/** A team's credits in a pool: what they decide, and how they came about. */
export function CreditsPage() {
  const session = useSession();
  const { scope = "", team: wantedTeam, pool: wantedPool } = useSearch({ from: "/shell/credits" });
  const tree = useQuery(treeQuery);
  const pools = useQuery(poolsQuery);
  const teams = (tree.data ?? []).filter((node) => node.kind === "team" && node.archived_at === null);
  const inScope = teams.filter((node) => isWithin(node.path, scope));
  const team =
    teams.find((node) => node.path === wantedTeam) ??
    teamsWhereIMay(session, "submit_jobs", inScope)[0] ??
    inScope[0] ??
    teams[0];
  const open = (pools.data ?? []).filter((pool) => pool.archived_at === null);
  const pool = pools.data?.find((each) => each.name === wantedPool) ?? open[0];
  if (team !== undefined && pool !== undefined) {
    const organization = tree.data?.find((node) => node.path === team.organization);
    return <OfTeam key={team.id} team={team} pool={pool} teams={teams} pools={open} organization={organization} />;
  }
  return (
    <Page title="Credits" lead={LEAD}>
      <QueryView query={tree} loading={<Loading />}>
        {() => (
          <QueryView query={pools} loading={<Loading />}>
            {() => (
              <Card>
                <Empty>
                  {team === undefined
                    ? "No team is visible to you, and only teams have credits."
                    : "No pool yet. Credits belong to a pool of a cluster."}
                </Empty>
              </Card>
            )}
          </QueryView>
        )}
      </QueryView>
    </Page>
  );
}

function Loading() {
  return (
    <Card>
      <Lines count={7} label="Loading the credits" />
    </Card>
  );
}

function OfTeam({
  team,
  pool,
  teams,
  pools,
  organization,
}: {
  team: TreeNode;
  pool: Pool;
  teams: readonly TreeNode[];
  pools: readonly Pool[];
  organization: TreeNode | undefined;
}) {
  const { month: wanted } = useSearch({ from: "/shell/credits" });
  const credits = useQuery(creditsQuery(team.organization, pool.name));
  const statement = useQuery(creditStatementQuery(team.path, pool.name, wanted));
  const history = useQuery(creditHistoryQuery(team.path, pool.name, wanted));
  const present = new Date(useNowMs()).toISOString().slice(0, 7);
  const month = wanted ?? (statement.data === undefined ? present : monthOf(statement.data));
  const mine = credits.data?.teams.find((each) => each.team === team.path);
  const mayTransfer = may(useSession(), "manage_quota", departmentOf(team));
  const [isTransferring, setTransferring] = useState(false);
  return (
    <Page
      title={`Credits · ${slugOf(team.path)}`}
      lead={credits.data === undefined ? LEAD : <Lead credits={credits.data} mine={mine} pool={pool} />}
      actions={
        credits.data?.is_on && (
          <span className="inline">
            {mine && mayTransfer && mine.transferable_ugpu_s > 0 && (
              <Button onClick={() => setTransferring(true)}>Transfer credits…</Button>
            )}
            {organization && <BankMenu organization={organization} />}
          </span>
        )
      }
    >
      <Choices team={team} pool={pool} teams={teams} pools={pools} months={monthChoices(present, month)} month={month} />
      <QueryView query={credits} loading={<Loading />}>
        {(found) => (
          <div className="rows">
            {found.is_on && <InboxCard organization={team.organization} pool={pool} />}
            {!found.is_on && <BankIsOff organization={organization} hasBalances={found.settled_until !== null} />}
            {(found.is_on || found.settled_until !== null) && (
              <QueryView query={statement} loading={<Loading />}>
                {(lines) => (
                  <Found
                    credits={found}
                    mine={mine}
                    statement={lines}
                    history={history.data}
                    team={team}
                    pool={pool}
                    organization={organization}
                    month={month}
                    onTransfer={mayTransfer ? () => setTransferring(true) : undefined}
                  />
                )}
              </QueryView>
            )}
          </div>
        )}
      </QueryView>
      {isTransferring && mine && (
        <TransferDialog team={team} mine={mine} teams={teams} pool={pool} onClose={() => setTransferring(false)} />
      )}
      <p className="more">
        <CliLine command={`tidegate credits statement ${team.path} --pool ${pool.name} --month ${month}`} />
      </p>
    </Page>
  );
}

function Lead({ credits, mine, pool }: { credits: PoolCredits; mine: TeamCredits | undefined; pool: Pool }) {
  const dayUgpuS = dayOfGuarantee(mine, pool);
  const now = useNowMs();
  return (
    <>
      Pool {pool.name}
      {mine && ` · guarantee ${formatGpuCount(mine.guaranteed_mgpu, pool.device)}`}
      {dayUgpuS > 0 && `, so one day is ${formatHours(dayUgpuS)} ${deviceTime(pool.device, "h")}`} ·{" "}
      {credits.settled_until === null ? (
        "not settled yet"
      ) : (
        <>
          {Date.parse(credits.settled_until) > now ? "nothing settled yet; use is settled from" : "settled until"}{" "}
          <Time at={credits.settled_until} show="exact" />
        </>
      )}
    </>
  );
}

function Choices({
  team,
  pool,
  teams,
  pools,
  months,
  month,
}: {
  team: TreeNode;
  pool: Pool;
  teams: readonly TreeNode[];
  pools: readonly Pool[];
  months: readonly string[];
  month: string;
}) {
  const navigate = useNavigate({ from: "/credits" });
  const change = (changes: { team?: string; pool?: string; month?: string }) =>
    void navigate({ search: (before) => ({ ...before, ...changes }), replace: true });
  return (
    <div className="filters" role="group" aria-label="Team, pool and month">
      <Select
        className="credit-team"
        label="Team"
        searchable
        allowDeselect={false}
        nothingFoundMessage="No such team"
        data={teams.map(({ path }) => path)}
        value={team.path}
        onChange={(path) => path && change({ team: path })}
      />
      <Select
        label="Pool"
        allowDeselect={false}
        data={[...new Set([pool.name, ...pools.map(({ name }) => name)])]}
        value={pool.name}
        onChange={(name) => name && change({ pool: name })}
      />
      <Select
        label="Month"
        allowDeselect={false}
        data={months.map((value) => ({ value, label: monthLabel(value) }))}
        value={month}
        onChange={(value) => value && change({ month: value })}
      />
    </div>
  );
}

function Found({
  credits,
  mine,
  statement,
  history,
  team,
  pool,
  organization,
  month,
  onTransfer,
}: {
  credits: PoolCredits;
  mine: TeamCredits | undefined;
  statement: CreditStatement;
  history: CreditHistory | undefined;
  team: TreeNode;
  pool: Pool;
  organization: TreeNode | undefined;
  month: string;
  onTransfer: (() => void) | undefined;
}) {
  return (
    <>
      {mine && <Figures mine={mine} statement={statement} history={history} pool={pool} month={month} />}
      <OrderCard credits={credits} team={team} pool={pool} organization={organization} />
      {history && (
        <HistoryCard
          history={history}
          statement={statement}
          dayUgpuS={dayOfGuarantee(mine, pool)}
          hours={deviceTime(pool.device, "h")}
          dividendUgpuS={dividendOf(credits, mine)}
        />
      )}
      <div className="two top">
        <StatementCard statement={statement} history={history} device={pool.device} month={month} />
        <div className="rows">
          <ExpiringCard
            expiring={statement.expiring}
            earnedIn={statement.earned_in}
            notices={statement.notices}
            device={pool.device}
          />
          {mine && <BuysCard mine={mine} pool={pool} />}
          {mine && credits.is_on && <TransfersCard team={team} mine={mine} pool={pool} onTransfer={onTransfer} />}
        </div>
      </div>
    </>
  );
}

/** A day of the whole guarantee, as credits. */
function dayOfGuarantee(mine: TeamCredits | undefined, pool: Pool): number {
  return (mine?.guaranteed_mgpu ?? 0) * pool.weight * 86_400;
}

/** The part of the common account that the team would get if it were shared out now. */
function dividendOf({ common_ugpu_s: common, teams }: PoolCredits, mine: TeamCredits | undefined): number {
  const guaranteed = teams.reduce((sum, team) => sum + team.guaranteed_mgpu, 0);
  if (!mine || common <= 0 || guaranteed === 0) return 0;
  const room = Math.max(0, mine.cap_ugpu_s - mine.balance_ugpu_s);
  return Math.min(room, Math.round((common / guaranteed) * mine.guaranteed_mgpu));
}

function Figures({
  mine,
  statement,
  history,
  pool,
  month,
}: {
  mine: TeamCredits;
  statement: CreditStatement;
  history: CreditHistory | undefined;
  pool: Pool;
  month: string;
}) {
  const hours = deviceTime(pool.device, "h");
  const { earned, earnedFrom, paid, dividend } = totalsOf(statement.lines);
  const name = monthLabel(month);
  const named = earnedFrom.slice(0, NAMED_MAX).map(([other, amount]) => `${slugOf(other)} ${formatHours(amount)}`);
  const others = earnedFrom.length - named.length;
  const [first] = statement.expiring;
  const forecast = history?.forecast;
  const day = dayOfGuarantee(mine, pool);
  const onHold = history ? history.held_ugpu_s + history.pending_ugpu_s : 0;
  const balance = `${formatSignedHours(mine.balance_ugpu_s)} ${hours}`;
  return (
    <div className="kpis credit-figures">
      <Kpi
        value={`${formatDays(mine)} days`}
        label="balance, in days of guarantee"
        context={onHold > 0 ? `${balance} · ${formatHours(mine.balance_ugpu_s - onHold)} available` : balance}
      />
      <Kpi
        value={formatSignedHours(earned)}
        label={`${hours} earned by lending`}
        context={[name, ...named, ...(others > 0 ? [`${others} more`] : [])].join(" · ")}
      />
      <Kpi
        value={formatSignedHours(-paid)}
        label={`${hours} paid for borrowing`}
        context={dividend > 0 ? `${name} · dividend ${formatSignedHours(dividend)}` : name}
        tone={paid > 0 ? "borrow" : undefined}
      />
      {forecast ? (
        <Kpi
          value={inDays(forecast.middle_ugpu_s, day).replace(/ d$/, " days")}
          label={`forecast for ${dayLabel(forecast.last_day)}`}
          context={`${inDays(forecast.low_ugpu_s, day)} to ${inDays(forecast.high_ugpu_s, day)}`}
        />
      ) : (
        <Kpi
        value={first ? formatHours(first.amount_ugpu_s) : "0"}
        label={first ? `${hours} expire next` : `${hours} expire`}
        context={first && `after ${dayLabel(first.last_day)}`}
        />
      )}
    </div>
  );
}

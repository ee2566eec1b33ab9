import { useQuery } from "@tanstack/react-query";

import type { Policy, Pool, PoolCredits, TeamCredits, TreeNode } from "../api/types";
import { policyQuery } from "../policy/queries";
import { isWithin } from "../session/access";
import { Card } from "../ui/Card";
import { DataTable } from "../ui/DataTable";
import { deviceTime, DEVICE_WORDS, formatGpuCount } from "../ui/units";
import { checkBalances, daysOfGuarantee, formatDays, formatSignedHours, placeOf, slugOf, type SumCheck } from "./amounts";

const NAMED_MAX = 3;

const ORDERS: Record<NonNullable<Policy["spare_order"]>, string> = {
  credits_then_fair_share: "",
  fair_share_then_credits: "The policy compares fair-share first. Balances decide where it is equal.",
  fair_share: "The policy orders teams by fair-share alone. Balances decide only who is unpaid.",
};

/** All teams in their order for spare GPUs, with their balances on one scale of days. */
export function OrderCard({
  credits,
  team,
  pool,
  organization,
}: {
  credits: PoolCredits;
  team: TreeNode;
  pool: Pool;
  organization: TreeNode | undefined;
}) {
  const policy = useQuery({ ...policyQuery(organization?.id ?? ""), enabled: organization !== undefined });
  const ranked = policy.data?.rank ?? [];
  const order = policy.data?.spare_order ?? "credits_then_fair_share";
  const hours = deviceTime(pool.device, "h");
  const words = DEVICE_WORDS[pool.device];
  const mine = credits.teams.find((each) => each.team === team.path);
  const rows = credits.teams.map((each, place) => ({ ...each, place: place + 1, rank: rankOf(each.team, ranked) }));
  return (
    <Card label="What the balance decides" className="credit-order" tabIndex={0}>
      <h2>What the balance decides</h2>
      {rows.length === 0 ? (
        <p>
          No team has a quota in {pool.name}, so no team has credits there.
        </p>
      ) : (
        <>
          {mine === undefined ? (
            <p className="sentence">
              {team.path} has no quota in {pool.name}, so it has no credits there.
            </p>
          ) : (
            credits.is_on && <Sentence teams={credits.teams} mine={mine} ranked={ranked} words={words} />
          )}
          {credits.is_on && ORDERS[order] && <p>{ORDERS[order]}</p>}
          <DataTable
            rows={rows}
            rowKey={(row) => row.team}
            isCurrent={(row) => row.team === team.path}
            columns={[
              { header: "Order", isRight: true, headClass: "narrow", cell: (row) => row.place },
              {
                header: "Team",
                isHeading: true,
                title: (row) => row.team,
                cell: (row) => (row.team === team.path ? <b>{slugOf(row.team)}</b> : slugOf(row.team)),
                total: () => "Common account",
              },
              { header: "Rank", only: "wide", cell: (row) => (row.rank ? slugOf(row.rank) : "none") },
              {
                header: <Scale team={rows.find((row) => placeOf(0, row) !== null)} pool={pool} />,
                headClass: "credit-scale",
                only: "wide",
                cell: (row) => <BalanceBar team={row} hours={hours} isMine={row.team === team.path} />,
              },
              { header: "Days", isRight: true, cell: formatDays },
              {
                header: hours,
                isRight: true,
                cell: (row) => formatSignedHours(row.balance_ugpu_s, true),
                total: () => formatSignedHours(credits.common_ugpu_s, true),
              },
            ]}
            totals={[null]}
          />
          <p className="small dim more">
            {rows.length === 1 ? "One balance" : `${rows.length} balances`} + common account ={" "}
            <Check check={checkBalances(credits)} equal="0" />
          </p>
          <p className="small dim">
            The common account gets what {words} without a guarantee earn, and expired credits.
            {mine &&
              ` Credits never affect the guarantee: ${slugOf(mine.team)} gets its ${formatGpuCount(mine.guaranteed_mgpu, pool.device)} at any balance.`}
          </p>
        </>
      )}
    </Card>
  );
}

/** The result of adding up: the expected one with a tick, or what is wrong. */
export function Check({ check, equal }: { check: SumCheck; equal: string }) {
  if (check === "equal")
    return (
      <>
        {equal} <span className="good-text">✓ exact</span>
      </>
    );
  if (check === "unknown") return <>≈ {equal}, as the numbers are too large to add up here exactly</>;
  return <b className="bad-text">not {equal}. Tell an administrator: credits are missing.</b>;
}

/** The ranked node that holds for a team: its own, or the nearest above it. */
function rankOf(team: string, ranked: readonly string[]): string | undefined {
  return ranked.filter((path) => isWithin(team, path)).sort((a, b) => b.length - a.length)[0];
}

function Sentence({
  teams,
  mine,
  ranked,
  words,
}: {
  teams: readonly TeamCredits[];
  mine: TeamCredits;
  ranked: readonly string[];
  words: string;
}) {
  const place = teams.indexOf(mine);
  const [before, after] = [teams.slice(0, place), teams.slice(place + 1)];
  const rank = rankOf(mine.team, ranked);
  const higher = [...new Set(before.map(({ team }) => rankOf(team, ranked)))].filter((each) => each && each !== rank);
  const name = slugOf(mine.team);
  return (
    <p className="sentence">
      {after.length > 0 ? (
        <>
          <b>
            {name} goes before {listOf(after)} for spare {words}
          </b>
          {before.length > 0 && `, and after ${listOf(before)}`}
        </>
      ) : before.length > 0 ? (
        <b>
          {name} goes after {listOf(before)} for spare {words}
        </b>
      ) : (
        <b>
          {name} is the only team for spare {words}
        </b>
      )}
      {higher.length > 0 && `: ${listOf(higher.map((path) => ({ team: path ?? "" })))} ${higher.length > 1 ? "rank" : "ranks"} higher`}.
    </p>
  );
}

/** "a", "a and b", "a, b, c and 4 more". */
function listOf(teams: readonly { team: string }[]): string {
  const names = teams.slice(0, NAMED_MAX).map(({ team }) => slugOf(team));
  if (teams.length > names.length) names.push(`${teams.length - names.length} more`);
  return names.length < 2 ? names.join("") : `${names.slice(0, -1).join(", ")} and ${names.at(-1) ?? ""}`;
}

/** Floor, zero and cap in days, at the head of the bars. */
function Scale({ team, pool }: { team: TeamCredits | undefined; pool: Pool }) {
  if (team === undefined) return "Balance";
  const days = (ugpuS: number) => daysOfGuarantee(ugpuS, team.guaranteed_mgpu, pool.weight) ?? "";
  return (
    <span className="credit-ends">
      <span>floor {days(team.floor_ugpu_s)} d</span>
      <span className="zero" style={{ left: `${placeOf(0, team) ?? 0}%` }} aria-hidden="true">
        0
      </span>
      <span>cap {days(team.cap_ugpu_s)} d</span>
    </span>
  );
}

function BalanceBar({ team, hours, isMine }: { team: TeamCredits; hours: string; isMine: boolean }) {
  const zero = placeOf(0, team);
  const balance = placeOf(team.balance_ugpu_s, team);
  if (zero === null || balance === null) return "–";
  return (
    <span
      className={isMine ? "credit-bar mine" : "credit-bar"}
      role="img"
      aria-label={`${formatDays(team)} days, floor ${formatSignedHours(team.floor_ugpu_s)} ${hours}, cap ${formatSignedHours(team.cap_ugpu_s)} ${hours}`}
    >
      <i style={{ left: `${Math.min(zero, balance)}%`, width: `${Math.abs(balance - zero)}%` }} />
      <u style={{ left: `${zero}%` }} />
      <s style={{ left: 0 }} />
      <s style={{ left: "100%" }} />
    </span>
  );
}

import { TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";

import type { PriceComparison, RateCard } from "../api/types";
import { Card } from "../ui/Card";
import { CliLine } from "../ui/CliLine";
import { DataTable } from "../ui/DataTable";
import { Lines, QueryView } from "../ui/states";
import { deviceTime, formatMoney, headOf, hoursUnder } from "../ui/units";
import { formatChange, formatFactor, formatPrice, lastScheduled, MODE_WORDS } from "./amounts";
import { comparisonQuery } from "./queries";
import { dayOf, formatInZone, startOfDay } from "./zone";

type PriceAt = PriceComparison["prices"][number]["first"];
/** The most teams of a comparison on the page. */
const TEAMS_MAX = 20;

/** The prices of two moments side by side, and what last month would have cost under each. */
export function CompareCard({ card, nowMs }: { card: RateCard; nowMs: number }) {
  const search = useSearch({ from: "/shell/prices" });
  const navigate = useNavigate({ from: "/prices" });
  const zone = card.time_zone;
  // To the day, so that the clock of an open page asks nothing anew.
  const today = new Date(nowMs).toISOString().slice(0, 10);
  const first = search.first ?? dayOf(`${today}T00:00:00Z`, zone);
  const scheduled = lastScheduled([...card.lines, ...card.terms], nowMs);
  const second = search.second ?? (scheduled === null ? first : dayOf(scheduled, zone));
  const [from, to] = [startOfDay(first, zone), search.second === undefined && scheduled ? scheduled : startOfDay(second, zone)];
  const change = (changes: Partial<typeof search>) =>
    void navigate({ search: (before) => ({ ...before, ...changes }), replace: true });
  return (
    <Card label="Comparison" tabIndex={0}>
      <h2>Compare prices</h2>
      <div className="filters" role="group" aria-label="Moments">
        <TextInput
          type="date"
          label="Prices on"
          value={first}
          onChange={(event) => change({ first: event.currentTarget.value || undefined })}
        />
        <TextInput
          type="date"
          label="and on"
          value={second}
          onChange={(event) => change({ second: event.currentTarget.value || undefined })}
        />
      </div>
      {from === null || to === null ? (
        <p>Choose two days.</p>
      ) : (
        <Found card={card} first={from} second={to} />
      )}
      <CliLine command={`tidegate prices compare ${first} ${second} --organization ${card.organization}`} />
    </Card>
  );
}

function Found({ card, first, second }: { card: RateCard; first: string; second: string }) {
  const comparison = useQuery(comparisonQuery(card.id, first, second));
  return (
    <QueryView query={comparison} loading={<Lines count={4} label="Comparing the prices" />}>
      {(found) => <Table card={card} found={found} />}
    </QueryView>
  );
}

function Table({ card, found }: { card: RateCard; found: PriceComparison }) {
  const { currency, prices } = found;
  const head = headOf(prices);
  const day = (iso: string) => formatInZone(iso, card.time_zone);
  const price = ({ mode, price_nano, multiplier_ppm }: PriceAt) => (
    <>
      {price_nano === null ? "no price" : formatPrice(price_nano, currency)}
      <div className="small faint">
        {multiplier_ppm !== null && multiplier_ppm !== 1_000_000 && `with × ${formatFactor(multiplier_ppm)} `}
        {mode !== "pay_per_use" && MODE_WORDS[mode]}
      </div>
    </>
  );
  return (
    <>
      <p className="sentence">
        The usage from {day(found.start)} to {day(found.end)} costs <b>{formatMoney(found.first_cost_nano, currency)}</b> at the
        prices of {day(found.first)} and <b>{formatMoney(found.second_cost_nano, currency)}</b> at those of {day(found.second)}:{" "}
        {formatChange(found.change_ppm)}. It was charged {formatMoney(found.charged_cost_nano, currency)}.
        {(found.first_showback_nano > 0 || found.second_showback_nano > 0) &&
          ` Showback, not billed: ${formatMoney(found.first_showback_nano, currency)} and ` +
            `${formatMoney(found.second_showback_nano, currency)}.`}
        {!found.is_whole && " Usage and costs are those of the teams whose costs you may see."}
      </p>
      <DataTable
        label="Comparison of prices"
        rows={prices}
        rowKey={(row) => `${row.pool} ${row.usage_class}`}
        totals={[found]}
        columns={[
          {
            header: "Pool",
            isHeading: true,
            title: (row) => row.pool,
            cell: (row) => (
              <>
                {row.pool} <span className="dim">{row.usage_class.replace("_", "-")}</span>
              </>
            ),
            total: () => "Total",
          },
          { header: day(found.first), isRight: true, only: "wide", cell: (row) => price(row.first) },
          { header: day(found.second), isRight: true, only: "wide", cell: (row) => price(row.second) },
          {
            header: "Change",
            isRight: true,
            cell: (row) => formatChange(row.change_ppm),
            total: (all) => formatChange(all.change_ppm),
          },
          {
            header: deviceTime(head, "h"),
            isRight: true,
            only: "wide",
            cell: (row) => hoursUnder(head, row.mgpu_s, row.device),
          },
          {
            header: "Cost before",
            isRight: true,
            only: "wide",
            cell: (row) => formatMoney(row.first.cost_nano, currency),
            total: (all) => formatMoney(all.first_cost_nano, currency),
          },
          {
            header: "Cost after",
            isRight: true,
            cell: (row) => formatMoney(row.second.cost_nano, currency),
            total: (all) => formatMoney(all.second_cost_nano, currency),
          },
        ]}
      />
      <h3>By team</h3>
      <DataTable
        label="Comparison by team"
        rows={found.teams.slice(0, TEAMS_MAX)}
        rowKey={(team) => team.team}
        columns={[
          { header: "Team", isHeading: true, title: (team) => team.team, cell: (team) => team.team },
          { header: "Cost before", isRight: true, only: "wide", cell: (team) => formatMoney(team.first_cost_nano, currency) },
          { header: "Cost after", isRight: true, cell: (team) => formatMoney(team.second_cost_nano, currency) },
          { header: "Change", isRight: true, cell: (team) => formatChange(team.change_ppm) },
        ]}
      />
      {found.teams.length > TEAMS_MAX && (
        <p className="dim">{found.teams.length - TEAMS_MAX} more teams change less. The command prints all with -o json.</p>
      )}
    </>
  );
}

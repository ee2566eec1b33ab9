import { Select } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";

import { monthChoices, monthLabel } from "../credits/months";
import { may } from "../session/access";
import { useSession } from "../session/useSession";
import { Card } from "../ui/Card";
import { CliLine } from "../ui/CliLine";
import { useNowMs } from "../ui/now";
import { Page } from "../ui/Page";
import { Empty, Lines, QueryView } from "../ui/states";
import { ChargeAudits } from "./ChargeAudits";
import { ReconciledDay, verdictOf } from "./ReconciledDay";
import { reconciledMonthQuery, type Reconciliation as Day } from "./reconciliationQueries";
import "./billing.css";

const LEAD = "Each day, the meter is compared with each cluster's own records.";
const WEEKDAYS = ["Mo", "Tu", "We", "Th", "Fr", "Sa", "Su"] as const;
/** The sign of a day beside its colour. */
const SIGNS: Record<Day["status"], string> = { green: "✓", red: "✗", pending: "…", unavailable: "?" };

/** All clusters and days of a month: which agree, and the differences of the chosen day. */
export function ReconciliationPage() {
  const isAllowed = may(useSession(), "view_costs");
  return (
    <Page title="Reconciliation" lead={LEAD}>
      {isAllowed ? (
        <Month />
      ) : (
        <Card>
          <Empty>Reconciled days are for people who see costs. Ask an administrator for the role finance.</Empty>
        </Card>
      )}
    </Page>
  );
}

function Month() {
  const { month: wanted, day: chosen } = useSearch({ from: "/shell/reconciliation" });
  const navigate = useNavigate({ from: "/reconciliation" });
  const present = new Date(useNowMs()).toISOString().slice(0, 7);
  const month = wanted ?? present;
  const days = useQuery(reconciledMonthQuery(month));
  const command = `tidegate reconciliation --month ${month}`;
  const choose = (id: string | undefined) =>
    void navigate({ search: (old) => ({ ...old, day: id }), replace: true, resetScroll: false });
  return (
    <div className="rows">
      <div className="filters">
        <Select
          label="Month (UTC)"
          data={monthChoices(present, month).map((value) => ({ value, label: monthLabel(value) }))}
          value={month}
          onChange={(value) => value && void navigate({ search: (old) => ({ ...old, month: value, day: undefined }) })}
          allowDeselect={false}
        />
      </div>
      <QueryView
        query={days}
        loading={
          <Card>
            <Lines count={6} label="Loading the days" />
          </Card>
        }
      >
        {(items) =>
          items.length === 0 ? (
            <Card>
              <Empty cli={command}>
                No day of this month was compared. A day is compared an hour after it is over.
              </Empty>
            </Card>
          ) : (
            <>
              <Legend days={items} />
              <div className="calendars">
                {clustersOf(items).map((cluster) => (
                  <Calendar
                    key={cluster}
                    cluster={cluster}
                    month={month}
                    days={items.filter((day) => day.cluster === cluster)}
                    chosen={chosen}
                    onChoose={choose}
                  />
                ))}
              </div>
              {chosen !== undefined && (
                <Card>
                  <ReconciledDay key={chosen} id={chosen} />
                </Card>
              )}
              <CliLine command={command} />
            </>
          )
        }
      </QueryView>
      <ChargeAudits month={month} />
    </div>
  );
}

function clustersOf(days: readonly Day[]): string[] {
  return [...new Set(days.map(({ cluster }) => cluster))].sort();
}

/** How many days there are of each sort; it explains the signs, too. */
function Legend({ days }: { days: readonly Day[] }) {
  const count = (is: (day: Day) => boolean) => days.filter(is).length;
  const sorts: [string, string, number][] = [
    ["run", "✓ agree", count((day) => day.status === "green")],
    ["bad", "✗ differ", count((day) => day.status === "red" && day.acknowledgement === null)],
    ["wait", "✗ acknowledged", count((day) => day.status === "red" && day.acknowledgement !== null)],
    ["wait", "… pending", count((day) => day.status === "pending")],
    ["wait", "? not available", count((day) => day.status === "unavailable")],
  ];
  return (
    <ul className="calendar-legend" aria-label="Days by result">
      {sorts.map(([tone, words, number]) => (
        <li key={words}>
          <span className={`pill ${tone}`}>{words}</span> {number}
        </li>
      ))}
    </ul>
  );
}

function Calendar({
  cluster,
  month,
  days,
  chosen,
  onChoose,
}: {
  cluster: string;
  month: string;
  days: readonly Day[];
  chosen: string | undefined;
  onChoose: (id: string | undefined) => void;
}) {
  const byDate = new Map(days.map((day) => [day.day, day]));
  return (
    <Card label={cluster}>
      <h2 className="calendar-name">{cluster}</h2>
      <table className="calendar">
        <caption className="visually-hidden">
          {cluster} in {monthLabel(month)}
        </caption>
        <thead>
          <tr>
            {WEEKDAYS.map((name) => (
              <th key={name} scope="col">
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {weeksOf(month).map((week) => (
            <tr key={week.find((date) => date !== null)}>
              {week.map((date, place) => (
                <td key={WEEKDAYS[place]}>
                  {date !== null && (
                    <Cell date={date} day={byDate.get(date)} chosen={chosen} onChoose={onChoose} />
                  )}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </Card>
  );
}

function Cell({
  date,
  day,
  chosen,
  onChoose,
}: {
  date: string;
  day: Day | undefined;
  chosen: string | undefined;
  onChoose: (id: string | undefined) => void;
}) {
  const number = Number(date.slice(8));
  if (day === undefined) return <span className="calendar-day faint">{number}</span>;
  const { word, tone } = verdictOf(day);
  return (
    <button
      type="button"
      className={`calendar-day ${tone}`}
      aria-pressed={chosen === day.id}
      aria-label={`${date} ${day.cluster}: ${word}`}
      title={word}
      onClick={() => onChoose(chosen === day.id ? undefined : day.id)}
    >
      <span>{number}</span>
      <span aria-hidden="true">{SIGNS[day.status]}</span>
    </button>
  );
}

/** The days of `month` ("2026-11") in weeks from Monday on; null outside of it. */
export function weeksOf(month: string): (string | null)[][] {
  const first = new Date(`${month}-01T00:00:00Z`);
  const count = new Date(Date.UTC(first.getUTCFullYear(), first.getUTCMonth() + 1, 0)).getUTCDate();
  const before = (first.getUTCDay() + 6) % 7;
  const cells: (string | null)[] = [
    ...Array.from({ length: before }, () => null),
    ...Array.from({ length: count }, (_, place) => `${month}-${String(place + 1).padStart(2, "0")}`),
  ];
  while (cells.length % 7 !== 0) cells.push(null);
  return Array.from({ length: cells.length / 7 }, (_, week) => cells.slice(7 * week, 7 * week + 7));
}

import { useQuery } from "@tanstack/react-query";

import { Card } from "../ui/Card";
import { CliLine } from "../ui/CliLine";
import { DataTable } from "../ui/DataTable";
import { Empty, Lines, QueryView } from "../ui/states";
import { formatCost } from "../ui/units";
import { movesQuery, type Moves, type Narrowed } from "./groupQueries";

/** Teams with the largest changes, in the chart and in the table. */
const TEAMS_SHOWN = 10;

type Move = Moves["totals"][number];

const PARTS = [
  ["price_nano", "Price"],
  ["volume_nano", "Volume"],
  ["usage_class_nano", "Class"],
  ["new_nano", "New"],
  ["ended_nano", "Ended"],
] as const;

/** The change of costs since the period before, in parts that sum to it, and the teams that moved most. */
export function MovesCard({ narrowed }: { narrowed: Narrowed }) {
  const { start, end, node, pool } = narrowed;
  const moves = useQuery(movesQuery({ start, end, ...(node ? { node } : {}), ...(pool ? { pool } : {}) }));
  const command = [
    `tidegate report moves --start ${start} --end ${end}`,
    node && `--team ${node}`,
    pool && `--pool ${pool}`,
  ]
    .filter(Boolean)
    .join(" ");
  return (
    <Card label="What moved">
      <h2>What moved since the period before</h2>
      <QueryView query={moves} loading={<Lines count={4} label="Loading what moved" />}>
        {(data) =>
          data.totals.length === 0 ? (
            <Empty>Nothing ran in either period.</Empty>
          ) : (
            <div className="rows">
              <p className="sub">
                From {dayOf(data.before.start, data.time_zone)} to {dayOf(data.before.end, data.time_zone)}, and from{" "}
                {dayOf(data.after.start, data.time_zone)} to {dayOf(data.after.end, data.time_zone)} ({data.time_zone}).
                Ends are not included. The parts sum to the change.
              </p>
              {data.totals.map((total) => (
                <Moved key={total.currency} moves={data} total={total} />
              ))}
            </div>
          )
        }
      </QueryView>
      <CliLine command={command} />
    </Card>
  );
}

function dayOf(iso: string, zone: string): string {
  return new Intl.DateTimeFormat("en-GB", { timeZone: zone, day: "numeric", month: "short", year: "numeric" }).format(
    new Date(iso),
  );
}

function Moved({ moves, total }: { moves: Moves; total: Move }) {
  const rows = moves.rows.filter(({ currency }) => currency === total.currency).slice(0, TEAMS_SHOWN);
  const most = rows.reduce((most, { change_nano }) => Math.max(most, Math.abs(change_nano)), 1);
  const cost = (nano: number) => formatCost(nano, total.currency);
  const parts = PARTS.filter(([name]) => total[name] !== 0 || rows.some((row) => row[name] !== 0));
  return (
    <div className="scrolls" role="group" aria-label={`Teams that moved most, ${total.currency ?? "no rate card"}`} tabIndex={0}>
      <DataTable
        label={`What moved, ${total.currency ?? "no rate card"}`}
        rows={rows}
        rowKey={({ team }) => team}
        totals={[total]}
        columns={[
          { header: "Team", isHeading: true, className: "key-cell", cell: ({ team }) => team, total: () => "Total" },
          {
            header: "Largest changes",
            only: "wide",
            className: "share",
            cell: ({ change_nano }) => (
              <span className="bar" role="img" aria-label={`${change_nano < 0 ? "less" : "more"} by ${cost(Math.abs(change_nano))}`}>
                <i className={change_nano < 0 ? "g" : "b"} style={{ left: 0, width: `${(Math.abs(change_nano) / most) * 100}%` }} />
              </span>
            ),
          },
          { header: "Before", isRight: true, only: "wide", cell: (row) => cost(row.before_nano), total: (sum) => cost(sum.before_nano) },
          { header: "After", isRight: true, only: "wide", cell: (row) => cost(row.after_nano), total: (sum) => cost(sum.after_nano) },
          { header: "Change", isRight: true, cell: (row) => cost(row.change_nano), total: (sum) => cost(sum.change_nano) },
          ...parts.map(([name, header]) => ({
            header,
            isRight: true,
            only: "wide" as const,
            cell: (row: Moves["rows"][number]) => cost(row[name]),
            total: (sum: Move) => cost(sum[name]),
          })),
        ]}
      />
    </div>
  );
}

import { useState } from "react";

import type { CreditHistory, CreditStatement } from "../api/types";
import { Card } from "../ui/Card";
import { DataTable } from "../ui/DataTable";
import { formatRatio } from "../ui/units";
import { formatHours, formatSignedHours, slugOf } from "./amounts";
import { dayLabel } from "./months";
import "../quotas/quota-bar.css";

const WIDTH = 1000;
const HEIGHT = 200;
/** Part of the height above the highest and below the lowest line. */
const MARGIN = 0.06;
const TICKS_MAX = 6;
/** Days of guarantee between two lines of the scale. */
const STEPS = [1, 2, 5, 10, 20, 50, 100];
/** Labels at the right that are nearer than this part of the height hide each other. */
const APART = 0.13;
const DATES_EVERY = 5;
const MARKS_MAX = 3;

interface Point {
  /** From 0 at the start of the month to 1 at its end. */
  x: number;
  ugpuS: number;
}

/** The balance of each day of a month, between floor and cap, and what the month may end with. */
export function HistoryCard({
  history,
  statement,
  dayUgpuS,
  hours,
  dividendUgpuS,
}: {
  history: CreditHistory;
  statement: CreditStatement;
  /** One day of the guarantee; 0 without one. */
  dayUgpuS: number;
  hours: string;
  dividendUgpuS: number;
}) {
  const [asTable, setAsTable] = useState(false);
  const { days, forecast } = history;
  if (days.length === 0) return null;
  const title = forecast ? "Balance and forecast" : "Balance";
  const last = days.at(-1);
  return (
    <Card label={title} tabIndex={0}>
      <div className="spread">
        <h2>{title}</h2>
        <button type="button" className="plain link small" onClick={() => setAsTable(!asTable)}>
          {asTable ? "Show the chart" : "Show as a table"}
        </button>
      </div>
      {asTable ? (
        <DataTable
          rows={days}
          rowKey={({ day }) => day}
          columns={[
            { header: "Day", isHeading: true, cell: ({ day }) => dayLabel(day) },
            { header: `Balance, ${hours}`, isRight: true, cell: (each) => formatHours(each.balance_ugpu_s, true) },
            { header: "Days of guarantee", isRight: true, cell: (each) => inDays(each.balance_ugpu_s, dayUgpuS) },
          ]}
        />
      ) : (
        <Chart history={history} statement={statement} dayUgpuS={dayUgpuS} hours={hours} />
      )}
      <ul className="key" aria-label="Legend">
        <li>━ settled{last && ` until ${dayLabel(last.day)}`}</li>
        {forecast && (
          <li>
            ┅ forecast: {formatSignedHours(forecast.flow_ugpu_s)} lending less borrowing
            {forecast.expiring_ugpu_s > 0 && `, −${formatHours(forecast.expiring_ugpu_s)} expiring`}
          </li>
        )}
        {forecast && <li>░ range of its methods</li>}
        <li>┈ floor and cap</li>
        {forecast && dividendUgpuS > 0 && <li>then a dividend of about {formatSignedHours(dividendUgpuS)} {hours}</li>}
      </ul>
    </Card>
  );
}

function Chart({
  history,
  statement,
  dayUgpuS,
  hours,
}: {
  history: CreditHistory;
  statement: CreditStatement;
  dayUgpuS: number;
  hours: string;
}) {
  const { floor_ugpu_s: floor, cap_ugpu_s: cap, forecast } = history;
  const points = pointsOf(history, statement);
  const now = points.at(-1) ?? { x: 0, ugpuS: history.opening_ugpu_s };
  const y = scaleOf([
    ...points.map(({ ugpuS }) => ugpuS),
    floor,
    cap,
    ...(forecast ? [forecast.low_ugpu_s, forecast.high_ugpu_s] : []),
  ]);
  const at = ({ x, ugpuS }: Point) => `${(x * WIDTH).toFixed(1)},${(y(ugpuS) * HEIGHT).toFixed(1)}`;
  const end = (ugpuS: number) => at({ x: 1, ugpuS });
  const length = monthLength(statement);
  const labels = [
    { ugpuS: cap, text: `cap ${inDays(cap, dayUgpuS)}` },
    { ugpuS: floor, text: `floor ${inDays(floor, dayUgpuS)}` },
    ...(forecast ? [{ ugpuS: forecast.middle_ugpu_s, text: inDays(forecast.middle_ugpu_s, dayUgpuS) }] : []),
  ].filter(({ ugpuS }, place, all) => all.slice(0, place).every((other) => Math.abs(y(other.ugpuS) - y(ugpuS)) > APART));
  const summary =
    `Balance day by day: ${formatHours(history.opening_ugpu_s)} ${hours} at first, ${formatHours(now.ugpuS)} at last` +
    (forecast ? `, forecast ${formatHours(forecast.middle_ugpu_s)} (${formatHours(forecast.low_ugpu_s)} to ${formatHours(forecast.high_ugpu_s)})` : "");
  return (
    <div className="balance-chart">
      <div className="plot">
        <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={`${summary}. The table has each day.`}>
          {ticksOf(floor, cap, dayUgpuS).map((tick) => (
            <line key={tick} className="grid" x1={0} x2={WIDTH} y1={y(tick) * HEIGHT} y2={y(tick) * HEIGHT} />
          ))}
          {[floor, cap].map((limit) => (
            <line key={limit} className="limit" x1={0} x2={WIDTH} y1={y(limit) * HEIGHT} y2={y(limit) * HEIGHT} />
          ))}
          <polygon className="area" points={[at({ x: 0, ugpuS: 0 }), ...points.map(at), at({ x: now.x, ugpuS: 0 })].join(" ")} />
          <polyline className="settled" points={points.map(at).join(" ")} />
          {forecast && (
            <>
              <polygon className="range" points={[at(now), end(forecast.low_ugpu_s), end(forecast.high_ugpu_s)].join(" ")} />
              <polyline className="forecast" points={`${at(now)} ${end(forecast.middle_ugpu_s)}`} />
              <line className="now" x1={now.x * WIDTH} x2={now.x * WIDTH} y1={0} y2={HEIGHT} />
            </>
          )}
        </svg>
        <div aria-hidden="true">
          {ticksOf(floor, cap, dayUgpuS).map((tick) => (
            <span key={tick} className="tick" style={{ top: `${y(tick) * 100}%` }}>
              {inDays(tick, dayUgpuS)}
            </span>
          ))}
          {labels.map(({ ugpuS, text }) => (
            <span key={text} className="end" style={{ top: `${y(ugpuS) * 100}%` }}>
              {text}
            </span>
          ))}
          {marksOf(statement, points).map(({ x, ugpuS, text }) => (
            <span key={text + String(x)} className="mark" style={{ left: `${x * 100}%`, top: `${y(ugpuS) * 100}%` }}>
              <i />
              <b>{text}</b>
            </span>
          ))}
          {Array.from({ length: Math.ceil(length / DATES_EVERY) }, (_, place) => place * DATES_EVERY).map((day) => (
            <span key={day} className="date" style={{ left: `${(day / length) * 100}%` }}>
              {dayLabel(dayOf(statement, day))}
            </span>
          ))}
        </div>
      </div>
    </div>
  );
}

/** An amount in days of the guarantee, "+3.1 d"; without a guarantee in GPU-hours. */
export function inDays(ugpuS: number, dayUgpuS: number): string {
  if (dayUgpuS === 0) return formatSignedHours(ugpuS);
  return `${ugpuS > 0 ? "+" : ""}${formatRatio(ugpuS, BigInt(dayUgpuS), 1, false)} d`;
}

/** The opening balance, and the balance at the end of each day; the last point is where settling ended. */
export function pointsOf(history: CreditHistory, statement: Pick<CreditStatement, "start" | "end">): Point[] {
  const length = monthLength(statement);
  const [start, end] = [Date.parse(statement.start), Date.parse(statement.end)];
  const settled = history.settled_until === null ? 1 : (Date.parse(history.settled_until) - start) / (end - start);
  return [
    { x: 0, ugpuS: history.opening_ugpu_s },
    ...history.days.map(({ balance_ugpu_s: ugpuS }, place) => ({ x: Math.min((place + 1) / length, Math.max(0, settled)), ugpuS })),
  ];
}

/** Transfers of people, and the jobs that paid most, where they fall on the line. */
export function marksOf(statement: CreditStatement, points: readonly Point[]): (Point & { text: string })[] {
  const jobs = statement.borrowing
    .toSorted((one, other) => other.amount_ugpu_s - one.amount_ugpu_s)
    .map(({ day, job_name: text }) => ({ day, text }));
  const transfers = statement.lines
    .filter(({ kind }) => kind === "transferred")
    .map(({ day, other, amount_ugpu_s: amount }) => ({ day, text: `${amount > 0 ? "from" : "to"} ${slugOf(other)}` }));
  const length = monthLength(statement);
  const marks: (Point & { text: string })[] = [];
  for (const { day, text } of [...transfers, ...jobs]) {
    const point = points[Number(day.slice(8))];
    if (point === undefined || marks.length === MARKS_MAX) continue;
    // Names of neighbours would cover each other.
    if (marks.every(({ x }) => Math.abs(x - point.x) > 4 / length)) marks.push({ ...point, text });
  }
  return marks;
}

function monthLength({ start, end }: Pick<CreditStatement, "start" | "end">): number {
  return Math.round((Date.parse(end) - Date.parse(start)) / 86_400_000);
}

/** The day so many days after the first one of the month. */
function dayOf({ start, end }: CreditStatement, days: number): string {
  const month = new Date((Date.parse(start) + Date.parse(end)) / 2).toISOString().slice(0, 7);
  return `${month}-${String(days + 1).padStart(2, "0")}`;
}

/** From an amount to its place between 0 at the top and 1 at the bottom. */
function scaleOf(amounts: readonly number[]): (ugpuS: number) => number {
  const [low, high] = [Math.min(0, ...amounts), Math.max(0, ...amounts)];
  const range = Math.max(1, high - low);
  return (ugpuS) => MARGIN + ((high - ugpuS) / range) * (1 - 2 * MARGIN);
}

/** Whole days of the guarantee strictly between floor and cap, and 0. */
export function ticksOf(floor: number, cap: number, dayUgpuS: number): number[] {
  const step = STEPS.find((days) => (cap - floor) / (days * dayUgpuS) < TICKS_MAX);
  if (dayUgpuS === 0 || step === undefined) return [0];
  const size = step * dayUgpuS;
  const first = Math.ceil(floor / size);
  return Array.from({ length: Math.max(0, Math.floor(cap / size) - first + 1) }, (_, place) => (first + place) * size).filter(
    (tick) => tick === 0 || (tick - floor > size / 4 && cap - tick > size / 4),
  );
}

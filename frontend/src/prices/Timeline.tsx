import type { RateCard, RateLine } from "../api/types";
import { Card } from "../ui/Card";
import { formatPrice, series, stateOf } from "./amounts";
import { formatInZone } from "./zone";

const DAY_MS = 86_400_000;
const PAST_MS = 365 * DAY_MS;
const AHEAD_MS = 60 * DAY_MS;
/** The least share of the axis on which a price can be read. */
const LABEL_PERCENT = 9;

/** The part of time that the picture shows: at most a year back, and some time after the last change. */
function spanOf(lines: readonly RateLine[], nowMs: number): [number, number] {
  const starts = lines.map(({ start }) => Date.parse(start));
  const changes = [...starts, ...lines.flatMap(({ end }) => (end === null ? [] : [Date.parse(end)]))];
  const first = Math.max(Math.min(...starts, nowMs - 30 * DAY_MS), nowMs - PAST_MS);
  return [first, Math.max(...changes, nowMs) + AHEAD_MS];
}

/** The prices of each pool and class on one line of time: past, current and scheduled. */
export function Timeline({ card, nowMs }: { card: RateCard; nowMs: number }) {
  const [from, until] = spanOf(card.lines, nowMs);
  const at = (ms: number) => Math.min(Math.max((ms - from) / (until - from), 0), 1) * 100;
  const span = (line: RateLine) => {
    const left = at(Date.parse(line.start));
    return { left, width: (line.end === null ? 100 : at(Date.parse(line.end))) - left };
  };
  const day = (ms: number) => formatInZone(new Date(Math.floor(ms / DAY_MS) * DAY_MS).toISOString(), "UTC");
  return (
    <Card label="Prices over time">
      <h2>Prices over time</h2>
      <div className="price-lines">
        {series(card.lines).map((row) => (
          <div key={row.key} className="price-line">
            <div className="price-name" title={`${row.pool} ${row.usageClass}`}>
              <span>{row.pool}</span> <span className="dim">{row.usageClass}</span>
            </div>
            <div
              className="price-bar"
              role="img"
              aria-label={`${row.pool} ${row.usageClass}: ${row.lines.map((line) => words(line, card, nowMs)).join("; ")}`}
            >
              {row.lines
                .map((line) => ({ line, ...span(line) }))
                .filter(({ width }) => width > 0)
                .map(({ line, left, width }) => (
                  <i
                    key={line.id}
                    className={stateOf(line, nowMs)}
                    style={{ left: `${left}%`, width: `${width}%` }}
                    title={words(line, card, nowMs)}
                  >
                    {width >= LABEL_PERCENT && formatPrice(line.price_nano, card.currency)}
                  </i>
                ))}
              <u style={{ left: `${at(nowMs)}%` }} />
            </div>
          </div>
        ))}
      </div>
      <div className="price-axis small faint" aria-hidden="true">
        <span>{day(from)}</span>
        <span className="now" style={{ left: `${at(nowMs)}%` }}>
          now
        </span>
        <span>{day(until)}</span>
      </div>
      <div className="price-key small dim" aria-hidden="true">
        {(["past", "current", "scheduled"] as const).map((state) => (
          <span key={state}>
            <span className="price-bar">
              <i className={state} style={{ left: 0, width: "100%" }} />
            </span>
            {state}
          </span>
        ))}
      </div>
    </Card>
  );
}

function words(line: RateLine, card: RateCard, nowMs: number): string {
  const from = formatInZone(line.start, card.time_zone);
  const until = line.end === null ? "" : ` until ${formatInZone(line.end, card.time_zone)}`;
  return `${formatPrice(line.price_nano, card.currency)} from ${from}${until}, ${stateOf(line, nowMs)}`;
}

import { frame, type Colours } from "../history/option";
import type { Row } from "./series";

/** One figure over time, and what was asked for as a line above it. */
export function metricOption(
  rows: readonly Row[],
  pick: (row: Row) => number | null,
  { name, asked, format, colours, labels }: Labels,
): Record<string, unknown> {
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";
  const most = Math.max(0, ...rows.map((row) => pick(row) ?? 0));
  // A request far above the use would press the curve to the ground. The sentence names it then.
  const line = asked !== null && asked <= 4 * most ? asked : null;
  const curve = (label: string, color: string, data: (number | null)[], type: string) => ({
    name: label,
    type: "line",
    symbol: rows.length < 40 ? "circle" : "none",
    symbolSize: type === "solid" ? 4 : 0,
    lineStyle: { width: 1.5, color, type },
    itemStyle: { color },
    emphasis: { disabled: true },
    data,
  });
  return {
    ...frame({ starts: rows.map(({ at }) => at), zone, step: "5m", labels }, colours, format, {}),
    series: [
      curve(name, colours.guaranteed, rows.map(pick), "solid"),
      ...(line === null ? [] : [curve("asked for", colours.faint, rows.map(() => line), "dashed")]),
    ],
  };
}

interface Labels {
  name: string;
  /** In the unit of the figure; null where nothing was asked for. */
  asked: number | null;
  format: (value: number) => string;
  colours: Colours;
  /** The most labels that fit. */
  labels: number;
}

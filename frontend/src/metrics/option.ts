import { frame, type Colours } from "../history/option";
import type { Row } from "./series";

/** One figure over time, and what was asked for as a line above it. */
export function metricOption(
  rows: readonly Row[],
  pick: (row: Row) => number | null,
  { name, asked, isMemory, format, colours, labels }: Labels,
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
    ...frame({ starts: rows.map(({ at }) => at), zone, step: "5m", labels }, colours, format, isMemory ? memoryScale(Math.max(most, line ?? 0)) : {}),
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
  /** Whether the figure is in bytes, whose round numbers are powers of two. */
  isMemory: boolean;
  format: (value: number) => string;
  colours: Colours;
  /** The most labels that fit. */
  labels: number;
}

/** A scale of bytes with at most four lines, at multiples of a power of two. */
export function memoryScale(mostBytes: number): { interval: number; max: number } {
  const interval = 2 ** Math.ceil(Math.log2(Math.max(4, mostBytes) / 4));
  return { interval, max: interval * Math.max(1, Math.ceil(mostBytes / interval)) };
}

import { formatDuration, formatGpus } from "../ui/units";
import { labelled, stepLabel, stepName } from "./labels";
import type { StepLevels } from "./levels";

/** The colours of the page, read where the chart is drawn. */
export interface Colours {
  guaranteed: string;
  borrowed: string;
  lent: string;
  idle: string;
  waiting: string;
  ink: string;
  faint: string;
  line: string;
  card: string;
}

const NAMES = ["guaranteed", "borrowed", "lent", "idle", "waiting", "ink", "faint", "line", "card"] as const;

export function coloursOf(element: Element): Colours {
  const style = getComputedStyle(element);
  return Object.fromEntries(NAMES.map((name) => [name, style.getPropertyValue(`--${name}`).trim()])) as unknown as Colours;
}

/** Steps of an axis: their labels, and their names in the box at the pointer. */
export interface Axis {
  starts: readonly string[];
  zone: string;
  step: string;
  /** The most labels that fit. */
  labels: number;
}

export function frame({ starts, zone, step, labels }: Axis, colours: Colours, format: (value: number) => string, scale: object) {
  const shown = labelled(starts, zone, step, labels);
  const text = { color: colours.faint, fontSize: 12, fontFamily: "Inter Variable, Inter, system-ui, sans-serif" };
  return {
    grid: { left: 4, right: 8, top: 12, bottom: 4, containLabel: true },
    textStyle: text,
    tooltip: {
      trigger: "axis",
      renderMode: "richText",
      confine: true,
      backgroundColor: colours.card,
      borderColor: colours.line,
      textStyle: { ...text, color: colours.ink },
      valueFormatter: (value: unknown) => (typeof value === "number" ? format(value) : "–"),
    },
    xAxis: {
      type: "category",
      boundaryGap: false,
      data: starts.map((start) => stepName(start, zone, step)),
      axisLine: { lineStyle: { color: colours.line } },
      axisTick: { show: false },
      axisLabel: {
        ...text,
        interval: (at: number) => shown.has(at),
        formatter: (_: string, at: number) => stepLabel(starts[at] ?? "", zone, step, starts.length),
        alignMinLabel: "left",
        hideOverlap: true,
      },
    },
    yAxis: {
      type: "value",
      min: 0,
      splitNumber: 4,
      ...scale,
      splitLine: { lineStyle: { color: colours.line } },
      axisLabel: { ...text, formatter: format },
    },
  };
}

/** Diagonal stripes: what is borrowed may be reclaimed. The same hatch as in the bars. */
function hatch(colour: string, card: string): unknown {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 8;
  const context = tile.getContext("2d");
  if (context === null) return colour;
  context.fillStyle = card;
  context.fillRect(0, 0, 8, 8);
  context.globalAlpha = 0.45;
  context.fillStyle = colour;
  context.fillRect(0, 0, 8, 8);
  context.globalAlpha = 1;
  context.strokeStyle = colour;
  context.lineWidth = 3;
  for (const from of [-8, 0, 8]) {
    context.beginPath();
    context.moveTo(from, 8);
    context.lineTo(from + 8, 0);
    context.stroke();
  }
  return { image: tile, repeat: "repeat" };
}

/** Values of steps for a line of stairs, which draws a step up to the next point: the last one is repeated at the end. */
function toTheEnd(values: number[]): number[] {
  return [...values, ...values.slice(-1)];
}

/** Use within the guarantee, lent, idle, and above it use beyond the guarantee; with lines of guarantee and waiting. */
export function levelsOption(steps: readonly StepLevels[], axis: Axis, colours: Colours, top: number) {
  const area = (name: string, pick: (step: StepLevels) => number, fill: unknown, line?: object) => ({
    name,
    type: "line",
    stack: "use",
    step: "end",
    symbol: "none",
    lineStyle: { width: 0, ...line },
    itemStyle: { color: fill },
    areaStyle: { color: fill, opacity: 1 },
    emphasis: { disabled: true },
    data: toTheEnd(steps.map(pick)),
  });
  const curve = (name: string, pick: (step: StepLevels) => number, color: string) => ({
    name,
    type: "line",
    step: "end",
    symbol: "none",
    lineStyle: { width: 1.5, color },
    itemStyle: { color },
    emphasis: { disabled: true },
    data: toTheEnd(steps.map(pick)),
  });
  const lent = `color-mix(in srgb, ${colours.lent} 22%, ${colours.card})`;
  return {
    ...frame(axis, colours, formatAverage, { max: top }),
    series: [
      area("within the guarantee", ({ levels }) => levels.within, colours.guaranteed),
      area("lent", ({ levels }) => levels.lent, mixed(lent, colours), { width: 1, type: "dashed", color: colours.lent }),
      area("idle", ({ levels }) => levels.idle, colours.idle),
      area("above the guarantee", ({ levels }) => levels.above, hatch(colours.borrowed, colours.card)),
      curve("guarantee", ({ levels }) => levels.guarantee, colours.ink),
      curve("waiting", ({ levels }) => levels.waiting, colours.waiting),
    ],
  };
}

/** A mixed colour as canvas takes it: painted once, and read back. */
function mixed(colour: string, colours: Colours): string {
  const context = document.createElement("canvas").getContext("2d");
  if (context === null) return colours.lent;
  context.fillStyle = colours.lent;
  context.fillStyle = colour;
  return context.fillStyle;
}

/** Averages have at most one decimal in a chart. */
function formatAverage(mgpu: number): string {
  return formatGpus(Math.round(mgpu / 100) * 100);
}

/** Seconds between two lines of a scale. */
const DURATIONS_S = [1, 5, 15, 30, 60, 300, 900, 1800, 3600, 7200, 14_400, 43_200, 86_400, 604_800];
const LINES_MAX = 4;

/** A scale of durations with round lines: the least interval with at most four of them. */
export function durationScale(mostS: number): { interval: number; max: number } {
  const interval = DURATIONS_S.find((each) => each * LINES_MAX >= mostS) ?? Math.ceil(mostS / LINES_MAX);
  return { interval, max: interval * Math.max(1, Math.ceil(mostS / interval)) };
}

/** The waits of one class: the median as a line, and the 95th percentile as a dashed one. */
export function waitOption(
  waits: readonly ({ p50_s: number; p95_s: number } | undefined)[],
  axis: Axis,
  colours: Colours,
) {
  const curve = (name: string, pick: "p50_s" | "p95_s", type: string) => ({
    name,
    type: "line",
    symbol: waits.length < 40 ? "circle" : "none",
    symbolSize: 4,
    connectNulls: true,
    lineStyle: { width: 1.5, color: colours.waiting, type },
    itemStyle: { color: colours.waiting },
    emphasis: { disabled: true },
    data: waits.map((each) => each?.[pick] ?? null),
  });
  return {
    ...frame(axis, colours, formatDuration, durationScale(Math.max(0, ...waits.map((each) => each?.p95_s ?? 0)))),
    series: [curve("p50", "p50_s", "solid"), curve("p95", "p95_s", "dashed")],
  };
}

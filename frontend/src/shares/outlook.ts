import type { ExplainedFairShare } from "../api/types";
import type { Colours } from "../history/option";
import { formatCount, formatGpuHours } from "../ui/units";

/** Milli-GPU-seconds of a GPU-hour. */
const GPU_H = 3_600_000;

/** Seconds as days, with one decimal at most. */
export function daysOf(seconds: number): string {
  return `${String(Math.round(seconds / 8640) / 10)} d`;
}

/** The decayed use of a node over the next half-lives: without further use, and with that of now. */
export function outlookOption({ outlook }: ExplainedFairShare, colours: Colours, labels: number) {
  const text = { color: colours.faint, fontSize: 12, fontFamily: "Inter Variable, Inter, system-ui, sans-serif" };
  const curve = (name: string, data: number[], colour: string, type: string) => ({
    name,
    type: "line",
    symbol: "none",
    lineStyle: { width: 1.5, color: colour, type },
    itemStyle: { color: colour },
    emphasis: { disabled: true },
    data,
  });
  const step = Math.max(1, Math.ceil(outlook.length / labels));
  return {
    grid: { left: 4, right: 16, top: 12, bottom: 4, containLabel: true },
    textStyle: text,
    tooltip: {
      trigger: "axis",
      renderMode: "richText",
      confine: true,
      backgroundColor: colours.card,
      borderColor: colours.line,
      textStyle: { ...text, color: colours.ink },
      valueFormatter: (value: unknown) => (typeof value === "number" ? formatGpuHours(value) : "–"),
    },
    xAxis: {
      type: "category",
      boundaryGap: false,
      data: outlook.map(({ after_s }) => daysOf(after_s)),
      axisLine: { lineStyle: { color: colours.line } },
      axisTick: { show: false },
      axisLabel: { ...text, interval: (at: number) => at % step === 0, hideOverlap: true },
    },
    yAxis: {
      type: "value",
      min: 0,
      splitNumber: 4,
      splitLine: { lineStyle: { color: colours.line } },
      axisLabel: { ...text, formatter: (value: number) => formatCount(Math.round(value / GPU_H)) },
    },
    series: [
      curve("No further use", outlook.map(({ idle_mgpu_s }) => idle_mgpu_s), colours.guaranteed, "solid"),
      curve("Use as now", outlook.map(({ steady_mgpu_s }) => steady_mgpu_s), colours.borrowed, "dashed"),
    ],
  };
}

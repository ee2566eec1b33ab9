/** The only module that loads ECharts: on its own, when the first chart is shown. */
import { LineChart } from "echarts/charts";
import { GridComponent, TooltipComponent } from "echarts/components";
import { init, use as register } from "echarts/core";
import { CanvasRenderer } from "echarts/renderers";

register([LineChart, GridComponent, TooltipComponent, CanvasRenderer]);

/** Draw a chart into an element, and return what redraws it in its present size and what ends it. */
export function draw(element: HTMLElement, option: Record<string, unknown>): { resize: () => void; end: () => void } {
  const chart = init(element, null, { renderer: "canvas" });
  chart.setOption({ animation: false, ...option });
  return { resize: () => chart.resize(), end: () => chart.dispose() };
}

import { useCallback, useMemo, useState } from "react";

import type { HistorySeries, UseHistory } from "../api/types";
import { Card } from "../ui/Card";
import { DataTable } from "../ui/DataTable";
import { capitalised, DEVICE_WORDS, deviceTime, formatGpuHours, formatGpus, type Device } from "../ui/units";
import { CsvLink } from "./CsvLink";
import { Chart } from "./Chart";
import { stepName } from "./labels";
import { levelsOf, stepsOf, topOf, type Levels, type StepLevels } from "./levels";
import { levelsOption, type Colours } from "./option";
import type { Asked } from "./queries";
import "../quotas/quota-bar.css";

/** GPUs in use over time, against the guarantee; as a chart or as a table. */
export function UseCard({ history, asked }: { history: UseHistory; asked: Asked }) {
  const [asTable, setAsTable] = useState(false);
  const steps = useMemo(() => stepsOf(history.series, history.edges), [history]);
  const top = useMemo(() => topOf([steps]), [steps]);
  const title = `${capitalised(DEVICE_WORDS[history.device])} in use`;
  return (
    <Card label={title}>
      <div className="spread">
        <h2>{title}</h2>
        <span className="inline">
          <button type="button" className="plain link small" onClick={() => setAsTable(!asTable)}>
            {asTable ? "Show the chart" : "Show as table"}
          </button>
          <CsvLink asked={asked} table="steps" />
        </span>
      </div>
      <p className="small dim">
        {history.step === "5m" ? "Average of each 5 minutes" : `Average of each ${history.step}`}, in{" "}
        {DEVICE_WORDS[history.device]}; times are those of {history.time_zone}.
      </p>
      {asTable ? (
        <StepTable history={history} steps={steps} label={title} />
      ) : (
        <UseChart history={history} series={history.series} steps={steps} top={top} className="history-chart" />
      )}
      <Legend />
      <Check levels={levelsOf(history.series.sums)} device={history.device} />
      <p className="small dim">
        The whole pool {history.pool} had {formatGpuHours(history.capacity.sum_mgpu_s)} {deviceTime(history.device, "hours")} in
        this period.
      </p>
    </Card>
  );
}

function UseChart({
  history,
  series,
  steps,
  top,
  className,
}: {
  history: UseHistory;
  series: HistorySeries;
  steps: readonly StepLevels[];
  top: number;
  className: string;
}) {
  const option = useCallback(
    (colours: Colours, labels: number) =>
      levelsOption(
        steps,
        { starts: history.edges, zone: history.time_zone, step: history.step, labels },
        colours,
        top,
      ),
    [history, steps, top],
  );
  const { within, above, lent, idle } = levelsOf(series.sums);
  const hours = deviceTime(history.device, "hours");
  return (
    <Chart
      className={className}
      option={option}
      label={
        `${series.node}: ${formatGpuHours(within)} ${hours} within the guarantee, ${formatGpuHours(above)} above it, ` +
        `${formatGpuHours(lent)} lent, ${formatGpuHours(idle)} idle. The table has each step.`
      }
    />
  );
}

const COLUMNS: readonly (readonly [keyof Levels, string])[] = [
  ["used", "In use"],
  ["within", "Within"],
  ["above", "Above"],
  ["guarantee", "Guarantee"],
  ["lent", "Lent"],
  ["idle", "Idle"],
  ["waiting", "Waiting"],
];

function StepTable({ history, steps, label }: { history: UseHistory; steps: readonly StepLevels[]; label: string }) {
  return (
    <div className="history-table" role="group" aria-label={`${label}, as a table`} tabIndex={0}>
      <DataTable
        label={`${label}, averages`}
        rows={steps}
        rowKey={({ start }) => start}
        columns={[
          { header: "From", isHeading: true, cell: ({ start }) => stepName(start, history.time_zone, history.step) },
          ...COLUMNS.map(([name, header]) => ({
            header,
            isRight: true,
            cell: ({ levels }: StepLevels) => formatGpus(Math.round(levels[name])),
          })),
        ]}
      />
    </div>
  );
}

function Legend() {
  return (
    <ul className="key" aria-label="Legend">
      {(
        [
          ["g", "within the guarantee"],
          ["b", "above the guarantee"],
          ["l", "lent to others"],
          ["e", "idle"],
          ["tick", "guarantee"],
          ["w", "waiting"],
        ] as const
      ).map(([shape, text]) => (
        <li key={shape}>
          <span className="bar" aria-hidden="true">
            <i className={shape} />
          </span>
          {text}
        </li>
      ))}
    </ul>
  );
}

/** The sum of the parts beside the guarantee, which the server integrates on its own. */
function Check({ levels, device }: { levels: Levels; device: Device }) {
  const { within, lent, idle, guarantee } = levels;
  const isRight = idle >= 0 && within + lent + idle === guarantee;
  return (
    <p className="small">
      In use {formatGpuHours(within)} + lent {formatGpuHours(lent)} + idle {formatGpuHours(idle)} = guaranteed{" "}
      {formatGpuHours(guarantee)} {deviceTime(device, "h")}{" "}
      {isRight ? <span className="good-text">✓</span> : <strong>▲ does not add up</strong>}
    </p>
  );
}

/** The children as small charts on one scale. */
export function ChildrenCharts({ history }: { history: UseHistory }) {
  const shown = useMemo(
    () =>
      history.children
        .filter(({ steps }) => steps.within_mgpu_s.length > 0)
        .map((series) => ({ series, steps: stepsOf(series, history.edges) })),
    [history],
  );
  const top = useMemo(() => topOf(shown.map(({ steps }) => steps)), [shown]);
  if (shown.length === 0) return null;
  const hours = deviceTime(history.device, "h");
  const hidden = history.children.length - shown.length;
  return (
    <>
      <div className="history-children">
        {shown.map(({ series, steps }) => {
          const levels = levelsOf(series.sums);
          const last = steps.at(-1)?.levels.guarantee ?? 0;
          return (
            <Card key={series.node} label={series.node}>
              <div className="spread">
                <h2 className="breaks">{series.node.slice(series.node.lastIndexOf("/") + 1)}</h2>
                <span className="small dim">guarantee {formatGpus(Math.round(last))}</span>
              </div>
              <UseChart history={history} series={series} steps={steps} top={top} className="history-chart small-chart" />
              <p className="small dim">
                {formatGpuHours(levels.within)} {hours} within · {formatGpuHours(levels.above)} above ·{" "}
                {formatGpuHours(levels.lent)} lent
              </p>
            </Card>
          );
        })}
      </div>
      <p className="small dim">
        The same scale for all. They also borrow from and lend to each other, so their sums exceed those of the node.
        {hidden > 0 && ` ${hidden} more with less use have no chart.`}
      </p>
    </>
  );
}

import { DataTable } from "../ui/DataTable";
import type { Stack } from "./stacks";

const WIDTH = 1180;
const HEIGHT = 170;

/** Stacked bars, one for each day: the same numbers as the table under them. */
export function StackChart({
  stack,
  title,
  unit,
  format,
}: {
  stack: Stack;
  title: string;
  /** The unit of the numbers; "" where they say it themselves. */
  unit: string;
  format: (value: bigint) => string;
}) {
  const sums = stack.bars.map(({ values }) => values.reduce((sum, value) => sum + value, 0n));
  const most = Number(sums.reduce((most, sum) => (sum > most ? sum : most), 1n)) * 1.05;
  const step = WIDTH / Math.max(1, stack.bars.length);
  const width = Math.min(step * 0.84, 90);
  return (
    <figure className="stack-chart">
      <figcaption>{title}</figcaption>
      <svg
        className="days"
        viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
        preserveAspectRatio="none"
        role="img"
        aria-label={`${title}: ${stack.series.join(", ")}. The table of the chart has each number.`}
      >
        {stack.bars.map(({ label, values }, i) => {
          let below = 0;
          return (
            <g key={label}>
              <title>
                {`${label}: ${stack.series.map((name, at) => `${name} ${format(values[at] ?? 0n)}`).join(", ")} ${unit}`.trim()}
              </title>
              {values.map((value, at) => {
                const height = (Number(value) / most) * HEIGHT;
                below += height;
                return (
                  <rect
                    key={stack.series[at]}
                    className={`series-${at}`}
                    x={i * step + (step - width) / 2}
                    width={width}
                    y={HEIGHT - below}
                    height={height}
                  />
                );
              })}
            </g>
          );
        })}
      </svg>
      <div className="days-axis small faint" aria-hidden="true">
        <span>{stack.bars[0]?.label}</span>
        <span>{stack.bars.at(-1)?.label}</span>
      </div>
      <ul className="key" aria-label="Legend">
        {stack.series.map((name, at) => (
          <li key={name}>
            <svg width={14} height={12} aria-hidden="true">
              <rect width={14} height={12} className={`series-${at}`} />
            </svg>
            <span className="series-name">{name}</span>
          </li>
        ))}
      </ul>
      <details>
        <summary>Table of the chart</summary>
        <div className="scrolls" role="group" aria-label={`${title}, as a table`} tabIndex={0}>
          <DataTable
            label={unit === "" ? title : `${title}, ${unit}`}
            rows={stack.bars}
            rowKey={({ label }) => label}
            columns={[
              { header: "Time", isHeading: true, cell: ({ label }) => label },
              ...stack.series.map((name, at) => ({
                header: name,
                isRight: true,
                cell: ({ values }: Stack["bars"][number]) => format(values[at] ?? 0n),
              })),
            ]}
          />
        </div>
      </details>
    </figure>
  );
}

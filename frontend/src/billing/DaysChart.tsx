import { useId, useState } from "react";

import type { Chargeback } from "../api/types";
import { Card } from "../ui/Card";
import { DataTable } from "../ui/DataTable";
import { capitalised, deviceTime, formatGpuHours, type Device } from "../ui/units";
import { daysOf } from "./period";
import "./billing.css";

const WIDTH = 1180;
const HEIGHT = 170;
const DAY_S = 86_400;

interface Day {
  day: string;
  guaranteedMgpuS: number;
  /** With the unpaid part. */
  borrowedMgpuS: number;
  freeMgpuS: number;
}

/** The days of a report up to when it was made, all pools of such devices together, days without use as zeros. */
export function fillDays(report: Pick<Chargeback, "start" | "end" | "as_of" | "days">, device: Device): Day[] {
  const until = Date.parse(report.as_of) < Date.parse(report.end) ? report.as_of : report.end;
  const found = new Map<string, Day>();
  for (const day of daysOf(report.start, until)) {
    found.set(day, { day, guaranteedMgpuS: 0, borrowedMgpuS: 0, freeMgpuS: 0 });
  }
  for (const entry of report.days.filter((each) => each.device === device)) {
    const day = entry.day.slice(0, 10);
    const sum = found.get(day) ?? { day, guaranteedMgpuS: 0, borrowedMgpuS: 0, freeMgpuS: 0 };
    sum.guaranteedMgpuS += entry.guaranteed_mgpu_s;
    sum.borrowedMgpuS += entry.borrowed_mgpu_s + entry.unpaid_mgpu_s;
    sum.freeMgpuS += entry.fault_mgpu_s;
    found.set(day, sum);
  }
  return [...found.values()].sort((a, b) => (a.day < b.day ? -1 : 1));
}

/** What such devices of the fleet could have given on a whole day, in milli-GPU-seconds; null if not known. */
function capacityOfDay(report: Chargeback, device: Device): number | null {
  const untilMs = Math.min(Date.parse(report.as_of), Date.parse(report.end));
  const elapsedS = (untilMs - Date.parse(report.start)) / 1000;
  const pools = report.capacity.filter((pool) => pool.device === device);
  const total = pools.reduce((sum, pool) => sum + pool.capacity_mgpu_s, 0);
  return elapsedS > 0 && total > 0 ? (total / elapsedS) * DAY_S : null;
}

/** The hours of GPUs, or of cores, day by day: solid guaranteed, hatched borrowed; the same as a table on demand. */
export function DaysChart({ report, device }: { report: Chargeback; device: Device }) {
  const [asTable, setAsTable] = useState(false);
  const hatch = useId();
  const days = fillDays(report, device);
  if (days.length < 2) return null;
  const capacity = capacityOfDay(report, device);
  const most = Math.max(1, ...days.map((day) => day.guaranteedMgpuS + day.borrowedMgpuS + day.freeMgpuS));
  const scale = capacity !== null && capacity < most * 4 ? Math.max(most, capacity * 1.02) : most * 1.05;
  const step = WIDTH / days.length;
  const width = Math.min(step * 0.84, 90);
  const y = (mgpuS: number) => HEIGHT - (mgpuS / scale) * HEIGHT;
  const total = (value: (day: Day) => number) => formatGpuHours(days.reduce((sum, day) => sum + value(day), 0));
  const hours = deviceTime(device, "hours");
  const unit = deviceTime(device, "h");
  const hasFree = days.some((day) => day.freeMgpuS > 0);
  const summary = `${days.length} days, ${total((day) => day.guaranteedMgpuS)} ${hours} guaranteed and ${total((day) => day.borrowedMgpuS)} borrowed${hasFree ? `, ${total((day) => day.freeMgpuS)} free` : ""}`;
  return (
    <Card label={`${capitalised(hours)} day by day`}>
      <div className="spread">
        <h2>{capitalised(hours)}, day by day</h2>
        <button type="button" className="plain link small" onClick={() => setAsTable(!asTable)}>
          {asTable ? "Show the chart" : "Show as a table"}
        </button>
      </div>
      {asTable ? (
        <DataTable
          rows={days}
          rowKey={(day) => day.day}
          columns={[
            { header: "Day (UTC)", isHeading: true, cell: (day) => day.day },
            {
              header: <>Guaranteed {unit}</>,
              isRight: true,
              cell: (day) => formatGpuHours(day.guaranteedMgpuS),
            },
            {
              header: <>Borrowed {unit}</>,
              isRight: true,
              cell: (day) => formatGpuHours(day.borrowedMgpuS),
            },
            hasFree && {
              header: <>Free {unit}</>,
              isRight: true,
              cell: (day) => formatGpuHours(day.freeMgpuS),
            },
          ]}
        />
      ) : (
        <>
          <svg
            className="days"
            viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
            preserveAspectRatio="none"
            role="img"
            aria-label={`${summary}. The table has each day.`}
          >
            <defs>
              <pattern id={hatch} width={8} height={8} patternTransform="rotate(45)" patternUnits="userSpaceOnUse">
                <rect width={8} height={8} className="hatch-ground" />
                <rect width={4} height={8} className="hatch-line" />
              </pattern>
            </defs>
            {days.map((day, i) => {
              const x = i * step + (step - width) / 2;
              const top = day.guaranteedMgpuS + day.borrowedMgpuS;
              return (
                <g key={day.day}>
                  <title>
                    {`${day.day}: ${formatGpuHours(day.guaranteedMgpuS)} ${unit} guaranteed, ${formatGpuHours(day.borrowedMgpuS)} borrowed${hasFree ? `, ${formatGpuHours(day.freeMgpuS)} free` : ""}`}
                  </title>
                  <rect
                    className="solid"
                    x={x}
                    width={width}
                    y={y(day.guaranteedMgpuS)}
                    height={HEIGHT - y(day.guaranteedMgpuS)}
                  />
                  <rect
                    fill={`url(#${hatch})`}
                    x={x}
                    width={width}
                    y={y(top)}
                    height={y(day.guaranteedMgpuS) - y(top)}
                  />
                  <rect
                    className="free"
                    x={x}
                    width={width}
                    y={y(top + day.freeMgpuS)}
                    height={y(top) - y(top + day.freeMgpuS)}
                  />
                </g>
              );
            })}
            {capacity !== null && capacity >= most && capacity <= scale && (
              <line className="capacity" x1={0} x2={WIDTH} y1={y(capacity)} y2={y(capacity)} />
            )}
          </svg>
          <div className="days-axis small faint" aria-hidden="true">
            <span>{days[0]?.day}</span>
            <span>{days.at(-1)?.day}</span>
          </div>
          <ul className="key" aria-label="Legend">
            <li>
              <span className="bar" aria-hidden="true">
                <i className="g" />
              </span>
              guaranteed
            </li>
            <li>
              <span className="bar" aria-hidden="true">
                <i className="b" />
              </span>
              borrowed
            </li>
            {hasFree && (
              <li>
                <span className="bar" aria-hidden="true">
                  <i className="e" />
                </span>
                free
              </li>
            )}
            {capacity !== null && capacity >= most && capacity <= scale && <li>┄ capacity {formatGpuHours(Math.round(capacity))} {unit} a day</li>}
          </ul>
        </>
      )}
    </Card>
  );
}

import { SegmentedControl } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { formatCost, formatGpuHours, type Device } from "../ui/units";
import { dimensionWords, isTime as isTimeDimension } from "./dimensions";
import { groupsQuery, type Dimension, type GroupedReport, type GroupRow, type Narrowed } from "./groupQueries";
import { StackChart } from "./StackChart";
import { MEASURES, stackOf, type Measure } from "./stacks";

/** The first grouping day by day, of the same use and costs as the table. */
export function GroupsChart({ by, asked }: { by: readonly Dimension[]; asked: Narrowed }) {
  const name = by.find((each) => !isTimeDimension(each)) ?? "usage_class";
  const time = by.find((each) => isTimeDimension(each)) ?? "day";
  const report = useQuery(groupsQuery([name, time], asked));
  const [wanted, setWanted] = useState<Measure>("hours");
  if (report.data === undefined || report.data.buckets.length < 2) return null;
  if (report.data.by[0] !== name || report.data.by[1] !== time) return null;
  const { currency, totals } = report.data;
  const choices = measuresOf(totals, report.data.rows);
  const measure = choices.includes(wanted) ? wanted : (choices[0] ?? "hours");
  const isTime = measure === "hours" || measure === "cores";
  const { title } = MEASURES[measure];
  return (
    <>
      {choices.length > 1 && (
        <SegmentedControl
          className="fit"
          aria-label="What the chart shows"
          data={choices.map((value) => ({ value, label: MEASURES[value].title }))}
          value={measure}
          onChange={setWanted}
        />
      )}
      <StackChart
        stack={stackOf(report.data, name, time, measure)}
        title={`${title}${measure === "showback" ? ", not billed," : ""} by ${dimensionWords(name)} and ${time}`}
        unit={measure === "hours" ? "GPU-h" : measure === "cores" ? "core-h" : ""}
        format={isTime ? formatGpuHours : (nano) => formatCost(nano, currency)}
      />
    </>
  );
}

/** Use of each kind of devices, and costs in one currency. */
function measuresOf({ cost_nano, showback_nano }: GroupedReport["totals"], rows: readonly GroupRow[]): Measure[] {
  const has = (device: Device) => rows.some((row) => row.device === device);
  return [
    ...(has("gpu") ? (["hours"] as const) : []),
    ...(has("cpu") ? (["cores"] as const) : []),
    ...((cost_nano ?? 0) > 0 ? (["cost"] as const) : []),
    ...((showback_nano ?? 0) > 0 ? (["showback"] as const) : []),
  ];
}

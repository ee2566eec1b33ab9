import { useQuery } from "@tanstack/react-query";
import { useCallback, useMemo, useState } from "react";

import type { Budget, BudgetDetail } from "../api/types";
import { Chart } from "../history/Chart";
import { frame, type Colours } from "../history/option";
import { DataTable } from "../ui/DataTable";
import { Lines } from "../ui/states";
import { formatShare } from "../ui/units";
import { formatAmount, UNITS, windowText } from "./amounts";
import { curveOf, curveSentence, dayName, inUnits, type CurveDay } from "./curve";
import { budgetQuery } from "./queries";
import "./budgets.css";

/** The use of a budget by day, against an even use: as a sentence, and as a chart or as a table. */
export function BudgetCurve({ budget }: { budget: Budget }) {
  const detail = useQuery(budgetQuery(budget.id));
  if (detail.error) return null;
  if (detail.data === undefined) return <Lines count={4} label="Loading the use by day" />;
  return <Curve budget={detail.data} />;
}

function Curve({ budget }: { budget: BudgetDetail }) {
  const [asTable, setAsTable] = useState(false);
  const curve = useMemo(() => curveOf(budget), [budget]);
  const option = useCallback(
    (colours: Colours, labels: number) => curveOption(budget, curve, colours, labels),
    [budget, curve],
  );
  if (curve.length === 0) return null;
  const sentence = curveSentence(curve, budget.limit, formatShare);
  const hasForecast = curve.some(({ forecast }) => forecast !== null);
  return (
    <div className="budget-curve">
      <div className="spread">
        <span className="small dim">{sentence}</span>
        <button type="button" className="plain link small" onClick={() => setAsTable(!asTable)}>
          {asTable ? "Show the chart" : "Show as table"}
        </button>
      </div>
      {asTable ? (
        <div className="budget-days" role="group" aria-label="Use by day, as a table" tabIndex={0}>
          <DaysTable budget={budget} curve={curve} />
        </div>
      ) : (
        <Chart className="budget-chart" option={option} label={`Use of ${budget.name} by day. ${sentence} The table has each day.`} />
      )}
      {!asTable && (
        <p className="small dim">
          Solid: used. {hasForecast && "Dashed: forecast. "}Dotted: even use over the {windowText(budget)}. Line: the limit.
        </p>
      )}
    </div>
  );
}

function DaysTable({ budget, curve }: { budget: BudgetDetail; curve: readonly CurveDay[] }) {
  const amount = (value: number | null) => (value === null ? <span className="faint">–</span> : formatAmount(Math.round(value), budget));
  return (
    <DataTable
      label="Use by day"
      rows={curve.filter(({ total }) => total !== null)}
      rowKey={({ day }) => day}
      columns={[
        { header: "Day", isHeading: true, className: "nowrap", cell: ({ day }) => dayName(day) },
        { header: "Used", isRight: true, cell: ({ used }) => amount(used) },
        { header: "In all", isRight: true, cell: ({ total }) => amount(total) },
        { header: "Even use", isRight: true, only: "wide", cell: ({ even }) => amount(even) },
      ]}
    />
  );
}
const COMPACT = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

/** The use so far as an area, its forecast, an even use, and the limit. */
function curveOption(budget: BudgetDetail, curve: readonly CurveDay[], colours: Colours, labels: number) {
  const base = frame(
    { starts: curve.map(({ day }) => `${day}T00:00:00Z`), zone: "UTC", step: "day", labels },
    colours,
    (value) => formatAmount(Math.round(value * UNITS[budget.measure]), budget),
    {},
  );
  const line = (name: string, pick: (day: CurveDay) => number | null, style: object) => ({
    name,
    type: "line",
    symbol: "none",
    emphasis: { disabled: true },
    itemStyle: { color: colours.ink },
    data: curve.map((day) => inUnits(pick(day), budget.measure)),
    ...style,
  });
  return {
    ...base,
    yAxis: {
      ...base.yAxis,
      splitNumber: 3,
      axisLabel: { ...base.yAxis.axisLabel, formatter: (value: number) => COMPACT.format(value) },
    },
    series: [
      line("used", ({ total }) => total, {
        lineStyle: { width: 2, color: colours.ink },
        areaStyle: { color: colours.idle, opacity: 0.7 },
      }),
      line("forecast", ({ forecast }) => forecast, { lineStyle: { width: 1.5, color: colours.ink, type: "dashed" } }),
      line("even use", ({ even }) => even, {
        lineStyle: { width: 1.5, color: colours.faint, type: "dotted" },
        itemStyle: { color: colours.faint },
      }),
      line("limit", () => budget.limit, { lineStyle: { width: 1.5, color: colours.ink } }),
    ],
  };
}

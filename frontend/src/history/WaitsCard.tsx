import { useCallback, useState } from "react";

import type { WaitHistory } from "../api/types";
import { Card } from "../ui/Card";
import { DataTable } from "../ui/DataTable";
import { Empty } from "../ui/states";
import { formatCount, formatDuration } from "../ui/units";
import { CsvLink } from "./CsvLink";
import { Chart } from "./Chart";
import { waitOption, type Colours } from "./option";
import type { Asked } from "./queries";

const CLASSES = { guaranteed: "Guaranteed demand", borrowed: "Demand above the guarantee" } as const;

/** Waits of jobs before their first start, by class; and by team in a table. */
export function WaitsCard({ waits, asked }: { waits: WaitHistory; asked: Asked }) {
  const [asTable, setAsTable] = useState(false);
  return (
    <Card label="Waits before start" tabIndex={0}>
      <div className="spread">
        <h2>Waits before start</h2>
        <span className="inline">
          {waits.teams.length > 0 && (
            <button type="button" className="plain link small" onClick={() => setAsTable(!asTable)}>
              {asTable ? "Show the charts" : "Show as table"}
            </button>
          )}
          <CsvLink asked={asked} table="waits" />
        </span>
      </div>
      <p className="small dim">
        Each job counts once, by its first start. Half of the jobs waited no longer than p50, 95 % no longer than p95.
      </p>
      {waits.totals.length === 0 && <Empty>No job started in this period.</Empty>}
      {asTable ? <TeamTable waits={waits} /> : waits.totals.map((total) => <ClassChart key={total.usage_class} waits={waits} total={total} />)}
    </Card>
  );
}

function jobWords(jobs: number): string {
  return jobs === 1 ? "1 job" : `${formatCount(jobs)} jobs`;
}

function ClassChart({ waits, total }: { waits: WaitHistory; total: WaitHistory["totals"][number] }) {
  const { usage_class: usageClass, jobs, p50_s: p50, p95_s: p95 } = total;
  const option = useCallback(
    (colours: Colours, labels: number) => {
      const starts = waits.edges.slice(0, -1);
      const found = new Map(waits.steps.filter((each) => each.usage_class === usageClass).map((each) => [each.step, each]));
      return waitOption(
        starts.map((_, at) => found.get(at)),
        { starts, zone: waits.time_zone, step: waits.step, labels },
        colours,
      );
    },
    [waits, usageClass],
  );
  const said = `${CLASSES[usageClass]}: p50 ${formatDuration(p50)}, p95 ${formatDuration(p95)}, ${jobWords(jobs)}`;
  return (
    <>
      <p className="small">
        {CLASSES[usageClass]}: p50 <strong>{formatDuration(p50)}</strong>, p95 <strong>{formatDuration(p95)}</strong> ·{" "}
        {jobWords(jobs)} · ━ p50 ┅ p95 per {waits.step}
      </p>
      <Chart className="history-chart wait-chart" option={option} label={`${said}. The table has each team.`} />
    </>
  );
}

function TeamTable({ waits }: { waits: WaitHistory }) {
  return (
    <DataTable
      label="Waits by team"
      rows={[...waits.teams].sort((a, b) => b.p95_s - a.p95_s)}
      rowKey={({ team, usage_class }) => `${team} ${usage_class}`}
      columns={[
        { header: "Team", isHeading: true, className: "breaks", cell: ({ team }) => team },
        { header: "Demand", cell: ({ usage_class }) => usage_class },
        { header: "Jobs", isRight: true, only: "wide", cell: ({ jobs }) => formatCount(jobs) },
        { header: "p50", isRight: true, cell: ({ p50_s }) => formatDuration(p50_s) },
        { header: "p95", isRight: true, cell: ({ p95_s }) => formatDuration(p95_s) },
      ]}
    />
  );
}

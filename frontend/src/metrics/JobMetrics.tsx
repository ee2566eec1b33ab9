import { Select } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useCallback, useMemo, useState } from "react";

import type { JobDetail, JobMetrics as Found, MetricSummary } from "../api/types";
import { Chart } from "../history/Chart";
import type { Colours } from "../history/option";
import { CliLine } from "../ui/CliLine";
import { DataTable } from "../ui/DataTable";
import { Kpi } from "../ui/Kpi";
import { Empty, QueryView } from "../ui/states";
import { Time } from "../ui/Time";
import { formatCount, formatDuration, formatGpus, formatMemory } from "../ui/units";
import { metricOption } from "./option";
import { jobMetricsQuery, metricsCsv } from "./queries";
import { formatCores, formatPercent, rowsOf, type Row } from "./series";
import "../history/history.css";

/** What an attempt of a job uses of its CPUs, memory and GPUs over time. */
export function JobMetrics({ job }: { job: JobDetail }) {
  const [attempt, setAttempt] = useState<number>();
  const metrics = useQuery(jobMetricsQuery(job, attempt));
  const numbers = Array.from({ length: job.attempt }, (_, i) => String(job.attempt - i));
  return (
    <div className="stack">
      {job.attempt > 1 && (
        <Select
          label="Attempt"
          size="xs"
          w={120}
          data={numbers}
          allowDeselect={false}
          value={String(attempt ?? job.attempt)}
          onChange={(value) => setAttempt(value === null ? undefined : Number(value))}
        />
      )}
      <QueryView query={metrics}>
        {(found) => (found.summary === null ? <Nothing found={found} /> : <Figures job={job} found={found} summary={found.summary} />)}
      </QueryView>
      <CliLine command={`tidegate metrics ${job.id}${attempt === undefined ? "" : ` --attempt ${attempt.toString()}`}`} />
    </div>
  );
}

function Nothing({ found }: { found: Found }) {
  const cluster = found.cluster ?? "its cluster";
  return (
    <Empty>
      {found.is_supported
        ? `${cluster} has reported no metrics of this attempt. A running job has its first figures within a minute; on Slurm, figures come after the end. A Kubernetes cluster reports them if it has metrics-server.`
        : `${cluster} does not report metrics.`}
    </Empty>
  );
}

function percentOf(permille: number | null): string {
  return permille === null ? "–" : `${(permille / 10).toFixed(1)} %`;
}

function Figures({ job, found, summary }: { job: JobDetail; found: Found; summary: MetricSummary }) {
  const started = startOf(summary);
  const rows = useMemo(() => rowsOf(found.points, started), [found.points, started]);
  const { cpu_milli: cpuMilli, memory_asked_bytes: asked } = summary;
  return (
    <>
      <div className="kpis history-figures">
        <Kpi
          value={percentOf(summary.cpu_efficiency_permille)}
          label={isRate(summary) ? "of the cores busy" : "of the CPU time used"}
          context={cpuWords(summary)}
        />
        <Kpi
          value={percentOf(summary.memory_efficiency_permille)}
          label="of the memory used at the peak"
          context={`${formatMemory(summary.memory_peak_bytes)}${asked === null ? ", no amount asked for" : ` of ${formatMemory(asked)}`}`}
        />
        {job.device === "gpu" && (
          <Kpi value={percentOf(summary.gpu_idle_permille)} label="of the GPU time idle" context={gpuWords(summary)} />
        )}
      </div>
      {summary.gpus_idle_since !== null && (
        <p className="sentence">
          All GPUs of this job are idle since <Time at={summary.gpus_idle_since} show="both" />.
        </p>
      )}
      {rows.length > 0 && found.attempt !== null && (
        <Charts
          job={job}
          attempt={found.attempt}
          rows={rows}
          cores={cpuMilli === null ? null : cpuMilli / 1000}
          asked={asked}
          isRate={isRate(summary)}
        />
      )}
      <p className="small dim">
        As of <Time at={summary.sampled_at} show="both" />, after {formatDuration(summary.elapsed_s)}.
      </p>
    </>
  );
}

/** The start of the attempt, to a second. */
function startOf(summary: MetricSummary): string {
  return new Date(Date.parse(summary.sampled_at) - summary.elapsed_s * 1000).toISOString();
}

/** Return whether the cluster reports busy cores and no CPU time. */
function isRate({ cpu_time_ms: used, cpu_rate_milli: rate }: MetricSummary): boolean {
  return used === null && rate !== null;
}

function cpuWords({ cpu_time_ms: used, cpu_rate_milli: rate, cpu_milli: cores }: MetricSummary): string {
  if (used === null && rate !== null) {
    const busy = formatCores(rate / 1000);
    return cores === null ? `${busy} cores busy on average, no number of cores asked for` : `${busy} of ${formatGpus(cores)} cores busy on average`;
  }
  if (used === null) return "not reported";
  const time = formatDuration(used / 1000);
  return cores === null ? `${time}, no number of cores asked for` : `${time} on ${formatGpus(cores)} ${cores === 1000 ? "core" : "cores"}`;
}

function gpuWords(summary: MetricSummary): string {
  const { gpu_utilisation_percent: percent, gpu_memory_peak_bytes: peak } = summary;
  if (percent === null && summary.gpu_idle_permille === null) return "not reported";
  return `${percent === null ? "utilisation not reported" : `${percent.toString()} % utilisation`}${peak === null ? "" : `, ${formatMemory(peak)} at the peak`}`;
}

interface Drawn {
  title: string;
  meaning: string;
  pick: (row: Row) => number | null;
  format: (value: number) => string;
  asked: number | null;
}

const CORES = (row: Row) => row.cores;
const MEMORY = (row: Row) => row.memory;
const GPU_PERCENT = (row: Row) => row.gpuPercent;
const GPU_MEMORY = (row: Row) => row.gpuMemory;

function Charts({
  job,
  attempt,
  rows,
  cores,
  asked,
  isRate,
}: {
  job: JobDetail;
  attempt: number;
  rows: readonly Row[];
  cores: number | null;
  asked: number | null;
  isRate: boolean;
}) {
  const busy = isRate
    ? "Cores that the job kept busy, as a mean over the cluster's own window before each sample."
    : "Cores that the job kept busy since the sample before.";
  const drawn: Drawn[] = [
    { title: "Busy cores", meaning: busy, pick: CORES, format: formatCores, asked: cores },
    { title: "Memory", meaning: "Memory of all processes of the job at each sample.", pick: MEMORY, format: formatMemory, asked },
    { title: "GPU utilisation", meaning: "Part of the time in which the GPUs worked, as a mean over the job's GPUs.", pick: GPU_PERCENT, format: formatPercent, asked: null },
    { title: "GPU memory", meaning: "Memory in use on the job's GPUs together.", pick: GPU_MEMORY, format: formatMemory, asked: null },
  ];
  const reported = drawn.filter(({ pick }) => rows.some((row) => pick(row) !== null));
  return (
    <>
      {reported.map((each) => (
        <MetricChart key={each.title} drawn={each} rows={rows} csv={metricsCsv(job.id, attempt)} />
      ))}
      {job.device === "gpu" && !reported.some(({ pick }) => pick === GPU_PERCENT || pick === GPU_MEMORY) && (
        <p className="small dim">The cluster reports no use of this job&apos;s GPUs.</p>
      )}
    </>
  );
}

function MetricChart({ drawn, rows, csv }: { drawn: Drawn; rows: readonly Row[]; csv: string }) {
  const [asTable, setAsTable] = useState(false);
  const { title, meaning, pick, format, asked } = drawn;
  const option = useCallback(
    (colours: Colours, labels: number) => metricOption(rows, pick, { name: title, asked, isMemory: format === formatMemory, format, colours, labels }),
    [rows, pick, title, asked, format],
  );
  const values = rows.map(pick).filter((each) => each !== null);
  const said = `${title}: now ${format(values.at(-1) ?? 0)}, at most ${format(Math.max(...values))}`;
  return (
    <section aria-label={title}>
      <div className="spread">
        <h2>{title}</h2>
        <span className="inline">
          <button type="button" className="plain link small" aria-label={`${title}: ${asTable ? "show the chart" : "show as table"}`} onClick={() => setAsTable(!asTable)}>
            {asTable ? "Show the chart" : "Show as table"}
          </button>
          <a className="small" href={csv} download aria-label={`Save ${title} as CSV`}>
            CSV
          </a>
        </span>
      </div>
      <p className="small dim">
        {meaning}
        {asked !== null && ` ${format(asked)} were asked for.`}
      </p>
      {asTable ? (
        <div className="history-table">
          <DataTable
            label={title}
            rows={[...rows].reverse()}
            rowKey={({ at }) => at}
            columns={[
              { header: "Time", isHeading: true, cell: ({ at }) => <Time at={at} show="clock" /> },
              { header: title, isRight: true, cell: (row) => textOf(pick(row), format) },
              { header: "Processes", isRight: true, only: "wide", cell: ({ processes }) => (processes === null ? "–" : formatCount(processes)) },
            ]}
          />
        </div>
      ) : (
        <Chart className="history-chart wait-chart" option={option} label={`${said}. The table has each sample.`} />
      )}
    </section>
  );
}

function textOf(value: number | null, format: (value: number) => string): string {
  return value === null ? "–" : format(value);
}

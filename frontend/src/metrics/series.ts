import type { JobMetrics } from "../api/types";

type Point = JobMetrics["points"][number];

/** A line of the table, and the figures of the charts at one moment; null where the cluster reports none. */
export interface Row {
  at: string;
  /** Cores that were busy since the row before; where the cluster reports a rate, in its own window. */
  cores: number | null;
  memory: number | null;
  processes: number | null;
  /** The mean over the GPUs, in percent. */
  gpuPercent: number | null;
  gpuMemory: number | null;
}

/** Points as rows. The first has no row before it, and counts from the start of the attempt. */
export function rowsOf(points: readonly Point[], startedAt: string | null): Row[] {
  return points.map((point, at) => {
    const before = points[at - 1];
    const since = before?.at ?? startedAt;
    const ms = since === null ? 0 : Date.parse(point.at) - Date.parse(since);
    const used = point.cpu_time_ms === null ? null : point.cpu_time_ms - (before?.cpu_time_ms ?? 0);
    return {
      at: point.at,
      cores: point.cpu_rate_milli !== null ? point.cpu_rate_milli / 1000 : used === null || ms <= 0 ? null : Math.max(0, used / ms),
      memory: point.memory_bytes,
      processes: point.processes,
      gpuPercent: meanOf((point.gpus ?? []).map(({ utilisation_percent }) => utilisation_percent)),
      gpuMemory: sumOf((point.gpus ?? []).map(({ memory_bytes }) => memory_bytes)),
    };
  });
}

function known(values: readonly (number | null)[]): number[] {
  return values.filter((each) => each !== null);
}

function sumOf(values: readonly (number | null)[]): number | null {
  const found = known(values);
  return found.length === 0 ? null : found.reduce((sum, each) => sum + each, 0);
}

function meanOf(values: readonly (number | null)[]): number | null {
  const sum = sumOf(values);
  return sum === null ? null : sum / known(values).length;
}

/** Busy cores with at most two decimals. */
export function formatCores(cores: number | null): string {
  return cores === null ? "–" : Number(cores.toFixed(2)).toString();
}

export function formatPercent(percent: number | null): string {
  return percent === null ? "–" : `${Math.round(percent).toString()} %`;
}

import { act, fireEvent, screen, within } from "@testing-library/react";
import { afterEach, describe, expect, it, vi } from "vitest";

import { uuid } from "../../mock/company.ts";
import { aJob } from "../../mock/jobs.ts";
import { aSummary, anUnusedJob } from "../../mock/metrics.ts";
import type { JobMetrics, Unused } from "../api/types";
import { accessibilityFaults, open } from "../test/render";
import { formatMemory } from "../ui/units";
import { memoryScale } from "./option";
import { rowsOf } from "./series";

afterEach(() => {
  vi.useRealTimers();
});

const GIB = 2 ** 30;
const RESEARCH = uuid(104);
const JOB = aJob({ state: "running", attempt: 2 });
const START = "2026-11-24T07:00:00Z";
const point = (at: string, change: Partial<JobMetrics["points"][number]>) => ({
  at,
  cpu_time_ms: null,
  cpu_rate_milli: null,
  memory_bytes: null,
  processes: null,
  gpus: null,
  ...change,
});
const POINTS = [
  point("2026-11-24T07:00:30Z", { cpu_time_ms: 30_000, memory_bytes: GIB, processes: 2 }),
  point("2026-11-24T07:01:00Z", { cpu_time_ms: 90_000, memory_bytes: 2 * GIB, processes: 3 }),
];
const FOUND: JobMetrics = {
  attempt: 2,
  cluster: "local",
  is_supported: true,
  is_final: false,
  points: POINTS,
  summary: aSummary({
    sampled_at: "2026-11-24T07:01:00Z",
    elapsed_s: 60,
    cpu_time_ms: 90_000,
    cpu_milli: 4000,
    cpu_efficiency_permille: 375,
    memory_peak_bytes: 2 * GIB,
    memory_asked_bytes: 8 * GIB,
    memory_efficiency_permille: 250,
    gpu_utilisation_percent: null,
    gpu_idle_permille: null,
    gpu_memory_peak_bytes: null,
  }),
};

function answers(metrics: JobMetrics) {
  return ({ path }: { path: string }) => {
    if (path === `/api/v1/jobs/${JOB.id}`) return { status: 200, body: JOB };
    if (path === `/api/v1/jobs/${JOB.id}/metrics`) return { status: 200, body: metrics };
    return undefined;
  };
}

describe("points of metrics", () => {
  it("become busy cores between two samples, the first since the start", () => {
    expect(rowsOf(POINTS, START).map(({ cores }) => cores)).toEqual([1, 2]);
    expect(rowsOf([point(START, {})], START)[0]).toEqual({
      at: START,
      cores: null,
      memory: null,
      processes: null,
      gpuPercent: null,
      gpuMemory: null,
    });
  });

  it("have the busy cores of a cluster that reports a rate", () => {
    // Against: a rate as a CPU time, whose difference falls below 0.
    const rates = [point(START, { cpu_rate_milli: 1_500 }), point("2026-11-24T07:00:30Z", { cpu_rate_milli: 250 })];
    expect(rowsOf(rates, START).map(({ cores }) => cores)).toEqual([1.5, 0.25]);
  });

  it("have the mean over the GPUs that are reported", () => {
    const gpu = { node: "a", index: 0, memory_total_bytes: null, has_process: null };
    const gpus = [
      { ...gpu, utilisation_percent: 30, memory_bytes: 5 },
      { ...gpu, utilisation_percent: null, memory_bytes: 7 },
    ];
    const [row] = rowsOf([point(START, { gpus })], null);
    expect([row?.gpuPercent, row?.gpuMemory, row?.cores]).toEqual([30, 12, null]);
  });

  it("have an axis of memory with round lines", () => {
    const mib = 2 ** 20;
    expect([0, 220 * mib, 256 * mib, 257 * mib].map(memoryScale)).toEqual([
      { interval: 1, max: 1 },
      { interval: 64 * mib, max: 256 * mib },
      { interval: 64 * mib, max: 256 * mib },
      { interval: 128 * mib, max: 384 * mib },
    ]);
  });

  it("have memory in the units in which jobs ask for it", () => {
    expect([null, 12, 200 * 2 ** 20, 1.5 * GIB].map(formatMemory)).toEqual(["–", "12 B", "200 MiB", "1.5 GiB"]);
  });
});

describe("the metrics of a job", () => {
  it("have figures, a chart for each that is reported, its table and its CSV", async () => {
    const { container } = open(`/jobs/${JOB.id}?tab=metrics`, { override: answers(FOUND) });
    expect(await screen.findByText("37.5 %")).toBeInTheDocument();
    expect(screen.getByText("2 GiB of 8 GiB")).toBeInTheDocument();
    expect(screen.getByText("1 min 30 s on 4 cores")).toBeInTheDocument();
    expect(screen.getByText("The cluster reports no use of this job's GPUs.")).toBeInTheDocument();
    expect(screen.queryByRole("heading", { name: "GPU utilisation" })).toBeNull();
    const memory = screen.getByRole("region", { name: "Memory" });
    expect(within(memory).getByRole("img", { name: /^Memory: now 2 GiB, at most 2 GiB/ })).toBeInTheDocument();
    fireEvent.click(within(memory).getByRole("button", { name: "Memory: show as table" }));
    const cells = within(within(memory).getByRole("table", { name: "Memory" })).getAllByRole("row").map(({ textContent }) => textContent);
    expect(cells[1]).toMatch(/2 GiB3$/);
    expect(within(memory).getByRole("link", { name: "Save Memory as CSV" })).toHaveAttribute(
      "href",
      `/api/v1/jobs/${JOB.id}/metrics?attempt=2&format=csv`,
    );
    expect(await accessibilityFaults(container)).toEqual([]);
  });

  it("name the busy cores where the cluster reports no CPU time", async () => {
    const at = "2026-11-24T07:00:30Z";
    const points = [point(at, { cpu_rate_milli: 1_250, memory_bytes: GIB })];
    const summary = aSummary({ cpu_time_ms: null, cpu_rate_milli: 1_250, cpu_milli: 4000, cpu_efficiency_permille: 312 });
    open(`/jobs/${JOB.id}?tab=metrics`, { override: answers({ ...FOUND, points, summary }) });
    expect(await screen.findByText("of the cores busy")).toBeInTheDocument();
    expect(screen.getByText("1.25 of 4 cores busy on average")).toBeInTheDocument();
    expect(screen.getByRole("img", { name: /^Busy cores: now 1.25, at most 1.25/ })).toBeInTheDocument();
    expect(screen.getByText(/^Cores that the job kept busy, as a mean over the cluster's own window/)).toBeInTheDocument();
  });

  it("appear on an open page when the cluster reports them after the end, and are then final", async () => {
    // Planted: the page asks no more once the job has ended. Against: it asks for ever.
    vi.useFakeTimers({ shouldAdvanceTime: true });
    const job = { ...JOB, state: "succeeded" as const, ended_at: new Date().toISOString() };
    let metrics: JobMetrics = { ...FOUND, summary: null, points: [] };
    const { requests } = open(`/jobs/${JOB.id}?tab=metrics`, {
      override: (request) => (request.path === `/api/v1/jobs/${JOB.id}` ? { status: 200, body: job } : answers(metrics)(request)),
    });
    const asked = () => requests.filter(({ path }) => path.endsWith("/metrics")).length;
    expect(await screen.findByText(/^local has reported no metrics/)).toBeInTheDocument();
    metrics = { ...FOUND, is_final: true };
    await act(() => vi.advanceTimersByTimeAsync(31_000));
    expect(await screen.findByText("37.5 %")).toBeInTheDocument();
    const before = asked();
    await act(() => vi.advanceTimersByTimeAsync(90_000));
    expect(asked()).toBe(before);
  });

  it("say where nothing is reported", async () => {
    open(`/jobs/${JOB.id}?tab=metrics`, { override: answers({ ...FOUND, summary: null, points: [], is_supported: false }) });
    expect(await screen.findByText("local does not report metrics.")).toBeInTheDocument();
  });
});

describe("unused resources of a node", () => {
  const address = `/tree/${RESEARCH}/history?pool=h100`;
  const nothing: Unused = { node: "ai-company/research", reports_gpus: false, idle_gpus: [], memory: [], cpus: [] };

  it("have idle jobs that can be chosen and cancelled together", async () => {
    const idle = [anUnusedJob({ name: "notebook", summary: aSummary({ gpus_idle_since: START, gpus_are_held: false }) })];
    const { container } = open(address, {
      override: ({ path }) => (path === "/api/v1/unused-resources" ? { status: 200, body: { ...nothing, reports_gpus: true, idle_gpus: idle } } : undefined),
    });
    fireEvent.click(await screen.findByRole("checkbox", { name: "Choose notebook" }));
    expect(screen.getByText("1 job chosen")).toBeInTheDocument();
    expect(screen.getByRole("button", { name: "Cancel…" })).toBeInTheDocument();
    expect(await accessibilityFaults(container)).toEqual([]);
  });

  it("say where no cluster reports GPUs", async () => {
    open(address, { override: ({ path }) => (path === "/api/v1/unused-resources" ? { status: 200, body: nothing } : undefined) });
    expect(await screen.findByText("Not reported: no cluster of the running jobs reports GPU use.")).toBeInTheDocument();
  });
});

/** Maintenance windows of the mock's company. */
import type { MaintenanceWindow, NewMaintenance, StillRunning } from "../src/api/types";
import { page, type MockAnswer, type MockRequest } from "./http.ts";

export function aWindow(number: number, change: Partial<MaintenanceWindow> = {}): MaintenanceWindow {
  return {
    id: `01935000-0000-7000-8000-0000000b0${String(number).padStart(3, "0")}`,
    version: 1,
    cluster: "kube-b",
    pool: null,
    nodes: null,
    start: "2026-12-01T08:00:00Z",
    end: "2026-12-01T12:00:00Z",
    reason: "New switches.",
    state: "planned",
    made_by: "root",
    can_change: true,
    ...change,
  };
}

export const theWindows = (): MaintenanceWindow[] => [
  aWindow(2),
  aWindow(1, { cluster: "slurm-a", pool: "h100", state: "ended", start: "2026-11-10T08:00:00Z", end: "2026-11-10T12:00:00Z", reason: "Driver update.", can_change: false }),
];

const STILL_RUNNING: readonly StillRunning[] = [
  { job: "01935000-0000-7000-8000-000000000001", name: "pretrain-7b", team: "ai-company/research/nlp", user: "bob", ends_at: "2026-12-02T09:30:00Z" },
  { job: "01935000-0000-7000-8000-000000000002", name: "chat-service", team: "ai-company/production/inference", user: "eve", ends_at: null },
];

/** Answers for the maintenance windows of `rows`, which change. */
export function maintenance(rows: MaintenanceWindow[], { method, query, body }: MockRequest, id?: string, action?: string): MockAnswer {
  if (action === "jobs") return page(STILL_RUNNING, query);
  const at = rows.findIndex((row) => row.id === id);
  const found = rows[at];
  if (method === "POST" && id === undefined) {
    const { cluster, reason, end, nodes, node_count: count } = body as NewMaintenance;
    const chosen = nodes ?? (count == null ? null : Array.from({ length: count }, (_, number) => `kube-b-${number + 1}`));
    const made = aWindow(rows.length + 1, { cluster, reason, end, nodes: chosen });
    rows.unshift(made);
    return { status: 201, body: made };
  }
  if (found !== undefined && method !== "GET") {
    rows[at] = action === "cancel" ? { ...found, state: "cancelled", can_change: false } : { ...found, ...(body as object), version: found.version + 1 };
    return { status: 200, body: rows[at] };
  }
  return page(rows, query);
}

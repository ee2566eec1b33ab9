/** Schedules of the mock's company: one that runs, one whose last run was skipped, one suspended. */
import type { Schedule, ScheduleRun } from "../src/api/types";
import { iso } from "./company.ts";

const HOUR_MS = 3_600_000;

function aSchedule(number: number, change: Partial<Schedule>): Schedule {
  const now = Date.now();
  return {
    id: `01935000-0000-7000-8000-0000000bb${String(number).padStart(3, "0")}`,
    name: "nightly-eval",
    team: "ai-company/research/nlp",
    user: "bob",
    organization: "ai-company",
    cron: "0 3 * * *",
    time_zone: "Europe/Berlin",
    concurrency_policy: "forbid",
    starting_deadline_s: 600,
    is_suspended: false,
    suspended_because: null,
    next_at: iso(now + 5 * HOUR_MS),
    last_run: {
      scheduled_at: iso(now - 19 * HOUR_MS),
      at: iso(now - 19 * HOUR_MS),
      outcome: "submitted",
      reason: null,
      job: { id: "01935000-0000-7000-8000-000000008f2c", name: "nightly-eval", state: "running" },
    },
    created_at: iso(now - 90 * HOUR_MS),
    ended_at: null,
    can: ["suspend", "delete"],
    ...change,
  };
}

export function theSchedules(): Schedule[] {
  const at = iso(Date.now() - HOUR_MS);
  const reason = "The run before it has not ended: job 01935000-0000-7000-8000-000000008f2c.";
  return [
    aSchedule(1, {}),
    aSchedule(2, {
      name: "hourly-index",
      cron: "0 * * * *",
      last_run: { scheduled_at: at, at, outcome: "skipped", reason, job: null },
    }),
    aSchedule(3, {
      name: "weekly-report",
      user: "carol",
      cron: "@weekly",
      is_suspended: true,
      suspended_because: "Its owner carol is deactivated.",
      next_at: null,
      last_run: null,
      can: [],
    }),
  ];
}

/** The runs of a schedule, newest first: its last one, one that was refused, one that succeeded. */
export function theRunsOf(schedule: Schedule): ScheduleRun[] {
  if (schedule.last_run === null) return [];
  const last = Date.parse(schedule.last_run.scheduled_at);
  const [second, third] = [24, 48].map((hours) => iso(last - hours * HOUR_MS)) as [string, string];
  const job = { id: "01935000-0000-7000-8000-000000009001", name: schedule.name, state: "succeeded" as const };
  return [
    schedule.last_run,
    { scheduled_at: second, at: second, outcome: "refused", reason: "The pool h100 is archived.", job: null },
    { scheduled_at: third, at: third, outcome: "submitted", reason: null, job },
  ];
}

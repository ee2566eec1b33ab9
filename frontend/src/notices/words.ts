/** The events of notices, for people. */
import type { NoticeEvent } from "../api/types";

export const EVENT_WORDS: Record<NoticeEvent, string> = {
  job_started: "Job started",
  job_ended: "Job succeeded",
  job_failed: "Job failed",
  job_preempting: "Job is being preempted",
  job_requeued: "Job queued again",
  job_held: "Job held",
  time_limit_near: "Time limit is near",
  team_preempted: "GPUs reclaimed",
  budget_alert: "Budget",
  credits_expiring: "Credits expire",
  statement_ready: "Statement ready",
  decision_waiting: "Decision waits",
  request_decided: "Request decided",
  quota_changed: "Quota changed",
  token_expiring: "Token expires",
  cluster_stale: "Cluster is silent",
};

export const EVENTS = Object.keys(EVENT_WORDS) as NoticeEvent[];

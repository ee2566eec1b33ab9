/** The words of notices, for people. */
import type { Mail, NoticeEvent } from "../api/types";

export const EVENT_WORDS: Record<NoticeEvent, string> = {
  job_started: "Job started",
  job_ended: "Job succeeded",
  job_failed: "Job failed",
  job_preempting: "Job is being preempted",
  job_requeued: "Job requeued",
  job_held: "Job held",
  time_limit_near: "Time limit is near",
  start_slipped: "Start estimate slipped",
  team_preempted: "GPUs reclaimed",
  budget_alert: "Budget",
  credits_expiring: "Credits expire",
  statement_ready: "Statement ready",
  decision_waiting: "Decision waits",
  request_decided: "Request decided",
  request_commented: "Comment on a request",
  request_expiring: "Request expires",
  quota_changed: "Quota changed",
  token_expiring: "Token expires",
  role_expiring: "Role expires",
  cluster_stale: "Cluster is silent",
  week_summary: "Weekly figures",
  webhook_disabled: "Webhook disabled",
};

/** The states of a mail or of a message to a webhook. */
export const STATE_WORDS: Record<Mail["state"], string> = {
  pending: "waits",
  sending: "is being sent",
  sent: "sent",
  failed: "failed",
};

export const EVENTS = Object.keys(EVENT_WORDS) as NoticeEvent[];

"""Celery: timers of housekeeping, schedules and credits. A late timer loses nothing."""

from __future__ import annotations

import os
from typing import Any

from celery import Celery
from celery.signals import beat_init, worker_init

from live.pulse import pulse_here

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")

#: The least time in seconds after which a waiting task is dropped. Clocks of machines differ.
_EXPIRES_LEAST_S = 60.0


def _every(period_s: float, task: str) -> dict[str, Any]:
    """Return a timer. While all workers are busy, its tasks expire instead of piling up."""
    expires_s = max(period_s, _EXPIRES_LEAST_S)
    return {"task": task, "schedule": period_s, "options": {"expires": expires_s}}


app = Celery("tidegate")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
app.conf.beat_schedule = {
    "drop-what-is-done": _every(300.0, "jobs.tasks.drop_what_is_done"),
    "forget-old-attempts": _every(300.0, "jobs.tasks.forget_old_attempts"),
    "carry-out-planned-changes": _every(15.0, "quotas.tasks.carry_out_planned_changes"),
    "notify-of-silent-clusters": _every(60.0, "quotas.tasks.notify_of_silent_clusters"),
    "void-expired-transfers": _every(60.0, "ledger.tasks.void_expired_transfers"),
    "check-ledgers": _every(86_400.0, "ledger.tasks.check_ledgers"),
    "evaluate-budgets": _every(30.0, "budgets.tasks.evaluate_budgets"),
    "settle-credits": _every(60.0, "bank.tasks.settle_credits"),
    "expire-adjustments": _every(600.0, "adjustments.tasks.expire_undecided"),
    "expire-requests": _every(60.0, "approvals.tasks.expire_undecided"),
    "store-charges": _every(1_800.0, "periods.tasks.store_charges"),
    "store-history": _every(1_800.0, "history.tasks.store_history"),
    "write-export": _every(5.0, "exports.tasks.write_export"),
    "deliver-files": _every(15.0, "exports.tasks.deliver_files"),
    "audit-charges": _every(86_400.0, "exports.tasks.audit_charges"),
    "drop-old-exports": _every(3600.0, "exports.tasks.drop_old_exports"),
    "submit-due-runs": _every(15.0, "jobs.tasks.submit_due_runs"),
    "notify-of-time-limits": _every(60.0, "jobs.tasks.notify_of_time_limits"),
    "notify-of-slipped-starts": _every(60.0, "jobs.tasks.notify_of_slipped_starts"),
    "stop-jobs-at-cost-caps": _every(30.0, "jobs.tasks.stop_jobs_at_cost_caps"),
    "drop-old-notices": _every(3600.0, "notices.tasks.drop_old_notices"),
    "notify-of-expiring-tokens": _every(3600.0, "notices.tasks.notify_of_expiring_tokens"),
    "send-mails": _every(10.0, "notices.tasks.send_mails"),
    "deliver-webhooks": _every(5.0, "notices.tasks.deliver_webhooks"),
    "notify-of-expiring-roles": _every(3600.0, "notices.tasks.notify_of_expiring_roles"),
    "notify-of-week": _every(300.0, "history.tasks.notify_of_week"),
    "drop-expired-roles": _every(60.0, "tenants.tasks.drop_expired_roles"),
    "mail-due-invitations": _every(60.0, "tenants.tasks.mail_due_invitations"),
    "drop-old-sessions": _every(3600.0, "tenants.tasks.drop_old_sessions"),
}


@worker_init.connect
@beat_init.connect
def _refuse_unsafe_start(**_: Any) -> None:
    from portal.startup import refuse_or_exit

    refuse_or_exit()
    # Celery's own loops cannot report progress. A frozen process is still noticed.
    pulse_here().promise()

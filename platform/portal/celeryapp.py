"""Celery: timers of housekeeping, schedules and credits. A late timer loses nothing."""

from __future__ import annotations

import os
from typing import Any

from celery import Celery
from celery.signals import beat_init, worker_init

from live.pulse import pulse_here

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")

app = Celery("tidegate")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
app.conf.beat_schedule = {
    "drop-what-is-done": {"task": "jobs.tasks.drop_what_is_done", "schedule": 300.0},
    "forget-old-attempts": {"task": "jobs.tasks.forget_old_attempts", "schedule": 300.0},
    "carry-out-planned-changes": {
        "task": "quotas.tasks.carry_out_planned_changes",
        "schedule": 15.0,
    },
    "void-expired-transfers": {"task": "ledger.tasks.void_expired_transfers", "schedule": 60.0},
    "check-ledgers": {"task": "ledger.tasks.check_ledgers", "schedule": 86_400.0},
    "evaluate-budgets": {"task": "budgets.tasks.evaluate_budgets", "schedule": 30.0},
    "settle-credits": {"task": "bank.tasks.settle_credits", "schedule": 60.0},
    "write-export": {"task": "exports.tasks.write_export", "schedule": 5.0},
    "audit-charges": {"task": "exports.tasks.audit_charges", "schedule": 86_400.0},
    "drop-old-exports": {"task": "exports.tasks.drop_old_exports", "schedule": 3600.0},
    "submit-due-runs": {"task": "jobs.tasks.submit_due_runs", "schedule": 15.0},
    "drop-old-sessions": {"task": "jobs.tasks.drop_old_sessions", "schedule": 3600.0},
}


@worker_init.connect
@beat_init.connect
def _refuse_unsafe_start(**_: Any) -> None:
    from portal.startup import refuse_or_exit

    refuse_or_exit()
    # Celery's own loops cannot report progress. A frozen process is still noticed.
    pulse_here().promise()

"""Schedules and templates for tests, with defaults."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from builders.job_builders import SCRIPT
from builders.portal_builders import NOW, Company
from jobs.models import JobTemplate, Schedule
from tenants.models import User

#: The first moment of `a_schedule`, an hour after NOW.
FIRST = NOW + timedelta(hours=1)


def a_schedule(
    company: Company, user: User, *, next_at: datetime | None = FIRST, **changes: Any
) -> Schedule:
    """A stored schedule of nlp: one GPU at each full hour, for the first time at 13:00."""
    return Schedule.objects.create(
        **{
            "organization": company.organization,
            "team": company.nlp,
            "user": user,
            "name": "hourly",
            "cron": "0 * * * *",
            "time_zone": "UTC",
            "request": {"gpus": 1, "script": SCRIPT, "name": "hourly"},
            "next_at": next_at,
            "created_at": NOW,
            **changes,
        }
    )


def a_template(company: Company, **changes: Any) -> JobTemplate:
    """A stored template of nlp, which locks its two GPUs."""
    return JobTemplate.objects.create(
        **{
            "team": company.nlp,
            "name": "train",
            "request": {"gpus": 2, "script": SCRIPT},
            "locked": ["gpus"],
            "changed_at": NOW,
            **changes,
        }
    )

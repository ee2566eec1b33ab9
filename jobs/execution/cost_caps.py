"""Jobs whose charge has reached their cost cap (R-112)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

from django.db import transaction

from billing.spending import cost_of_jobs
from jobs.actions.cancellation import ask_to_stop
from jobs.models import Attempt, AttemptState, Job, JobState, StopReason
from jobs.timeline import Happening, record_events
from live.publishing import publish
from quotas.queries import graces_s

#: The most jobs of one statement.
_JOBS_MAX = 1_000


def stop_at_cost_caps(now: datetime) -> int:
    """Stop the running jobs whose charge has reached their cost cap; return how many.

    They get their notice, and end after the grace of their class at the latest. The charge is that
    of the meter at the organization's prices; use without a price costs nothing.
    """
    running = Job.objects.filter(cost_cap_nano__isnull=False, state=JobState.RUNNING).order_by("pk")
    capped = {job: cap for job, cap in running.values_list("pk", "cost_cap_nano") if cap}
    ids = list(capped)
    stopped = 0
    for first in range(0, len(ids), _JOBS_MAX):
        costs = cost_of_jobs(ids[first : first + _JOBS_MAX], now)
        reached = [job for job, cost in costs.items() if cost >= capped[job]]
        if reached:
            stopped += _stop(reached, now)
    return stopped


@transaction.atomic
def _stop(ids: Sequence[UUID], now: datetime) -> int:
    # The jobs before their attempts and both in the order of their ids, as everywhere.
    jobs = {
        job.pk: job
        for job in Job.objects.select_for_update(of=("self",))
        .defer("script", "environment", "notes")
        .filter(pk__in=ids, state=JobState.RUNNING, cancel_requested_at=None)
        .order_by("pk")
    }
    attempts = list(
        Attempt.objects.select_for_update(of=("self",))
        .filter(job__in=list(jobs), released_at=None, state=AttemptState.RUNNING)
        .order_by("pk")
    )
    graces = graces_s({job.priority_class_id for job in jobs.values()})
    by_grace: dict[int, list[Attempt]] = {}
    for attempt in attempts:
        job = jobs[attempt.job_id]
        by_grace.setdefault(graces[job.priority_class_id], []).append(attempt)
        publish("jobs", ids=[job.pk], organization_id=job.organization_id)
    for grace_s, stopping in by_grace.items():
        ask_to_stop(stopping, StopReason.COST_CAP, grace=timedelta(seconds=grace_s), now=now)
    record_events(
        Happening(attempt.job_id, now, "cost_cap_reached", {"attempt": attempt.number})
        for attempt in attempts
    )
    return len(attempts)

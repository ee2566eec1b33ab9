"""Notices of jobs that reach their time limit soon."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import DateTimeField, ExpressionWrapper, F

from jobs.job_notices import for_owner_and_team, owners_notice
from jobs.models import Job, JobState
from notices.giving import give_notices
from notices.models import NoticeEvent

AHEAD = timedelta(minutes=30)
#: Jobs with a shorter time limit give no notice.
LIMIT_MIN_S = 4 * 3600
#: The most jobs of one call.
JOBS_MAX = 5_000


@transaction.atomic
def give_time_limit_notices(now: datetime) -> int:
    """Tell owners and teams of jobs that reach their time limit within 30 minutes.

    Return how many notices people got. A longer limit gives a new notice.
    """
    limit = F("time_limit_s") * timedelta(seconds=1)
    jobs = Job.objects.filter(
        state=JobState.RUNNING,
        time_limit_s__gte=LIMIT_MIN_S,
    ).annotate(ends_at=ExpressionWrapper(F("started_at") + limit, DateTimeField()))
    ending = jobs.filter(ends_at__gt=now, ends_at__lte=now + AHEAD).select_related("user", "team")
    return give_notices(
        notice
        for job in ending.order_by("ends_at", "pk")[:JOBS_MAX]
        for notice in for_owner_and_team(
            job,
            owners_notice(
                job,
                NoticeEvent.TIME_LIMIT_NEAR,
                f"{job.name} reaches its time limit soon. Extend the limit or save its work.",
                key=f"{job.attempt_number}:{job.time_limit_s}",
                at=now,
                deadline=job.ends_at,
            ),
        )
    )

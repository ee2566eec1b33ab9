"""Notices of queued jobs whose start estimate moved back."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import DateTimeField, DurationField, ExpressionWrapper, F, Value
from django.db.models.fields.json import KT
from django.db.models.functions import Cast, Greatest

from jobs.job_notices import for_owner_and_team, owners_notice
from jobs.models import Job, JobState, StartExpectation
from notices.giving import give_notices
from notices.models import NoticeEvent

#: A smaller slip gives no notice. Neither does one of less than a quarter of the wait that is left.
SLIP_MIN = timedelta(minutes=30)
SLIP_PARTS = 4
#: The most jobs of each statement of one call.
JOBS_MAX = 5_000


@transaction.atomic
def give_slip_notices(now: datetime) -> int:
    """Tell owners of queued jobs that are expected to start much later; return how many notices.

    The end of an estimate is compared with that of the first estimate, or of the last notice. So
    each slip is told once, however often the estimate is made anew. Estimates that became better
    change nothing.
    """
    StartExpectation.objects.exclude(job__state=JobState.QUEUED).delete()
    estimated = Job.objects.filter(state=JobState.QUEUED).annotate(
        latest=Cast(KT("explanation__estimated_start__latest"), DateTimeField())
    )
    left = ExpressionWrapper(
        (F("start_expectation__expected_by") - Value(now, DateTimeField())) / SLIP_PARTS,
        DurationField(),
    )
    least = Greatest(Value(SLIP_MIN, DurationField()), left)
    slipped = list(
        estimated.filter(
            latest__gte=ExpressionWrapper(
                F("start_expectation__expected_by") + least, DateTimeField()
            )
        )
        .select_related("user", "team", "start_expectation")
        .order_by("pk")[:JOBS_MAX]
    )
    given = give_notices(
        notice
        for job in slipped
        for notice in for_owner_and_team(
            job,
            owners_notice(
                job,
                NoticeEvent.START_SLIPPED,
                f"{job.name} is expected to start by {job.latest:%Y-%m-%d %H:%M} UTC, no longer by "
                f"{job.start_expectation.expected_by:%Y-%m-%d %H:%M} UTC.",
                key=f"{job.attempt_number}:{job.latest.isoformat()}",
                at=now,
            ),
        )
    )
    for job in slipped:
        job.start_expectation.expected_by = job.latest
    StartExpectation.objects.bulk_update(
        [job.start_expectation for job in slipped], ["expected_by"], batch_size=1_000
    )
    new = estimated.filter(latest__isnull=False, start_expectation=None).order_by("pk")
    StartExpectation.objects.bulk_create(
        [
            StartExpectation(job_id=pk, expected_by=latest)
            for pk, latest in new.values_list("pk", "latest")[:JOBS_MAX]
        ],
        ignore_conflicts=True,
        batch_size=1_000,
    )
    return given

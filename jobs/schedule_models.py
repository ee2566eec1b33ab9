"""Schedules, which submit jobs again and again, and their runs."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from uuid_utils.compat import uuid7

from tenants.models import Node, User

#: Bounds of a starting deadline. The timer looks every few seconds, so less would miss runs.
STARTING_DEADLINE_S_MIN = 60
STARTING_DEADLINE_S_MAX = 31_536_000
CRON_MAX = 100
#: The longest reason of a run without a job.
REASON_MAX = 2_000


class ConcurrencyPolicy(models.TextChoices):
    """The fate of a run that is due while the one before it has not ended.

    `allow`: both go on. `forbid`: the new one is skipped. `replace`: the old one is cancelled.
    """

    ALLOW = "allow"
    FORBID = "forbid"
    REPLACE = "replace"


class RunOutcome(models.TextChoices):
    """The result of a run: its job was submitted, or why there is none."""

    SUBMITTED = "submitted"
    REFUSED = "refused"
    SKIPPED = "skipped"
    MISSED = "missed"


class Schedule(models.Model):
    """A job request that is submitted at the times of a cron expression.

    `request` is the body of `POST /jobs` for each run, without its team. `next_at` is the moment of
    the next run; None while it is suspended, and after its end. A run that is late by more than
    `starting_deadline_s` is missed. `suspended_because` says why the portal suspended it; "" if a
    person did.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    organization = models.ForeignKey(Node, models.PROTECT, related_name="+", db_index=False)
    team = models.ForeignKey(Node, models.PROTECT, related_name="+", db_index=False)
    user = models.ForeignKey(User, models.PROTECT, related_name="+", db_index=False)
    name = models.CharField(max_length=200)
    cron = models.CharField(max_length=CRON_MAX)
    time_zone = models.CharField(max_length=64)
    request = models.JSONField()
    concurrency_policy = models.CharField(
        max_length=7, choices=ConcurrencyPolicy.choices, default=ConcurrencyPolicy.ALLOW.value
    )
    starting_deadline_s = models.IntegerField(null=True)
    is_suspended = models.BooleanField(default=False)
    suspended_because = models.TextField(default="")
    next_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(concurrency_policy__in=[one.value for one in ConcurrencyPolicy]),
                name="schedule_concurrency_policy_is_known",
            ),
            models.CheckConstraint(
                condition=Q(starting_deadline_s=None)
                | Q(
                    starting_deadline_s__gte=STARTING_DEADLINE_S_MIN,
                    starting_deadline_s__lte=STARTING_DEADLINE_S_MAX,
                ),
                name="schedule_starting_deadline_is_in_range",
            ),
            models.CheckConstraint(
                condition=Q(is_suspended=False, ended_at=None, next_at__isnull=False)
                | (Q(is_suspended=True) | Q(ended_at__isnull=False)) & Q(next_at=None),
                name="schedule_has_a_next_run_while_it_is_active",
            ),
            models.CheckConstraint(
                condition=Q(suspended_because="") | Q(is_suspended=True),
                name="schedule_says_why_only_while_suspended",
            ),
        ]
        indexes = [
            models.Index(
                fields=["next_at"], name="schedule_due", condition=Q(next_at__isnull=False)
            ),
            models.Index(fields=["user", "-id"], name="schedule_by_user"),
            models.Index(fields=["team", "-id"], name="schedule_by_team"),
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.id})"


class ScheduleRun(models.Model):
    """A moment of a schedule: the job that it submitted, or the reason why there is none.

    `job` is the first task if each run is an array. `at` is when the portal handled the moment.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    schedule = models.ForeignKey(Schedule, models.PROTECT, related_name="runs", db_index=False)
    scheduled_at = models.DateTimeField()
    at = models.DateTimeField()
    outcome = models.CharField(max_length=9, choices=RunOutcome.choices)
    job = models.OneToOneField("jobs.Job", models.PROTECT, null=True, related_name="schedule_run")
    reason = models.TextField(default="")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["schedule", "scheduled_at"], name="schedule_runs_once_at_each_moment"
            ),
            models.CheckConstraint(
                condition=Q(outcome="submitted", job__isnull=False, reason="")
                | Q(outcome__in=["refused", "skipped", "missed"], job=None) & ~Q(reason=""),
                name="schedule_run_has_a_job_or_a_reason",
            ),
        ]
        indexes = [
            models.Index(fields=["at"], name="schedule_run_no_job", condition=Q(job=None)),
        ]

    def __str__(self) -> str:
        return f"{self.outcome} at {self.scheduled_at:%Y-%m-%d %H:%M:%S} ({self.schedule_id})"

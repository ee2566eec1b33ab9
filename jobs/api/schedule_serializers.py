"""Serializers of schedules, which check requests and describe bodies to OpenAPI."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from jobs.api.serializers import JobPlanSerializer, JobRequestSerializer, NoteSerializer
from jobs.models import JobState
from jobs.schedule_models import (
    CRON_MAX,
    STARTING_DEADLINE_S_MAX,
    STARTING_DEADLINE_S_MIN,
    ConcurrencyPolicy,
    RunOutcome,
)
from webapi.serializers import StrictSerializer, TextField, WholeNumberField, YesOrNoField

#: Actions of a person on a schedule.
SCHEDULE_ACTIONS = ("suspend", "resume", "delete")
_CRON_HELP = (
    "Five fields as in crontab: minute, hour, day of month, month, day of week; or `@hourly`, "
    "`@daily`, `@weekly`, `@monthly`, `@yearly`"
)
_POLICY_HELP = (
    "What becomes of a due run while the job before it has not ended. `allow`: both go on. "
    "`forbid`: the new run is skipped. `replace`: the earlier job is cancelled"
)
_DEADLINE_HELP = "Seconds after which a late run is missed; null: it runs however late"


@extend_schema_field(JobRequestSerializer)
class RunRequestField(serializers.DictField):
    """The request of each run, which is read as the body of `POST /jobs`."""


class ScheduleRequestSerializer(StrictSerializer):
    """A schedule, and the request of each of its runs.

    All members but `request` belong to the manifest if that is a CronJob.
    """

    cron = TextField(max_length=CRON_MAX, required=False, allow_null=True, help_text=_CRON_HELP)
    time_zone = TextField(
        max_length=64,
        required=False,
        allow_null=True,
        help_text="IANA name, such as `Europe/Berlin`. Default: that of the organization",
    )
    concurrency_policy = serializers.ChoiceField(
        choices=ConcurrencyPolicy.values,
        required=False,
        allow_null=True,
        help_text=f"{_POLICY_HELP}. Default: `allow`",
    )
    starting_deadline_s = WholeNumberField(
        min_value=STARTING_DEADLINE_S_MIN,
        max_value=STARTING_DEADLINE_S_MAX,
        required=False,
        allow_null=True,
        help_text=_DEADLINE_HELP,
    )
    is_suspended = YesOrNoField(
        required=False, help_text="Create it without runs until it is resumed"
    )
    request = RunRequestField(
        help_text="The body of `POST /jobs` for each run, without `begin_at`. A run takes the "
        "members of its `template` as they are then"
    )


class ScheduleUpdateSerializer(StrictSerializer):
    """A change of a schedule."""

    is_suspended = YesOrNoField(help_text="true: suspend it; false: resume it")


class RunJobSerializer(serializers.Serializer[Any]):
    """The job of a run; of an array, its first task."""

    id = serializers.UUIDField()
    name = serializers.CharField()
    state = serializers.ChoiceField(choices=JobState.values)


class ScheduleRunSerializer(serializers.Serializer[Any]):
    """A due moment of a schedule."""

    scheduled_at = serializers.DateTimeField(help_text="When it was due")
    at = serializers.DateTimeField(help_text="When the portal handled it")
    outcome = serializers.ChoiceField(
        choices=RunOutcome.values,
        help_text="`submitted`: it has a job. `refused`: the job was refused. `skipped`: the job "
        "before it had not ended. `missed`: its starting deadline had passed",
    )
    reason = serializers.CharField(allow_null=True, help_text="Why it has no job")
    job = RunJobSerializer(allow_null=True)


class ScheduleSerializer(serializers.Serializer[Any]):
    """A schedule as lists show it."""

    id = serializers.UUIDField()
    name = serializers.CharField(help_text="That of its jobs")
    team = serializers.CharField(help_text="Path")
    user = serializers.CharField(help_text="Username of the owner")
    organization = serializers.CharField(help_text="Slug")
    cron = serializers.CharField(help_text=_CRON_HELP)
    time_zone = serializers.CharField(help_text="IANA name")
    concurrency_policy = serializers.ChoiceField(
        choices=ConcurrencyPolicy.values, help_text=_POLICY_HELP
    )
    starting_deadline_s = serializers.IntegerField(allow_null=True, help_text=_DEADLINE_HELP)
    is_suspended = serializers.BooleanField()
    suspended_because = serializers.CharField(
        allow_null=True, help_text="Why the portal suspended it; null if a person did"
    )
    next_at = serializers.DateTimeField(
        allow_null=True, help_text="The next run; null while it is suspended"
    )
    last_run = ScheduleRunSerializer(allow_null=True)
    created_at = serializers.DateTimeField()
    ended_at = serializers.DateTimeField(allow_null=True, help_text="When it was deleted")
    can = serializers.ListField(
        child=serializers.ChoiceField(choices=SCHEDULE_ACTIONS),
        help_text="What the caller may do with it now",
    )


class CreatedScheduleSerializer(ScheduleSerializer):
    """A new schedule, with what became of each line of its text."""

    notes = NoteSerializer(many=True)


class TemplateOfScheduleSerializer(serializers.Serializer[Any]):
    """The template of a schedule."""

    id = serializers.UUIDField()
    name = serializers.CharField(
        allow_null=True, help_text="Null if it was deleted, or the caller may not use it"
    )


class ScheduleDetailSerializer(ScheduleSerializer):
    """A schedule with its request."""

    next_runs = serializers.ListField(child=serializers.DateTimeField(), help_text="The next three")
    template = TemplateOfScheduleSerializer(
        allow_null=True, help_text="The template that each run takes as it is then"
    )
    request = JobRequestSerializer(
        allow_null=True,
        help_text="The request of each run, without the members of its template. A CronJob is "
        "shown as its Job",
    )


class SchedulePlanSerializer(serializers.Serializer[Any]):
    """The result of a request for a schedule if it were created now. It changes nothing."""

    cron = serializers.CharField()
    time_zone = serializers.CharField()
    concurrency_policy = serializers.ChoiceField(choices=ConcurrencyPolicy.values)
    starting_deadline_s = serializers.IntegerField(allow_null=True)
    is_suspended = serializers.BooleanField()
    next_runs = serializers.ListField(child=serializers.DateTimeField(), help_text="The next three")
    plan = JobPlanSerializer(help_text="The plan of a run that is submitted now")

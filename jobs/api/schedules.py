"""Schedules: list, creation and plan, details, runs, suspension and end."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, cast
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from jobs.access import may_read_content
from jobs.api import schedule_serializers as shapes
from jobs.api.jobs import SubmissionParameters
from jobs.api.rendering import plan_body, written
from jobs.models import Schedule, ScheduleRun
from jobs.queue.reason_documents import iso
from jobs.recurring.cron import next_moments
from jobs.recurring.requests import ScheduleRequest, read_schedule_request
from jobs.recurring.runs import last_runs, runs_of
from jobs.recurring.schedules import (
    create_schedule,
    end_schedule,
    listed_schedules,
    may_manage_schedule,
    resume_schedule,
    schedule_by_id,
    suspend_schedule,
    template_of,
    zone_of,
)
from jobs.submission.problems import in_request
from jobs.whatif.manifest_trials import tried
from jobs.whatif.preview import preview_job
from primitives.clock import SystemClock
from tenants.access import Actor
from tenants.api.authentication import actor_from
from webapi.idempotency import respond_once, was_answered
from webapi.paging import (
    page_body,
    page_by_id,
    refuse_body,
    refuse_unknown_parameters,
)
from webapi.parameters import PageParameters, text
from webapi.serializers import IDEMPOTENCY_KEY, answers, page_of

#: Coming runs that a plan and the details of a schedule show.
_SHOWN_RUNS = 3
_TEXT_MAX = 1_000


class ScheduleParameters(PageParameters):
    """The filters of the list of schedules."""

    team: str | None = text(
        "Path of a node: its schedules and those of all nodes below it", most=_TEXT_MAX
    )
    user: str | None = text("A username", most=_TEXT_MAX)


class ScheduleList(APIView):
    """The list of schedules, and the creation of a schedule."""

    @extend_schema(
        operation_id="list_schedules",
        summary="Schedules",
        description="The caller's own schedules, and those of teams whose jobs the caller may see, "
        "newest first. Deleted ones are left out.",
        parameters=ScheduleParameters.in_openapi(),
        responses=answers({200: page_of(shapes.ScheduleSerializer)}),
    )
    def get(self, request: Request) -> Response:
        """Return a page of schedules."""
        asked = ScheduleParameters.read(request)
        actor = actor_from(request)
        rows = listed_schedules(actor, team=asked.team, username=asked.user)
        page = page_by_id(asked, rows, newest_first=True)
        runs = last_runs(page.items)
        body = page_body(request, page, lambda one: _body(one, runs.get(one.pk), actor))
        return Response(written(body))

    @extend_schema(
        operation_id="create_schedule",
        summary="Create a schedule, or plan it",
        description="Each run of the schedule is a job, which the portal submits as its owner. A "
        "`manifest` of the kind CronJob says itself when its runs are due. With `dry_run=true` "
        "nothing is changed, and the answer is a plan (200).",
        request=shapes.ScheduleRequestSerializer,
        parameters=[*SubmissionParameters.in_openapi(), IDEMPOTENCY_KEY],
        responses=answers(
            {201: shapes.CreatedScheduleSerializer, 200: shapes.SchedulePlanSerializer},
            403,
            404,
            422,
            429,
        ),
    )
    def post(self, request: Request) -> Response:
        """Create the schedule and return it, or return the plan of a dry run."""
        asked = SubmissionParameters.read(request)
        actor, now = actor_from(request), SystemClock().now()
        given = shapes.ScheduleRequestSerializer(data=request.data)
        given.is_valid(raise_exception=True)
        wanted = read_schedule_request(cast(Mapping[str, Any], given.validated_data), actor=actor)
        if asked.dry_run or not was_answered(request, principal_id=actor.user.pk):
            wanted = wanted.with_job(tried(wanted.job, actor=actor))
        if asked.dry_run:
            return Response(_plan(wanted, actor, now))

        def act() -> tuple[int, dict[str, Any]]:
            schedule = create_schedule(wanted, actor=actor, now=now)
            notes = [note.as_json() for note in wanted.job.notes]
            return 201, {**_body(schedule, None, actor), "notes": notes}

        return respond_once(request, principal_id=actor.user.pk, now=now, act=act)


class ScheduleDetail(APIView):
    """A schedule: read, change, delete."""

    @extend_schema(
        operation_id="get_schedule",
        summary="One schedule",
        description="Its request is null if the caller may only see the schedule.",
        responses=answers({200: shapes.ScheduleDetailSerializer}, 404),
    )
    def get(self, request: Request, schedule_id: UUID) -> Response:
        """Return the schedule with its request and its coming runs."""
        refuse_unknown_parameters(request, set())
        actor = actor_from(request)
        return _answer(schedule_id, actor, SystemClock().now())

    @extend_schema(
        operation_id="change_schedule",
        summary="Suspend or resume a schedule",
        description="Jobs of earlier runs go on. Runs that were due while it was suspended are "
        "not made up. Repeating it changes nothing.",
        request=shapes.ScheduleUpdateSerializer,
        responses=answers({200: shapes.ScheduleDetailSerializer}, 403, 404, 409),
    )
    def patch(self, request: Request, schedule_id: UUID) -> Response:
        """Suspend or resume the schedule and return it."""
        refuse_unknown_parameters(request, set())
        actor, now = actor_from(request), SystemClock().now()
        body = shapes.ScheduleUpdateSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        change = suspend_schedule if body.validated_data["is_suspended"] else resume_schedule
        change(schedule_id, actor=actor, now=now)
        return _answer(schedule_id, actor, now)

    @extend_schema(
        operation_id="delete_schedule",
        summary="Delete a schedule",
        description="It has no more runs. Its jobs stay, and go on. Repeating it changes nothing.",
        responses=answers({204: None}, 403, 404),
    )
    def delete(self, request: Request, schedule_id: UUID) -> Response:
        """End the schedule."""
        refuse_unknown_parameters(request, set())
        actor, now = actor_from(request), SystemClock().now()
        refuse_body(request)
        end_schedule(schedule_id, actor=actor, now=now)
        return Response(status=204)


class ScheduleRunList(APIView):
    """The runs of a schedule."""

    @extend_schema(
        operation_id="list_schedule_runs",
        summary="Runs of a schedule, newest first",
        description="Runs without a job are kept for 90 days, those with one as long as the job.",
        parameters=PageParameters.in_openapi(),
        responses=answers({200: page_of(shapes.ScheduleRunSerializer)}, 404),
    )
    def get(self, request: Request, schedule_id: UUID) -> Response:
        """Return a page of runs."""
        asked = PageParameters.read(request)
        schedule = schedule_by_id(schedule_id, actor=actor_from(request))
        page = page_by_id(asked, runs_of(schedule), newest_first=True)
        return Response(written(page_body(request, page, _run_body)))


def _answer(schedule_id: UUID, actor: Actor, now: datetime) -> Response:
    schedule = schedule_by_id(schedule_id, actor=actor)
    run = last_runs([schedule]).get(schedule.pk)
    may_read = may_read_content(actor, user_id=schedule.user_id, team_path=schedule.team.path)
    coming = (
        []
        if schedule.next_at is None
        else [schedule.next_at, *_next_runs(schedule, schedule.next_at, _SHOWN_RUNS - 1)]
    )
    body = {
        **_body(schedule, run, actor),
        "next_runs": [iso(one) for one in coming],
        "template": template_of(schedule, actor=actor),
        "request": {"team": schedule.team.display_path, **schedule.request} if may_read else None,
    }
    return Response(written(body))


def _next_runs(schedule: Schedule, after: datetime, count: int) -> list[datetime]:
    return next_moments(schedule.cron, schedule.time_zone, after=after, count=count)


def _body(schedule: Schedule, run: ScheduleRun | None, actor: Actor) -> dict[str, Any]:
    return {
        "id": str(schedule.pk),
        "name": schedule.name,
        "team": schedule.team.display_path,
        "user": schedule.user.username,
        "organization": schedule.organization.slug,
        "cron": schedule.cron,
        "time_zone": schedule.time_zone,
        "concurrency_policy": schedule.concurrency_policy,
        "starting_deadline_s": schedule.starting_deadline_s,
        "is_suspended": schedule.is_suspended,
        "suspended_because": schedule.suspended_because or None,
        "next_at": _iso(schedule.next_at),
        "last_run": None if run is None else _run_body(run),
        "created_at": iso(schedule.created_at),
        "ended_at": _iso(schedule.ended_at),
        "can": _allowed(schedule, actor),
    }


def _allowed(schedule: Schedule, actor: Actor) -> list[str]:
    if schedule.ended_at is not None or not may_manage_schedule(schedule, actor):
        return []
    return ["resume" if schedule.is_suspended else "suspend", "delete"]


def _run_body(run: ScheduleRun) -> dict[str, Any]:
    job = run.job
    return {
        "scheduled_at": iso(run.scheduled_at),
        "at": iso(run.at),
        "outcome": run.outcome,
        "reason": run.reason or None,
        "job": None if job is None else {"id": str(job.pk), "name": job.name, "state": job.state},
    }


def _plan(wanted: ScheduleRequest, actor: Actor, now: datetime) -> dict[str, Any]:
    with in_request():
        preview = preview_job(wanted.job, actor=actor, now=now)
    zone = zone_of(wanted, preview.resolved.team.organization)
    runs = next_moments(wanted.cron, zone, after=now, count=_SHOWN_RUNS)
    return {
        "cron": wanted.cron,
        "time_zone": zone,
        "concurrency_policy": wanted.concurrency_policy,
        "starting_deadline_s": wanted.starting_deadline_s,
        "is_suspended": wanted.is_suspended,
        "next_runs": [iso(one) for one in runs],
        "plan": plan_body(preview),
    }


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else iso(moment)

"""Schedules: create, suspend, resume and end one. The rights are those of jobs."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from django.db import transaction
from django.db.models import Q, QuerySet

from audit.recording import record
from jobs.access import may_manage
from jobs.errors import TooManySchedules
from jobs.recurring.cron import next_moment
from jobs.recurring.requests import ScheduleRequest
from jobs.schedule_models import Schedule
from jobs.submission.problems import in_request
from jobs.submission.submission import accepted
from jobs.templates.templates import visible_templates
from primitives.errors import Conflict, FieldError, Forbidden, InvalidRequest, NotFound
from quotas.policies import policy_of
from tenants.access import Actor, under, visible, visible_node
from tenants.models import Node
from tenants.roles import Permission
from webapi.middleware import current_request_id

#: Schedules of a user that have not ended. Parallel requests may exceed it by their own number.
SCHEDULES_PER_USER_MAX = 100


def visible_schedules(actor: Actor) -> QuerySet[Schedule]:
    """Schedules that the actor may see, by the rule of `jobs.access.visible_jobs`."""
    return visible(
        actor,
        Schedule.objects.select_related("team", "user", "organization"),
        Permission.VIEW_JOBS,
        path_field="team__path",
        own=Q(user=actor.user),
    )


def listed_schedules(actor: Actor, *, team: str | None, username: str | None) -> QuerySet[Schedule]:
    """Return the visible schedules that have not ended, at or below the path `team`.

    Their requests, which may be large, are not read. Raises InvalidRequest for a path that the
    actor cannot see.
    """
    found = visible_schedules(actor).filter(ended_at=None).defer("request")
    if team is not None:
        try:
            top = visible_node(actor, team)
        except NotFound as problem:
            raise InvalidRequest(
                problem.detail, errors=[FieldError("/team", problem.detail)]
            ) from None
        found = found.filter(under([top.path], "team__path"))
    return found if username is None else found.filter(user__username=username)


def schedule_by_id(schedule_id: UUID, *, actor: Actor) -> Schedule:
    """Return the schedule, also after its end. Raises NotFound."""
    found = visible_schedules(actor).filter(pk=schedule_id).first()
    if found is None:
        raise NotFound("There is no such schedule that you can see.")
    return found


def template_of(schedule: Schedule, *, actor: Actor) -> dict[str, str | None] | None:
    """Return the id and the name of the template of a schedule's runs; None without one.

    The name is None if the template was deleted, or the actor may not use it.
    """
    given = schedule.request.get("template")
    if given is None:
        return None
    found = visible_templates(actor).filter(pk=given).first()
    return {"id": given, "name": None if found is None else found.name}


def may_manage_schedule(schedule: Schedule, actor: Actor) -> bool:
    """Return whether the actor may suspend, resume and delete the schedule."""
    return may_manage(actor, user_id=schedule.user_id, team_path=schedule.team.path)


def zone_of(request: ScheduleRequest, organization: Node) -> str:
    """Return the time zone of the request, or that of the organization."""
    return request.time_zone or policy_of(organization).time_zone


@transaction.atomic
def create_schedule(request: ScheduleRequest, *, actor: Actor, now: datetime) -> Schedule:
    """Store a schedule. Its first run is at the first moment after `now`.

    Raises as `jobs.submission.submission.submit_job_here`, and TooManySchedules.
    """
    with in_request():
        resolved = accepted(request.job, actor=actor, now=now)
    count = Schedule.objects.filter(user=actor.user, ended_at=None).count()
    if count >= SCHEDULES_PER_USER_MAX:
        raise TooManySchedules(
            f"You have {count} schedules; {SCHEDULES_PER_USER_MAX} are allowed. Delete some first.",
            schedules=count,
            schedules_max=SCHEDULES_PER_USER_MAX,
        )
    zone = zone_of(request, resolved.team.organization)
    schedule = Schedule.objects.create(
        organization=resolved.team.organization,
        team=resolved.team,
        user=actor.user,
        name=request.job.name,
        cron=request.cron,
        time_zone=zone,
        request=dict(request.body),
        concurrency_policy=request.concurrency_policy,
        starting_deadline_s=request.starting_deadline_s,
        is_suspended=request.is_suspended,
        next_at=None if request.is_suspended else next_moment(request.cron, zone, after=now),
        created_at=now,
    )
    note_act("schedule_created", schedule, actor, now)
    return schedule


@transaction.atomic
def suspend_schedule(schedule_id: UUID, *, actor: Actor, now: datetime) -> Schedule:
    """Suspend a schedule until it is resumed. Its jobs go on. Repeating changes nothing."""
    schedule = _to_manage(schedule_id, actor)
    if not schedule.is_suspended:
        schedule.is_suspended = True
        schedule.next_at = None
        schedule.save(update_fields=["is_suspended", "next_at"])
        note_act("schedule_suspended", schedule, actor, now)
    return schedule


@transaction.atomic
def resume_schedule(schedule_id: UUID, *, actor: Actor, now: datetime) -> Schedule:
    """Resume a suspended schedule. Missed moments are not made up. Repeating changes nothing."""
    schedule = _to_manage(schedule_id, actor)
    if schedule.is_suspended:
        schedule.is_suspended = False
        schedule.suspended_because = ""
        schedule.next_at = next_moment(schedule.cron, schedule.time_zone, after=now)
        schedule.save(update_fields=["is_suspended", "suspended_because", "next_at"])
        note_act("schedule_resumed", schedule, actor, now)
    return schedule


@transaction.atomic
def end_schedule(schedule_id: UUID, *, actor: Actor, now: datetime) -> None:
    """End a schedule. Its runs and jobs stay. Repeating changes nothing."""
    schedule = _locked(schedule_id, actor)
    if schedule.ended_at is not None:
        return
    schedule.ended_at = now
    schedule.next_at = None
    schedule.save(update_fields=["ended_at", "next_at"])
    note_act("schedule_ended", schedule, actor, now)


def _to_manage(schedule_id: UUID, actor: Actor) -> Schedule:
    schedule = _locked(schedule_id, actor)
    if schedule.ended_at is not None:
        raise Conflict("The schedule was deleted. Create a new one.")
    return schedule


def _locked(schedule_id: UUID, actor: Actor) -> Schedule:
    """Return the schedule, locked. Raises NotFound, and Forbidden unless the actor manages it."""
    # As with jobs, the row is locked only after it was found visible.
    schedule_by_id(schedule_id, actor=actor)
    schedule = (
        Schedule.objects.select_for_update(of=("self",))
        .select_related("team", "user", "organization")
        .get(pk=schedule_id)
    )
    if not may_manage_schedule(schedule, actor):
        raise Forbidden(
            f"You can see this schedule but not change it; its owner or a lead of "
            f"{schedule.team.display_path} can."
        )
    return schedule


def note_act(
    action: str, schedule: Schedule, actor: Actor | None, now: datetime, *, reason: str = ""
) -> None:
    """Record an act on a schedule in the audit log. Without an actor it is the portal's."""
    record(
        action=action,
        subject_kind="schedule",
        subject_id=schedule.pk,
        now=now,
        actor_id=None if actor is None else actor.user.pk,
        actor="system" if actor is None else actor.user.login,
        organization_id=schedule.organization_id,
        node_path=schedule.team.path,
        detail={
            "name": schedule.name,
            "cron": schedule.cron,
            "time_zone": schedule.time_zone,
            **({"reason": reason} if reason else {}),
        },
        request_id=current_request_id(),
    )

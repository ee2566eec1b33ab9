"""The runs of schedules: submit those that are due, list them, forget old ones.

Each due schedule is handled in a transaction of its own, by the process that holds its lock. The
job of a run, its row and the next moment are committed together, so a run happens once.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from datetime import datetime, timedelta
from uuid import UUID

from django.db import OperationalError, transaction
from django.db.models import OuterRef, QuerySet, Subquery

from jobs.actions.cancellation import cancel_job
from jobs.lifecycle import OPEN
from jobs.models import Job
from jobs.recurring.cron import latest_moment, next_moment
from jobs.recurring.schedules import note_act
from jobs.schedule_models import (
    REASON_MAX,
    ConcurrencyPolicy,
    RunOutcome,
    Schedule,
    ScheduleRun,
)
from jobs.submission.job_arrays import cancel_array
from jobs.submission.requests import read_job_request
from jobs.submission.submission import submit_job_here
from jobs.templates.applying import with_template
from notices.giving import NewNotice, for_webhooks, give_notices
from notices.models import NoticeEvent
from primitives.durations import duration_of_seconds
from primitives.errors import PortalError
from tenants.access import Actor, actor_of
from tenants.models import UserKind
from tenants.roles import Permission

#: Runs that one round of the timer submits at most. Others follow the next time.
ROUND_MAX = 200
#: How long runs without a job are kept. Those with a job stay with it.
KEPT_FOR = timedelta(days=90)
_FAILED = "The portal failed to submit this run. Its log says why; ask its administrator."

_log = logging.getLogger(__name__)


def submit_due_runs(*, now: datetime, limit: int = ROUND_MAX) -> int:
    """Submit the due runs of at most `limit` schedules, earliest first. Return how many.

    Of several missed moments only the last one runs.
    """
    due = Schedule.objects.filter(next_at__lte=now).order_by("next_at", "pk")
    done = 0
    for pk in list(due.values_list("pk", flat=True)[:limit]):
        try:
            done += _handle(pk, now)
        except OperationalError:
            # The database is busy or away. The run stays due.
            _log.exception("schedule %s: its run is tried again", pk)
        except Exception:
            # A fault in one schedule must not keep the others from running.
            _log.exception("schedule %s: its run failed", pk)
            try:
                done += _handle(pk, now, is_failed=True)
            except Exception:
                _log.exception("schedule %s: its failure was not stored", pk)
    return done


@transaction.atomic
def _handle(schedule_id: UUID, now: datetime, *, is_failed: bool = False) -> bool:
    """Handle the due moment of a schedule. Return False if another process does or did."""
    schedule = (
        Schedule.objects.select_for_update(of=("self",), skip_locked=True)
        .select_related("team", "user__organization", "organization")
        .filter(pk=schedule_id, next_at__lte=now)
        .first()
    )
    if schedule is None:
        return False
    assert schedule.next_at is not None
    moment = latest_moment(schedule.cron, schedule.time_zone, first=schedule.next_at, until=now)
    run = ScheduleRun(schedule=schedule, scheduled_at=moment, at=now)
    actor = actor_of(schedule.user)
    lost = _lost_rights(schedule, actor)
    if lost:
        schedule.is_suspended = True
        schedule.suspended_because = lost
        schedule.next_at = None
        _without_job(run, RunOutcome.REFUSED, lost)
        note_act("schedule_suspended", schedule, None, now, reason=lost)
    else:
        schedule.next_at = next_moment(schedule.cron, schedule.time_zone, after=now)
        if is_failed:
            _without_job(run, RunOutcome.REFUSED, _FAILED)
        else:
            _decide(run, actor, now)
    run.save(force_insert=True)
    if run.outcome == RunOutcome.REFUSED:
        _give_notice(run)
    schedule.save(update_fields=["is_suspended", "suspended_because", "next_at"])
    return True


def _lost_rights(schedule: Schedule, actor: Actor) -> str:
    """Return why the owner may not submit to the team any more; "" if they may."""
    team = schedule.team.display_path
    if not schedule.user.is_active:
        return f"Its owner {schedule.user.username} is deactivated."
    if schedule.team.archived_at is not None:
        return f"Its team {team} is archived."
    if not actor.holds(Permission.SUBMIT_JOBS, schedule.team.path):
        return f"Its owner {schedule.user.username} may no longer submit jobs to {team}."
    return ""


def _decide(run: ScheduleRun, actor: Actor, now: datetime) -> None:
    """Submit the job of the run, or set the reason why there is none."""
    schedule = run.schedule
    deadline_s = schedule.starting_deadline_s
    late_s = int((now - run.scheduled_at).total_seconds())
    if deadline_s is not None and late_s > deadline_s:
        _without_job(
            run,
            RunOutcome.MISSED,
            f"The portal handled it {duration_of_seconds(late_s)} late, and its starting deadline "
            f"is {duration_of_seconds(deadline_s)}.",
        )
        return
    previous = None
    if schedule.concurrency_policy != ConcurrencyPolicy.ALLOW:
        previous = _open_job(schedule)
    if previous is not None and schedule.concurrency_policy == ConcurrencyPolicy.FORBID:
        _without_job(
            run, RunOutcome.SKIPPED, f"The run before it has not ended: job {previous.pk}."
        )
        return
    try:
        # A refusal leaves nothing behind, and the older run goes on.
        with transaction.atomic():
            given = {**schedule.request, "team": schedule.team.display_path}
            body = with_template(given, actor=actor)
            # The older run first, so that it does not count against the owner's limits.
            if previous is not None:
                _cancel(previous, actor, now)
            job = submit_job_here(read_job_request(body), actor=actor, now=now)
    except PortalError as refusal:
        _without_job(run, RunOutcome.REFUSED, refusal.detail)
        return
    run.outcome, run.job = RunOutcome.SUBMITTED, job


def _give_notice(run: ScheduleRun) -> None:
    """Tell the owner, once a day, that the portal refused a run. Webhooks get the same."""
    schedule = run.schedule
    notice = NewNotice(
        user_id=schedule.user_id,
        event=NoticeEvent.JOB_FAILED,
        key=f"schedule:{schedule.pk}:refused:{run.at:%Y-%m-%d}",
        subject_kind="schedule",
        subject_id=schedule.pk,
        sentence=f"{schedule.name} was not submitted by its schedule: {run.reason}",
        link=f"/schedules/{schedule.pk}",
        at=run.at,
    )
    found = [for_webhooks(notice, schedule.team.path)]
    if schedule.user.is_active and schedule.user.kind == UserKind.PERSON:
        found.append(notice)
    give_notices(found)


def _without_job(run: ScheduleRun, outcome: RunOutcome, reason: str) -> None:
    run.outcome, run.reason = outcome, reason[:REASON_MAX]


def _open_job(schedule: Schedule) -> Job | None:
    """Return the open job, or an open task, of the latest run with a job."""
    latest = (
        ScheduleRun.objects.filter(schedule=schedule, outcome=RunOutcome.SUBMITTED)
        .select_related("job")
        .order_by("-scheduled_at")
        .first()
    )
    if latest is None:
        return None
    assert latest.job is not None
    of_run = Job.objects.filter(pk=latest.job.pk)
    if latest.job.array_id is not None:
        of_run = Job.objects.filter(array=latest.job.array_id)
    return of_run.filter(state__in=list(OPEN)).order_by("pk").first()


def _cancel(job: Job, actor: Actor, now: datetime) -> None:
    """Cancel the job, or the whole array of a task."""
    if job.array_id is None:
        cancel_job(job.pk, actor=actor, now=now)
    else:
        cancel_array(job.array_id, actor=actor, now=now)


def runs_of(schedule: Schedule) -> QuerySet[ScheduleRun]:
    """Return the runs of a schedule, each with its job."""
    return ScheduleRun.objects.filter(schedule=schedule).select_related("job")


def last_runs(schedules: Iterable[Schedule]) -> dict[UUID, ScheduleRun]:
    """Return the latest run of each schedule that has one, by schedule, in one query."""
    latest = ScheduleRun.objects.filter(schedule=OuterRef("pk")).order_by("-scheduled_at")
    ids = Schedule.objects.filter(pk__in=[one.pk for one in schedules]).values_list(
        Subquery(latest.values("pk")[:1]), flat=True
    )
    found = ScheduleRun.objects.filter(pk__in=ids).select_related("job")
    return {run.schedule_id: run for run in found}


def forget_old_runs(*, now: datetime, limit: int = 10_000) -> int:
    """Delete at most `limit` old runs without a job, and return how many."""
    old = ScheduleRun.objects.filter(job=None, at__lt=now - KEPT_FOR).order_by("at")
    deleted, _ = ScheduleRun.objects.filter(
        pk__in=list(old.values_list("pk", flat=True)[:limit])
    ).delete()
    return deleted

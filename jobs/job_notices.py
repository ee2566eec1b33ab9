"""Notices of events of jobs: to the owner, and to those who manage the jobs of a team.

An event that the owner caused gives none. Webhooks of the team and above get the same, and those
of jobs of service accounts. Neither does a start after a short wait, nor the success
of a short job.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from uuid import UUID

from jobs.happenings import Happening
from jobs.models import Job
from notices.giving import NewNotice, for_node, for_webhooks, give_notices
from notices.models import NoticeEvent
from notices.recipients import nearest_people
from primitives.durations import duration_of_seconds
from tenants.models import UserKind
from tenants.roles import Permission

#: A start after a shorter wait, and the success of a shorter job, give no notice.
LONG_S = 600

#: Timeline events that may give a notice. Most events are none, and cost no query.
_LOOKED_AT = frozenset(
    {
        *("started", "succeeded", "failed", "timed_out", "cancelled", "cancel_requested"),
        *("preempting", "requeued", "held"),
    }
)
_FAILURES = {
    "exit_code": "failed with an exit code other than 0",
    "rejected_by_cluster": "was rejected by its cluster",
    "preempted": "was preempted, and is not requeued",
    "cost_cap_reached": "was stopped at its cost cap",
    "node_failed": "failed with its node",
    "lost": "was lost by its cluster",
    "stopped_on_cluster": "was stopped on its cluster",
    "dependency_never_met": "was cancelled, because a job before it did not end as required",
}
#: Other reasons are the owner's own act, or no attempt ever ran.
_REQUEUES = {
    "preempted": "was preempted",
    "node_failed": "lost its node",
    "lost": "was lost by its cluster",
    "time_limit": "reached its time limit",
    "exit_code": "failed with an exit code that requeues it",
}


def give_job_notices(happenings: Sequence[Happening]) -> None:
    """Give the notices of these events. Must run in their transaction."""
    looked_at = [item for item in happenings if item.event in _LOOKED_AT]
    if not looked_at:
        return
    # Scripts and environments are large, and notices need none of them.
    rows = Job.objects.select_related("user", "team").only(
        *("name", "array_id", "submitted_at", "started_at"),
        *("user__username", "user__kind", "user__is_active", "team__path"),
    )
    jobs = rows.in_bulk({item.job_id for item in looked_at})
    notices: list[NewNotice] = []
    for item in looked_at:
        job = jobs[item.job_id]
        notice = _owners_notice(job, item)
        if notice is None:
            continue
        notices += for_owner_and_team(job, notice)
    give_notices([*notices, *_teams_notices(jobs, looked_at)])


def for_owner_and_team(job: Job, notice: NewNotice) -> Iterator[NewNotice]:
    """Yield a notice for the owner, if that is an active person, and for webhooks of the team."""
    if job.user.is_active and job.user.kind == UserKind.PERSON:
        yield notice
    yield for_webhooks(notice, job.team.path)


def owners_notice(
    job: Job,
    event: NoticeEvent,
    sentence: str,
    *,
    key: object,
    at: datetime,
    deadline: datetime | None = None,
) -> NewNotice:
    """Return a notice for the owner of a job. `key` tells its occurrences of `event` apart.

    The tasks of an array give one notice of each event a day: that of the deadline, if there is
    one. They give one at each moment of their preemption. It links to their list.
    """
    if job.array_id is None:
        kind, subject_id, link = "job", job.pk, f"/jobs/{job.pk}"
    else:
        kind, subject_id, link = "job_array", job.array_id, f"/jobs?array={job.array_id}"
        key = f"{deadline or at:%Y-%m-%d}"
        if event is NoticeEvent.JOB_PREEMPTING:
            key = at.isoformat()
    return NewNotice(
        user_id=job.user_id,
        event=event,
        key=f"{kind}:{subject_id}:{event.value}:{key}",
        subject_kind=kind,
        subject_id=subject_id,
        sentence=sentence,
        link=link,
        at=at,
        deadline=deadline,
    )


def _owners_notice(job: Job, item: Happening) -> NewNotice | None:
    found = _sentence(job, item)
    if found is None:
        return None
    event, words = found
    deadline = None
    if event is NoticeEvent.JOB_PREEMPTING:
        deadline = item.at + timedelta(seconds=item.detail["grace_s"])
    key = item.detail.get("attempt", 0)
    return owners_notice(job, event, f"{job.name} {words}.", key=key, at=item.at, deadline=deadline)


def _sentence(job: Job, item: Happening) -> tuple[NoticeEvent, str] | None:
    """Return the kind of the notice and its words after the job's name, or None for no notice."""
    reason = item.detail.get("reason", "")
    match item.event:
        case "started":
            waited_s = int((item.at - job.submitted_at).total_seconds())
            if waited_s >= LONG_S:
                return (
                    NoticeEvent.JOB_STARTED,
                    f"started {duration_of_seconds(waited_s - waited_s % 60)} after its submission",
                )
        case "succeeded":
            ran_s = 0
            if job.started_at is not None:
                ran_s = int((item.at - job.started_at).total_seconds())
            if ran_s >= LONG_S:
                return (
                    NoticeEvent.JOB_ENDED,
                    f"succeeded after {duration_of_seconds(ran_s - ran_s % 60)}",
                )
        case "failed":
            return NoticeEvent.JOB_FAILED, _FAILURES.get(reason, "failed")
        case "cancelled" if reason in _FAILURES:
            return NoticeEvent.JOB_FAILED, _FAILURES[reason]
        case "timed_out":
            return NoticeEvent.JOB_FAILED, "was stopped at its time limit"
        case "cancelled" | "cancel_requested":
            by = item.detail.get("by", job.user.username)
            if by != job.user.username:
                return NoticeEvent.JOB_FAILED, f"was cancelled by {by}"
        case "preempting":
            return NoticeEvent.JOB_PREEMPTING, "is being preempted. Save its work before it stops"
        case "requeued" if reason in _REQUEUES:
            return NoticeEvent.JOB_REQUEUED, f"{_REQUEUES[reason]} and is queued again"
        case "held" if "outcome" in item.detail:
            return NoticeEvent.JOB_HELD, "is held. See its page for the reason, then release it"
    return None


def _teams_notices(jobs: dict[UUID, Job], happenings: Sequence[Happening]) -> Iterator[NewNotice]:
    """Yield the notices of reclaims against teams, at most one an hour for each team."""
    preempted: dict[UUID, list[Happening]] = defaultdict(list)
    for item in happenings:
        if item.event == "preempting" and "for_team" in item.detail:
            preempted[jobs[item.job_id].team_id].append(item)
    for team_id, items in preempted.items():
        team, at = jobs[items[0].job_id].team, items[0].at
        jobs_text = "1 running job" if len(items) == 1 else f"{len(items)} running jobs"
        notice = NewNotice(
            user_id=None,
            event=NoticeEvent.TEAM_PREEMPTED,
            key=f"team:{team_id}:{NoticeEvent.TEAM_PREEMPTED.value}:{at:%Y-%m-%dT%H}",
            subject_kind="team",
            subject_id=team_id,
            sentence=f"The scheduler reclaims GPUs from {team.display_path}: {jobs_text} "
            "will stop.",
            link=f"/jobs?scope={team.display_path}&state=preempting",
            at=at,
            node_path=team.path,
        )
        yield from for_node(notice, nearest_people(Permission.MANAGE_JOBS, team.path))

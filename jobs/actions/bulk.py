"""Actions of a person on many jobs at once, and what they would change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final, NamedTuple
from uuid import UUID

from django.db import transaction

from jobs import lifecycle
from jobs.access import check_may_manage, may_manage, visible_jobs
from jobs.actions.cancellation import (
    NO_SUCH_JOB,
    audit_actions,
    can_cancel,
    can_hold,
    can_release,
    can_requeue,
    cancel_locked,
    hold_locked,
    locked_jobs,
    release_locked,
    requeue_locked,
)
from jobs.models import Attempt, Job, JobState
from primitives.errors import NotFound, PortalError
from tenants.access import Actor

#: Most jobs of one request.
JOBS_MAX: Final = 1_000


class BulkAction(StrEnum):
    """An action on many jobs."""

    CANCEL = "cancel"
    HOLD = "hold"
    RELEASE = "release"
    REQUEUE = "requeue"


class _Act(NamedTuple):
    """An action: whether it changes a locked job, its effect on several, and its audit event."""

    is_needed: Callable[[Job, Attempt | None], bool]
    change: Callable[..., None]
    audited: str


_ACTS: Final[Mapping[BulkAction, _Act]] = {
    BulkAction.CANCEL: _Act(can_cancel, cancel_locked, "job_cancelled"),
    BulkAction.HOLD: _Act(can_hold, hold_locked, "job_held"),
    BulkAction.RELEASE: _Act(can_release, release_locked, "job_released"),
    BulkAction.REQUEUE: _Act(can_requeue, requeue_locked, "job_requeued"),
}
#: The states in which a job can be changed by an action.
STATES: Final[Mapping[BulkAction, frozenset[str]]] = {
    BulkAction.CANCEL: frozenset(lifecycle.OPEN),
    BulkAction.HOLD: frozenset({JobState.QUEUED}),
    BulkAction.RELEASE: frozenset({JobState.HELD}),
    BulkAction.REQUEUE: frozenset({JobState.RUNNING}),
}


@dataclass(frozen=True, slots=True)
class BulkPlan:
    """The effect that an action would have on some jobs, for the person who asks.

    - `jobs`: the jobs that it would change, in the order of submission.
    - `states`, `users`: the number of these by state and by username.
    - `own`: the number of these that are the person's own.
    - `forbidden`: the number of other jobs that the person sees and may not change.
    - `unsuited`: the number of other jobs by a state in which the action changes nothing.
    """

    jobs: Sequence[UUID]
    states: Mapping[str, int]
    users: Mapping[str, int]
    own: int
    forbidden: int
    unsuited: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class BulkResult:
    """The result of an action on one job: its state after it, or why it was refused."""

    job_id: UUID
    state: str | None
    problem: PortalError | None


def plan_of_action(action: BulkAction, job_ids: Sequence[UUID], *, actor: Actor) -> BulkPlan:
    """Return what an action would change of these jobs. Invisible jobs are left out."""
    rows = (
        visible_jobs(actor)
        .filter(pk__in=job_ids)
        .order_by("pk")
        .values_list(
            "pk", "state", "user_id", "user__username", "team__path", "cancel_requested_at"
        )
    )
    changed: list[UUID] = []
    states: Counter[str] = Counter()
    users: Counter[str] = Counter()
    unsuited: Counter[str] = Counter()
    own = forbidden = 0
    for pk, state, user_id, username, path, cancelled_at in rows:
        if state not in STATES[action] or cancelled_at is not None:
            unsuited[state] += 1
        elif not may_manage(actor, user_id=user_id, team_path=path):
            forbidden += 1
        else:
            changed.append(pk)
            states[state] += 1
            users[username] += 1
            own += user_id == actor.user.pk
    return BulkPlan(changed, states, users, own, forbidden, unsuited)


@transaction.atomic
def change_jobs(
    action: BulkAction, job_ids: Sequence[UUID], *, actor: Actor, now: datetime
) -> list[BulkResult]:
    """Do an action on each of these jobs, at most `JOBS_MAX`, and return the result of each.

    A refusal concerns one job and leaves the others changed. The number of statements does not
    depend on the number of jobs.
    """
    assert len(job_ids) <= JOBS_MAX
    act = _ACTS[action]
    locked = locked_jobs(set(job_ids), actor)
    problems: dict[UUID, PortalError] = {}
    changed: list[tuple[Job, Attempt | None]] = []
    for job_id in set(job_ids):
        try:
            if job_id not in locked:
                raise NotFound(NO_SUCH_JOB)
            job, attempt = locked[job_id]
            check_may_manage(job, actor)
            if act.is_needed(job, attempt):
                changed.append((job, attempt))
        except PortalError as problem:
            problems[job_id] = problem
    if changed:
        # The timeline has the order of the ids, which is that of the submissions.
        changed.sort(key=lambda one: one[0].pk)
        act.change(changed, actor=actor, now=now)
        audit_actions(act.audited, [job for job, _ in changed], actor, now)
    return [
        BulkResult(job_id, None, problems[job_id])
        if job_id in problems
        else BulkResult(job_id, locked[job_id][0].state, None)
        for job_id in sorted(set(job_ids))
    ]

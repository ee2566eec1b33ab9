"""Jobs that wait for other jobs: when each dependency is met, or never can be.

Nobody tells this module that a job has ended: the arbiter's cycle compares the open dependencies
with what is stored of their predecessors, so nothing is lost with a crash in between. An open
dependency keeps its job from the arbiter (`jobs.queue.withholding`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection

from jobs import lifecycle
from jobs.leadership import Leadership
from jobs.models import Condition, Dependency, Job, JobState
from jobs.timeline import Happening, record_events
from live.publishing import publish
from live.waking import wake

#: Dependencies of one job at most.
DEPENDENCIES_MAX = 100
#: Dependencies looked at in one cycle at most, and how far an end is followed from job to job.
SETTLED_MAX = 1_000
ROUNDS_MAX = 20
NEVER_MET = "dependency_never_met"


def fate(condition: str, state: str) -> bool | None:
    """Whether a predecessor in `state` meets `condition`: None for not yet, False for never."""
    if state not in lifecycle.FINAL:
        return None
    if condition == Condition.ENDED:
        return True
    return (state == JobState.SUCCEEDED) == (condition == Condition.SUCCEEDED)


@dataclass(frozen=True, slots=True)
class _Due:
    """An open dependency that is decided. The `state` of an array is succeeded or failed."""

    id: int
    job_id: UUID
    predecessor_id: UUID | None
    array_id: UUID | None
    condition: str
    state: str


def settle_dependencies(leadership: Leadership, now: datetime) -> int:
    """Close what is decided; jobs that can never start end as cancelled, and so do those that
    waited for their success. Returns how many dependencies were looked at.

    Bounded; the rest follows in the next cycle, which is asked for. Two queries when there is
    nothing to do. Raises NotLeading.
    """
    due = [*_due(), *_due_on_arrays()]
    if not due:
        return 0
    looked_at = 0
    for _ in range(ROUNDS_MAX):
        looked_at += len(due)
        # A transaction for each round: within one, jobs are locked in the order of their ids.
        with leadership.fence():
            ended = _settle(due, now)
            # What is left for lack of time, or waits for an array of which a task was just ended.
            wake("arbiter")
        if looked_at >= SETTLED_MAX or not ended:
            break
        due = _due_of(ended)
        if not due:
            break
    return looked_at


def close_dependencies(job_ids: Collection[UUID], now: datetime) -> None:
    """These locked jobs have ended before what they waited for was decided."""
    Dependency.objects.filter(job__in=job_ids, closed_at=None).update(closed_at=now)


def open_dependencies(organization_id: UUID, user_id: UUID) -> tuple[int, int]:
    """How many are open of the organization's jobs, and how many of those are the user's."""
    ((of_organization, of_user),) = _rows(_OPEN, [user_id, organization_id])
    return of_organization, of_user


def array_states(array_ids: Iterable[UUID]) -> dict[UUID, str]:
    """What `fate` may be asked with, of each of these arrays: failed as soon as a task has ended
    without success and none is open, succeeded when all have, else running."""
    ids = list(array_ids)
    if not ids:
        return {}
    rows = _rows(_ARRAY_STATES, [ids])
    return {
        array_id: _array_state(open_tasks, bad_tasks) for array_id, open_tasks, bad_tasks in rows
    }


def _array_state(open_tasks: int, bad_tasks: int) -> str:
    if open_tasks:
        return JobState.RUNNING.value
    return (JobState.FAILED if bad_tasks else JobState.SUCCEEDED).value


def _due() -> list[_Due]:
    """What jobs have decided, in the order of submission."""
    return [_Due(*row) for row in _rows(_DUE, [SETTLED_MAX])]


def _due_of(predecessors: Collection[UUID]) -> list[_Due]:
    """What the ends of these jobs have decided."""
    return [_Due(*row) for row in _rows(_DUE_OF, [list(predecessors), SETTLED_MAX])]


def _due_on_arrays() -> list[_Due]:
    """What arrays have decided. That all succeed is out of reach with the first that does not."""
    return [
        _Due(pk, job_id, None, array_id, condition, JobState.FAILED if bad else JobState.SUCCEEDED)
        for pk, job_id, array_id, condition, bad in _rows(_DUE_ON_ARRAYS, [SETTLED_MAX])
    ]


def _rows(sql: str, parameters: list[Any]) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return list(cursor.fetchall())


# Of a job that has ended none is open.
_OPEN = """
SELECT count(*), count(*) FILTER (WHERE j.user_id = %s)
FROM jobs_dependency d
JOIN jobs_job j ON j.id = d.job_id AND j.state IN ('held', 'queued')
WHERE d.closed_at IS NULL AND j.organization_id = %s
"""
# Jobs that are open are looked up in their index, which stays small.
_DUE = """
SELECT d.id, d.job_id, d.predecessor_id, d.array_id, d.condition,
       (SELECT state FROM jobs_job WHERE id = d.predecessor_id)
FROM jobs_dependency d
LEFT JOIN jobs_job p ON p.id = d.predecessor_id
    AND p.state IN ('held', 'queued', 'starting', 'running', 'preempting')
WHERE d.closed_at IS NULL AND d.predecessor_id IS NOT NULL AND p.id IS NULL
ORDER BY d.id LIMIT %s
"""
_DUE_OF = """
SELECT d.id, d.job_id, d.predecessor_id, d.array_id, d.condition, p.state
FROM jobs_dependency d JOIN jobs_job p ON p.id = d.predecessor_id
WHERE d.closed_at IS NULL AND d.predecessor_id = ANY(%s)
ORDER BY d.id LIMIT %s
"""
_TASKS = """
SELECT t.array_id,
       count(*) FILTER (
           WHERE t.state IN ('held', 'queued', 'starting', 'running', 'preempting')) AS open,
       count(*) FILTER (WHERE t.state IN ('failed', 'cancelled', 'timed_out')) AS bad
FROM jobs_job t
"""
_ARRAY_STATES = _TASKS + " WHERE t.array_id = ANY(%s) GROUP BY t.array_id"
# Each array is counted once, however many wait for it.
_DUE_ON_ARRAYS = f"""
WITH counted AS (
    {_TASKS}
    WHERE t.array_id IN (
        SELECT array_id FROM jobs_dependency WHERE closed_at IS NULL AND array_id IS NOT NULL
    )
    GROUP BY t.array_id
)
SELECT d.id, d.job_id, d.array_id, d.condition, c.bad > 0
FROM jobs_dependency d JOIN counted c ON c.array_id = d.array_id
WHERE d.closed_at IS NULL AND (c.open = 0 OR c.bad > 0 AND d.condition = 'succeeded')
ORDER BY d.id LIMIT %s
"""  # noqa: S608 - all of it is ours


def _settle(due: Collection[_Due], now: datetime) -> list[UUID]:
    """Close what of `due` is decided, behind the fence; returns the jobs that it ended."""
    jobs = {
        job.id: job
        for job in Job.objects.select_for_update(of=("self",), no_key=True)
        .filter(pk__in={item.job_id for item in due})
        .only("id", "organization_id", "state")
        .order_by("pk")
    }
    waiting = {pk for pk, job in jobs.items() if job.state in lifecycle.WAITING}
    broken: dict[UUID, _Due] = {}
    met: list[_Due] = []
    never: list[int] = []
    for item in due:
        if item.job_id not in waiting:
            continue
        decided = fate(item.condition, item.state)
        if decided is True:
            met.append(item)
        elif decided is False:
            never.append(item.id)
            broken.setdefault(item.job_id, item)
    Dependency.objects.filter(pk__in=[item.id for item in met]).update(closed_at=now, is_met=True)
    Dependency.objects.filter(pk__in=never).update(closed_at=now, is_met=False)
    gone = [pk for pk in jobs if pk not in waiting or pk in broken]
    close_dependencies(gone, now)
    _end(jobs, broken, now)
    record_events(
        [
            *(Happening(item.job_id, now, "dependency_met", _detail(item)) for item in met),
            *(
                Happening(pk, now, "cancelled", {"reason": NEVER_MET, **_detail(item)})
                for pk, item in broken.items()
            ),
        ]
    )
    changed: dict[UUID, set[UUID]] = {}
    for pk in {item.job_id for item in met} | broken.keys():
        changed.setdefault(jobs[pk].organization_id, set()).add(pk)
    for organization_id, ids in changed.items():
        publish("jobs", ids=ids, organization_id=organization_id)
    return list(broken)


def _end(jobs: Mapping[UUID, Job], broken: Collection[UUID], now: datetime) -> None:
    """End locked jobs that can never start."""
    for pk in broken:
        lifecycle.check_move(jobs[pk].state, JobState.CANCELLED)
    Job.objects.filter(pk__in=list(broken)).update(
        state=JobState.CANCELLED,
        end_reason=NEVER_MET,
        ended_at=now,
        explanation=None,
        explained_at=None,
    )


def _detail(item: _Due) -> dict[str, str]:
    """What the timeline keeps; the predecessor is shown only to those who may see it."""
    waited_for = (
        {"waited_for": str(item.predecessor_id)}
        if item.array_id is None
        else {"waited_for_array": str(item.array_id)}
    )
    return {**waited_for, "condition": item.condition, "state": str(item.state)}

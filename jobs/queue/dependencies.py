"""Jobs that wait for other jobs: when a dependency is met, or becomes impossible.

No event reports the end of a job here. The arbiter's cycle compares the open dependencies with the
stored states of their predecessors, so a crash in between loses nothing. An open dependency keeps
its job from the arbiter (`jobs.queue.withholding`).
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

#: The most dependencies of a job.
DEPENDENCIES_MAX = 100
#: The most dependencies read in one cycle, and the longest chain of ends followed from job to job.
SETTLED_MAX = 1_000
ROUNDS_MAX = 20
NEVER_MET = "dependency_never_met"


def fate(condition: str, state: str) -> bool | None:
    """Return whether a predecessor in `state` meets `condition`.

    None means not yet, False means never.
    """
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
    """Close the decided dependencies, and return how many were read.

    A job with an impossible dependency ends as cancelled, and so do the jobs that waited for its
    success.

    Bounded: the rest follows in the next cycle, which is requested. Two queries when there is
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
            # The next cycle handles the rest, and arrays of which a task was just ended.
            wake("arbiter")
        if looked_at >= SETTLED_MAX or not ended:
            break
        due = _due_of(ended)
        if not due:
            break
    return looked_at


def close_dependencies(job_ids: Collection[UUID], now: datetime) -> None:
    """Close the open dependencies of these locked jobs, which have ended."""
    Dependency.objects.filter(job__in=job_ids, closed_at=None).update(closed_at=now)


def open_dependencies(organization_id: UUID, user_id: UUID) -> tuple[int, int]:
    """Return the number of open dependencies of the organization's jobs, and of the user's jobs."""
    ((of_organization, of_user),) = _rows(_OPEN, [user_id, organization_id])
    return of_organization, of_user


def array_states(array_ids: Iterable[UUID]) -> dict[UUID, str]:
    """Return by array the state to pass to `fate`.

    It is failed if a task has ended without success and none is open, succeeded if all have
    succeeded, else running.
    """
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
    """Return the dependencies that jobs have decided, in the order of submission."""
    return [_Due(*row) for row in _rows(_DUE, [SETTLED_MAX])]


def _due_of(predecessors: Collection[UUID]) -> list[_Due]:
    """Return the dependencies that the ends of these jobs have decided."""
    return [_Due(*row) for row in _rows(_DUE_OF, [list(predecessors), SETTLED_MAX])]


def _due_on_arrays() -> list[_Due]:
    """Return the dependencies that arrays have decided.

    Success of all tasks is impossible after the first failure.
    """
    return [
        _Due(pk, job_id, None, array_id, condition, JobState.FAILED if bad else JobState.SUCCEEDED)
        for pk, job_id, array_id, condition, bad in _rows(_DUE_ON_ARRAYS, [SETTLED_MAX])
    ]


def _rows(sql: str, parameters: list[Any]) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return list(cursor.fetchall())


# A job that has ended has no open dependency.
_OPEN = """
SELECT count(*), count(*) FILTER (WHERE j.user_id = %s)
FROM jobs_dependency d
JOIN jobs_job j ON j.id = d.job_id AND j.state IN ('held', 'queued')
WHERE d.closed_at IS NULL AND j.organization_id = %s
"""
# Open jobs are found by their partial index, which stays small.
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
    """Close the decided dependencies behind the fence; return the jobs that ended with them."""
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
    """Return the detail for the timeline. Only readers of the predecessor see its id."""
    waited_for = (
        {"waited_for": str(item.predecessor_id)}
        if item.array_id is None
        else {"waited_for_array": str(item.array_id)}
    )
    return {**waited_for, "condition": item.condition, "state": str(item.state)}

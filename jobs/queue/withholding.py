"""Queued jobs that the arbiter is not offered, and the reasons.

They do not wait for GPUs, so they block no job in their team's queue and hold nothing (R-84).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection

from jobs.lifecycle import ACTIVE
from primitives.clock import from_epoch
from primitives.state_words import state_phrase
from primitives.units import DeviceKind, gpus_text
from webapi.row_access import all_rows

DEPENDENCY = "dependency"
ARRAY_LIMIT_REACHED = "array_limit_reached"
BEGIN_TIME = "begin_time"
SINGLETON = "singleton"
TEAM_ARCHIVED = "team_archived"
USER_DEACTIVATED = "user_deactivated"
CLUSTER_ARCHIVED = "cluster_archived"
POOL_ARCHIVED = "pool_archived"
BUDGET_EXHAUSTED = "budget_exhausted"
USER_CAP_REACHED = "user_cap_reached"


_NOTHING: Mapping[str, int] = {}


class Shortage(StrEnum):
    """The room of a budget that stops a job. Amounts are for people who may see costs."""

    #: Nothing is left.
    USED_UP = "used_up"
    #: Enough is left for the job alone, but not together with the jobs before it.
    TAKEN = "taken"
    #: Less is left than the job may use.
    TOO_SMALL = "too_small"
    #: The whole limit is less than the job may use.
    LIMIT_TOO_SMALL = "limit_too_small"


class BudgetSubject(NamedTuple):
    """The budget that stops a job, for a sentence. `path` is that of its node."""

    name: str
    path: str
    shortage: Shortage


class CapSubject(NamedTuple):
    """The cap of a user that stops a job, for a sentence. `pool` None: all pools of GPUs."""

    team: str
    pool: str | None
    device: DeviceKind


class Withheld(NamedTuple):
    """A withheld job with the code of its reason; `numbers` are those of an explanation.

    `budget` is set for BUDGET_EXHAUSTED only, and `cap` for USER_CAP_REACHED.
    """

    job: str
    code: str
    numbers: Mapping[str, int]
    budget: BudgetSubject | None = None
    cap: CapSubject | None = None

    @property
    def node(self) -> str | None:
        """The path of the tree node that decided; None if none did."""
        if self.budget is not None:
            return self.budget.path
        return None if self.cap is None else self.cap.team


class FirstTask(NamedTuple):
    """The task that the others of its array wait for.

    It has its name, its state, and the reason for which it waits (None: not known yet).
    """

    name: str
    state: str
    sentence: str | None


def withheld_jobs(now: datetime) -> tuple[Withheld, ...]:
    """Return all withheld jobs, as of the caller's transaction.

    A job may appear twice; then its last reason counts.
    """
    with connection.cursor() as cursor:
        # One query asks first whether any exist, because the planner joins all jobs with a table
        # that it believes to be small.
        cursor.execute(_IS_THERE_ANY)
        found = cursor.fetchone()
        has_dependent, has_singletons, has_tasks, has_archived, has_deactivated = found[:5]
        has_closed, pools = found[5:]
    return (
        *(_dependent() if has_dependent else ()),
        *(_after_others_of_their_name() if has_singletons else ()),
        *(_beyond_their_arrays_limit() if has_tasks else ()),
        *_before_their_begin(now),
        *(_of_archived_pools() if pools else ()),
        *(_of_archived_clusters() if has_closed else ()),
        *(_of_archived_teams() if has_archived else ()),
        *(_of_deactivated_users() if has_deactivated else ()),
    )


_IS_THERE_ANY = """
SELECT EXISTS (SELECT FROM jobs_dependency WHERE closed_at IS NULL),
       EXISTS (SELECT FROM jobs_job WHERE is_singleton AND state = 'queued'),
       EXISTS (SELECT FROM jobs_job WHERE array_id IS NOT NULL
           AND state IN ('held', 'queued', 'starting', 'running', 'preempting')),
       EXISTS (SELECT FROM tenants_node WHERE archived_at IS NOT NULL),
       EXISTS (SELECT FROM tenants_user WHERE NOT is_active),
       EXISTS (SELECT FROM clusters_cluster WHERE archived_at IS NOT NULL),
       EXISTS (SELECT FROM clusters_pool WHERE archived_at IS NOT NULL)
"""


def _dependent() -> Iterator[Withheld]:
    """Yield jobs with open dependencies.

    Held jobs are among them, without effect: they are not offered anyway, and no reason is stored
    on them.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT job_id::text, count(*) FROM jobs_dependency
            WHERE closed_at IS NULL GROUP BY job_id
            """
        )
        # 100,000 jobs share the few distinct documents.
        numbers: dict[int, Mapping[str, int]] = {}
        for job, count in cursor.fetchall():
            shared = numbers.setdefault(count, {"jobs_waited_for": count})
            yield Withheld(job, DEPENDENCY, shared)


# The tasks of an array share its name. Ids are in the order of submission.
_BLOCKS = """
    o.user_id = s.user_id AND o.organization_id = s.organization_id AND o.id <> s.id
    AND coalesce(oa.name, o.name) = coalesce(sa.name, s.name)
    AND (o.state IN ('starting', 'running', 'preempting')
         OR o.state IN ('held', 'queued') AND o.id < s.id)
"""
# The same rule by group, because comparing thousands of jobs of one name in pairs takes minutes. A
# singleton that is queued is not among those that run.
_SINGLETONS = """
SELECT s.id FROM (
    SELECT o.id::text COLLATE "C" AS id, o.is_singleton AND o.state = 'queued' AS asks,
           bool_or(o.state NOT IN ('held', 'queued')) OVER of_name AS runs,
           min(o.id::text COLLATE "C") FILTER (WHERE o.state IN ('held', 'queued'))
               OVER of_name AS first
    FROM jobs_job o LEFT JOIN jobs_jobarray oa ON oa.id = o.array_id
    WHERE o.state IN ('held', 'queued', 'starting', 'running', 'preempting')
      AND o.user_id IN (SELECT user_id FROM jobs_job WHERE is_singleton AND state = 'queued')
    WINDOW of_name AS (PARTITION BY o.user_id, o.organization_id, coalesce(oa.name, o.name))
) s
WHERE s.asks AND (s.runs OR s.first < s.id)
  AND NOT EXISTS (
      SELECT FROM jobs_dependency d WHERE d.job_id = s.id::uuid AND d.closed_at IS NULL)
"""
_FIRST_OF_NAME = f"""
SELECT s.id, f.id, f.name, f.state, f.user_id, t.path
FROM jobs_job s LEFT JOIN jobs_jobarray sa ON sa.id = s.array_id
CROSS JOIN LATERAL (
    SELECT o.id, o.name, o.state, o.user_id, o.team_id
    FROM jobs_job o LEFT JOIN jobs_jobarray oa ON oa.id = o.array_id
    WHERE o.state IN ('held', 'queued', 'starting', 'running', 'preempting') AND {_BLOCKS}
    ORDER BY o.state IN ('held', 'queued'), o.id LIMIT 1
) f
JOIN tenants_node t ON t.id = f.team_id
WHERE s.id = ANY(%s)
"""  # noqa: S608 - all of it is ours


def _after_others_of_their_name() -> Iterator[Withheld]:
    """Yield singleton jobs that wait for others of their name, after all their dependencies."""
    with connection.cursor() as cursor:
        cursor.execute(_SINGLETONS)
        for (job,) in cursor.fetchall():
            yield Withheld(job, SINGLETON, _NOTHING)


def first_of_their_name(job_ids: Collection[UUID]) -> list[tuple[Any, ...]]:
    """Return for each of these singleton jobs the job that comes first.

    A row has the ids of both, and the name, state, user and team path of the first.
    """
    if not job_ids:
        return []
    with connection.cursor() as cursor:
        cursor.execute(_FIRST_OF_NAME, [list(job_ids)])
        return list(cursor.fetchall())


def first_open_of_name(
    name: str, *, user_id: UUID, organization_id: UUID
) -> tuple[str, str] | None:
    """Return the name and state of the job that a new singleton job of this name waits for."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT o.name, o.state
            FROM jobs_job o LEFT JOIN jobs_jobarray oa ON oa.id = o.array_id
            WHERE o.state IN ('held', 'queued', 'starting', 'running', 'preempting')
              AND o.user_id = %s AND o.organization_id = %s AND coalesce(oa.name, o.name) = %s
            ORDER BY o.state IN ('held', 'queued'), o.id LIMIT 1
            """,
            [user_id, organization_id, name],
        )
        found: tuple[str, str] | None = cursor.fetchone()
        return found


def _of_archived_teams() -> Iterator[Withheld]:
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT j.id::text FROM tenants_node n JOIN jobs_job j ON j.team_id = n.id
            WHERE n.archived_at IS NOT NULL AND j.state = 'queued'
            """
        )
        for (job,) in cursor.fetchall():
            yield Withheld(job, TEAM_ARCHIVED, _NOTHING)


def _of_deactivated_users() -> Iterator[Withheld]:
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT j.id::text FROM tenants_user u JOIN jobs_job j ON j.user_id = u.id
            WHERE NOT u.is_active AND j.state = 'queued'
              AND NOT EXISTS (
                  SELECT FROM tenants_node n WHERE n.id = j.team_id AND n.archived_at IS NOT NULL)
            """
        )
        for (job,) in cursor.fetchall():
            yield Withheld(job, USER_DEACTIVATED, _NOTHING)


def _of_archived_clusters() -> Iterator[Withheld]:
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT j.id::text FROM clusters_cluster c JOIN jobs_job j ON j.cluster_id = c.id
            WHERE c.archived_at IS NOT NULL AND j.state = 'queued'
            """
        )
        for (job,) in cursor.fetchall():
            yield Withheld(job, CLUSTER_ARCHIVED, _NOTHING)


def _of_archived_pools() -> Iterator[Withheld]:
    """Yield jobs whose pools are all archived; other jobs may start in the remaining pools.

    The `pool` of a job that accepts several pools is one of these.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT j.id::text FROM clusters_pool p JOIN jobs_job j ON j.pool_id = p.id
            WHERE p.archived_at IS NOT NULL AND j.state = 'queued'
              AND j.pools <@ ARRAY(SELECT id FROM clusters_pool WHERE archived_at IS NOT NULL)
            """
        )
        for (job,) in cursor.fetchall():
            yield Withheld(job, POOL_ARCHIVED, _NOTHING)


def _before_their_begin(now: datetime) -> Iterator[Withheld]:
    with connection.cursor() as cursor:
        # OFFSET 0 makes the planner use the index of begin times. With old statistics it believes
        # that few jobs are queued, and would scan all of them.
        cursor.execute(
            """
            SELECT id::text, extract(epoch FROM begin_at)::bigint
            FROM (SELECT id, begin_at, state FROM jobs_job WHERE begin_at > %s OFFSET 0) AS later
            WHERE state = 'queued'
            """,
            [now],
        )
        for job, begin_at in cursor.fetchall():
            yield Withheld(job, BEGIN_TIME, {"begin_at": begin_at})


def _beyond_their_arrays_limit() -> Iterator[Withheld]:
    """Yield the tasks beyond their array's limit of running tasks.

    Tasks with a claim come first, then tasks with lower indices. Tasks that wait for other jobs do
    not count yet.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT t.array_id, a.max_running, t.id::text, t.state
            FROM jobs_job t
            JOIN jobs_jobarray a ON a.id = t.array_id AND a.max_running IS NOT NULL
            LEFT JOIN jobs_reclaim r ON r.job_id = t.id AND r.closed_at IS NULL
            WHERE t.array_id IS NOT NULL
                AND t.state IN ('queued', 'starting', 'running', 'preempting')
                AND NOT EXISTS (
                    SELECT FROM jobs_dependency d WHERE d.job_id = t.id AND d.closed_at IS NULL)
            ORDER BY t.array_id, r.id IS NULL, t.array_index
            """
        )
        rows = cursor.fetchall()
    for _, tasks in groupby(rows, key=itemgetter(0)):
        yield from _beyond([(most, job, state) for _, most, job, state in tasks])


def _beyond(tasks: Sequence[tuple[int, str, str]]) -> Iterator[Withheld]:
    """Yield the tasks of an array beyond its limit.

    `tasks` are (limit, id, state), in the order in which they are to start.
    """
    most = tasks[0][0]
    active = sum(state in ACTIVE for _, _, state in tasks)
    waiting = [job for _, job, state in tasks if state not in ACTIVE]
    left = max(0, most - active)
    numbers = {
        "tasks_at_once_max": most,
        "tasks_active": active,
        "tasks_first": min(left, len(waiting)),
    }
    for job in waiting[left:]:
        yield Withheld(job, ARRAY_LIMIT_REACHED, numbers)


@all_rows()
def first_tasks(array_ids: Collection[UUID]) -> dict[UUID, FirstTask]:
    """Return by array the task that is to start first.

    The order is that in which tasks are offered. Where no task is offered it is the first started
    task. One query, which does not read the withheld tasks behind it. The caller has found the
    arrays: a policy on each task would be checked before the conditions that keep to this order.
    """
    if not array_ids:
        return {}
    kept = {"kept": ARRAY_LIMIT_REACHED, "waits_for_jobs": DEPENDENCY}
    with connection.cursor() as cursor:
        cursor.execute(_FIRST_TASKS, {"arrays": list(array_ids), **kept})
        return {array_id: FirstTask(*task) for array_id, *task in cursor.fetchall()}


# Ids are in the order of the indices, and index job_open_of_array has the open tasks by id. The
# first queued task without dependencies decides for all behind it: if the limit withholds it, no
# task without a claim is offered. Sub-selects have limits, so that the planner keeps this order
# even with statistics of a then empty table. The condition `t.state || '' = 'queued'` keeps it from
# the indexes of queued jobs, which it would scan whole.
_FIRST_TASKS = """
WITH claimed AS MATERIALIZED (
    SELECT DISTINCT ON (t.array_id) t.array_id, t.id
    FROM jobs_reclaim r
    CROSS JOIN LATERAL (
        SELECT j.id, j.array_id, j.array_index FROM jobs_job j
        WHERE j.id = r.job_id AND j.state = 'queued'
            AND coalesce(j.explanation->>'code', '') NOT IN (%(kept)s, %(waits_for_jobs)s)
        LIMIT 1
    ) t
    WHERE r.closed_at IS NULL AND t.array_id = ANY(%(arrays)s::uuid[])
    ORDER BY t.array_id, t.array_index
)
SELECT t.array_id, t.name, t.state, t.explanation->>'sentence'
FROM unnest(%(arrays)s::uuid[]) AS a (id)
LEFT JOIN claimed ON claimed.array_id = a.id
LEFT JOIN LATERAL (
    SELECT t.id, coalesce(t.explanation->>'code', '') <> %(kept)s AS is_offered
    FROM jobs_job t
    WHERE claimed.id IS NULL AND t.array_id = a.id
        AND t.state IN ('held', 'queued', 'starting', 'running', 'preempting')
        AND t.state || '' = 'queued'
        AND coalesce(t.explanation->>'code', '') <> %(waits_for_jobs)s
    ORDER BY t.id LIMIT 1
) queued ON true
LEFT JOIN LATERAL (
    SELECT t.id FROM jobs_job t
    WHERE claimed.id IS NULL AND queued.is_offered IS NOT TRUE
        AND t.array_id = a.id AND t.state IN ('starting', 'running', 'preempting')
    ORDER BY t.id LIMIT 1
) active ON true
CROSS JOIN LATERAL (
    SELECT j.array_id, j.name, j.state, j.explanation FROM jobs_job j
    WHERE j.id = coalesce(claimed.id, CASE WHEN queued.is_offered THEN queued.id END, active.id)
    LIMIT 1
) t
"""


def limit_sentence(numbers: Mapping[str, int], first: FirstTask) -> str:
    """Return why an array's task is withheld, and what its `first` task does now.

    A cycle stored the numbers. If the first task has started or ended since, its counts would
    contradict the sentence and are left out.
    """
    is_waiting = first.state == "queued"
    is_known = numbers["tasks_first" if is_waiting else "tasks_active"] > 0
    sentence = _limit_sentence(numbers) if is_known else f"{_at_most(numbers)}."
    if not is_waiting:
        return f"{sentence} {first.name} {state_phrase(first.state)}."
    if first.sentence is None:
        comes = "comes before it, and the scheduler has not looked at that task yet."
        return f"{sentence} {first.name} {comes}"
    return f"{sentence} {first.name} comes before it and waits: {first.sentence}"


def withheld_sentence(withheld: Withheld) -> str:
    """Return why the job is not offered, without naming a person or job."""
    if withheld.code == ARRAY_LIMIT_REACHED:
        return _limit_sentence(withheld.numbers)
    if withheld.code == BEGIN_TIME:
        moment = from_epoch(withheld.numbers["begin_at"])
        return f"It begins at {moment:%Y-%m-%d %H:%M:%S} UTC at the earliest."
    if withheld.code == TEAM_ARCHIVED:
        return "Its team is archived. It waits until an administrator restores the team."
    if withheld.code == USER_DEACTIVATED:
        return "Its user is deactivated. It waits until an administrator reactivates the user."
    if withheld.code == CLUSTER_ARCHIVED:
        return "Its cluster is archived. It waits until an administrator restores the cluster."
    if withheld.code == POOL_ARCHIVED:
        return "Its pool is archived. It waits until an administrator restores the pool."
    if withheld.budget is not None:
        return budget_sentence(withheld.budget, withheld.numbers)
    if withheld.cap is not None:
        return cap_sentence(withheld.cap, withheld.numbers)
    if withheld.code == SINGLETON:
        return "It waits for another job of its name."
    count = withheld.numbers["jobs_waited_for"]
    return f"It waits for {count:,} other jobs." if count > 1 else "It waits for another job."


def budget_sentence(budget: BudgetSubject, numbers: Mapping[str, int]) -> str:
    """Return why a budget stops a job, and when the budget has room again, without amounts."""
    moment = from_epoch(numbers["room_at"])
    again = f"It has room again at {moment:%Y-%m-%d %H:%M} UTC at the latest."
    called = f"Budget {budget.name} of {budget.path}"
    if budget.shortage is Shortage.USED_UP:
        return f"{called} is used up, or held by running jobs until they end. {again}"
    if budget.shortage is Shortage.LIMIT_TOO_SMALL:
        return (
            f"{called} is smaller than what this job may use. Give the job a time limit, a shorter "
            "one, or fewer GPUs."
        )
    if budget.shortage is Shortage.TAKEN:
        return f"{called} has too little left beside the jobs before this one. {again}"
    return (
        f"{called} has less left than this job may use. A shorter time limit or fewer GPUs may "
        f"fit. {again}"
    )


def cap_sentence(cap: CapSubject, numbers: Mapping[str, int]) -> str:
    """Return why the cap of its user stops a job, without naming the user."""
    need, in_use = numbers["need_mgpu"], numbers["user_in_use_mgpu"]
    most = numbers["user_cap_mgpu"]
    where = "all pools" if cap.pool is None else cap.pool
    capped = f"Its user may use at most {cap.device.text(most)} of {where} at once in {cap.team}"
    if need > most:
        return (
            f"{capped}, and the job asks for {gpus_text(need)}. A smaller job may fit, or a lead "
            "of the team raises the cap."
        )
    if need + in_use > most:
        return f"{capped}, and uses {gpus_text(in_use)} now."
    return f"{capped}, and uses {gpus_text(in_use)} now. Jobs of this user come first."


def borrowing_sentence(budget: BudgetSubject, numbers: Mapping[str, int]) -> str:
    """Return why a job waits whose team may not borrow any more because of a budget."""
    moment = from_epoch(numbers["room_at"])
    return (
        f"Budget {budget.name} of {budget.path} is used up, so the team cannot borrow GPUs. The "
        f"job starts within the team's guarantee, or when the budget has room again: at "
        f"{moment:%Y-%m-%d %H:%M} UTC at the latest."
    )


def _limit_sentence(numbers: Mapping[str, int]) -> str:
    active, first = numbers["tasks_active"], numbers["tasks_first"]
    sentence = f"{_at_most(numbers)}; {active:,} {'runs' if active == 1 else 'run'} now"
    if first:
        sentence += (
            ", and 1 other comes first" if first == 1 else f", and {first:,} others come first"
        )
    return f"{sentence}."


def _at_most(numbers: Mapping[str, int]) -> str:
    most = numbers["tasks_at_once_max"]
    tasks = "1 task runs" if most == 1 else f"{most:,} tasks run"
    return f"At most {tasks} at once in its array"

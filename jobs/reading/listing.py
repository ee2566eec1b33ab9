"""The jobs on a page of the list.

The statement is written by hand, because building it costs more than running it. The values of the
filter stand in its text, so that the planner can choose among the indexes.

Several conditions may let an actor see a job: own jobs, and the jobs of some teams. Each condition
is a query for a page of its own, with its own index. The page is the first part of their union. One
query with OR would read jobs of all users until it has found enough.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection

from jobs.reading.job_orders import ENDED_AT, Order, Position
from primitives.errors import FieldError, InvalidRequest, NotFound
from tenants.access import PLATFORM, Actor, ids_below, visible_node
from tenants.models import NodeKind
from tenants.roles import Permission
from webapi.statements import prepared_cursor

#: The end of an id, as pages show it: enough of its last group to tell jobs apart.
_END_OF_ID = re.compile(r"[0-9a-f]{4,12}")
#: The beginning of an id, as people copy it: at least its first group.
_START_OF_ID = re.compile(r"[0-9a-f]{8}[0-9a-f-]{0,28}")
_DIGITS_OF_ID = 32
#: Maximum number of conditions. Beyond it, those on teams become one, and those on organizations.
_BRANCHES_MAX = 8
#: Maximum number of users, and of native ids, that one search text finds.
_FOUND_MAX = 100


@dataclass(frozen=True, slots=True)
class JobFilter:
    """A filter of the list of jobs. A member that is None is no condition.

    - `team`: a path, which means its subtree.
    - `search`: a part of the name in any case, the end or the beginning of the id, the beginning of
      the username, or a cluster's own id of an attempt.
    - `submitted_from`, `submitted_before`: a half-open interval `[from, before)`. So are the two of
      the end, which only jobs that ended can meet.
    - `cluster`: of the latest attempt, or of a waiting job that is pinned.
    - `schedule`: the recurring schedule that submitted the job, or its array.
    """

    states: Collection[str] | None = None
    team: str | None = None
    username: str | None = None
    pool: str | None = None
    cluster: str | None = None
    priority_class: str | None = None
    type: str | None = None
    search: str | None = None
    submitted_from: datetime | None = None
    submitted_before: datetime | None = None
    ended_from: datetime | None = None
    ended_before: datetime | None = None
    usage_class: str | None = None
    origin: str | None = None
    array: UUID | None = None
    schedule: UUID | None = None

    def in_states(self, states: Collection[str]) -> JobFilter:
        """Return the filter with these states in place of its own."""
        return replace(self, states=states)


@dataclass(frozen=True, slots=True)
class _Condition:
    """SQL over a job `j`, and its values; `is_wide` says that most jobs meet it."""

    sql: str
    values: Sequence[Any] = ()
    is_wide: bool = False


def page_of_jobs(
    actor: Actor, wanted: JobFilter, *, order: Order, after: Position | None, limit: int
) -> list[Position]:
    """Return the places of at most `limit` visible jobs that come after `after`, in their order.

    They are exactly the jobs of `jobs.access.visible_jobs` that meet the filter. Raises
    InvalidRequest for a team that the actor cannot see.
    """
    branches = _scope(actor, wanted.team)
    conditions = list(_conditions(wanted, actor))
    if after is not None:
        conditions.append(_Condition(*order.after_sql(after)))
    parts: list[str] = []
    values: list[Any] = []
    for branch in branches:
        met = [branch, *conditions]
        where = " AND ".join(part.sql for part in met)
        parts.append(f"({order.select_sql(where, is_wide=branch.is_wide)})")
        values += [value for part in met for value in part.values]
        values += [limit] * order.limits_in(is_wide=branch.is_wide)
    if not parts:
        return []
    page = parts[0]
    if len(parts) > 1:
        page = f"{' UNION '.join(parts)} ORDER BY {order.order_sql} LIMIT %s"
        values.append(limit)
    with connection.cursor() as cursor:
        cursor.execute(page, values)
        return [Position(*row) for row in cursor.fetchall()]


def _scope(actor: Actor, top_path: str | None) -> list[_Condition]:
    """Return the conditions for jobs that the actor may see at or below `top_path`.

    A job must meet one of them. They name organizations and teams by id, so that the indexes of
    jobs serve instead of a join. The organization of a job is that of its team.
    """
    if top_path is None:
        return _seen(actor)
    try:
        top = visible_node(actor, top_path)
    except NotFound as problem:
        raise InvalidRequest(problem.detail, errors=[FieldError("/team", problem.detail)]) from None
    if top.kind == NodeKind.ORGANIZATION:
        below = [_Condition("j.organization_id = %s", [top.pk], is_wide=True)]
    elif top.kind == NodeKind.TEAM:
        below = [_Condition("j.team_id = %s", [top.pk])]
    else:
        below = _one_of("j.team_id", ids_below([top.path], NodeKind.TEAM), _BRANCHES_MAX)
    if actor.holds(Permission.VIEW_JOBS, top.path):
        return below
    seen = _seen(actor)
    if len(below) * len(seen) > _BRANCHES_MAX:
        below = [_any(below)]
    return [
        _Condition(f"{one.sql} AND {other.sql}", [*one.values, *other.values])
        for one in seen
        for other in below
    ]


def _seen(actor: Actor) -> list[_Condition]:
    """Return the conditions of `jobs.access.visible_jobs`."""
    prefixes = actor.prefixes(Permission.VIEW_JOBS)
    if PLATFORM in prefixes:
        return [_Condition("TRUE", is_wide=True)]
    # The path of an organization is one slug, so longer prefixes have no organization below.
    whole = [prefix for prefix in prefixes if prefix.count("/") == 1]
    parts = [prefix for prefix in prefixes if prefix.count("/") > 1]
    own_id = actor.user.organization_id
    organizations = (
        [own_id]
        if own_id is not None and whole == [actor.organization_path]
        else ids_below(whole, NodeKind.ORGANIZATION)
    )
    conditions = _one_of("j.organization_id", organizations, _BRANCHES_MAX)
    conditions += _one_of(
        "j.team_id", ids_below(parts, NodeKind.TEAM), max(1, _BRANCHES_MAX - len(conditions))
    )
    is_member = actor.user.is_active and actor.permits(Permission.VIEW_JOBS)
    # Own jobs are in the own organization, and need no condition if all of it is visible.
    if is_member and own_id not in organizations:
        conditions.append(_Condition("j.user_id = %s", [actor.user.pk]))
    return conditions


def _one_of(column: str, ids: Sequence[UUID], branches_max: int) -> list[_Condition]:
    """Return a condition for each id, or one for all of them if they are too many."""
    if len(ids) > branches_max:
        return [_Condition(f"{column} = ANY(%s)", [list(ids)])]
    is_wide = column == "j.organization_id"
    return [_Condition(f"{column} = %s", [pk], is_wide) for pk in ids]


def _any(conditions: Sequence[_Condition]) -> _Condition:
    return _Condition(
        f"({' OR '.join(f'({part.sql})' for part in conditions)})" if conditions else "FALSE",
        [value for part in conditions for value in part.values],
    )


def _conditions(wanted: JobFilter, actor: Actor) -> Iterator[_Condition]:
    """Yield the conditions of the filter."""
    if wanted.states is not None:
        names = sorted(wanted.states)
        yield _Condition(f"j.state IN ({', '.join(['%s'] * len(names))})", names)
    if wanted.username is not None:
        yield _any(_one_of("j.user_id", _users(wanted.username), 1))
    if wanted.pool is not None:
        yield _Condition(
            "(SELECT id FROM clusters_pool WHERE name = %s) = ANY(j.pool_id || CASE"
            " WHEN j.state IN ('held', 'queued') THEN j.pools ELSE '{}' END)",
            [wanted.pool],
        )
    if wanted.array is not None:
        yield _Condition("j.array_id = %s", [wanted.array])
    if wanted.origin is not None:
        yield _Condition("j.origin = %s", [wanted.origin])
    if wanted.search is not None:
        yield _any(list(_meanings(wanted.search, actor)))
    if wanted.priority_class is not None:
        yield _Condition(
            "j.priority_class_id = ANY(ARRAY(SELECT id FROM quotas_priorityclass WHERE name = %s))",
            [wanted.priority_class],
        )
    if wanted.type is not None:
        yield _Condition("j.type = %s", [wanted.type])
    if wanted.cluster is not None:
        yield _on_cluster(wanted.cluster)
    if wanted.schedule is not None:
        yield _Condition(_OF_SCHEDULE, [wanted.schedule, wanted.schedule])
    if wanted.ended_from is not None:
        yield _Condition(f"{ENDED_AT} >= %s", [wanted.ended_from])
    if wanted.ended_before is not None:
        yield _Condition(f"{ENDED_AT} < %s AND j.ended_at IS NOT NULL", [wanted.ended_before])
    if wanted.submitted_from is not None:
        yield _Condition("j.submitted_at >= %s", [wanted.submitted_from])
    if wanted.submitted_before is not None:
        yield _Condition("j.submitted_at < %s", [wanted.submitted_before])
    if wanted.usage_class is not None:
        yield _Condition(_HOLDS_BORROWED if wanted.usage_class == "borrowed" else _HOLDS_ITS_OWN)


def _meanings(search: str, actor: Actor) -> Iterator[_Condition]:
    """Yield a condition for each thing of a job that a search text may name."""
    # Written as in the index `job_by_part_of_name`.
    pattern = f"%{connection.ops.prep_for_like_query(search)}%"
    yield _Condition("UPPER(j.name::text) LIKE UPPER(%s)", [pattern])
    end = search.lower()
    if _END_OF_ID.fullmatch(end):
        # The first half is written as in the index `job_by_end_of_id`.
        yield _Condition("RIGHT(j.id::text, 4) = %s AND j.id::text LIKE %s", [end[-4:], f"%{end}"])
    digits = end.replace("-", "")
    if _START_OF_ID.fullmatch(end) and len(digits) <= _DIGITS_OF_ID:
        bounds = [UUID(digits.ljust(_DIGITS_OF_ID, fill)) for fill in "0f"]
        yield _Condition("j.id BETWEEN %s AND %s AND j.id::text LIKE %s", [*bounds, f"{end}%"])
    with connection.cursor() as cursor:
        home = actor.user.organization_id
        cursor.execute(_USERS_FOUND, [pattern[1:], home, home, _FOUND_MAX])
        users = [pk for (pk,) in cursor.fetchall()]
        cursor.execute(_NATIVE_IDS_FOUND, [search, search, _FOUND_MAX])
        jobs = [pk for (pk,) in cursor.fetchall()]
    if users:
        yield _Condition("j.user_id = ANY(%s)", [users])
    if jobs:
        yield _Condition("j.id = ANY(%s)", [jobs])


def _on_cluster(name: str) -> _Condition:
    with connection.cursor() as cursor:
        cursor.execute("SELECT id FROM clusters_cluster WHERE name = %s", [name])
        row = cursor.fetchone()
    return _Condition("FALSE") if row is None else _Condition(_ON_CLUSTER, [row[0], row[0]])


_USERS_FOUND = """
SELECT id FROM tenants_user
WHERE UPPER(username) LIKE UPPER(%s) AND (%s::uuid IS NULL OR organization_id = %s)
ORDER BY username LIMIT %s
"""
_NATIVE_IDS_FOUND = """
SELECT job_id FROM jobs_attempt WHERE native_id = %s
UNION SELECT id FROM jobs_job WHERE native_id = %s
LIMIT %s
"""
_ON_CLUSTER = """(
    j.state NOT IN ('held', 'queued') AND EXISTS (
        SELECT 1 FROM jobs_attempt a
        WHERE a.job_id = j.id AND a.number = j.attempt_number AND a.cluster_id = %s
    )
    OR j.state IN ('held', 'queued') AND j.cluster_id = %s
)"""
_OF_SCHEDULE = """(
    j.id = ANY(ARRAY(SELECT job_id FROM jobs_schedulerun WHERE schedule_id = %s))
    OR j.array_id = ANY(ARRAY(
        SELECT f.array_id FROM jobs_schedulerun r JOIN jobs_job f ON f.id = r.job_id
        WHERE r.schedule_id = %s AND f.array_id IS NOT NULL
    ))
)"""
_HOLDS_BORROWED = """EXISTS (
    SELECT 1 FROM jobs_attempt a
    WHERE a.job_id = j.id AND a.released_at IS NULL AND a.guaranteed_mgpu < a.mgpu
)"""
_HOLDS_ITS_OWN = _HOLDS_BORROWED.replace("<", "=")


def _users(username: str) -> list[UUID]:
    """Return the ids of all users with this username: at most one in each organization."""
    with prepared_cursor() as cursor:
        cursor.execute("SELECT id FROM tenants_user WHERE username = %s::text", [username])
        return [pk for (pk,) in cursor.fetchall()]

"""Jobs and teams that budgets stop (R-109).

A budget that stops starts withholds jobs from the arbiter. A job is offered if the most that it may
use fits into the room that is left, together with that of the jobs offered before it. So the starts
of one cycle never exceed a budget. A budget that stops borrowing sets the borrow limits that the
arbiter sees to 0.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from django.db import connection

from arbiter.api.snapshot import Quota
from budgets.models import Policy
from budgets.running import Running, provide
from budgets.stopping import EnforcedBudget, enforced_budgets
from budgets.subtrees import paths_above
from jobs.queue.withholding import BUDGET_EXHAUSTED, BudgetSubject, Shortage, Withheld
from primitives.clock import from_epoch
from tenants.access import under
from tenants.models import Node, NodeKind


@dataclass(frozen=True, slots=True)
class BudgetStops:
    """The jobs and teams that budgets stop at one moment.

    `unborrowing` has the budget that stops borrowing, by team and pool.
    """

    withheld: tuple[Withheld, ...] = ()
    unborrowing: Mapping[tuple[str, str], EnforcedBudget] = field(default_factory=dict)

    def limit(self, quotas: tuple[Quota, ...]) -> tuple[Quota, ...]:
        """Return the quotas with a borrow limit of 0 where borrowing is stopped."""
        if not self.unborrowing:
            return quotas
        limited = [
            Quota(each.node, each.pool, each.guaranteed_mgpu, each.lend_limit_mgpu, 0, each.weight)
            if (each.node, each.pool) in self.unborrowing
            else each
            for each in quotas
        ]
        known = {(each.node, each.pool) for each in quotas}
        limited += [
            Quota(team, pool, 0, None, 0) for team, pool in sorted(self.unborrowing.keys() - known)
        ]
        return tuple(limited)


def budget_stops(now: datetime, withheld: Iterable[Withheld] = ()) -> BudgetStops:
    """Return what budgets stop, as of the caller's transaction. One query without such budgets.

    `withheld` are the jobs that are withheld for other reasons.
    """
    budgets = enforced_budgets(now)
    if not budgets:
        return BudgetStops()
    starts = [one for one in budgets if one.budget.policy == Policy.STOP_STARTS]
    borrowing = [
        one for one in budgets if one.budget.policy == Policy.STOP_BORROWING and one.left <= 0
    ]
    left_out = {item.job for item in withheld}
    return BudgetStops(tuple(_withheld(starts, left_out, now)), _unborrowing(borrowing))


def _unborrowing(
    budgets: Sequence[EnforcedBudget],
) -> dict[tuple[str, str], EnforcedBudget]:
    if not budgets:
        return {}
    found: dict[tuple[str, str], EnforcedBudget] = {}
    with connection.cursor() as cursor:
        cursor.execute("SELECT id FROM clusters_pool ORDER BY id")
        pools = [pool for (pool,) in cursor.fetchall()]
    for one in budgets:
        counted = [str(pool) for pool in pools if one.counts(pool)]
        teams = Node.objects.filter(under([one.budget.node.path], "path"), kind=NodeKind.TEAM)
        for team in teams.values_list("pk", flat=True):
            for pool in counted:
                found.setdefault((str(team), pool), one)
    return found


class _Shape(NamedTuple):
    """The properties of a queued job that budgets read. A queue has few shapes.

    `mgpu` is the most that the job may start with: an elastic one's `node_count` is its most nodes.
    """

    path: str
    user: UUID
    pools: tuple[UUID, ...]
    mgpu: int
    time_limit_s: int | None
    multiplier_ppm: int


def _withheld(
    budgets: Sequence[EnforcedBudget], left_out: Collection[str], now: datetime
) -> Iterable[Withheld]:
    """Yield the queued jobs that do not fit into the room of these budgets.

    Jobs with a claim come first. Then the first jobs of all teams come before the second ones, so
    that one team's queue does not stop the others. Inside a team and pool the order is that of
    priority, submission and id. A job that can never fit takes no room. Jobs in `left_out` are
    not offered anyway.
    """
    if not budgets:
        return
    room = _Room(budgets, now)
    tight = room.tight()
    if not tight:
        return
    room = _Room(tight, now)
    numbers = {one.budget.pk: budget_numbers(one) for one in tight}
    for job, takes_room, shape in _queued_below(tight):
        if job in left_out:
            continue
        binding = room.take(shape, takes_room=takes_room)
        if binding is not None:
            one, needed = binding
            subject = subject_of(one, needed)
            yield Withheld(job, BUDGET_EXHAUSTED, numbers[one.budget.pk], subject)


class _Room:
    """The rest of each budget for the jobs that are still to come."""

    def __init__(self, budgets: Sequence[EnforcedBudget], now: datetime) -> None:
        self._budgets = budgets
        self._left = {one.budget.pk: one.left for one in budgets}
        self._of_node: dict[str, list[EnforcedBudget]] = defaultdict(list)
        for one in budgets:
            self._of_node[one.budget.node.path].append(one)
        self._now = now
        self._known: dict[_Shape, list[tuple[EnforcedBudget, UUID, int]]] = {}

    def tight(self) -> list[EnforcedBudget]:
        """Return the budgets that cannot take all queued jobs. The others stop none of them."""
        demand: dict[UUID, int] = defaultdict(int)
        for shape, count in _shapes_below(self._budgets):
            for _, pk, needed in self._uses(shape):
                demand[pk] += needed * count
        return [one for one in self._budgets if demand[one.budget.pk] > max(0, one.left)]

    def take(self, shape: _Shape, *, takes_room: bool) -> tuple[EnforcedBudget, int] | None:
        """Take what a job may use from its budgets.

        Return the budget that stops the job instead, with the most that the job may use.
        """
        uses = self._uses(shape)
        for one, pk, needed in uses:
            if needed > self._left[pk]:
                return one, needed
        if takes_room:
            for _, pk, needed in uses:
                self._left[pk] -= needed
        return None

    def _uses(self, shape: _Shape) -> list[tuple[EnforcedBudget, UUID, int]]:
        """Return the budgets of which a job may use something, with the most that it may use."""
        if shape not in self._known:
            self._known[shape] = [
                (one, one.budget.pk, needed)
                for path in paths_above(shape.path)
                for one in self._of_node.get(path, ())
                if one.concerns(shape.user, shape.pools)
                and (needed := self._most_used(one, shape)) > 0
            ]
        return self._known[shape]

    def _most_used(self, one: EnforcedBudget, shape: _Shape) -> int:
        return one.most_used(
            shape.pools,
            mgpu=shape.mgpu,
            multiplier_ppm=shape.multiplier_ppm,
            time_limit_s=shape.time_limit_s,
            now=self._now,
        )


def subject_of(one: EnforcedBudget, needed: int) -> BudgetSubject:
    """Return what a sentence says about the budget to a job that may use `needed` of it."""
    if one.left <= 0:
        shortage = Shortage.USED_UP
    else:
        shortage = Shortage.TAKEN if needed <= one.left else Shortage.TOO_SMALL
    return BudgetSubject(one.budget.name, one.budget.node.display_path, shortage)


def budget_numbers(one: EnforcedBudget) -> dict[str, int]:
    """Return the numbers of a reason. Everybody who sees the job reads them, so no amounts."""
    return {"room_at": int(one.room_at.timestamp())}


def _shapes_below(budgets: Iterable[EnforcedBudget]) -> Iterable[tuple[_Shape, int]]:
    """Yield the shapes of the queued jobs below the nodes of `budgets`, with their number."""
    with connection.cursor() as cursor:
        cursor.execute(_SHAPES, _paths(budgets))
        for path, user, pools, *rest, count in cursor.fetchall():
            yield _Shape(path, user, tuple(pools), *rest), count


def _queued_below(budgets: Iterable[EnforcedBudget]) -> Iterable[tuple[str, bool, _Shape]]:
    """Yield the queued jobs below the nodes of `budgets` in their order.

    A job has an id, a flag that is set if it takes room, and a shape.
    """
    with connection.cursor() as cursor:
        cursor.execute(_QUEUED, _paths(budgets))
        for job, takes_room, path, user, pools, *rest in cursor.fetchall():
            yield job, takes_room, _Shape(path, user, tuple(pools), *rest)


def _paths(budgets: Iterable[EnforcedBudget]) -> dict[str, list[str]]:
    return {"paths": sorted({one.budget.node.path for one in budgets})}


_BELOW = """
WITH teams AS MATERIALIZED (
    SELECT n.id, n.path FROM tenants_node n
    WHERE n.kind = 'team' AND EXISTS (
        SELECT FROM unnest(%(paths)s::text[]) AS p (path) WHERE starts_with(n.path, p.path))
)
"""
_SHAPE = """
t.path, j.user_id, CASE WHEN cardinality(j.pools) > 0 THEN j.pools ELSE ARRAY[j.pool_id] END,
j.mgpu_per_node * j.node_count, j.time_limit_s, c.price_multiplier_ppm
"""
# Jobs that wait for others are not offered anyway. They may be many.
_OFFERED = """
j.state = 'queued'
AND NOT EXISTS (SELECT FROM jobs_dependency d WHERE d.job_id = j.id AND d.closed_at IS NULL)
"""
_SHAPES = f"""
{_BELOW}
SELECT {_SHAPE}, count(*)
FROM jobs_job j
JOIN teams t ON t.id = j.team_id
JOIN quotas_priorityclass c ON c.id = j.priority_class_id
WHERE {_OFFERED}
GROUP BY 1, 2, 3, 4, 5, 6
"""  # noqa: S608 - made of constants only
_QUEUED = f"""
{_BELOW}
SELECT j.id::text, coalesce(j.explanation ->> 'code', '') <> 'never_fits', {_SHAPE}
FROM jobs_job j
JOIN teams t ON t.id = j.team_id
JOIN quotas_priorityclass c ON c.id = j.priority_class_id
LEFT JOIN jobs_reclaim r ON r.job_id = j.id AND r.closed_at IS NULL
WHERE {_OFFERED}
ORDER BY r.id IS NULL,
         row_number() OVER (
             PARTITION BY j.team_id, j.pool_id ORDER BY c."order" DESC, j.submitted_at, j.id),
         c."order" DESC, j.submitted_at, j.id
"""  # noqa: S608 - made of constants only


def attempts_on_gpus(organization: UUID, granted_since: datetime | None) -> list[Running]:
    """Return the attempts of an organization that use GPUs, as `budgets.running` asks for them."""
    with connection.cursor() as cursor:
        cursor.execute(_RUNNING, {"organization": organization, "since": granted_since})
        return [
            Running(
                attempt,
                from_epoch(granted_at),
                team,
                user,
                pool,
                guaranteed_mgpu,
                borrowed_mgpu,
                multiplier_ppm,
                None if ends_at is None else from_epoch(ends_at),
            )
            for (
                attempt,
                granted_at,
                team,
                user,
                pool,
                guaranteed_mgpu,
                borrowed_mgpu,
                multiplier_ppm,
                ends_at,
            ) in cursor.fetchall()
        ]


_RUNNING = """
SELECT a.id, extract(epoch FROM a.granted_at)::bigint, j.team_id, j.user_id, j.pool_id,
       a.guaranteed_mgpu, greatest(0, a.mgpu - a.guaranteed_mgpu), c.price_multiplier_ppm,
       extract(epoch FROM coalesce(a.started_at, a.granted_at))::bigint + j.time_limit_s
FROM jobs_attempt a
JOIN jobs_job j ON j.id = a.job_id
JOIN quotas_priorityclass c ON c.id = j.priority_class_id
WHERE a.released_at IS NULL AND a.state <> 'ended' AND j.organization_id = %(organization)s
  AND (%(since)s::timestamptz IS NULL OR a.granted_at > %(since)s::timestamptz)
ORDER BY a.id
"""


def register() -> None:
    """Tell budgets how to read running attempts."""
    provide(attempts_on_gpus)

"""Jobs and teams that budgets stop (R-109).

A budget that stops starts withholds jobs from the arbiter. A job is offered if the most that it may
use fits into the room that is left, together with that of the jobs offered before it. So the starts
of one cycle never exceed a budget. A budget that stops borrowing sets the borrow limits that the
arbiter sees to 0.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from django.db import connection

from arbiter.api.snapshot import Quota
from budgets.models import Policy
from budgets.running import Running, provide
from budgets.stopping import CurrentBudget, enforced_budgets
from budgets.subtrees import paths_above
from jobs.queue.withholding import BUDGET_EXHAUSTED, BudgetSubject, Shortage, Withheld
from primitives.clock import from_epoch
from tenants.access import under
from tenants.models import Node, NodeKind


class JobShape(NamedTuple):
    """The properties of a queued job that budgets read. A queue has few shapes.

    `mgpu` is the most that the job may start with: an elastic one's `node_count` is its most nodes.
    """

    path: str
    user: UUID
    pools: tuple[UUID, ...]
    mgpu: int
    time_limit_s: int | None
    multiplier_ppm: int


class WantedJob(NamedTuple):
    """A job that is not submitted yet; `order` is that of its priority class."""

    id: str
    team: UUID
    pool: UUID
    order: int
    submitted_at: datetime
    shape: JobShape


@dataclass(frozen=True, slots=True)
class BudgetStops:
    """The budgets that stop jobs and borrowing at one moment.

    - `unborrowing`: the budget that stops borrowing, by team and pool.
    - `starts`: all budgets that stop starts.
    """

    unborrowing: Mapping[tuple[str, str], CurrentBudget] = field(default_factory=dict)
    starts: Sequence[CurrentBudget] = ()

    def withheld(
        self, left_out: Collection[str], now: datetime, wanted: WantedJob | None = None
    ) -> tuple[Withheld, ...]:
        """Return the queued jobs that budgets stop. No query without such budgets.

        `left_out` are the jobs that are withheld for other reasons. `wanted` is taken for queued.
        """
        return tuple(_withheld(self.starts, left_out, now, wanted))

    def limit(self, quotas: tuple[Quota, ...]) -> tuple[Quota, ...]:
        """Return the quotas of all teams with a borrow limit of 0 where borrowing is stopped."""
        if not self.unborrowing:
            return quotas
        known = {(each.node, each.pool) for each in quotas}
        missing = sorted(self.unborrowing.keys() - known)
        return (*self.limit_some(quotas), *(Quota(*one, 0, None, 0) for one in missing))

    def limit_some(self, quotas: Iterable[Quota]) -> tuple[Quota, ...]:
        """Return these quotas with a borrow limit of 0 where borrowing is stopped."""
        return tuple(
            replace(each, borrow_limit_mgpu=0)
            if (each.node, each.pool) in self.unborrowing
            else each
            for each in quotas
        )


def budget_stops(now: datetime) -> BudgetStops:
    """Return the budgets that stop something, as of the caller's transaction. One query without."""
    budgets = enforced_budgets(now)
    if not budgets:
        return BudgetStops()
    starts = [one for one in budgets if one.budget.policy == Policy.STOP_STARTS]
    borrowing = [
        one for one in budgets if one.budget.policy == Policy.STOP_BORROWING and one.left <= 0
    ]
    return BudgetStops(_unborrowing(borrowing), starts)


def _unborrowing(
    budgets: Sequence[CurrentBudget],
) -> dict[tuple[str, str], CurrentBudget]:
    if not budgets:
        return {}
    found: dict[tuple[str, str], CurrentBudget] = {}
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


def _withheld(
    budgets: Sequence[CurrentBudget],
    left_out: Collection[str],
    now: datetime,
    wanted: WantedJob | None = None,
) -> Iterable[Withheld]:
    """Yield the queued jobs that do not fit into the room of these budgets.

    Jobs with a claim come first. Then the first jobs of all teams come before the second ones, so
    that one team's queue does not stop the others. Inside a team and pool the order is that of
    priority, submission and id. A job that can never fit takes no room. Jobs in `left_out` are
    not offered anyway. `wanted` is taken for a queued job.
    """
    if not budgets:
        return
    tight = _Remainders(budgets, now).tight(wanted)
    if not tight:
        return
    remainders = _Remainders(tight, now)
    numbers = {one.budget.pk: budget_numbers(one) for one in tight}
    for job, takes_room, shape in _queued_below(tight, wanted):
        if job in left_out:
            continue
        binding = remainders.take(shape, takes_room=takes_room)
        if binding is not None:
            one, needed = binding
            subject = subject_of(one, needed)
            yield Withheld(job, BUDGET_EXHAUSTED, numbers[one.budget.pk], subject)


class _Remainders:
    """The rest of each budget for the jobs that are still to come."""

    def __init__(self, budgets: Sequence[CurrentBudget], now: datetime) -> None:
        self._budgets = budgets
        self._left = {one.budget.pk: one.left for one in budgets}
        self._of_node: dict[str, list[CurrentBudget]] = defaultdict(list)
        for one in budgets:
            self._of_node[one.budget.node.path].append(one)
        self._now = now
        self._known: dict[JobShape, list[tuple[CurrentBudget, UUID, int]]] = {}

    def tight(self, wanted: WantedJob | None) -> list[CurrentBudget]:
        """Return the budgets that cannot take all queued jobs. The others stop none of them."""
        demand: dict[UUID, int] = defaultdict(int)
        shapes = _shapes_below(self._budgets)
        for shape, count in shapes if wanted is None else (*shapes, (wanted.shape, 1)):
            for _, pk, needed in self._uses(shape):
                demand[pk] += needed * count
        return [one for one in self._budgets if demand[one.budget.pk] > max(0, one.left)]

    def take(self, shape: JobShape, *, takes_room: bool) -> tuple[CurrentBudget, int] | None:
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

    def _uses(self, shape: JobShape) -> list[tuple[CurrentBudget, UUID, int]]:
        """Return the budgets of which a job may use something, with the most that it may use."""
        if shape not in self._known:
            self._known[shape] = [
                (one, one.budget.pk, needed)
                for path in paths_above(shape.path)
                for one in self._of_node.get(path, ())
                if one.concerns(shape.user, shape.pools)
                and (needed := most_used(one, shape, self._now)) > 0
            ]
        return self._known[shape]


def most_used(one: CurrentBudget, shape: JobShape, now: datetime) -> int:
    """Return the most that a job uses of a budget that concerns it, if it starts now."""
    return one.most_used(
        shape.pools,
        mgpu=shape.mgpu,
        multiplier_ppm=shape.multiplier_ppm,
        time_limit_s=shape.time_limit_s,
        now=now,
    )


def subject_of(one: CurrentBudget, needed: int) -> BudgetSubject:
    """Return what a sentence says about the budget to a job that may use `needed` of it."""
    if needed > one.budget.limit:
        shortage = Shortage.LIMIT_TOO_SMALL
    elif one.left <= 0:
        shortage = Shortage.USED_UP
    else:
        shortage = Shortage.TAKEN if needed <= one.left else Shortage.TOO_SMALL
    return BudgetSubject(one.budget.name, one.budget.node.display_path, shortage)


def budget_numbers(one: CurrentBudget) -> dict[str, int]:
    """Return the numbers of a reason. Everybody who sees the job reads them, so no amounts."""
    return {"room_at": int(one.room_at.timestamp())}


def _shapes_below(budgets: Iterable[CurrentBudget]) -> Iterable[tuple[JobShape, int]]:
    """Yield the shapes of the queued jobs below the nodes of `budgets`, with their number."""
    with connection.cursor() as cursor:
        cursor.execute(_SHAPES, _paths(budgets))
        for path, user, pools, *rest, count in cursor.fetchall():
            yield JobShape(path, user, tuple(pools), *rest), count


def _queued_below(
    budgets: Iterable[CurrentBudget], wanted: WantedJob | None
) -> Iterable[tuple[str, bool, JobShape]]:
    """Yield the queued jobs below the nodes of `budgets` in their order, `wanted` among them.

    A job has an id, a flag that is set if it takes room, and a shape.
    """
    with connection.cursor() as cursor:
        if wanted is None:
            cursor.execute(_QUEUED, _paths(budgets))
        else:
            shape = {**wanted.shape._asdict(), "pools": list(wanted.shape.pools)}
            values = {**wanted._asdict(), **shape, **_paths(budgets)}
            cursor.execute(_QUEUED_WITH_WANTED, values)
        for job, takes_room, path, user, pools, *rest in cursor.fetchall():
            yield job, takes_room, JobShape(path, user, tuple(pools), *rest)


def _paths(budgets: Iterable[CurrentBudget]) -> dict[str, list[str]]:
    return {"paths": sorted({one.budget.node.path for one in budgets})}


_BELOW = """
WITH teams AS MATERIALIZED (
    SELECT n.id, n.path FROM tenants_node n
    WHERE n.kind = 'team' AND EXISTS (
        SELECT FROM unnest(%(paths)s::text[]) AS p (path) WHERE starts_with(n.path, p.path))
)
"""
_SHAPE = """
t.path, j.user_id,
CASE WHEN cardinality(j.pools) > 0 THEN j.pools ELSE ARRAY[j.pool_id] END AS pools,
j.mgpu_per_node * j.node_count AS mgpu, j.time_limit_s, c.price_multiplier_ppm
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
_JOBS = f"""
SELECT j.id::text COLLATE "C" AS id,
       coalesce(j.explanation ->> 'code', '') <> 'never_fits' AS takes_room, {_SHAPE},
       j.team_id, j.pool_id, c."order", j.submitted_at, r.id IS NULL AS is_unclaimed
FROM jobs_job j
JOIN teams t ON t.id = j.team_id
JOIN quotas_priorityclass c ON c.id = j.priority_class_id
LEFT JOIN jobs_reclaim r ON r.job_id = j.id AND r.closed_at IS NULL
WHERE {_OFFERED}
"""  # noqa: S608 - made of constants only
# In the order of the columns of _JOBS.
_WANTED = """
SELECT %(id)s, true, %(path)s, %(user)s::uuid, %(pools)s::uuid[], %(mgpu)s::bigint,
       %(time_limit_s)s::bigint, %(multiplier_ppm)s::bigint,
       %(team)s::uuid, %(pool)s::uuid, %(order)s::bigint, %(submitted_at)s::timestamptz, true
"""


def _ordered(jobs: str) -> str:
    return f"""
    {_BELOW}
    SELECT id, takes_room, path, user_id, pools, mgpu, time_limit_s, price_multiplier_ppm
    FROM ({jobs}) AS j
    ORDER BY is_unclaimed,
             row_number() OVER (
                 PARTITION BY team_id, pool_id ORDER BY "order" DESC, submitted_at, id),
             "order" DESC, submitted_at, id
    """  # noqa: S608 - made of constants only


_QUEUED = _ordered(_JOBS)
_QUEUED_WITH_WANTED = _ordered(f"{_JOBS} UNION ALL {_WANTED}")


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

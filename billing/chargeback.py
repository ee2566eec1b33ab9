"""The chargeback report: usage and cost of a period, and the jobs behind them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any, Literal, TypedDict
from uuid import UUID

from billing import usage_sql
from billing.amounts import SHIFTS, Amounts, total_of
from billing.capacity import (
    PoolCapacity,
    WithheldPool,
    capacity_of,
    capacity_scope,
    withheld_pools,
)
from billing.models import RateLine, UsageClass
from billing.periods import Period
from billing.queries import corrections_in
from billing.scopes import (
    EVERY_ATTEMPT,
    AttemptFilter,
    currencies_of,
    nodes_of,
    pools_named,
    scope_of,
    span_in,
    team_and_pool,
    teams_of,
)
from billing.usage_sql import POOLS_MAX, REPORT, rows_of
from clusters.models import Pool
from primitives.errors import FieldError, InvalidRequest
from primitives.units import DeviceKind
from tenants.access import Actor
from tenants.models import Node
from tenants.places import Place, placed_between, places_of, visible_place
from tenants.roles import Permission

GroupBy = Literal["team", "department"]


@dataclass(frozen=True, slots=True)
class Row:
    """The use of one pool by one node. An organization or department includes its whole subtree.

    `currency` is that of the organization's rate card, or None.
    """

    node: Node
    pool: str
    device: DeviceKind
    amounts: Amounts
    currency: str | None


@dataclass(frozen=True, slots=True)
class DayUse:
    """Usage of one pool on one day, UTC."""

    day: date
    pool: str
    device: DeviceKind
    guaranteed_mgpu_s: int
    borrowed_mgpu_s: int
    unpaid_mgpu_s: int
    fault_mgpu_s: int


@dataclass(frozen=True, slots=True)
class Sums:
    """Totals of some organizations, overall and for each kind of devices that they used.

    Hours of cores and GPUs have different units, so their sum has no meaning for a reader.
    `segments_mgpu_s` is summed from the segments, without rating and grouping, as a check.
    """

    totals: Amounts
    totals_by_device: Mapping[DeviceKind, Amounts]
    segments_mgpu_s: int


@dataclass(frozen=True, slots=True)
class CurrencySums(Sums):
    """Sums of the organizations (slugs) with one currency.

    `currency` is None if no rate card applies.
    """

    currency: str | None
    organizations: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Report(Sums):
    """A chargeback report.

    `team_rows` sum to the totals, and those of one kind of devices to the totals by device. The
    number of jobs is an exception: a job in several pools counts once. `rows` are the requested
    rows.

    `by_currency` has at least one item. Costs of several currencies cannot be added. So the costs
    in the totals only have a meaning with one currency.
    """

    period: Period
    rows: tuple[Row, ...]
    team_rows: tuple[Row, ...]
    by_currency: tuple[CurrencySums, ...]
    days: tuple[DayUse, ...]
    capacity: tuple[PoolCapacity, ...]
    withheld: tuple[WithheldPool, ...]
    #: Prices that were added after they had applied in the period. Empty with `priced_at`.
    corrections: tuple[RateLine, ...]
    #: All costs are hypothetical: at the prices of this moment. None: costs as charged.
    priced_at: datetime | None

    @property
    def currency(self) -> str | None:
        """Return the currency of all costs; None if there are several, or no rate card."""
        return self.by_currency[0].currency if len(self.by_currency) == 1 else None


@dataclass(frozen=True, slots=True)
class JobUse:
    """Usage of one job in one usage class, in milli-GPU-seconds and nano-currency.

    `faults` are the reasons of use in the class `fault` (`billing.models.FaultReason`).
    """

    job_id: UUID
    name: str
    team: str
    user: str
    pool: str
    device: DeviceKind
    usage_class: UsageClass
    mgpu_s: int
    cost_nano: int
    attempts: int
    faults: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class JobKey:
    """The end of a page of jobs: the last job's usage, id, class, path of its team, and pool."""

    mgpu_s: int
    job_id: UUID
    usage_class: UsageClass
    team: str
    pool: str


def chargeback(
    *,
    actor: Actor,
    period: Period,
    node_path: str | None = None,
    group_by: GroupBy = "team",
    pool_name: str | None = None,
    priced_at: datetime | None = None,
) -> Report:
    """Return the report of `period` for all nodes below `node_path` whose costs the actor may see.

    With `group_by` department it lists organizations, departments and teams, parents first, each
    with the sum of its subtree. Use before a team was moved has its own row, with the path of that
    time. It counts for the former parents. A node above the visible ones has no row, because its
    partial sum would look like the whole. Organizations with different currencies are summed
    separately. With `priced_at`, all usage costs what it would at the prices of that moment.

    Takes at most twelve queries. Raises Forbidden without the right to see costs, and NotFound
    for a node or pool that is invisible or does not exist.
    """
    top = visible_place(actor, node_path, Permission.VIEW_COSTS) if node_path is not None else None
    places = placed_between(actor, Permission.VIEW_COSTS, period.start, period.end, below=top)
    nodes = nodes_of(places)
    pools = pools_named(pool_name)
    charged = sorted({node.organization_id for node in nodes})
    currencies = currencies_of(charged)
    scope = capacity_scope(actor, pools)
    found = rows_of(
        REPORT,
        {
            **scope_of(places, nodes, pools, period),
            "priced_at": priced_at,
            **_elsewhere(places, period),
            "capacity_pools": scope.pools,
            "organizations": scope.organizations,
            "shifts": [SHIFTS[pool.kind] for pool in pools.values()],
            "charged": charged,
        },
    )
    teams, names = teams_of(nodes), list(pools.values())
    team_rows = _team_rows(found, teams, names, currencies)
    used_mgpu_s: dict[str, int] = {}
    for row in team_rows:
        used_mgpu_s[row.pool] = used_mgpu_s.get(row.pool, 0) + row.amounts.mgpu_s
    capacity = capacity_of(found, names, scope, used_mgpu_s)
    return Report(
        period=period,
        rows=_tree_rows(team_rows, nodes) if group_by == "department" else team_rows,
        team_rows=team_rows,
        **_sums(team_rows, found),
        by_currency=_by_currency(team_rows, found, charged, currencies),
        days=_days(found, names),
        capacity=capacity,
        withheld=withheld_pools(names, capacity, scope, charged, period, used_mgpu_s),
        corrections=corrections_in(period, charged, pools) if priced_at is None else (),
        priced_at=priced_at,
    )


def jobs_behind(
    *,
    actor: Actor,
    period: Period,
    node_path: str,
    pool_name: str | None = None,
    usage_class: UsageClass | None = None,
    attempts: AttemptFilter = EVERY_ATTEMPT,
    after: JobKey | None = None,
    limit: int,
) -> tuple[list[JobUse], bool]:
    """Return at most `limit` jobs behind a node's number, largest first, and whether more follow.

    Over all pages, the sums exactly equal the report's row with the same period and `as_of`. A job
    with usage in several classes is listed once for each. Raises as `chargeback`, and Forbidden
    also without the right to see the jobs.
    """
    wanted = list(UsageClass) if usage_class is None else [usage_class]
    top = visible_place(actor, node_path, Permission.VIEW_COSTS, Permission.VIEW_JOBS)
    places = placed_between(actor, Permission.VIEW_COSTS, period.start, period.end, below=top)
    nodes = nodes_of(places)
    pools = pools_named(pool_name)
    teams, names = teams_of(nodes), list(pools.values())
    condition, narrowed = attempts.condition({node.organization_id for node in nodes})
    found = rows_of(
        usage_sql.jobs(condition),
        {
            **scope_of(places, nodes, pools, period),
            **narrowed,
            "priced_at": None,
            "classes": [_CLASS_NUMBERS[item] for item in wanted],
            "after_mgpu_s": after and after.mgpu_s,
            "after_job": after and after.job_id,
            "after_class": after and _CLASS_NUMBERS[after.usage_class],
            "after_account": after and _account(after, teams, names),
            "limit": limit + 1,
        },
    )
    jobs = [_job_use(row, teams, names) for row in found]
    return jobs[:limit], len(jobs) > limit


_CLASS_NUMBERS = {usage_class: number for number, usage_class in enumerate(UsageClass, 1)}


def _job_use(row: Sequence[Any], teams: Sequence[Node], pools: Sequence[Pool]) -> JobUse:
    job_id, name, username, account, usage_class, mgpu_s, cost_nano, attempts, faults = row
    team, pool = team_and_pool(account, teams, pools)
    return JobUse(
        job_id=job_id,
        name=name,
        team=team.display_path,
        user=username,
        pool=pool.name,
        device=pool.kind,
        usage_class=list(UsageClass)[usage_class - 1],
        mgpu_s=int(mgpu_s),
        cost_nano=int(cost_nano),
        attempts=attempts,
        faults=tuple(faults or ()),
    )


def _account(key: JobKey, teams: Sequence[Node], pools: Sequence[Pool]) -> int:
    """Return the number of the key's account. Raises InvalidRequest where it no longer exists."""
    paths, names = [team.display_path for team in teams], [pool.name for pool in pools]
    if key.team not in paths or key.pool not in names:
        raise InvalidRequest(
            f"The last page ended with {key.team} in {key.pool}, which is no longer in this list. "
            "Start again without the cursor.",
            errors=[FieldError("/cursor", "is of a list that has changed")],
        )
    return (paths.index(key.team) + 1) * POOLS_MAX + names.index(key.pool) + 1


def _elsewhere(places: Sequence[Place], period: Period) -> dict[str, Any]:
    """Return the parameters with the other places of the report's teams in its period."""
    known = {(place.node.pk, place.node.path) for place in places}
    moved = {place.node.pk for place in places if place.start or place.end}
    spans = [
        (place.node.pk, *span)
        for place in places_of(moved)
        if (place.node.pk, place.node.path) not in known
        and (span := span_in(place, period)) is not None
    ]
    return {
        "other_teams": [team for team, _, _ in spans],
        "other_since": [since for _, since, _ in spans],
        "other_until": [until for _, _, until in spans],
    }


def _team_rows(
    found: Iterable[Sequence[Any]],
    teams: Sequence[Node],
    pools: Sequence[Pool],
    currencies: Mapping[UUID, str],
) -> tuple[Row, ...]:
    rows = []
    for row in found:
        if row[0] == "row":
            team, pool = team_and_pool(row[1], teams, pools)
            amounts = Amounts(*(int(value) for value in row[3:]))
            currency = currencies.get(team.organization_id)
            rows.append(Row(team, pool.name, pool.kind, amounts, currency))
    return tuple(sorted(rows, key=lambda row: (row.node.path, row.pool)))


class _SumFields(TypedDict):
    totals: Amounts
    totals_by_device: Mapping[DeviceKind, Amounts]
    segments_mgpu_s: int


def _by_currency(
    team_rows: Collection[Row],
    found: Sequence[Sequence[Any]],
    charged: Sequence[UUID],
    currencies: Mapping[UUID, str],
) -> tuple[CurrencySums, ...]:
    """Sum the organizations of each currency, sorted by its code.

    Organizations without a rate card cost nothing. So they have their own item only if there are
    several currencies. A period without usage has one item, with the currency if there is only one.
    """
    slugs = {row.node.organization_id: row.node.display_path.split("/")[0] for row in team_rows}
    wanted = sorted({currencies[pk] for pk in slugs or charged if pk in currencies})
    if len(wanted) < 2 or not slugs:
        only = wanted[0] if len(wanted) == 1 else None
        names = tuple(sorted(slugs.values()))
        return (CurrencySums(**_sums(team_rows, found), currency=only, organizations=names),)
    parts = []
    for currency in [*wanted, None]:
        members = {pk for pk in slugs if currencies.get(pk) == currency}
        if members:
            rows = [row for row in team_rows if row.node.organization_id in members]
            places = {place for place, pk in enumerate(charged, 1) if pk in members}
            theirs = [row for row in found if row[0] in ("jobs", "check") and row[2] in places]
            names = tuple(sorted(slugs[pk] for pk in members))
            parts.append(
                CurrencySums(**_sums(rows, theirs), currency=currency, organizations=names)
            )
    return tuple(parts)


def _sums(team_rows: Collection[Row], found: Collection[Sequence[Any]]) -> _SumFields:
    """Sum the rows of teams, with the jobs and the check of `found`."""
    counts = [(row[1], int(row[3])) for row in found if row[0] == "jobs"]
    return {
        "totals": total_of([row.amounts for row in team_rows], list(DeviceKind), counts),
        "totals_by_device": {
            kind: total_of([row.amounts for row in team_rows if row.device is kind], [kind], counts)
            for kind in DeviceKind
            if any(row.device is kind for row in team_rows)
        },
        "segments_mgpu_s": sum(int(row[3]) for row in found if row[0] == "check"),
    }


def _tree_rows(team_rows: Iterable[Row], nodes: Sequence[Node]) -> tuple[Row, ...]:
    by_path = {node.path: node for node in nodes}
    sums: dict[tuple[str, str, DeviceKind], Row] = {}
    for row in team_rows:
        for path in _paths_up(row.node.path):
            if path in by_path:
                key = (path, row.pool, row.device)
                before = sums[key].amounts if key in sums else Amounts()
                sums[key] = replace(row, node=by_path[path], amounts=before + row.amounts)
    return tuple(sums[key] for key in sorted(sums))


def _paths_up(path: str) -> Iterable[str]:
    """Return the path itself and those of all nodes above it."""
    steps = path.rstrip("/").split("/")
    return ("/".join(steps[:depth]) + "/" for depth in range(len(steps), 0, -1))


def _days(found: Iterable[Sequence[Any]], pools: Sequence[Pool]) -> tuple[DayUse, ...]:
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    days = []
    for part, number, since_epoch, *amounts in found:
        if part == "day":
            pool, day = pools[number - 1], (epoch + timedelta(days=since_epoch)).date()
            used = (int(mgpu_s) for mgpu_s in amounts[: len(UsageClass)])
            days.append(DayUse(day, pool.name, pool.kind, *used))
    return tuple(sorted(days, key=lambda day: (day.day, day.pool)))

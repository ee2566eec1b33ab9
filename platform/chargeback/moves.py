"""The change of costs between two periods, in parts that sum to it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import astuple, dataclass, replace
from datetime import date, datetime, time
from itertools import chain
from uuid import UUID
from zoneinfo import ZoneInfo

from billing.amounts import Amounts
from billing.models import UsageClass
from billing.periods import Period
from chargeback.dimensions import Dimension
from chargeback.reports import (
    EVERYTHING,
    Asked,
    GroupedReport,
    Narrowed,
    grouped_report,
    zone_for,
)
from primitives.days import midnight
from primitives.units import div_half_even
from tenants.access import Actor
from tenants.models import NodeKind
from tenants.places import nodes_by_path


@dataclass(frozen=True, slots=True)
class Move:
    """The costs of two periods, and the parts of their difference, in nano-currency.

    - price: the use of the second period at its prices, less the same at those of the first.
    - volume: more or less use, at the mean price of the first period.
    - usage_class: another mix of guaranteed, borrowed, unpaid and free use.
    - new and ended: teams with use in one of the periods only.
    """

    before_nano: int = 0
    after_nano: int = 0
    price_nano: int = 0
    volume_nano: int = 0
    usage_class_nano: int = 0
    new_nano: int = 0
    ended_nano: int = 0

    def __add__(self, other: Move) -> Move:
        """Return the sums of both."""
        return Move(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

    @property
    def change_nano(self) -> int:
        """Return the difference, which is the sum of the parts."""
        return self.after_nano - self.before_nano


@dataclass(frozen=True, slots=True)
class TeamMove:
    """The move of a team, by its path, in one currency."""

    team: str
    currency: str | None
    move: Move


@dataclass(frozen=True, slots=True)
class Moves:
    """The moves of all teams, the largest changes first, and the sum of each currency."""

    before: Period
    after: Period
    time_zone: str
    rows: tuple[TeamMove, ...]
    totals: Mapping[str | None, Move]


def moves_between(
    *,
    actor: Actor,
    asked: Asked,
    narrowed: Narrowed = EVERYTHING,
    now: datetime,
) -> Moves:
    """Return what moved from the period before the asked one.

    Before whole months of the organization's zone are as many months, before days as many days. A
    period that still runs is compared with as much time of the one before. Nothing has moved before
    a period begins. A team that got another place stays one team, by its latest path in the report.
    Raises as `grouped_report`.
    """
    zone = zone_for(actor, narrowed.node_path)
    period = asked.period(zone, now)
    start, end = period_before(period, zone)
    if period.until <= period.start:
        return Moves(Period(start, end, period.as_of), period, zone.key, (), {})
    end = min(end, start + (period.until - period.start))
    first, second = (
        grouped_report(
            actor=actor,
            by=[Dimension.TEAM, Dimension.POOL],
            asked=each,
            narrowed=narrowed,
            now=now,
        )
        for each in (Asked(start, end, period.as_of), replace(asked, as_of=period.as_of))
    )
    names = _names(first, second)
    rows = team_moves(_by_team(first, names), _by_team(second, names))
    totals: dict[str | None, Move] = {}
    for row in rows:
        totals[row.currency] = totals.get(row.currency, Move()) + row.move
    return Moves(first.period, second.period, zone.key, rows, totals)


def period_before(period: Period, zone: ZoneInfo) -> tuple[datetime, datetime]:
    """Return the period of the same kind that ends where this one starts."""
    start, end = period.start.astimezone(zone), period.end.astimezone(zone)
    if start.time() != time() or end.time() != time():
        return period.start - (period.end - period.start), period.start
    first = start.date() - (end.date() - start.date())
    if start.day == end.day == 1:
        months = start.year * 12 + start.month - 1
        months -= end.year * 12 + end.month - 1 - months
        first = date(months // 12, months % 12 + 1, 1)
    return midnight(first, zone), period.start


Pools = Mapping[str, Amounts]


def team_moves(
    before: Mapping[tuple[str, str | None], Pools], after: Mapping[tuple[str, str | None], Pools]
) -> tuple[TeamMove, ...]:
    """Return the moves of teams (path and currency), from their use of each pool."""
    rows = [
        TeamMove(team, currency, _move(before.get((team, currency)), after.get((team, currency))))
        for team, currency in before.keys() | after.keys()
    ]
    return tuple(sorted(rows, key=lambda row: (-abs(row.move.change_nano), row.team)))


def _names(*reports: GroupedReport) -> dict[str, str]:
    """Return the latest path of each team in the reports, by each of its paths there."""
    paths = [list(dict.fromkeys(row.keys[0] for row in report.rows)) for report in reports]
    nodes = nodes_by_path({path for each in paths for path in each}, NodeKind.TEAM)
    latest: dict[UUID, str] = {}
    for path in chain.from_iterable(paths):
        node = nodes[path]
        if latest.get(node.pk) != node.display_path:
            latest[node.pk] = path
    return {path: latest[node.pk] for path, node in nodes.items()}


def _by_team(
    report: GroupedReport, names: Mapping[str, str]
) -> dict[tuple[str, str | None], dict[str, Amounts]]:
    teams: dict[tuple[str, str | None], dict[str, Amounts]] = defaultdict(dict)
    for row in report.rows:
        path, pool = row.keys
        pools = teams[names[path], row.currency]
        pools[pool] = pools.get(pool, Amounts()) + row.amounts
    return teams


def _move(before: Pools | None, after: Pools | None) -> Move:
    costs = [
        sum(amounts.cost_nano for amounts in (pools or {}).values()) for pools in (before, after)
    ]
    if before is None:
        return Move(after_nano=costs[1], new_nano=costs[1])
    if after is None:
        return Move(before_nano=costs[0], ended_nano=-costs[0])
    none = Amounts()
    pairs = [
        (before.get(pool, none), after.get(pool, none)) for pool in before.keys() | after.keys()
    ]
    return sum((_move_in_pool(*pair) for pair in pairs), Move())


def _move_in_pool(before: Amounts, after: Amounts) -> Move:
    """Return the move of use, and of commitments and top-ups by their quantity and price."""
    return (
        _move_of_use(before, after)
        + _move_of_quantity(
            (before.commitment_mgpu_s, before.commitment_cost_nano),
            (after.commitment_mgpu_s, after.commitment_cost_nano),
        )
        + _move_of_quantity(
            (before.top_up_mgpu_s, before.top_up_cost_nano),
            (after.top_up_mgpu_s, after.top_up_cost_nano),
        )
    )


def _move_of_quantity(before: tuple[int, int], after: tuple[int, int]) -> Move:
    at_first_price = after[1]
    if before[0] > 0:
        at_first_price = div_half_even(before[1] * after[0], before[0])
    return Move(
        before_nano=before[1],
        after_nano=after[1],
        price_nano=after[1] - at_first_price,
        volume_nano=at_first_price - before[1],
    )


def _move_of_use(before: Amounts, after: Amounts) -> Move:
    at_first_prices = sum(_at_first_price(before, after, each) for each in UsageClass)
    # A pool without use before has no mean price; all of its cost is volume, at its own prices.
    at_first_mix = at_first_prices
    if before.mgpu_s > 0:
        at_first_mix = div_half_even(before.use_cost_nano * after.mgpu_s, before.mgpu_s)
    return Move(
        before_nano=before.use_cost_nano,
        after_nano=after.use_cost_nano,
        price_nano=after.use_cost_nano - at_first_prices,
        volume_nano=at_first_mix - before.use_cost_nano,
        usage_class_nano=at_first_prices - at_first_mix,
    )


def _at_first_price(before: Amounts, after: Amounts, usage_class: UsageClass) -> int:
    """Return the second period's cost of the class at the mean price of the first.

    A class without use before keeps its price.
    """
    first, second = before.of_class(usage_class), after.of_class(usage_class)
    if first.mgpu_s == 0:
        return second.cost_nano
    return div_half_even(first.cost_nano * second.mgpu_s, first.mgpu_s)

"""The prices of two moments side by side, and what a past period would cost under each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import NamedTuple
from uuid import UUID

from billing.amounts import Amounts
from billing.class_prices import ClassPrice, class_prices
from billing.dating import Rule
from billing.models import PRICED_CLASSES, ExtraCharge, PoolTerms, PriceMode, RateCard, UsageClass
from billing.periods import Period, last_month
from billing.pricing import time_zone_of, visible_cards
from chargeback.dimensions import Dimension
from chargeback.reports import Asked, GroupRow, Narrowed, grouped_report
from clusters.models import Pool
from primitives.errors import NotFound
from primitives.units import DeviceKind
from tenants.access import Actor
from tenants.roles import Permission


class PriceAt(NamedTuple):
    """The price of a class at one moment, and what the usage of the period costs at it.

    `price_nano` is per GPU-hour, with `multiplier_ppm` of the class; both are None where there is
    none.
    """

    mode: PriceMode
    price_nano: int | None
    multiplier_ppm: int | None
    cost_nano: int


@dataclass(frozen=True, slots=True)
class PricePair:
    """A pool and a usage class, or a charge beside use, with its prices at two moments.

    `mgpu_s` is the usage of the period; of a charge beside use the larger quantity of the two.
    """

    pool: str
    device: DeviceKind
    usage_class: UsageClass | ExtraCharge
    mgpu_s: int
    first: PriceAt
    second: PriceAt

    @property
    def change_ppm(self) -> int | None:
        """Return the change of the price in millionths, towards zero; None without a first one."""
        return _change_ppm(self.first.price_nano, self.second.price_nano)


@dataclass(frozen=True, slots=True)
class TeamPair:
    """A team's cost of the period at two moments. Showback is in no cost."""

    team: str
    first_cost_nano: int
    second_cost_nano: int
    first_showback_nano: int
    second_showback_nano: int

    @property
    def change_ppm(self) -> int | None:
        """Return the change of the cost in millionths; None if it was zero."""
        return _change_ppm(self.first_cost_nano, self.second_cost_nano)


@dataclass(frozen=True, slots=True)
class PriceComparison:
    """Prices and terms at `first` and `second`, and the cost of `period` in fact and under each.

    `is_whole` says whether the actor sees the costs of the whole organization. If not, usage and
    costs are those of the visible part.
    """

    card: RateCard
    first: datetime
    second: datetime
    period: Period
    pairs: tuple[PricePair, ...]
    teams: tuple[TeamPair, ...]
    charged_cost_nano: int
    first_cost_nano: int
    second_cost_nano: int
    first_showback_nano: int
    second_showback_nano: int
    is_whole: bool

    @property
    def change_ppm(self) -> int | None:
        """Return the change of the cost in millionths; None if it was zero."""
        return _change_ppm(self.first_cost_nano, self.second_cost_nano)


def compare_prices(
    card_id: UUID,
    *,
    first: datetime,
    second: datetime,
    period: Period | None,
    actor: Actor,
    now: datetime,
) -> PriceComparison:
    """Compare the prices of two moments. Without `period`, take the organization's last month.

    Costs come from the chargeback report, so they agree with it exactly. Raises NotFound for a card
    that is invisible or does not exist.
    """
    card = visible_cards(actor).filter(pk=card_id).first()
    if card is None:
        raise NotFound("It does not exist, or you may not see it.")
    period = period or last_month(time_zone_of(card), now)
    organization = card.organization
    is_whole = actor.holds(Permission.VIEW_COSTS, organization.path)
    below = organization.display_path if is_whole else None

    def report(priced_at: datetime | None) -> list[GroupRow]:
        found = grouped_report(
            actor=actor,
            by=[Dimension.TEAM, Dimension.POOL],
            asked=Asked(period.start, period.end, period.as_of),
            narrowed=Narrowed(node_path=below),
            priced_at=priced_at,
            now=now,
        )
        return [row for row in found.rows if row.keys[0].split("/")[0] == organization.display_path]

    charged, at_first, at_second = (report(moment) for moment in (None, first, second))
    totals = [_total(rows) for rows in (charged, at_first, at_second)]
    return PriceComparison(
        card=card,
        first=first,
        second=second,
        period=period,
        pairs=tuple(_pairs(card, (first, at_first), (second, at_second))),
        teams=tuple(_teams(at_first, at_second)),
        charged_cost_nano=totals[0].cost_nano,
        first_cost_nano=totals[1].cost_nano,
        second_cost_nano=totals[2].cost_nano,
        first_showback_nano=totals[1].showback_nano,
        second_showback_nano=totals[2].showback_nano,
        is_whole=is_whole,
    )


Moment = tuple[datetime, list[GroupRow]]


def _pairs(card: RateCard, first: Moment, second: Moment) -> Iterator[PricePair]:
    pools = {rule.pool.name: rule.pool for rule in (*card.lines.all(), *card.terms.all())}
    used = {_pool(row) for row in (*first[1], *second[1])} - pools.keys()
    pools.update({pool.name: pool for pool in Pool.objects.filter(name__in=used)})
    for name, pool in sorted(pools.items()):
        sides = [_Side.at(card, name, *moment) for moment in (first, second)]
        for usage_class in (*PRICED_CLASSES, *ExtraCharge):
            quantities, prices = zip(*(side.of(usage_class) for side in sides), strict=True)
            if any(quantities) or any(price.price_nano is not None for price in prices):
                yield PricePair(name, pool.kind, usage_class, max(quantities), *prices)


class _Side(NamedTuple):
    """A pool at one moment of the comparison."""

    mode: PriceMode
    prices: Mapping[UsageClass, ClassPrice]
    amounts: Amounts

    @classmethod
    def at(cls, card: RateCard, pool: str, moment: datetime, rows: Iterable[GroupRow]) -> _Side:
        terms = next(iter(_applying(card.terms.all(), pool, moment)), PoolTerms())
        listed = {
            UsageClass(line.usage_class): line.price_nano
            for line in _applying(card.lines.all(), pool, moment)
        }
        amounts = _total(row for row in rows if _pool(row) == pool)
        return cls(PriceMode(terms.mode), class_prices(listed, terms), amounts)

    def of(self, usage_class: UsageClass | ExtraCharge) -> tuple[int, PriceAt]:
        """Return the quantity of a class, and its price with the cost."""
        if usage_class is ExtraCharge.COMMITMENT:
            amounts = self.amounts
            price = self.prices.get(UsageClass.GUARANTEED)
            is_committed = self.mode is PriceMode.COMMITMENT
            return amounts.commitment_mgpu_s, PriceAt(
                self.mode,
                price.price_nano if price is not None and is_committed else None,
                price.multiplier_ppm if price is not None and is_committed else None,
                amounts.commitment_cost_nano,
            )
        if usage_class is ExtraCharge.TOP_UP:
            amounts = self.amounts
            return amounts.top_up_mgpu_s, PriceAt(self.mode, None, None, amounts.top_up_cost_nano)
        of_class = self.amounts.of_class(usage_class)
        price = self.prices.get(usage_class)
        return of_class.mgpu_s, PriceAt(
            self.mode,
            None if price is None else price.price_nano,
            None if price is None else price.multiplier_ppm,
            of_class.cost_nano,
        )


def _applying(rules: Iterable[Rule], pool: str, moment: datetime) -> list[Rule]:
    return [
        rule
        for rule in rules
        if rule.pool.name == pool
        and rule.start <= moment
        and (rule.end is None or rule.end > moment)
    ]


def _teams(at_first: list[GroupRow], at_second: list[GroupRow]) -> Iterator[TeamPair]:
    """Yield the teams, those whose cost changes most first."""
    sides = [
        {team: _total(some) for team, some in groupby(rows, lambda row: row.keys[0])}
        for rows in (at_first, at_second)
    ]
    pairs = []
    for team in {**sides[0], **sides[1]}:
        before, after = (side.get(team, Amounts()) for side in sides)
        pairs.append(
            TeamPair(
                team,
                before.cost_nano,
                after.cost_nano,
                before.showback_nano,
                after.showback_nano,
            )
        )
    yield from sorted(
        pairs, key=lambda pair: (-abs(pair.second_cost_nano - pair.first_cost_nano), pair.team)
    )


def _pool(row: GroupRow) -> str:
    _, pool = row.keys
    return pool


def _total(rows: Iterable[GroupRow]) -> Amounts:
    return sum((row.amounts for row in rows), Amounts())


def _change_ppm(first_nano: int | None, second_nano: int | None) -> int | None:
    if not first_nano or second_nano is None:
        return None
    change = (second_nano - first_nano) * 1_000_000
    return abs(change) // first_nano * (1 if change >= 0 else -1)

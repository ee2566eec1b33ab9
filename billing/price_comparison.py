"""The prices of two moments side by side, and what a past period would cost under each."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from billing.amounts import Amounts
from billing.chargeback import Report, chargeback
from billing.models import PRICED_CLASSES, RateCard, RateLine, UsageClass
from billing.periods import Period, last_month
from billing.pricing import time_zone_of, visible_cards
from clusters.models import Pool
from primitives.errors import NotFound
from primitives.units import DeviceKind
from tenants.access import Actor
from tenants.roles import Permission


@dataclass(frozen=True, slots=True)
class PricePair:
    """A pool and usage class with its price at two moments, and the usage of the period.

    Prices are nano-currency per GPU-hour, or None where there is none. Costs are those of the
    period's usage at each of the two prices, with the multipliers of its priority classes.
    """

    pool: str
    device: DeviceKind
    usage_class: UsageClass
    first_nano: int | None
    second_nano: int | None
    mgpu_s: int
    first_cost_nano: int
    second_cost_nano: int

    @property
    def change_ppm(self) -> int | None:
        """Return the change of the price in millionths, towards zero; None without a first one."""
        return _change_ppm(self.first_nano, self.second_nano)


@dataclass(frozen=True, slots=True)
class PriceComparison:
    """Prices at `first` and `second`, and the cost of `period` in fact and under each of them.

    `is_whole` says whether the actor sees the costs of the whole organization. If not, usage and
    costs are those of the visible part.
    """

    card: RateCard
    first: datetime
    second: datetime
    period: Period
    pairs: tuple[PricePair, ...]
    charged_cost_nano: int
    first_cost_nano: int
    second_cost_nano: int
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

    def amounts(priced_at: datetime | None) -> dict[str, Amounts]:
        report = chargeback(actor=actor, period=period, node_path=below, priced_at=priced_at)
        return _by_pool(report, organization.pk)

    charged, at_first, at_second = (amounts(moment) for moment in (None, first, second))
    prices = {moment: _prices_at(card, moment) for moment in (first, second)}
    pools = {line.pool.name: line.pool for line in card.lines.all()}
    used = set(charged) - pools.keys()
    pools.update({pool.name: pool for pool in Pool.objects.filter(name__in=used)})
    pairs = []
    for name, pool in sorted(pools.items()):
        for usage_class in PRICED_CLASSES:
            key = name, usage_class.value
            before, after = at_first.get(name, Amounts()), at_second.get(name, Amounts())
            mgpu_s = getattr(before, f"{usage_class}_mgpu_s", 0)
            if mgpu_s or any(key in found for found in prices.values()):
                pairs.append(
                    PricePair(
                        pool=name,
                        device=pool.kind,
                        usage_class=usage_class,
                        first_nano=prices[first].get(key),
                        second_nano=prices[second].get(key),
                        mgpu_s=mgpu_s,
                        first_cost_nano=getattr(before, f"{usage_class}_cost_nano", 0),
                        second_cost_nano=getattr(after, f"{usage_class}_cost_nano", 0),
                    )
                )
    return PriceComparison(
        card=card,
        first=first,
        second=second,
        period=period,
        pairs=tuple(pairs),
        charged_cost_nano=sum(each.cost_nano for each in charged.values()),
        first_cost_nano=sum(each.cost_nano for each in at_first.values()),
        second_cost_nano=sum(each.cost_nano for each in at_second.values()),
        is_whole=is_whole,
    )


def _by_pool(report: Report, organization: UUID) -> dict[str, Amounts]:
    sums: dict[str, Amounts] = {}
    for row in report.team_rows:
        if row.node.organization_id == organization:
            sums[row.pool] = sums.get(row.pool, Amounts()) + row.amounts
    return sums


def _prices_at(card: RateCard, moment: datetime) -> dict[tuple[str, str], int]:
    def applies(line: RateLine) -> bool:
        return line.start <= moment and (line.end is None or line.end > moment)

    return {
        (line.pool.name, line.usage_class): line.price_nano
        for line in card.lines.all()
        if applies(line)
    }


def _change_ppm(first_nano: int | None, second_nano: int | None) -> int | None:
    if not first_nano or second_nano is None:
        return None
    change = (second_nano - first_nano) * 1_000_000
    return abs(change) // first_nano * (1 if change >= 0 else -1)

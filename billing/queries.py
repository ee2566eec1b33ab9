"""Queries of other packages about usage and prices."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from django.db.models import F, Q
from django.db.models.functions import Greatest

from billing.class_prices import class_prices
from billing.models import PoolTerms, PriceMode, RateLine, UsageClass
from billing.periods import Period
from billing.rating import cost_nano

#: An expression of a SELECT list: use of the job with the id `{job}` until `%(now)s`, over all
#: attempts. An array of guaranteed and borrowed milli-GPU-seconds; NULL for a job without usage.
USAGE_OF_JOB = """(
    SELECT ARRAY[
        SUM(held.guaranteed_mgpu * held.seconds)::bigint,
        SUM(held.borrowed_mgpu * held.seconds)::bigint
    ]
    FROM (
        SELECT s.guaranteed_mgpu, s.borrowed_mgpu,
               EXTRACT(EPOCH FROM LEAST(s."end", %(now)s::timestamptz) - s.start)::bigint AS seconds
        FROM billing_meteredattempt a
        JOIN billing_usagesegment s ON s.attempt_id = a.id
        WHERE a.job_id = {job} AND s.start < %(now)s::timestamptz
    ) AS held
    HAVING MAX(held.seconds) IS NOT NULL
)"""


@dataclass(frozen=True, slots=True)
class PresentPrices:
    """Prices of a GPU-hour at one moment, by pool and usage class, of an organization.

    In nano-currency, with the multiplier of the class. `billed_nano` is 0 for showback, and for use
    that a commitment pays; `listed_nano` has the price then, too. Unpaid use has the price of
    borrowed use where it has none of its own. The currency is None if there is no price at all.
    `modes` has the pools with terms.
    """

    billed_nano: Mapping[tuple[UUID, str], int]
    listed_nano: Mapping[tuple[UUID, str], int]
    modes: Mapping[UUID, str]
    currency: str | None

    def mode(self, pool: UUID) -> str:
        """Return the mode of a pool."""
        return self.modes.get(pool, PriceMode.PAY_PER_USE.value)


class PresentCost(NamedTuple):
    """The cost of GPUs for some time in nano-currency, and its currency (ISO 4217).

    `unbilled_nano` is the cost that is not billed: of showback, or of use that a commitment pays,
    by the pool's `mode` (`billing.models.PriceMode`).
    """

    billed_nano: int
    unbilled_nano: int
    mode: str
    currency: str


def present_cost(
    *,
    organization_id: UUID,
    pool_id: UUID,
    guaranteed_mgpu: int,
    borrowed_mgpu: int,
    multiplier_ppm: int,
    seconds: int,
    now: datetime,
) -> PresentCost | None:
    """Return the cost of these GPUs for `seconds` at present prices. Two queries.

    None if a needed class has no price now.
    """
    present = present_prices(organization_id, [pool_id], now=now)
    billed_nano = listed_nano = 0
    for usage_class, mgpu in (
        (UsageClass.GUARANTEED.value, guaranteed_mgpu),
        (UsageClass.BORROWED.value, borrowed_mgpu),
    ):
        if mgpu == 0:
            continue
        price_nano = present.listed_nano.get((pool_id, usage_class))
        if price_nano is None:
            return None
        nano = cost_nano(mgpu * seconds, price_nano=price_nano, multiplier_ppm=multiplier_ppm)
        listed_nano += nano
        # A class is billed at its price, or not at all.
        billed_nano += nano if present.billed_nano[pool_id, usage_class] else 0
    if present.currency is None:
        return None
    unbilled_nano = listed_nano - billed_nano
    return PresentCost(billed_nano, unbilled_nano, present.mode(pool_id), present.currency)


def highest_cost(
    *,
    organization_id: UUID,
    pools: Collection[UUID],
    mgpu: int,
    multiplier_ppm: int,
    seconds: int,
    now: datetime,
) -> PresentCost | None:
    """Return the highest cost of GPUs for `seconds` in one of the pools, at present prices.

    All of them then have the pool and the usage class that are billed most. None without a price
    now. Two queries.
    """
    present = present_prices(organization_id, pools, now=now)
    if present.currency is None:
        return None
    dearest = max(
        present.listed_nano,
        key=lambda priced: (present.billed_nano[priced], present.listed_nano[priced]),
    )
    billed_nano, listed_nano = (
        cost_nano(mgpu * seconds, price_nano=prices[dearest], multiplier_ppm=multiplier_ppm)
        for prices in (present.billed_nano, present.listed_nano)
    )
    mode = present.mode(dearest[0])
    return PresentCost(billed_nano, listed_nano - billed_nano, mode, present.currency)


def present_prices(
    organization_id: UUID, pools: Collection[UUID], *, now: datetime
) -> PresentPrices:
    """Return the prices at `now`, with the terms of the pools. Two queries."""
    at_present = {
        "card__organization_id": organization_id,
        "pool_id__in": pools,
        "start__lte": now,
    }
    goes_on = Q(end=None) | Q(end__gt=now)
    lines = list(RateLine.objects.filter(goes_on, **at_present).select_related("card"))
    of_pool = {terms.pool_id: terms for terms in PoolTerms.objects.filter(goes_on, **at_present)}
    listed: dict[UUID, dict[UsageClass, int]] = {}
    for line in lines:
        listed.setdefault(line.pool_id, {})[UsageClass(line.usage_class)] = line.price_nano
    prices = {
        (pool, usage_class.value): price
        for pool, of_class in listed.items()
        for usage_class, price in class_prices(of_class, of_pool.get(pool, PoolTerms())).items()
    }
    return PresentPrices(
        billed_nano={key: price.billed_nano for key, price in prices.items()},
        listed_nano={key: price.price_nano for key, price in prices.items()},
        modes={pool: terms.mode for pool, terms in of_pool.items()},
        currency=lines[0].card.currency if lines else None,
    )


def corrections_in(
    period: Period, organizations: Collection[UUID], pools: Collection[UUID]
) -> tuple[RateLine, ...]:
    """Return the prices that were added after they had applied in the period.

    They are sorted by time of addition. A price that was added before the period is none: it was
    known from the period's start on. One query.
    """
    lines = RateLine.objects.filter(
        Q(end=None) | Q(end__gt=period.start),
        card__organization_id__in=organizations,
        pool_id__in=pools,
        start__lt=period.until,
        added_at__gt=Greatest(F("start"), period.start),
    )
    return tuple(lines.select_related("pool", "card__organization").order_by("added_at", "pk"))

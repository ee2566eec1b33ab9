"""Queries of other packages about usage and prices."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from uuid import UUID

from django.db.models import F, Q
from django.db.models.functions import Greatest

from billing.models import RateLine, UsageClass
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


def cost_per_hour_nano(
    *,
    organization_id: UUID,
    pool_id: UUID,
    guaranteed_mgpu: int,
    borrowed_mgpu: int,
    multiplier_ppm: int,
    now: datetime,
) -> tuple[int, str] | None:
    """Return the cost of an hour of these GPUs at present prices, and the currency. One query.

    None if a needed class has no price now.
    """
    prices, currency = current_prices(organization_id, [pool_id], now=now)
    total_nano = 0
    for usage_class, mgpu in (
        (UsageClass.GUARANTEED.value, guaranteed_mgpu),
        (UsageClass.BORROWED.value, borrowed_mgpu),
    ):
        if mgpu == 0:
            continue
        price_nano = prices.get((pool_id, usage_class))
        if price_nano is None:
            return None
        total_nano += cost_nano(mgpu * 3_600, price_nano=price_nano, multiplier_ppm=multiplier_ppm)
    return None if currency is None else (total_nano, currency)


def current_prices(
    organization_id: UUID, pools: Collection[UUID], *, now: datetime
) -> tuple[dict[tuple[UUID, str], int], str | None]:
    """Return the prices at `now` by (pool, usage class), and the currency. One query.

    Prices are in nano-currency per GPU-hour. The currency is None if there is no price at all.
    """
    lines = list(
        RateLine.objects.filter(
            Q(end=None) | Q(end__gt=now),
            card__organization_id=organization_id,
            pool_id__in=pools,
            start__lte=now,
        ).select_related("card")
    )
    prices = {(line.pool_id, line.usage_class): line.price_nano for line in lines}
    return prices, lines[0].card.currency if lines else None


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

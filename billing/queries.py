"""What other packages ask of the meter."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from django.db.models import Q

from billing.models import RateLine, UsageClass
from billing.rating import cost_nano

#: For the list of a SELECT: what the job whose id is `{job}` has used until `%(now)s`, over all its
#: attempts. An array of guaranteed and borrowed milli-GPU-seconds, NULL for a job without usage.
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
    """What an hour of these GPUs costs at the prices of `now`, and the currency; one query.

    None when a class that is asked for has no price now.
    """
    lines = {
        line.usage_class: line
        for line in RateLine.objects.filter(
            Q(end=None) | Q(end__gt=now),
            card__organization_id=organization_id,
            pool_id=pool_id,
            start__lte=now,
        ).select_related("card")
    }
    total_nano, currency = 0, None
    for usage_class, mgpu in (
        (UsageClass.GUARANTEED.value, guaranteed_mgpu),
        (UsageClass.BORROWED.value, borrowed_mgpu),
    ):
        if mgpu == 0:
            continue
        if usage_class not in lines:
            return None
        line = lines[usage_class]
        currency = line.card.currency
        total_nano += cost_nano(
            mgpu * 3_600, price_nano=line.price_nano, multiplier_ppm=multiplier_ppm
        )
    return None if currency is None else (total_nano, currency)

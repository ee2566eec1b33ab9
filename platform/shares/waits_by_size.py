"""Waits of a team's jobs before their first start, by size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from billing.usage_sql import rows_of
from history.waits import Waits
from primitives.units import MGPU_PER_GPU
from tenants.models import Node

#: Jobs count that were submitted in this time.
REACH = timedelta(weeks=4)
#: The largest size in devices; larger jobs count in it.
_LARGEST = 1 << 16
_SIZES = [1 << power for power in range(_LARGEST.bit_length())]


@dataclass(frozen=True, slots=True)
class SizeWaits:
    """The waits of jobs with at most `devices`, and more than half of them."""

    devices: int
    waits: Waits


def waits_by_size(team: Node, *, now: datetime) -> Mapping[UUID, Sequence[SizeWaits]]:
    """Return by pool the waits of jobs submitted in the last four weeks that have started.

    Each job counts once, by its first start. It waits from its submission, or from its begin time
    if that is later. A size is a power of two: the smallest that holds the job. Sizes without a
    start are absent. One query.
    """
    rows = rows_of(
        _WAITS,
        {
            "team": team.pk,
            "since": now - REACH,
            "sizes_mgpu": [size * MGPU_PER_GPU for size in _SIZES[:-1]],
        },
    )
    found: dict[UUID, list[SizeWaits]] = {}
    for pool, size, jobs, p50_s, p95_s in rows:
        waits = SizeWaits(_SIZES[size], Waits(jobs, p50_s, p95_s))
        found.setdefault(pool, []).append(waits)
    return found


# A size counts up to its bound included, so the amount is compared less one milli-GPU.
_WAITS = """
WITH started AS MATERIALIZED (
    SELECT j.pool_id, width_bucket(a.mgpu - 1, %(sizes_mgpu)s::bigint[]) AS size,
           GREATEST(0, floor(date_part(
               'epoch', a.started_at - GREATEST(j.submitted_at, j.begin_at)
           ))::bigint) AS wait_s
    FROM jobs_job j
    JOIN LATERAL (
        SELECT mgpu, started_at FROM jobs_attempt
        WHERE job_id = j.id AND started_at IS NOT NULL ORDER BY number LIMIT 1
    ) a ON true
    WHERE j.team_id = %(team)s AND j.submitted_at >= %(since)s
)
SELECT pool_id, size, COUNT(*),
       percentile_disc(0.5) WITHIN GROUP (ORDER BY wait_s),
       percentile_disc(0.95) WITHIN GROUP (ORDER BY wait_s)
FROM started GROUP BY pool_id, size ORDER BY pool_id, size
"""

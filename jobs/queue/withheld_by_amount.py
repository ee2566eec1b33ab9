"""Queued jobs that budgets and caps of users withhold (R-109, R-110)."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from jobs.queue.budget_stops import BudgetStops, WantedJob
from jobs.queue.user_caps import beyond_user_caps
from jobs.queue.withholding import Withheld


def withheld_by_amount(
    stops: BudgetStops,
    left_out: Collection[str],
    now: datetime,
    wanted: WantedJob | None = None,
) -> tuple[Withheld, ...]:
    """Return the queued jobs that budgets or caps of users withhold, each once.

    A job that the one withholds takes no room of the other. So caps are looked at without the jobs
    that budgets stop, and then budgets without the jobs beyond caps. The second look at caps counts
    the jobs that have room only then. The last look at each has counted every job that is offered.

    `left_out` are the jobs that are withheld for other reasons. `wanted` is taken for queued.
    """
    stopped = stops.withheld(left_out, now, wanted)
    capped = beyond_user_caps({*left_out, *_ids(stopped)}, wanted)
    if capped and stopped:
        stopped = stops.withheld({*left_out, *_ids(capped)}, now, wanted)
        capped += beyond_user_caps({*left_out, *_ids(capped), *_ids(stopped)}, wanted)
    return (*capped, *stopped)


def _ids(withheld: Collection[Withheld]) -> set[str]:
    return {one.job for one in withheld}

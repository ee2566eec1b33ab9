"""Claims from earlier cycles: start their jobs, keep the claims or drop them (R-62, R-64)."""

from __future__ import annotations

from typing import NamedTuple

from arbiter.api.snapshot import Slot
from arbiter.cache.claims import Earmark, in_order_of_grace
from arbiter.cache.pool import Pool
from arbiter.cache.transaction import Transaction
from arbiter.placement.free_devices import Place


class Used(NamedTuple):
    """A claim whose job starts, its place, and its slots of nodes and of CPU and memory."""

    earmark: Earmark
    place: Place
    slots: list[Slot]


def use_claims(pool: Pool, starts_max: int) -> list[Used]:
    """Start claimed jobs whose GPUs are free, there or elsewhere; at most `starts_max` of them.

    A claim is dropped if its GPUs are free but quota still refuses the job, because quota was
    lowered since. It stays if quota will allow the job once other attempts are gone. The other
    claims may use everything that a dropped or moved claim releases. Later claims never block an
    earlier one: they rank behind it, and have time until other attempts are gone.
    """
    used: list[Used] = []
    dropped_count = -1
    while dropped_count < len(pool.dropped):
        dropped_count = len(pool.dropped)
        in_order = in_order_of_grace(pool.earmarks.values())
        for earmark in in_order:
            pool.now.charge(earmark.team, -earmark.uncovered_mgpu)
        for earmark in in_order:
            pool.now.charge(earmark.team, earmark.uncovered_mgpu)
            one = _use(pool, earmark) if len(used) < starts_max else None
            if one is not None:
                used.append(one)
    return used


def _use(pool: Pool, earmark: Earmark) -> Used | None:
    """Start the job of a claim if possible; otherwise keep the claim or drop it."""
    job, claimed, is_ready = earmark.job, earmark.place, earmark.is_here
    with Transaction() as attempt:
        pool.lift(earmark, attempt)
        place = claimed if is_ready else pool.free.find(pool.config.shape_of(job))
        is_allowed = pool.blocker(earmark.team, job.mgpu) is None
        if place is not None and is_allowed:
            attempt.commit()
            if place != claimed:
                pool.dropped.append(job.id)
            return _start(pool, earmark, place)
        is_in_vain = is_ready and not is_allowed and not _waits_for_others(pool, earmark)
    if is_in_vain:
        pool.give_up(earmark.stand_in)
    return None


def _waits_for_others(pool: Pool, earmark: Earmark) -> bool:
    """Return whether quota will allow a refused claimed job once stopping attempts are gone.

    These are the claim's own victims or those of other claims. The job waits for the latter no
    longer than for its own. The claim itself does not count.
    """
    later = pool.now if pool.later is None else pool.later
    return bool(earmark.victims) or (
        earmark.claim.grace_until + pool.policy.claim_overdue_s >= pool.taken_at
        and later.blocker(earmark.team, earmark.job.mgpu) is None
    )


def _start(pool: Pool, earmark: Earmark, place: Place) -> Used:
    slots = pool.occupy(earmark.job, earmark.team, place)
    del pool.earmarks[earmark.job.id]
    return Used(earmark, place, slots)

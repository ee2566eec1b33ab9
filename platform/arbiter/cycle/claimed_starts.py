"""What becomes of the claims that stood when the cycle of a pool began (R-62, R-64)."""

from __future__ import annotations

from typing import NamedTuple

from arbiter.api.snapshot import Slot
from arbiter.cache.claims import Earmark, in_turn
from arbiter.cache.pool import Pool
from arbiter.cache.transaction import Transaction
from arbiter.placement.free_devices import Place


class Used(NamedTuple):
    """A claim whose job starts, where it does, and what it holds there of nodes and rooms."""

    earmark: Earmark
    place: Place
    slots: list[Slot]


def use_claims(pool: Pool, starts_max: int) -> list[Used]:
    """Start every claimed job whose GPUs are free, there or elsewhere, so many at most; give up a
    claim that only quota still refuses (it was lowered since), unless that is to allow it once
    others are gone. What a claim leaves so is there for the others. What those behind it in turn
    keep free is no reason to refuse it: they come after it, and have time until others are gone."""
    used: list[Used] = []
    dropped_count = -1
    while dropped_count < len(pool.dropped):
        dropped_count = len(pool.dropped)
        standing = in_turn(pool.earmarks.values())
        for earmark in standing:
            pool.now.charge(earmark.team, -earmark.uncovered_mgpu)
        for earmark in standing:
            pool.now.charge(earmark.team, earmark.uncovered_mgpu)
            one = _use(pool, earmark) if len(used) < starts_max else None
            if one is not None:
                used.append(one)
    return used


def _use(pool: Pool, earmark: Earmark) -> Used | None:
    """Start the job of a claim, if it can; else keep the claim or give it up."""
    job, claimed, is_ready = earmark.job, earmark.place, earmark.is_here
    with Transaction() as attempt:
        pool.lift(earmark, attempt)
        place = claimed if is_ready else pool.free.find(pool.ground.shape_of(job))
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
    """Whether quota, which refuses the job of a claim now, is to allow it once its victims are
    gone, or those of other claims, for which it waits no longer than for its own. The claim does
    not count."""
    later = pool.now if pool.later is None else pool.later
    return bool(earmark.victims) or (
        earmark.claim.grace_until + pool.policy.claim_overdue_s >= pool.taken_at
        and later.blocker(earmark.team, earmark.job.mgpu) is None
    )


def _start(pool: Pool, earmark: Earmark, place: Place) -> Used:
    slots = pool.occupy(earmark.job, earmark.team, place)
    del pool.earmarks[earmark.job.id]
    return Used(earmark, place, slots)

"""What becomes of the claims that stood when the cycle of a pool began."""

from __future__ import annotations

from typing import NamedTuple

from arbiter.earmarks import Earmark, in_turn
from arbiter.placement import Place
from arbiter.pool import Pool
from arbiter.snapshot import Slot


class Used(NamedTuple):
    """A claim whose job starts, where it does, and what it holds there of nodes and rooms."""

    earmark: Earmark
    place: Place
    slots: list[Slot]


def use_claims(pool: Pool, starts_max: int) -> list[Used]:
    """Start every claimed job whose GPUs are free, there or elsewhere, so many at most; give up a
    claim that only quota still refuses (it was lowered since). What a claim leaves so is there for
    the others."""
    used: list[Used] = []
    dropped_count = -1
    while dropped_count < len(pool.dropped):
        dropped_count = len(pool.dropped)
        for earmark in in_turn(pool.earmarks.values()):
            if len(used) >= starts_max:
                break
            one = _use(pool, earmark)
            if one is not None:
                used.append(one)
    return used


def _use(pool: Pool, earmark: Earmark) -> Used | None:
    """Start the job of a claim, if it can; else keep the claim or give it up."""
    job = earmark.job
    pool.settle(earmark)
    claimed = earmark.place
    is_ready = earmark.is_here
    place = claimed if is_ready else pool.free.find(pool.ground.shape_of(job))
    is_allowed = pool.blocker(earmark.team, job.mgpu) is None
    if place is not None and is_allowed:
        if place != claimed:
            pool.dropped.append(job.id)
        slots = pool.occupy(job, earmark.team, place)
        del pool.earmarks[job.id]
        return Used(earmark, place, slots)
    if is_ready and not earmark.victims and not is_allowed:
        pool.dropped.append(job.id)
        del pool.earmarks[job.id]
    else:
        pool.restore(earmark)
    return None

"""Why each job of a pool still waits after a cycle (semantics section 5)."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING

from arbiter.decisions import Code, Waiting
from arbiter.pool import Earmark, in_turn
from arbiter.queue_order import ServiceOrder
from arbiter.waiting import Reason, Reasons, of_claimed

if TYPE_CHECKING:
    from arbiter.service import PoolCycle

#: Codes of jobs that are in no order, as they cannot start at all.
_NEVER_IN_LINE = frozenset((Code.NEVER_FITS, Code.CLUSTER_UNAVAILABLE))


def explain(cycle: PoolCycle) -> list[Waiting]:
    """Why each job still waits: claimed jobs first, then in the order of service, then
    those that are in no order because they cannot start at all."""
    pool = cycle.pool
    explained = [
        _explain_claimed(cycle, earmark, i)
        for i, earmark in enumerate(in_turn(pool.earmarks.values()))
    ]
    reasons = Reasons(pool, cycle.spared, cycle.standing)
    # Jobs are known by their places by age from here on.
    by_age = cycle.by_age()
    ages, places = by_age.ages, by_age.places
    order = ServiceOrder(len(ages))
    #: The reason of each lot that is added to the order, and those of jobs that are in none.
    of_lots: list[Reason] = []
    hopeless: list[tuple[int, Reason]] = []
    for team in sorted(cycle.queues):
        for cls in cycle.queues[team].classes:
            lines = [line for line in cls.lines if line.waiting_count]
            if not lines:
                continue
            source = pool.source(team, cls.shape.total_mgpu)
            reason = None if cls.code is None else reasons.of(team, cls, source)
            if cls.code in _NEVER_IN_LINE and reason is not None:
                for line in lines:
                    hopeless += [(places[job], reason) for _, job in line.jobs[line.at :]]
                continue
            stand = (source, team)
            if stand not in order.standings:
                standing = cycle.standing(team, source)
                order.standings[stand] = standing.with_loads(cycle.shares.order(team))
            for line in lines:
                used = cycle.shares.of_user(team, line.user)
                if reason is not None:
                    jobs = [places[job] for _, job in line.jobs[line.at :]]
                    order.add(cls.priority.order, used, jobs, stand)
                    of_lots.append(reason)
                if line.refused:
                    jobs = [places[job] for _, job in line.refused]
                    order.add(cls.priority.order, used, jobs, stand)
                    of_lots.append(reasons.reserved(cls))
        order.end_line()
    in_order, lot_of = order.merged(), order.lot_of
    first = len(explained)
    explained += [
        Waiting(ages[place][1], *of_lots[lot_of[place]], ahead)
        for ahead, place in enumerate(in_order, first)
    ]
    if cycle.reserved.made:
        latest = {places[one.job.id]: one.start_at for one in cycle.reserved.made}
        for at, place in enumerate(in_order, first):
            if place in latest:
                explained[at] = explained[at]._replace(latest=latest[place], method="time_limits")
    hopeless.sort(key=itemgetter(0))
    explained += [Waiting(ages[place][1], *reason) for place, reason in hopeless]
    for _, job in cycle.homeless:
        numbers = {"need_mgpu": cycle.jobs[job].mgpu, "could_ever_mgpu": 0}
        explained.append(Waiting(job, Code.NEVER_FITS, numbers))
    return explained


def _explain_claimed(cycle: PoolCycle, earmark: Earmark, ahead: int) -> Waiting:
    reason = of_claimed(cycle.pool, earmark)
    return Waiting(
        earmark.job.id,
        reason.code,
        reason.numbers,
        jobs_ahead=ahead,
        earliest=cycle.pool.taken_at,
        latest=max(cycle.pool.taken_at, earmark.claim.grace_until),
        method="reclaim",
    )

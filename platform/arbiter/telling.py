"""Why each job of a pool still waits after a cycle (semantics section 5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from arbiter.decisions import Code, Waiting
from arbiter.pool import Earmark, in_turn
from arbiter.queue_order import ServiceOrder
from arbiter.waiting import Reason, Reasons, of_claimed

if TYPE_CHECKING:
    from arbiter.service import PoolCycle

#: Stands where no reason is told: such a job waits no more.
_NONE = Reason(Code.NEVER_FITS, {})
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
    ages = cycle.by_age()
    places = {job: place for place, (_, job) in enumerate(ages)}
    reason_of: list[Reason] = [_NONE] * len(ages)
    order = ServiceOrder(len(ages))
    hopeless: list[int] = []
    for team in sorted(cycle.queues):
        for cls in cycle.queues[team].classes:
            lines = [line for line in cls.lines if line.waiting_count]
            if not lines:
                continue
            source = pool.source(team, cls.shape.total_mgpu)
            if any(line.refused for line in lines):
                reason = reasons.reserved(cls)
                for line in lines:
                    for _, job in line.refused:
                        reason_of[places[job]] = reason
            if cls.code is not None:
                reason = reasons.of(team, cls, source)
            is_hopeless = cls.code in _NEVER_IN_LINE
            stand = (source, team)
            if stand not in order.standings and not is_hopeless:
                standing = cycle.standing(team, source)
                order.standings[stand] = standing.with_loads(cycle.shares.order(team))
            for line in lines:
                jobs = [places[job] for _, job in line.jobs[line.at :]]
                for place in jobs:
                    reason_of[place] = reason
                if is_hopeless:
                    hopeless.extend(jobs)
                    continue
                used = cycle.shares.of_user(team, line.user)
                jobs += [places[job] for _, job in line.refused]
                order.add(cls.priority.order, used, jobs, stand)
        order.end_line()
    in_order = order.merged()
    first = len(explained)
    explained += [
        Waiting(ages[place][1], *reason_of[place], ahead)
        for ahead, place in enumerate(in_order, first)
    ]
    if cycle.reserved.made:
        latest = {places[one.job.id]: one.start_at for one in cycle.reserved.made}
        for at, place in enumerate(in_order, first):
            if place in latest:
                explained[at] = explained[at]._replace(latest=latest[place], method="time_limits")
    explained += [Waiting(ages[place][1], *reason_of[place]) for place in sorted(hopeless)]
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

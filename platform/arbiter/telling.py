"""Why each job of a pool still waits after a cycle (semantics section 5)."""

from __future__ import annotations

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
    ages = cycle.by_age()
    places = {job: place for place, (_, job) in enumerate(ages)}
    reason_of: dict[int, Reason] = {}
    order = ServiceOrder()
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
                    reason_of.update((places[job], reason) for _, job in line.refused)
            if cls.code is not None:
                reason = reasons.of(team, cls, source)
            is_hopeless = cls.code in _NEVER_IN_LINE
            stand = (source, team)
            if stand not in order.standings and not is_hopeless:
                standing = cycle.standing(team, source)
                order.standings[stand] = standing.with_loads(cycle.shares.order(team))
            for line in lines:
                jobs = [places[job] for _, job in line.jobs[line.at :]]
                reason_of.update(dict.fromkeys(jobs, reason))
                if is_hopeless:
                    hopeless.extend(jobs)
                    continue
                used = cycle.shares.of_user(team, line.user)
                jobs += [places[job] for _, job in line.refused]
                order.add(cls.priority.order, used, jobs, stand)
        order.end_line()
    in_order = order.merged()
    first = len(explained)
    latest = {one.job.id: one.start_at for one in cycle.reserved.made}
    for ahead, place in enumerate(in_order, first):
        code, numbers, node = reason_of[place]
        job = ages[place][1]
        if job in latest:
            start_at = latest[job]
            explained.append(
                Waiting(job, code, numbers, node, ahead, None, start_at, "time_limits")
            )
        else:
            explained.append(Waiting(job, code, numbers, node, ahead))
    for place in sorted(hopeless):
        explained.append(Waiting(ages[place][1], *reason_of[place]))
    for _, job in sorted(cycle.homeless):
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

"""What the arbiter decides of a snapshot, and how tests look at it."""

from __future__ import annotations

from arbiter.api.plan import Plan, Waiting
from arbiter.api.policy import Policy
from arbiter.api.snapshot import Snapshot
from arbiter.cycle.decide import decide


def plan_of(snapshot: Snapshot, **policy: int | bool) -> Plan:
    return decide(snapshot, Policy(**policy))  # type: ignore[arg-type]


def started(plan: Plan) -> list[str]:
    return [start.job for start in plan.starts]


def why(plan: Plan, job: str) -> Waiting:
    return next(one for one in plan.waiting if one.job == job)


def victims(plan: Plan) -> list[str]:
    return [victim.job for reclaim in plan.reclaims for victim in reclaim.victims]

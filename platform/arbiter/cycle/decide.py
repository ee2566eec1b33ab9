"""One cycle: `decide(snapshot, policy) -> Plan`, pure and deterministic."""

from __future__ import annotations

from arbiter.api.plan import Plan
from arbiter.api.policy import Policy
from arbiter.api.snapshot import Snapshot
from arbiter.cycle.scheduler import Core


def decide(snapshot: Snapshot, policy: Policy, *, explains: bool = True) -> Plan:
    """Start every job that quota and devices allow, in order of service, and reclaim lent GPUs.

    GPUs are reclaimed for jobs that a guarantee entitles to them.

    Pure: time is `snapshot.taken_at`. Equal snapshots give equal plans, whatever the order of their
    parts. Pools are independent, except that all of them share `policy.starts_max` and
    `policy.reclaims_max`, in the order of their names. A job of an unknown team never fits. An
    unknown priority class has order 0 and the policy's grace period.

    With `explains` False the plan has no reasons, uses or reservations. The actions in it are the
    same, and it takes less time.

    Raises ValueError for an invalid tree (see `tree_of`).
    """
    return Core.of(snapshot, policy).cycle(snapshot.taken_at, explains=explains)

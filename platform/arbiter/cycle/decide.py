"""One cycle: `decide(snapshot, policy) -> Plan`, pure and deterministic."""

from __future__ import annotations

from arbiter.api.plan import Plan
from arbiter.api.policy import Policy
from arbiter.api.snapshot import Snapshot
from arbiter.cycle.scheduler import Core


def decide(snapshot: Snapshot, policy: Policy, *, explains: bool = True) -> Plan:
    """Start every queued job that quota and devices allow, in the order of service, and take
    back lent GPUs for those that a guarantee entitles to them.

    Pure: time is `snapshot.taken_at`; equal snapshots give equal plans, whatever the order of
    their parts. Pools do not know each other, except that `policy.starts_max` and
    `policy.reclaims_max` are for all of them, in order of their names. A job of an unknown team
    never fits; an unknown priority class has order 0 and the policy's grace.

    Without `explains` the plan has what is to be done and nothing that is only told of it: no
    reasons, uses and reservations. That is the same in less time.

    Raises ValueError for a tree that is none (see `tree_of`).
    """
    return Core.of(snapshot, policy).cycle(snapshot.taken_at, explains=explains)

"""The scheduler core: `decide(snapshot, policy) -> plan`, pure and deterministic.

The packages are layers, from `cycle` down to `api`; import-linter keeps their order.
"""

from arbiter.api.plan import Plan
from arbiter.api.policy import Policy
from arbiter.api.snapshot import Snapshot
from arbiter.cycle.decide import decide
from arbiter.cycle.scheduler import Core

__all__ = ["Core", "Plan", "Policy", "Snapshot", "decide"]

"""The scheduler core: `decide(snapshot, policy) -> plan`, pure and deterministic.

`why_never` answers for one job whether it could ever start, without a cycle.

The packages are layers, from `cycle` down to `api`; import-linter keeps their order.
"""

from arbiter.api.plan import Plan
from arbiter.api.policy import Policy
from arbiter.api.snapshot import Snapshot
from arbiter.cycle.decide import decide
from arbiter.cycle.scheduler import Core
from arbiter.explain.never import why_never

__all__ = ["Core", "Plan", "Policy", "Snapshot", "decide", "why_never"]

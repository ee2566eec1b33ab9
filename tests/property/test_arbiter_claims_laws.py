"""Nobody is stopped for a claim that goes to another team at once (R-62 to R-65)."""

from __future__ import annotations

from random import Random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arbiter.cycle import decide
from arbiter.policy import Policy
from builders.arbiter_builders import World
from builders.dense_worlds import a_dense_world

#: In one of some hundreds of worlds somebody else would take what is claimed.
_WORLDS = 100


@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 2**32))
def test_a_claim_for_which_somebody_is_stopped_stands_in_the_next_cycle(seed: int) -> None:
    """Where nothing happens between two cycles the second takes no such claim away but for a job of
    the same team, whose classes go before each other.

    Dies here: nobody is looked for who would take a claim; who needs lower classes of its own team
    besides is not.
    """
    dice = Random(seed)
    for _ in range(_WORLDS):
        world = World(a_dense_world(dice), Policy())
        teams = {job.id: job.team for job in world.base.queued}
        plan = decide(world.snapshot(), world.policy, explains=False)
        claimed = {one.job for one in plan.reclaims if one.victims}
        if not claimed:
            continue
        world.apply(plan)
        again = decide(world.snapshot(), world.policy, explains=False)
        served = {one.job for one in (*again.starts, *again.reclaims)}
        for job in claimed.intersection(again.dropped_claims) - served:
            assert teams[job] in {teams[other] for other in served}

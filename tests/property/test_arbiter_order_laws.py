"""The order of service is that of the contract, read naively (R-18 to R-27)."""

from __future__ import annotations

from random import Random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arbiter.cycle.decide import decide
from builders.naive_service import NaiveService, a_world

_SLOW = settings(max_examples=60, suppress_health_check=list(HealthCheck))


@_SLOW
@given(st.integers(0, 2**32))
def test_jobs_start_in_the_order_that_is_worked_out_anew_for_each(seed: int) -> None:
    """Fifty worlds each.

    Found by it: what a team's start uses of the guarantees above it did not count for jobs that
    wait at the nodes above themselves. Planted bugs that died of it: users do not take turns within
    a cycle; contests that stand level keep the order of their first teams; credits count where
    fair-share alone does; ranks do not; borrowed starts hold no credits.
    """
    dice = Random(seed)
    for _ in range(50):
        snapshot, policy = a_world(dice)
        starts = [start.job for start in decide(snapshot, policy, explains=False).starts]
        assert starts == NaiveService(snapshot, policy).starts()

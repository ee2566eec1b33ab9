"""What spares the search for victims time changes nothing of what it finds (R-55, R-59)."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arbiter.cycle.decide import decide
from arbiter.cycle.scheduler import Core
from arbiter.preemption.candidates import Candidate
from arbiter.preemption.reclaim import Reclaimer
from arbiter.preemption.search import Search
from builders.arbiter_crowds import crowds
from builders.arbiter_histories import policy
from builders.telling_a_core import tell

_SLOW = settings(max_examples=40, suppress_health_check=list(HealthCheck))


@_SLOW
@given(st.integers(0, 2**32))
def test_who_borrows_is_the_same_for_a_core_that_lives_on(seed: int) -> None:
    """Planted bug that died of it: who is protected again still counts as a borrower."""
    dice = Random(seed)
    knobs = replace(policy(dice), reclaims_max=100)
    core, known = None, None
    for snapshot in crowds(dice, knobs, steps=8):
        if core is None or known is None:
            core = Core.of(snapshot, knobs)
        else:
            tell(core, known, snapshot)
        known = snapshot
        assert core.cycle(snapshot.taken_at, explains=False) == decide(
            snapshot, knobs, explains=False
        )


@_SLOW
@given(st.integers(0, 2**32))
def test_looking_only_where_it_matters_finds_the_same_victims(seed: int) -> None:
    """Who runs where nobody can be cleared is left out, and who is needed is told without stopping
    anybody.

    Planted bugs that died of it: a node that can be cleared to the last GPU is left out; a node
    that has exactly enough left without a victim counts as lost; a victim below a guarantee that is
    used against nobody counts as needed for it.
    """
    of_devices, of_right = Search._needs_devices_of, Search._needs_right_of

    def stopped_in_vain(self: Search, one: Candidate) -> tuple[bool, bool]:
        self._stop(one, -1)
        found = self._ready.is_enough, self.is_enough()
        self._stop(one, 1)
        return found

    def needs_devices(self: Search, one: Candidate) -> bool:
        are_enough, _ = stopped_in_vain(self, one)
        assert of_devices(self, one) is not are_enough
        return False

    def needs_right(self: Search, one: Candidate) -> bool:
        _, is_enough = stopped_in_vain(self, one)
        assert not (of_right(self, one) and is_enough)
        return False

    dice = Random(seed)
    knobs = replace(policy(dice), reclaims_max=100)
    for snapshot in crowds(dice, knobs, steps=8):
        told = decide(snapshot, knobs, explains=False)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(Reclaimer, "_near", lambda self, *_: self._borrowed)
            patched.setattr(Search, "_needs_devices_of", needs_devices)
            patched.setattr(Search, "_needs_right_of", needs_right)
            assert decide(snapshot, knobs, explains=False) == told

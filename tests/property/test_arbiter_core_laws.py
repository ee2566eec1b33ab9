"""What the arbiter leaves out, because nobody asks for it, changes nothing of what it does."""

from __future__ import annotations

import gc
from dataclasses import replace
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arbiter.api.errors import TooLate
from arbiter.api.snapshot import Balance, RunningJob, Snapshot, Usage
from arbiter.cycle.decide import decide
from arbiter.cycle.prospects import Prospects
from arbiter.cycle.scheduler import Core
from builders.arbiter_histories import histories, policy
from builders.telling_a_core import tell

_SLOW = settings(max_examples=25, suppress_health_check=list(HealthCheck))


@_SLOW
@given(st.integers(0, 2**32))
def test_a_plan_without_explanations_does_the_same(seed: int) -> None:
    """Planted bugs that died of it: a cycle ends as soon as no waiting class has a place, so that
    nobody reclaims any more; a class that only what is held back leaves no place counts as one
    that cannot start."""
    dice = Random(seed)
    knobs = policy(dice)
    for snapshot in histories(dice, knobs, steps=16):
        told = decide(snapshot, knobs)
        bare = replace(told, waiting=(), use=(), reservations=())
        assert decide(snapshot, knobs, explains=False) == bare


@_SLOW
@given(st.integers(0, 2**32))
def test_a_core_that_is_told_of_changes_plans_as_one_made_anew(seed: int) -> None:
    """At every step of long random histories, with and without explanations.

    Planted bugs that died of it: a cycle's victims stay marked as being stopped; a device that
    changed does not lay the pool out anew; half-lives, priority classes, the tree, a quota that is
    gone or what lines of jobs ask for stay as they were first told; a claim goes with its job.
    """
    dice = Random(seed)
    knobs = policy(dice)
    core, known = None, None
    for snapshot in histories(dice, knobs, steps=25):
        if core is None or known is None:
            core = Core.of(snapshot, knobs)
        else:
            tell(core, known, snapshot)
        known = snapshot
        told = decide(snapshot, knobs)
        assert core.cycle(snapshot.taken_at) == told
        bare = replace(told, waiting=(), use=(), reservations=())
        assert core.cycle(snapshot.taken_at, explains=False) == bare


@_SLOW
@given(st.integers(0, 2**32), st.booleans())
def test_where_a_cycle_was_decided_makes_no_difference_to_what_is_told_of_it(
    seed: int, accept_several: bool
) -> None:
    """Reasons, uses and reservations asked for later are those of a cycle that goes on to its end
    before anything is laid down, and so is what is done; asked for twice they are the same.

    Planted bugs that died of it: the service does not go on when reasons are asked for; the job
    before whose reservation it stopped is passed over; who is served in another pool is taken out
    of the lines where it stopped.
    """
    dice = Random(seed)
    knobs = policy(dice)
    core, known = None, None
    for snapshot in histories(dice, knobs, steps=16, accept_several=accept_several):
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(Prospects, "are_any", lambda _: True)
            whole = decide(snapshot, knobs)
        if core is None or known is None:
            core = Core.of(snapshot, knobs)
        else:
            tell(core, known, snapshot)
        known = snapshot
        decided = core.decide(snapshot.taken_at)
        assert decided.plan == replace(whole, waiting=(), use=(), reservations=())
        assert decided.explained() == whole
        assert decided.explained() == whole
        again = core.decide(snapshot.taken_at)
        with pytest.raises(TooLate):
            decided.explained()
        assert again.explained() == whole


def _left_over() -> set[str]:
    """The kinds of the arbiter's objects that nobody can reach and that know each other."""
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        gc.collect()
        kinds = {type(one) for one in gc.garbage}
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
    return {kind.__qualname__ for kind in kinds if kind.__module__.startswith("arbiter.")}


@_SLOW
@given(st.integers(0, 2**32), st.booleans())
def test_what_a_cycle_made_goes_with_it(seed: int, accept_several: bool) -> None:
    """Nothing is left for a search for cyclic garbage, so that the next cycle uses the same memory,
    which is in the cache.

    Planted bugs that died of it: jobs that are gone know their class; a queue that another one
    replaces, or of a pool that is laid out anew, is left as it was; a cycle that is over keeps its
    agenda.
    """
    dice = Random(seed)
    knobs = policy(dice)
    known, *others = histories(dice, knobs, steps=16, accept_several=accept_several)
    core = Core.of(known, knobs)
    gc.collect()
    gc.disable()
    try:
        for snapshot in others:
            decided = core.decide(known.taken_at)
            if dice.random() < 0.5:
                decided.explained()
            core.cycle(known.taken_at, explains=bool(dice.randrange(2)))
            tell(core, known, snapshot)
            known = snapshot
        del decided
        assert _left_over() == set()
    finally:
        gc.enable()


class Told:
    """Answers as a snapshot would, for its own time alone."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.checkpoints = {run.attempt: run.checkpoint_at for run in snapshot.running}

    def usage(self, team: str, now: int) -> list[Usage]:
        assert now == self.snapshot.taken_at
        return [row for row in self.snapshot.usage if row.team == team]

    def balances(self, now: int) -> tuple[Balance, ...]:
        assert now == self.snapshot.taken_at
        return self.snapshot.balances

    def checkpoint_at(self, run: RunningJob, now: int) -> int | None:
        assert now == self.snapshot.taken_at
        return self.checkpoints[run.attempt]


@_SLOW
@given(st.integers(0, 2**32))
def test_a_core_that_asks_plans_as_one_that_is_told(seed: int) -> None:
    """Of use, credits and checkpoints; and leaving out what is guaranteed of each attempt changes
    nothing else. Planted: a cycle in which nobody could start is over though somebody could look
    for victims.
    """
    dice = Random(seed)
    knobs = policy(dice)
    for snapshot in histories(dice, knobs, steps=16):
        told = replace(decide(snapshot, knobs), waiting=(), use=(), reservations=())
        running = tuple(replace(run, checkpoint_at=None) for run in snapshot.running)
        silent = replace(snapshot, usage=(), balances=(), running=running)
        core = Core.of(silent, knobs, Told(snapshot))
        assert core.cycle(snapshot.taken_at, explains=False) == told
        starts = tuple(start._replace(guaranteed_mgpu=0) for start in told.starts)
        bare = replace(told, starts=starts, classed=())
        assert core.cycle(snapshot.taken_at, explains=False, parts=False) == bare

"""The core that lives on from cycle to cycle."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import replace

import pytest

from arbiter.api.errors import TooLate
from arbiter.api.plan import Classed
from arbiter.api.policy import Policy
from arbiter.api.snapshot import Balance, PriorityClass, RunningJob, Slot, Usage
from arbiter.cache.pool import Pool
from arbiter.cycle.decide import decide
from arbiter.cycle.pool_cycle import PoolCycle
from arbiter.cycle.pool_cycles import CycleInputs
from arbiter.cycle.scheduler import Core
from arbiter.preemption.reclaim import Reclaimer
from arbiter.queue.order import Agenda
from arbiter.quota.entitlement import Fitted, TeamJobs
from builders.arbiter_builders import (
    GPU,
    NOW,
    a_claim,
    a_node,
    a_queued,
    a_running,
    a_snapshot,
    a_victim,
    devices,
    slots,
)


def test_a_cycle_that_fails_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: what a failed cycle had started stays taken for good."""
    snapshot = a_snapshot(
        quotas={"a": 16, "a/t": 16, "b": 0, "b/t": 0},
        devices=devices(3),
        running=[a_running("gang", "b/t", slots(0, 2))],
        queued=[
            a_queued("small", "a/t", gpus=8, submitted_at=NOW - 90),
            a_queued("large", "a/t", gpus=8, submitted_at=NOW - 50),
        ],
    )
    core = Core.of(snapshot, Policy())
    with monkeypatch.context() as broken:
        broken.setattr(Reclaimer, "find", lambda *_: 1 // 0)
        with pytest.raises(ZeroDivisionError):
            core.cycle(NOW)
    plan = core.cycle(NOW)
    assert [start.job for start in plan.starts] == ["small"]
    assert plan == decide(snapshot, Policy())


def test_a_cycle_leaves_no_garbage() -> None:
    """What a cycle worked out is gone with it; a collector that had to find it would cost a tenth
    of all deciding.

    Planted: the service is left where it stopped; the agenda stays.
    """
    core = Core.of(
        a_snapshot(
            quotas={"a": 0, "a/t": 0, "b": 0, "b/t": 0},
            devices=devices(1, gpus=8),
            queued=[
                *(a_queued(f"{team}{i}", f"{team}/t", gpus=4) for team in "ab" for i in range(2)),
                a_queued("large", "a/t", gpus=8),
            ],
        ),
        Policy(),
    )
    gc.collect()
    gc.disable()
    try:
        # Other tests may have some that live on.
        before = _of_cycles()
        assert len(core.cycle(NOW, explains=False).starts) == 2
        left = {type(one) for one in _of_cycles() if all(one is not known for known in before)}
    finally:
        gc.enable()
    assert left == set()


def _of_cycles() -> list[object]:
    """All that is there now and should go with its cycle."""
    return [one for one in gc.get_objects() if type(one) in (PoolCycle, Pool, Agenda)]


def test_what_is_guaranteed_of_a_team_is_looked_at_again_when_its_attempts_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And not before: two take 16 GPUs, of which 8 are guaranteed.

    Planted: a team of which nothing was to be told is never looked at again where an attempt came,
    where one went, or where one starts; it is looked at in each cycle; a team of which something
    was told is taken for one of which nothing is; what a plan with starts finds is taken for what
    would be without them.
    """
    old = a_running("old", "a/t", slots(0, 1), started_at=NOW - 90, guaranteed_mgpu=8 * GPU)
    late = a_running("late", "a/t", slots(1, 1), started_at=NOW - 80, guaranteed_mgpu=0)
    core = Core.of(
        a_snapshot(quotas={"a": 8, "a/t": 8}, devices=devices(4), running=[old, late]), Policy()
    )
    assert core.cycle(NOW, explains=False).classed == ()

    looked_at: list[int] = []
    with monkeypatch.context() as patched:
        fitted = TeamJobs.fitted

        def noting(own: TeamJobs, guaranteed: int) -> Fitted:
            looked_at.append(own.mgpu)
            return fitted(own, guaranteed)

        patched.setattr(TeamJobs, "fitted", noting)
        assert core.cycle(NOW, explains=False).classed == ()
    assert looked_at == []

    core.hold(a_running("new", "a/t", slots(2, 1), started_at=NOW - 100, guaranteed_mgpu=8 * GPU))
    told = (Classed("old.1", 0),)
    assert core.cycle(NOW, explains=False).classed == told
    assert core.cycle(NOW, explains=False).classed == told
    core.hold(replace(old, guaranteed_mgpu=0))
    assert core.cycle(NOW, explains=False).classed == ()
    core.release("new.1")
    assert core.cycle(NOW, explains=False).classed == (Classed("old.1", 8 * GPU),)
    core.hold(old)
    assert core.cycle(NOW, explains=False).classed == ()
    core.queue(a_queued("first", "a/t", gpus=8, priority="critical"))
    assert core.cycle(NOW, explains=False).classed == (Classed("old.1", 0),)
    core.hold(replace(old, guaranteed_mgpu=0))
    assert core.cycle(NOW, explains=False).classed == ()
    core.withdraw("first")
    assert core.cycle(NOW, explains=False).classed == (Classed("old.1", 8 * GPU),)


def test_what_gone_jobs_asked_for_is_forgotten() -> None:
    """A core that lives on remembers no more questions than a few for each line that waits.

    Planted: it is never laid out anew; a class that nobody knows is remembered for good; what has
    a place is remembered beyond the cycle; holdings keep what is gone, of classes with a cap or of
    ends; an empty pool stays.
    """
    core = Core.of(
        a_snapshot(
            quotas={"a": 16, "a/t": 16},
            devices=devices(2, gpus=8),
            running=[a_running("s", "a/t", slots(0, 1), priority="few")],
            classes=[PriorityClass("few", 10, team_cap_mgpu=8 * GPU)],
        ),
        Policy(),
    )
    for number in range(2_100):
        core.queue(
            replace(
                a_queued("j", "a/t", gpus=1, priority=f"class {number % 700}"),
                mgpu_per_node=1 + number,
                features=frozenset({f"f{number % 700}"}),
            )
        )
        core.queue(replace(a_queued("k", "a/t", nodes=2), mgpu_per_node=1 + number))
        priority = "few" if number % 2 else f"class {number}"
        run = a_running("r", "a/t", slots(number, 1), priority=priority, time_limit_s=number)
        core.hold(replace(run, slots=(Slot(f"n{number}", 1),)))
        core.queue(a_queued("elsewhere", "a/t", pool=f"pool {number}"))
        core.cycle(NOW + number)
    core.release("r.1")
    core.withdraw("j")
    core.withdraw("k")
    core.withdraw("elsewhere")
    core.cycle(NOW + 2_100)
    (state,) = core._pools.values()
    config, holdings = state.config, state.holdings
    assert config is not None
    assert holdings is not None
    assert holdings.free is not None
    assert config.remembered < 2_004
    assert len(config._fleet_words) < 2_004
    assert len(holdings.free._fitting | holdings.free._failed) == 0
    assert list(holdings.all) == ["s.1"]
    assert holdings.class_use == {(config.tree.index["a/t"], "few"): 8 * GPU}
    assert holdings.on_node == {("alpha", "alpha-000"): {"s.1": 8 * GPU}}
    assert holdings.used_on(("alpha", "alpha-000")) == 8 * GPU
    assert holdings.capacity() == 2 * 8 * GPU
    assert holdings.stale == set()
    assert len(holdings.ends) < 3


@pytest.mark.parametrize(
    ("wrong", "error", "sentence"),
    [
        (lambda core: core.withdraw("x"), KeyError, "job 'x' does not wait"),
        (lambda core: core.release("x.1"), KeyError, "attempt 'x.1' holds no GPUs"),
        (lambda core: core.unclaim("x"), KeyError, "job 'x' has no claim"),
        (lambda core: core.claim(a_claim("j", slots(1, 1))), ValueError, "job 'j' has a claim"),
        (lambda core: core.cycle(NOW - 1), ValueError, "a cycle was at 1000000"),
        (
            lambda core: core.set_tree([a_node("a/t")], [], [], []),
            ValueError,
            "tree node 'a/t' hangs below an unknown parent",
        ),
    ],
    ids=["withdraw", "release", "unclaim", "claim", "time", "tree"],
)
def test_what_cannot_be_is_refused_and_changes_nothing(
    wrong: Callable[[Core], object], error: type[Exception], sentence: str
) -> None:
    """Planted: each of them is passed over, or told before it is refused."""
    snapshot = a_snapshot(
        quotas={"a": 8, "a/t": 8, "b": 0, "b/t": 0},
        devices=devices(2),
        running=[
            a_running("young", "b/t", slots(1, 1), started_at=NOW - 3_599),
            a_victim("going", "b/t", slots(0, 1), of="j"),
        ],
        queued=[a_queued("j", "a/t", gpus=8), a_queued("k", "b/t", gpus=8)],
        claims=[a_claim("j", slots(0, 1))],
    )
    core = Core.of(snapshot, Policy())
    core.cycle(NOW)
    with pytest.raises(error, match=sentence):
        wrong(core)
    assert core.cycle(NOW) == decide(snapshot, Policy())
    later = replace(snapshot, taken_at=NOW + 1)
    assert core.cycle(NOW + 1) == decide(later, Policy())


def test_what_is_told_again_replaces_what_was_known() -> None:
    """A job that waits and an attempt that runs; a job may be claimed for before it is queued."""
    snapshot = a_snapshot(quotas={"a": 8, "a/t": 8}, devices=devices(2))
    core = Core.of(snapshot, Policy())
    core.claim(a_claim("j", slots(0, 1, gpus=2)))
    for gpus in (1, 2):
        core.queue(a_queued("j", "a/t", gpus=gpus))
        core.hold(a_running("r", "a/t", slots(1, 1, gpus=gpus)))
    told = replace(
        snapshot,
        queued=(a_queued("j", "a/t", gpus=2),),
        running=(a_running("r", "a/t", slots(1, 1, gpus=2)),),
        claims=(a_claim("j", slots(0, 1, gpus=2)),),
    )
    assert core.cycle(NOW) == decide(told, Policy())


@pytest.mark.parametrize(
    "moves_on",
    [
        lambda core: core.set_tree([a_node("a"), a_node("a/t")], [], [], []),
        lambda core: core.set_devices((), frozenset()),
        lambda core: core.set_usage(()),
        lambda core: core.set_balances(()),
        lambda core: core.queue(a_queued("k", "a/t", gpus=8)),
        lambda core: core.withdraw("j"),
        lambda core: core.hold(a_running("s", "a/t", slots(1, 1))),
        lambda core: core.release("r.1"),
        lambda core: core.claim(a_claim("k", slots(1, 1))),
        lambda core: core.unclaim("j"),
        lambda core: core.decide(NOW),
    ],
    ids=[
        "tree", "devices", "usage", "balances", "queue", "withdraw", "hold", "release", "claim",
        "unclaim", "decide",
    ],
)  # fmt: skip
def test_a_cycle_is_explained_until_anything_is_told_or_decided(
    moves_on: Callable[[Core], object],
) -> None:
    """Planted: any of them leaves the cycle open."""
    snapshot = a_snapshot(
        quotas={"a": 16, "a/t": 16},
        devices=devices(2),
        running=[a_running("r", "a/t", slots(0, 1))],
        queued=[a_queued("j", "a/t", gpus=8)],
        claims=[a_claim("j", slots(1, 1))],
    )
    core = Core.of(snapshot, Policy())
    decided = core.decide(NOW)
    assert decided.explained() == decide(snapshot, Policy())
    moves_on(core)
    with pytest.raises(TooLate, match="until its core is told or decides anything"):
        decided.explained()


def test_what_is_refused_does_not_end_a_cycle() -> None:
    """Planted: a job that does not wait, when it is withdrawn, ends it."""
    snapshot = a_snapshot(
        quotas={"a": 8, "a/t": 8}, devices=devices(1), queued=[a_queued("j", "a/t", gpus=8)]
    )
    core = Core.of(snapshot, Policy())
    decided = core.decide(NOW)
    with pytest.raises(KeyError):
        core.withdraw("x")
    with pytest.raises(ValueError, match="is before it"):
        core.decide(NOW - 1)
    assert decided.explained() == decide(snapshot, Policy())


class Saved:
    """Knows when attempts saved their work, and no more."""

    def __init__(self, **at: int) -> None:
        self.at = at
        self.asked: list[str] = []

    def usage(self, team: str, now: int) -> tuple[Usage, ...]:
        self.asked.append(team)
        return ()

    def balances(self, now: int) -> tuple[Balance, ...]:
        self.asked.append("balances")
        return ()

    def checkpoint_at(self, run: RunningJob, now: int) -> int | None:
        return self.at.get(run.job)


@pytest.mark.parametrize(("saved", "victim"), [("old", "old"), ("young", "young")])
def test_who_lost_least_since_a_checkpoint_that_is_asked_for_is_the_victim(
    saved: str, victim: str
) -> None:
    """Planted: only what the attempt itself says of its checkpoint counts, and the young one goes
    each time."""
    snapshot = a_snapshot(
        quotas={"a": 8, "b": 0},
        devices=devices(2),
        running=[
            a_running("old", "b", slots(0, 1), started_at=NOW - 9_000),
            a_running("young", "b", slots(1, 1), started_at=NOW - 5_000),
        ],
        queued=[a_queued("j", "a", gpus=8)],
    )
    core = Core.of(snapshot, Policy(min_run_s=0), Saved(**{saved: NOW - 10}))
    (reclaim,) = core.cycle(NOW, explains=False).reclaims
    assert [one.job for one in reclaim.victims] == [victim]


def test_nothing_is_asked_of_use_where_nobody_is_compared() -> None:
    """Who could not start is not compared, nor who is the only one; then it is asked of those who
    are. Planted: use and credits are looked up for each cycle; the use of all is."""
    snapshot = a_snapshot(
        quotas={"a": 0, "b": 8, "c": 0, "d": 0},
        devices=devices(1),
        running=[a_running("r", "b", slots(0, 1))],
        queued=[a_queued("j", "a")],
    )
    accounts = Saved()
    core = Core.of(snapshot, Policy(), accounts)
    assert core.cycle(NOW, explains=False, parts=False).starts == ()
    core.release("r.1")
    alone = core.cycle(NOW, explains=False, parts=False)
    assert ([one.job for one in alone.starts], accounts.asked) == (["j"], [])
    core.queue(a_queued("k", "c"))
    both = core.cycle(NOW, explains=False, parts=False)
    assert [one.job for one in both.starts] == ["j", "k"]
    assert sorted(accounts.asked) == ["a", "balances", "c"]


class Books:
    """Accounts that know credits in two pools, of one moment."""

    def usage(self, team: str, now: int) -> tuple[Usage, ...]:
        """What a team has used lately: nothing."""
        return ()

    def balances(self, now: int) -> tuple[Balance, ...]:
        """All credits."""
        return Balance("t", "p", now, 1), Balance("t", "q", 2, 3), Balance("u", "q", 4, 5)

    def checkpoint_at(self, run: RunningJob, now: int) -> int | None:
        """Nobody saved anything."""
        return None


def test_credits_are_those_of_the_pool_whether_told_or_asked() -> None:
    """Planted: those of all pools, of accounts."""
    by_pool = {"p": [Balance("t", "p", 7, 1)], "q": list(Books().balances(7)[1:])}
    told, asked = CycleInputs({}, by_pool, None, 7), CycleInputs({}, {}, Books(), 7)
    for pool, rows in by_pool.items():
        assert list(told.balances(pool)) == list(asked.balances(pool)) == rows

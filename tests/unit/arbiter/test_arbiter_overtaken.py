"""Nobody is stopped for a claim that another team would take at once (R-65)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from arbiter.decisions import Code
from arbiter.snapshot import Snapshot
from builders.arbiter_builders import (
    NOW,
    World,
    a_claim,
    a_queued,
    a_running,
    a_snapshot,
    a_victim,
    devices,
    slots,
)
from builders.arbiter_plans import plan_of, started, victims, why

ONE = slots(0, 1, gpus=1)


def returning() -> Snapshot:
    """One node of four GPUs. `small` and `gone` are being stopped for `big`, of the same team as
    `small`; together they are what that team is guaranteed. `next` fits in what o leaves idle, and
    could take it back from `lent`."""
    return a_snapshot(
        quotas={"o": 3, "o/d": 3, "o/e": 0, "p": 1},
        devices=devices(1, gpus=4),
        running=[
            a_running("kept", "p", ONE, started_at=NOW - 900),
            a_running("lent", "p", ONE),
            a_victim("small", "o/d", ONE, of="big"),
            a_victim("gone", "p", ONE, of="big"),
        ],
        queued=[a_queued("big", "o/d", gpus=2, priority="high"), a_queued("next", "o/e")],
        claims=[a_claim("big", slots(0, 1, gpus=2))],
    )


def test_nobody_is_stopped_for_what_goes_to_who_is_being_stopped_and_returns() -> None:
    """Once it is gone `small` waits again, and fits in its team's guarantee beside `big`: it would
    have `next` give up its claim, and is the one for whom `lent` goes.

    Planted: of rivals only those are looked at who wait already.
    """
    world = World(returning())
    world.shapes["small"] = a_queued("small", "o/d")
    plan = world.step()
    assert (plan.reclaims, started(plan)) == ((), [])
    assert why(plan, "next").code is Code.WAITING_FOR_FREE_GPUS
    world.running.pop("gone")
    plan = world.step(NOW + 300)
    assert (started(plan), plan.dropped_claims) == (["big"], ())
    assert [(one.job, victims(plan)) for one in plan.reclaims] == [("small", ["lent"])]


def test_who_does_not_return_is_no_reason_to_wait() -> None:
    """`small` was cancelled. Planted: whoever is being stopped counts as waiting again."""
    snapshot = returning()
    *others, small, gone = snapshot.running
    ends = replace(small, beneficiary=None)
    plan = plan_of(replace(snapshot, running=(*others, ends, gone)))
    assert [(one.job, victims(plan)) for one in plan.reclaims] == [("next", ["lent"])]


def test_nobody_is_stopped_for_what_goes_to_who_waits_behind_its_own_team() -> None:
    """Two of eight GPUs come back. `big` needs one more and may have that of `own`, of its team,
    though beyond its guarantee. `one` fits in what b leaves idle, but its turn comes after that of
    `first`, which does not, so after that of `big`; it would take one of the two.

    Planted: nobody is looked for who would take a claim; the pool is not decided anew.
    """
    snapshot = a_snapshot(
        quotas={"a": 2, "a/t": 2, "b": 6, "b/t": 5},
        devices=devices(1),
        running=[
            a_running("five", "b/t", slots(0, 1, gpus=5), started_at=NOW - 900),
            a_running("own", "a/t", ONE, priority="low"),
            a_victim("going", "a/t", slots(0, 1, gpus=2), of="somebody", grace_until=NOW + 50),
        ],
        queued=[
            a_queued("big", "a/t", gpus=3, priority="high"),
            a_queued("first", "b/t", gpus=8, priority="high"),
            a_queued("one", "b/t"),
        ],
        used={("b/t", "alice"): 10_000},
    )
    plan = plan_of(snapshot)
    assert [(one.job, one.slots, one.grace_until) for one in plan.reclaims] == [
        ("one", ONE, NOW + 50)
    ]
    assert (victims(plan), started(plan)) == ([], [])
    assert why(plan, "big").code is Code.WAITING_FOR_FREE_GPUS


@pytest.mark.parametrize("younger", ["q0", "z0"])
def test_a_second_claim_of_a_team_takes_no_place_in_the_guarantee_of_the_first(
    younger: str,
) -> None:
    """`q1` fits in what is left of the guarantee of `own`'s team, and the younger job beside it
    does not. Of two claims of one moment the lower id would come first in the next cycle; `other`,
    of another organization, would take the claim of `q1` then.

    Planted: only claims beyond their teams' guarantees are looked at.
    """
    teams = ("a/x/1", "a/x/2", "a/y/3", "b/1", "b/2", "b/3")
    on = {
        ("r0", "a/x/2", 995_458): slots(1, 1, gpus=1),
        ("r1", "b/1", 997_821): slots(1, 1, gpus=1),
        ("r2", "b/2", 996_608): slots(1, 1, gpus=2),
        ("lent", "a/y/3", 998_571): ONE,
        ("r4", "b/2", 995_466): ONE,
        ("own", "a/y/1", 997_693): ONE,
        ("r6", "b/3", 996_973): ONE,
        ("r7", "b/1", 995_842): slots(2, 1, gpus=1),
        ("r8", "b/1", 997_277): slots(2, 1, gpus=1),
        ("two", "a/x/1", 998_617): slots(2, 1, gpus=2),
    }
    snapshot = a_snapshot(
        quotas={"a": 3, "a/x": 0, "a/y": 3, "a/y/1": 3, "b": 9} | dict.fromkeys(teams, 0),
        devices=devices(3, gpus=4),
        running=[a_running(job, team, held, started_at=at) for (job, team, at), held in on.items()],
        queued=[
            a_queued("q1", "a/y/1", gpus=2, submitted_at=NOW - 11),
            a_queued(younger, "a/y/1", submitted_at=NOW - 10),
            a_queued("other", "b/2", submitted_at=NOW),
        ],
    )
    world = World(snapshot)
    plan = world.step()
    assert (plan.reclaims[0].job, victims(plan)) == ("q1", ["lent", "two"])
    assert "q1" not in world.step(NOW + 10).dropped_claims
    for gone in ("lent", "two"):
        world.running.pop(gone)
    assert "q1" in started(world.step(NOW + 300))

"""Claims of one cycle need the fewest victims together, not each alone (R-60).

`big` holds eight GPUs of one node and is stopped for a job of four: the other four are there for
whom somebody else was to be stopped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from arbiter.cycle import decide
from arbiter.decisions import Classed, Plan
from arbiter.policy import Policy
from arbiter.snapshot import QueuedJob, Quota, RunningJob, Snapshot
from builders.arbiter_builders import (
    GPU,
    NOW,
    World,
    a_queued,
    a_quota,
    a_running,
    a_snapshot,
    devices,
    slots,
)
from builders.arbiter_plans import started

#: Who asks second, and brings it about that `big` goes.
LATER = a_queued("later", "b", gpus=4, submitted_at=NOW - 50)


def small(number: int, team: str, *, age_s: int, gpus: int = 1) -> RunningJob:
    """One on the first node, which loses little."""
    on = slots(0, 1, gpus=gpus)
    return a_running(f"s{number}", team, on, started_at=NOW - age_s, priority="low")


def big(team: str) -> RunningJob:
    return a_running("big", team, slots(1, 1))


def full(
    quotas: Sequence[Quota], queued: Sequence[QueuedJob], running: Sequence[RunningJob]
) -> Snapshot:
    """Four GPUs on the first node, and eight on the second, which `big` has. b has used much."""
    first, second = devices(1, gpus=4), devices(2)[1:]
    return a_snapshot(
        quotas=quotas,
        devices=(*first, *second),
        queued=(*queued, LATER),
        running=running,
        used={("b", "alice"): 1_000_000},
    )


def stopped(plan: Plan) -> dict[str, list[str]]:
    """Who is stopped for whom."""
    return {one.job: [victim.job for victim in one.victims] for one in plan.reclaims}


def test_what_a_later_claim_frees_does_for_an_earlier_one_too() -> None:
    """`first` alone needs a GPU of the first node."""
    quotas = [a_quota("a", 1), a_quota("b", 4), a_quota("c", 0)]
    running = [small(i, "c", age_s=20 + i) for i in range(4)]
    first = a_queued("first", "a")
    alone = full(quotas, [first], running)
    without_later = decide(
        a_snapshot(
            quotas=quotas, devices=alone.devices, queued=[first], running=[*running, big("c")]
        ),
        Policy(),
    )
    assert stopped(without_later) == {"first": ["s0"]}
    plan = decide(full(quotas, [first], [*running, big("c")]), Policy())
    assert stopped(plan) == {"first": [], "later": ["big"]}
    assert [one.slots for one in plan.reclaims] == [slots(1, 1, gpus=1), slots(1, 1, gpus=4)]
    assert [one.grace_until for one in plan.reclaims] == [NOW + 300, NOW + 300]


def test_who_goes_for_a_limit_is_not_spared() -> None:
    """d may have four GPUs in use: with `first` and all four that run there it would have five.

    Planted: quota is not checked.
    """
    quotas = [
        *(a_quota("d", 1, borrow=3), a_quota("d/a", 1), a_quota("d/c", 0)),
        *(a_quota("b", 4), a_quota("c", 0)),
    ]
    running = [*(small(i, "d/c", age_s=20 + i) for i in range(4)), big("c")]
    plan = decide(full(quotas, [a_queued("first", "d/a")], running), Policy())
    assert stopped(plan) == {"first": ["s0"], "later": ["big"]}


def test_as_many_are_spared_as_a_limit_allows_and_those_who_would_lose_most() -> None:
    """d may have five GPUs in use: beside the two of `first` there is room for three that run.

    Planted: what who is spared uses is not charged; the cheapest is spared first.
    """
    quotas = [
        *(a_quota("d", 2, borrow=3), a_quota("d/a", 2), a_quota("d/c", 0)),
        *(a_quota("b", 4), a_quota("c", 0)),
    ]
    running = [*(small(i, "d/c", age_s=20 + i) for i in range(4)), big("c")]
    plan = decide(full(quotas, [a_queued("first", "d/a", gpus=2)], running), Policy())
    assert stopped(plan) == {"first": ["s0"], "later": ["big"]}
    assert plan.reclaims[0].slots == slots(1, 1, gpus=2)


def test_who_would_lose_its_place_in_a_guarantee_is_not_spared() -> None:
    """All four that run in d are protected there. Beside the two GPUs of `first`, which are so too,
    there is room for one more than the two that nobody asked.

    Planted: guarantees are not asked in the end; what who is spared takes of them is not counted.
    """
    quotas = [
        *(a_quota("d", 5), a_quota("d/a", 2), a_quota("d/c", 0)),
        *(a_quota("b", 4), a_quota("c", 0)),
    ]
    running = [*(small(i, "d/c", age_s=20 + i) for i in range(4)), big("c")]
    plan = decide(full(quotas, [a_queued("first", "d/a", gpus=2)], running), Policy())
    assert stopped(plan) == {"first": ["s0"], "later": ["big"]}


def test_who_is_spared_counts_as_running() -> None:
    """c is guaranteed three GPUs. Its two oldest jobs have two of them; of the third `s0` has half
    of what it holds, before `big`, which is older but goes.

    Planted: who is spared stays among those that are being stopped.
    """
    quotas = [a_quota("a", 2), a_quota("b", 4), a_quota("c", 3)]
    running = [
        a_running("s0", "c", slots(0, 1, gpus=2), started_at=NOW - 10),
        a_running("s1", "c", slots(0, 1, gpus=1), started_at=NOW - 30),
        a_running("s2", "c", slots(0, 1, gpus=1), started_at=NOW - 40),
        a_running("big", "c", slots(1, 1), started_at=NOW - 11),
    ]
    plan = decide(full(quotas, [a_queued("first", "a", gpus=2)], running), Policy())
    assert stopped(plan) == {"first": [], "later": ["big"]}
    assert {one for one in plan.classed if one.guaranteed_mgpu} == {
        Classed("s0.1", GPU),
        Classed("s1.1", GPU),
        Classed("s2.1", GPU),
    }


def test_what_a_claim_leaves_that_moves_is_there_in_the_same_cycle() -> None:
    """`first` was to have the free GPU of the first node and that of `s0`."""
    quotas = [a_quota("a", 2), a_quota("b", 4), a_quota("c", 0)]
    running = [*(small(i, "c", age_s=20 + i) for i in range(3)), big("c")]
    waits = a_queued("waits", "c", submitted_at=NOW - 5)
    plan = decide(full(quotas, [a_queued("first", "a", gpus=2), waits], running), Policy())
    assert stopped(plan) == {"first": [], "later": ["big"]}
    assert started(plan) == ["waits"]
    assert plan.starts[0].slots == slots(0, 1, gpus=1)


def test_who_fits_in_what_a_claim_leaves_that_moves_starts_instead_of_claiming() -> None:
    """`first` was to have the free GPU and that of `s0`, and `second` that of `s1`."""
    quotas = [a_quota("a", 2), a_quota("b", 4), a_quota("c", 0), a_quota("e", 1)]
    running = [*(small(i, "c", age_s=20 + i) for i in range(3)), big("c")]
    queued = [
        a_queued("first", "a", gpus=2, submitted_at=NOW - 200),
        a_queued("second", "e"),
        a_queued("waits", "c", gpus=2, submitted_at=NOW - 5),
    ]
    plan = decide(full(quotas, queued, running), Policy())
    assert stopped(plan) == {"first": [], "later": ["big"]}
    assert started(plan) == ["second"]
    assert plan.starts[0].slots == slots(0, 1, gpus=1)
    assert plan.dropped_claims == ()


def test_a_claim_waits_until_the_victims_of_another_one_give_its_quota_back() -> None:
    """d is full, so that `first` cannot start on the GPU that is free before one of d's jobs goes;
    `big`, which goes for `later`, is one of them. The claim of `first` has no victims, all its GPUs
    and no quota until then, and stands.

    Planted: a claim of which that is true is given up.
    """
    quotas = [
        *(a_quota("d", 1, borrow=10), a_quota("d/a", 1), a_quota("d/c", 0)),
        a_quota("b", 4),
    ]
    running = [*(small(i, "d/c", age_s=20 + i) for i in range(3)), big("d/c")]
    world = World(full(quotas, [a_queued("first", "d/a")], running))
    plan = world.step()
    assert stopped(plan) == {"first": [], "later": ["big"]}
    assert plan.reclaims[0].slots == slots(0, 1, gpus=1)
    assert plan.reclaims[0].grace_until == NOW + 300
    plan = world.step(NOW + 100)
    assert (plan.dropped_claims, plan.reclaims, plan.starts) == ((), (), ())
    world.leave("big")
    assert started(world.step(NOW + 110)) == ["first", "later"]


def test_of_many_claims_only_those_on_the_nodes_of_a_victim_move() -> None:
    """Twenty-five teams ask for a GPU each; `huge` has 32 of which the last one needs four, so that
    as many of the others as fit beside it need nobody else's."""
    askers = [f"a{i:02d}" for i in range(25)]
    quotas = [a_quota("b", 4), a_quota("c", 0), *(a_quota(one, 1) for one in askers)]
    running = [
        *(small(i, "c", age_s=20 + i) for i in range(26)),
        a_running("huge", "c", slots(1, 1, gpus=32)),
    ]
    snapshot = a_snapshot(
        quotas=quotas,
        devices=(*devices(1, gpus=26), *devices(2, gpus=32)[1:]),
        queued=[LATER, *(a_queued(f"j{one}", one) for one in askers)],
        running=running,
        used={("b", "alice"): 1_000_000},
    )
    plan = decide(snapshot, Policy())
    assert len(plan.reclaims) == 26
    assert {name: who for name, who in stopped(plan).items() if who} == {"later": ["huge"]}


def test_a_victim_that_also_runs_on_a_node_that_is_gone_is_no_obstacle() -> None:
    """Its first node is not offered any more; others are claimed.

    Planted: what is free of that node was asked, and the whole cycle failed, again and again.
    """
    beta = slots(0, 1, gpus=3, cluster="beta")
    jobs = [
        a_queued("pair", "o/x", nodes=2, gpus=2, priority="high", submitted_at=NOW - 500),
        a_queued("one", "o/x", priority="high"),
    ]
    snapshot = a_snapshot(
        quotas={"o": 30, "o/x": 0},
        devices=[
            *devices(3, gpus=2)[1:],
            *devices(1, gpus=3, cluster="beta"),
            *devices(1, cluster="gamma"),
        ],
        running=[
            a_running("r", "o/x", beta, cluster="beta"),
            a_running("gang", "o/x", slots(0, 3, gpus=1)),
        ],
        queued=[replace(job, clusters=frozenset({"alpha", "beta"})) for job in jobs],
    )
    assert stopped(decide(snapshot, Policy())) == {"pair": ["gang"], "one": ["r"]}

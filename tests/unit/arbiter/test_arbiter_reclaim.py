"""How claims live and die (R-62 to R-64)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from arbiter.api.plan import Code, Plan, Reclaim
from arbiter.api.policy import Policy
from arbiter.api.snapshot import Phase, PriorityClass, QueuedJob, RunningJob, Snapshot
from arbiter.cycle.scheduler import Core
from builders.arbiter_builders import (
    CLASSES,
    GPU,
    NOW,
    World,
    a_claim,
    a_queued,
    a_quota,
    a_running,
    a_snapshot,
    a_victim,
    devices,
    slots,
)
from builders.arbiter_plans import plan_of, started, victims, why
from builders.reclaiming import TWO, borrowers, on


def claimed(*more: RunningJob, gpus: int = 8) -> Snapshot:
    """`j` claims node 1, whose borrowers are being stopped."""
    snapshot = borrowers(*more, gpus=gpus)
    return replace(snapshot, claims=(a_claim("j", slots(1, 1, gpus=gpus)),))


def test_a_claim_waits_for_its_last_victim_and_then_starts() -> None:
    half = a_victim("v", "o/other", on(4), of="j", grace_until=NOW + 120)
    plan = plan_of(claimed(half))
    assert (plan.starts, plan.reclaims, plan.dropped_claims) == ((), (), ())
    assert why(plan, "j").numbers == {
        "need_mgpu": 8 * GPU,
        "guaranteed_mgpu": 8 * GPU,
        "within_guarantee_mgpu": 8 * GPU,
        "coming_back_mgpu": 4 * GPU,
        "earmarked_mgpu": 4 * GPU,
        "victims": 1,
        "grace_left_s": 300,
    }
    plan = plan_of(claimed())
    assert [(start.job, start.slots) for start in plan.starts] == [("j", slots(1, 1))]
    assert plan.dropped_claims == ()


def test_a_claim_waits_until_the_victims_of_another_one_give_its_quota_back() -> None:
    """d is full, so `first` cannot start on the free GPU before one of d's jobs ends. `big` is one
    of them and goes for `later`. The claim of `first` needs no victims; it stands until then.

    Planted: such a claim waits for its own grace only, and one that quota refuses is given up.
    """
    quotas = [
        *(a_quota("d", 1, borrow=10), a_quota("d/a", 1), a_quota("d/c", 0)),
        a_quota("b", 4),
    ]
    one = slots(0, 1, gpus=1)
    snapshot = a_snapshot(
        quotas=quotas,
        devices=(*devices(1, gpus=4), *devices(2)[1:]),
        queued=[a_queued("later", "b", gpus=4), a_queued("first", "d/a")],
        running=[
            *(a_running(f"s{i}", "d/c", one, started_at=NOW - 20 - i) for i in range(3)),
            a_running("big", "d/c", slots(1, 1)),
        ],
        used={("d/a", "alice"): 1_000_000},
    )
    world = World(snapshot)
    plan = world.step()
    stopped = {one.job: [victim.job for victim in one.victims] for one in plan.reclaims}
    assert stopped == {"later": ["big"], "first": []}
    assert plan.reclaims[1].slots == one
    assert plan.reclaims[1].grace_until == NOW + 300
    plan = world.step(NOW + 100)
    assert (plan.dropped_claims, plan.reclaims, plan.starts) == ((), (), ())
    world.leave("big")
    assert started(world.step(NOW + 110)) == ["first", "later"]


def test_who_waits_for_gpus_of_those_stopped_for_another_is_not_told_of_none() -> None:
    """Planted: "jobs that give back: 0", above the list of those whose GPUs it waits for."""
    half = a_victim("v", "o/other", on(4), of="another", grace_until=NOW + 120)
    numbers = why(plan_of(claimed(half)), "j").numbers
    assert (numbers["coming_back_mgpu"], numbers.get("victims")) == (4 * GPU, None)


def test_what_is_being_freed_for_a_team_is_no_part_of_what_it_has_in_use() -> None:
    """`mine`, guaranteed 8, runs 2 GPUs, and 6 are being freed for `j`, of which 2 are free.

    Planted: what the claim takes of the guarantee is told as protected (8), what of it is free as
    in use (4).
    """
    snapshot = claimed(
        a_victim("v", "o/other", on(4), of="j"),
        a_running("r", "o/mine", on(2), started_at=NOW - 9_000),
        gpus=6,
    )
    behind = a_queued("k", "o/mine", gpus=8)
    plan = plan_of(replace(snapshot, queued=(*snapshot.queued, behind)))
    assert (plan.starts, plan.reclaims, plan.dropped_claims) == ((), (), ())
    numbers = why(plan, "k").numbers
    assert {name: numbers[f"{name}_mgpu"] for name in ("in_use", "protected", "being_freed")} == {
        "in_use": 2 * GPU,
        "protected": 2 * GPU,
        "being_freed": 6 * GPU,
    }
    (use,) = [one for one in plan.use if one.node == "o/mine"]
    assert (use.in_use_mgpu, use.protected_mgpu) == (2 * GPU, 2 * GPU)


@pytest.mark.parametrize(("gpus", "guaranteed"), [(8, 2), (1, 1)])
def test_what_is_guaranteed_of_a_job_that_waits_is_left_by_the_claims_of_its_team(
    gpus: int, guaranteed: int
) -> None:
    """`mine`, guaranteed 8, claims 6 for `j`.

    Planted: what is claimed is left out (8 of the first); a job's own claim counts against it (2
    of `j`).
    """
    snapshot = claimed(a_victim("v", "o/other", on(4), of="j"), gpus=6)
    job = a_queued("k", "o/mine", gpus=gpus)
    decided = Core.of(replace(snapshot, queued=(*snapshot.queued, job)), Policy()).decide(NOW)
    assert decided.guaranteed_of(job) == guaranteed * GPU
    assert decided.guaranteed_of(snapshot.queued[0]) == 6 * GPU


def test_what_is_earmarked_is_nobody_else_s() -> None:
    snapshot = claimed(a_victim("v", "o/other", on(4), of="j"))
    greedy = a_queued("k", "o/other", gpus=4, submitted_at=NOW - 9_000)
    plan = plan_of(replace(snapshot, queued=(*snapshot.queued, greedy)))
    assert plan.starts == ()
    assert why(plan, "k").numbers["free_mgpu"] == 0
    assert why(plan, "k").jobs_ahead == 1


def test_what_a_claim_leaves_over_is_free_for_all() -> None:
    snapshot = claimed(a_victim("v", "o/other", on(4), of="j"), gpus=6)
    small = [a_queued(f"k{i}", "o/other", gpus=2) for i in range(2)]
    plan = plan_of(replace(snapshot, queued=(*snapshot.queued, *small)))
    assert [start.job for start in plan.starts] == ["k0"]


def test_a_claim_s_quota_is_not_given_away_twice() -> None:
    """Free GPUs elsewhere must not let the same team start what the claim will need."""
    snapshot = a_snapshot(
        quotas=[a_quota("o", 24), a_quota("o/mine", 8, borrow=0), a_quota("o/other", 8)],
        devices=(*devices(2), *devices(3, gpus=4)[2:]),
        running=[
            a_running("kept", "o/other", slots(0, 1), started_at=NOW - 9_000),
            a_victim("v", "o/other", slots(1, 1), of="j"),
        ],
        queued=[
            a_queued("j", "o/mine", gpus=8),
            a_queued("k", "o/mine", gpus=4, submitted_at=NOW - 9_000),
        ],
        claims=[a_claim("j", slots(1, 1))],
    )
    plan = plan_of(snapshot)
    assert plan.starts == ()
    assert why(plan, "k").code is Code.BORROW_LIMIT_REACHED
    assert why(plan, "k").numbers["available_by_quota_mgpu"] == 0


def test_a_claimed_job_starts_elsewhere_if_it_can_and_drops_the_claim() -> None:
    snapshot = claimed(a_victim("v", "o/other", on(8), of="j"))
    plan = plan_of(replace(snapshot, devices=devices(3)))
    assert [(start.job, start.slots) for start in plan.starts] == [("j", slots(2, 1))]
    assert plan.dropped_claims == ("j",)


def test_what_was_coming_back_for_who_starts_elsewhere_is_there_in_the_same_cycle() -> None:
    """Else `y` would take what `z` has, which nobody needs then."""
    snapshot = a_snapshot(
        quotas={"a": 1, "b": 1, "c": 0},
        devices=devices(3, gpus=1),
        running=[
            a_victim("v", "c", slots(0, 1, gpus=1), of="x"),
            a_running("z", "c", slots(1, 1, gpus=1)),
        ],
        queued=[a_queued("x", "a"), a_queued("y", "b")],
        claims=[a_claim("x", slots(0, 1, gpus=1))],
    )
    plan = plan_of(snapshot)
    assert (started(plan), plan.dropped_claims) == (["x"], ("x",))
    assert [(one.job, one.slots) for one in plan.reclaims] == [("y", slots(0, 1, gpus=1))]
    assert victims(plan) == []


def test_a_claim_that_is_given_up_takes_nothing_of_a_guarantee() -> None:
    """a may have one GPU in use, which its other team has. `j` could take it back next."""
    snapshot = a_snapshot(
        quotas=[a_quota("a", 1, borrow=0), a_quota("a/t", 1), a_quota("a/u", 0)],
        devices=devices(2, gpus=1),
        running=[a_running("r", "a/u", slots(0, 1, gpus=1))],
        queued=[a_queued("j", "a/t")],
        claims=[a_claim("j", slots(1, 1, gpus=1))],
    )
    plan = plan_of(snapshot, reclaims_max=0)
    assert (plan.starts, plan.dropped_claims) == ((), ("j",))
    assert why(plan, "j").numbers["protected_mgpu"] == 0
    assert victims(plan_of(snapshot)) == ["r"]


def test_a_claim_of_a_job_that_is_gone_is_dropped() -> None:
    snapshot = replace(claimed(a_victim("v", "o/other", on(8), of="j")), queued=())
    assert plan_of(snapshot).dropped_claims == ("j",)


def test_a_claim_on_a_lost_node_is_dropped_and_made_anew_in_the_next_cycle() -> None:
    victim = a_victim("v", "o/other", on(8), of="j")
    other = a_running("b", "o/other", slots(2, 1))
    snapshot = replace(
        claimed(victim, other),
        devices=(devices(1)[0], replace(devices(2)[1], capacity_mgpu=0), devices(3)[2]),
    )
    plan = plan_of(snapshot)
    assert plan.dropped_claims == ("j",)
    assert plan.reclaims == ()
    plan = plan_of(replace(snapshot, claims=()))
    assert victims(plan) == ["b"]


def test_a_claim_on_a_cluster_that_fell_silent_is_dropped() -> None:
    fleet = (*devices(2), *devices(1, cluster="beta"))
    snapshot = replace(claimed(a_victim("v", "o/other", on(8), of="j")), devices=fleet)
    plan = plan_of(replace(snapshot, clusters=frozenset({"beta"})))
    assert plan.dropped_claims == ("j",)
    assert [start.cluster for start in plan.starts] == ["beta"]


def test_a_claim_whose_victims_do_not_die_is_given_up_in_the_end() -> None:
    late = a_victim("v", "o/other", on(8), of="j", grace_until=NOW - 600)
    snapshot = replace(claimed(late), claims=(a_claim("j", slots(1, 1), grace_until=NOW - 600),))
    assert plan_of(snapshot).dropped_claims == ()
    plan = plan_of(snapshot, claim_overdue_s=599)
    assert plan.dropped_claims == ("j",)
    orphan = replace(snapshot, claims=())
    assert plan_of(orphan, claim_overdue_s=599).reclaims == ()


def test_a_claim_that_nobody_is_late_for_is_given_up_as_soon() -> None:
    """j was to have what another job's victim leaves over; that went on, and one that goes later
    holds the node. Planted: only claims with victims of their own are given up."""
    later = a_running(
        "v", "o/other", on(8), phase=Phase.STOPPING, grace_until=NOW + 40, started_at=NOW - 10
    )
    snapshot = replace(claimed(later), claims=(a_claim("j", slots(1, 1), grace_until=NOW - 600),))
    assert plan_of(snapshot).dropped_claims == ()
    assert plan_of(snapshot, claim_overdue_s=599).dropped_claims == ("j",)
    # What is there all the same is not given up.
    here = replace(snapshot, running=snapshot.running[:1])
    plan = plan_of(here, claim_overdue_s=599)
    assert (started(plan), plan.dropped_claims) == (["j"], ())


def test_a_claim_that_quota_refuses_since_is_dropped() -> None:
    snapshot = a_snapshot(
        quotas=[a_quota("o", 16), a_quota("o/mine", 4, borrow=0), a_quota("o/other", 8)],
        devices=devices(2),
        running=[a_running("kept", "o/other", slots(0, 1))],
        queued=[a_queued("j", "o/mine", gpus=8)],
        claims=[a_claim("j", slots(1, 1))],
    )
    plan = plan_of(snapshot)
    assert (plan.starts, plan.dropped_claims) == ((), ("j",))
    assert why(plan, "j").code is Code.NEVER_FITS


def test_what_such_a_claim_leaves_lets_an_earlier_one_start_at_once() -> None:
    """What `j` claims is free, and quota refuses it; `early`, which comes before it and whose
    victim is not gone, can have it. Planted: each claim is looked at once."""
    snapshot = a_snapshot(
        quotas=[
            a_quota("o", 8),
            a_quota("o/d", 4, borrow=0),
            a_quota("o/d/a", 4),
            a_quota("o/d/b", 0),
        ],
        devices=devices(2, gpus=4),
        running=[a_victim("v", "o", slots(0, 1, gpus=4), of="early", grace_until=NOW + 50)],
        queued=[a_queued("early", "o/d/a", gpus=4), a_queued("j", "o/d/b", gpus=4)],
        claims=[
            a_claim("early", slots(0, 1, gpus=4), grace_until=NOW + 50),
            a_claim("j", slots(1, 1, gpus=4)),
        ],
    )
    plan = plan_of(snapshot)
    assert [(start.job, start.slots) for start in plan.starts] == [("early", slots(1, 1, gpus=4))]
    assert plan.dropped_claims == ("early", "j")


def test_what_is_going_anyway_is_claimed_before_anybody_is_stopped() -> None:
    """v ends by itself (cancelled): the claim has no victims of its own."""
    going = a_running(
        "v", "o/other", on(8), phase=Phase.STOPPING, grace_until=NOW + 40, started_at=NOW - 10
    )
    lent = a_running("b", "o/other", slots(2, 1))
    plan = plan_of(replace(borrowers(going, lent), devices=devices(3)))
    assert plan.reclaims == (Reclaim("j", "alpha", slots(1, 1), (), NOW + 40),)
    assert why(plan, "j").numbers["coming_back_mgpu"] == 8 * GPU
    unknown = replace(going, grace_until=None)
    assert victims(plan_of(replace(borrowers(unknown, lent), devices=devices(3)))) == ["b"]


def test_a_victim_belongs_to_one_claim_only() -> None:
    snapshot = a_snapshot(
        quotas={"o": 16, "o/a": 4, "o/b": 4, "o/c": 0},
        devices=devices(1),
        running=[a_running("v", "o/c", slots(0, 1))],
        queued=[
            a_queued("ja", "o/a", gpus=4),
            a_queued("jb", "o/b", gpus=4, submitted_at=NOW - 1),
        ],
    )
    plan = plan_of(snapshot)
    assert [(one.job, [v.job for v in one.victims]) for one in plan.reclaims] == [
        ("ja", ["v"]),
        ("jb", []),
    ]


def test_who_claims_what_is_left_over_of_a_victim_waits_for_its_grace_too() -> None:
    """w is stopped for ja, and jb claims the rest of it: neither has anything before w is gone.
    jc takes the other node, and waits for its own victim.

    Planted: only what was being stopped before this cycle is looked at.
    """
    snapshot = a_snapshot(
        quotas={"o": 16, "o/a": 4, "o/b": 4, "o/c": 0, "o/d": 8},
        devices=devices(2),
        running=[
            a_running("v", "o/c", slots(0, 1), started_at=NOW - 900),
            a_running("w", "o/c", slots(1, 1), started_at=NOW - 900, priority="low"),
        ],
        queued=[
            a_queued("ja", "o/a", gpus=4),
            a_queued("jb", "o/b", gpus=4, submitted_at=NOW - 1),
            a_queued("jc", "o/d", gpus=8, submitted_at=NOW),
        ],
    )
    plan = plan_of(snapshot)
    assert [
        (one.job, [v.job for v in one.victims], one.grace_until - NOW) for one in plan.reclaims
    ] == [
        ("ja", ["w"], 60),
        ("jb", [], 60),
        ("jc", ["v"], 300),
    ]
    told = why(plan, "jb")
    assert told.numbers["grace_left_s"] == 60
    assert (told.earliest, told.latest) == (NOW, NOW + 60)


def test_a_claim_made_by_a_right_further_up_yields_to_one_further_down() -> None:
    """s claimed what d leaves idle; now t, guaranteed 8 inside d, wants it: s waits on."""
    snapshot = a_snapshot(
        quotas={"o": 16, "o/d": 8, "o/d/t": 8, "o/d/s": 0, "o/e": 8},
        devices=devices(2),
        running=[
            a_running("e", "o/e", slots(0, 1), started_at=NOW - 900),
            a_victim("v", "o/e", slots(1, 1), of="early", grace_until=NOW + 50),
        ],
        queued=[
            a_queued("early", "o/d/s", gpus=8, submitted_at=NOW - 900),
            a_queued("late", "o/d/t", gpus=8),
        ],
        claims=[a_claim("early", slots(1, 1), grace_until=NOW + 50)],
    )
    plan = plan_of(snapshot)
    assert plan.reclaims == (Reclaim("late", "alpha", slots(1, 1), (), NOW + 50),)
    assert plan.dropped_claims == ("early",)
    assert why(plan, "early").code is Code.WAITING_FOR_FREE_GPUS
    assert why(plan, "late").code is Code.WAITING_FOR_RECLAIM


def test_whose_claim_gave_way_makes_no_new_one_before_the_next_cycle() -> None:
    """What s may take from `lent`, on a cluster that `late` may not use, is asked for when it is
    known what `late` leaves. Planted: it makes a claim again at once."""
    snapshot = a_snapshot(
        quotas={"o": 24, "o/d": 16, "o/d/t": 8, "o/d/s": 0, "o/e": 8},
        devices=(*devices(2), *devices(1, cluster="beta")),
        running=[
            a_running("e", "o/e", slots(0, 1), started_at=NOW - 900),
            a_victim("v", "o/e", slots(1, 1), of="early", grace_until=NOW + 50),
            a_running("lent", "o/e", slots(0, 1, cluster="beta"), cluster="beta"),
        ],
        queued=[
            a_queued("early", "o/d/s", gpus=8, submitted_at=NOW - 900),
            a_queued("late", "o/d/t", gpus=8, cluster="alpha"),
        ],
        claims=[a_claim("early", slots(1, 1), grace_until=NOW + 50)],
    )
    plan = plan_of(snapshot)
    assert [one.job for one in plan.reclaims] == ["late"]
    assert plan.dropped_claims == ("early",)
    promised = a_claim("late", slots(1, 1), grace_until=NOW + 50)
    then = plan_of(replace(snapshot, claims=(promised,)))
    assert [(one.job, victims(then)) for one in then.reclaims] == [("early", ["lent"])]


def a_claim_in_the_way(*queued: QueuedJob, reserves: int = 0, cap_gpus: int | None = None) -> Plan:
    """Two GPUs are free; what d may use is promised to `x` and used by `kept`, but for nothing.
    `cap_gpus` is each team's in the class of all of them."""
    snapshot = a_snapshot(
        quotas=[
            a_quota("o", 8),
            a_quota("o/d", 6, borrow=0),
            a_quota("o/d/a", 2),
            a_quota("o/d/b", 0),
            a_quota("o/e", 2),
            a_quota("o/c", 8),
        ],
        devices=devices(1),
        running=[
            a_running(
                "kept", "o/d/a", slots(0, 1, gpus=1), started_at=NOW - 900, time_limit_s=1_210
            ),
            a_victim("v", "o/e", slots(0, 1, gpus=5), of="x"),
        ],
        queued=[
            a_queued("x", "o/d/b", gpus=5, submitted_at=NOW - 900, time_limit_s=60),
            *queued,
        ],
        claims=[a_claim("x", slots(0, 1, gpus=5))],
    )
    if cap_gpus is not None:
        capped = PriorityClass("normal", 0, team_cap_mgpu=cap_gpus * GPU)
        snapshot = replace(snapshot, priority_classes=(capped,))
    return plan_of(snapshot, reservations_max=reserves)


def test_a_claim_that_is_given_up_leaves_the_cap_of_its_class() -> None:
    """Planted: it still counts as held in the class."""
    team_b = [a_queued(job, "o/d/b", submitted_at=NOW - 50) for job in ("k", "l")]
    plan = a_claim_in_the_way(a_queued("j", "o/d/a"), *team_b, cap_gpus=5)
    assert (started(plan), plan.dropped_claims) == (["j", "k"], ("x",))


def test_what_a_claim_leaves_that_is_given_up_starts_jobs_in_the_same_cycle() -> None:
    """`x` gives way to `j`, which is guaranteed its GPU; that lets `k` start, too, at which was
    looked before. What comes back then is free to claim, and `x` is told how things stand.

    Planted: `j` claims what comes free although a GPU is; nobody is looked at again.
    """
    team_b = [a_queued(job, "o/d/b", submitted_at=NOW - 50) for job in ("k", "l")]
    plan = a_claim_in_the_way(a_queued("j", "o/d/a"), *team_b)
    assert (started(plan), plan.dropped_claims) == (["j", "k"], ("x",))
    assert plan.reclaims == (Reclaim("l", "alpha", slots(0, 1, gpus=1), (), NOW + 300),)
    told = why(plan, "x")
    assert (told.code, told.node) == (Code.PARENT_LIMIT_REACHED, "o/d")
    assert (told.numbers["free_mgpu"], told.numbers["available_by_quota_mgpu"]) == (0, 0)


def test_what_is_reserved_counts_on_what_a_claim_leaves_that_is_given_up() -> None:
    """`h` waits for the whole node, until `kept` ends and not for `x`, which gives way to `j`
    afterwards. Planted: what was reserved stays as it was.
    """
    plan = a_claim_in_the_way(
        a_queued("h", "o/c", gpus=8), a_queued("j", "o/d/a", time_limit_s=60), reserves=1
    )
    assert (started(plan), plan.dropped_claims) == (["j"], ("x",))
    assert [(one.job, one.start_at) for one in plan.reservations] == [("h", NOW + 310)]


def test_a_claim_counts_toward_the_class_cap() -> None:
    classes = (*CLASSES[:2], PriorityClass("normal", 10, team_cap_mgpu=8 * GPU))
    snapshot = claimed(a_victim("v", "o/other", on(8), of="j"))
    more = a_queued("k", "o/mine", gpus=1)
    plan = plan_of(replace(snapshot, priority_classes=classes, queued=(*snapshot.queued, more)))
    assert why(plan, "k").code is Code.CLASS_CAP_REACHED


def test_a_class_that_preempts_has_no_right_to_what_others_give_back() -> None:
    """Beyond its guarantee even a critical job waits its turn for GPUs that come free."""
    going = a_running("v", "o/other", on(8), phase=Phase.STOPPING, grace_until=NOW + 40)
    snapshot = a_snapshot(
        quotas={"o": 8, "o/mine": 0, "o/other": 8, "p": 8},
        devices=devices(2),
        running=[a_running("kept", "o/other", slots(0, 1), started_at=NOW - 9_000), going],
        queued=[a_queued("j", "o/mine", gpus=8, priority="critical")],
    )
    assert plan_of(snapshot).reclaims == ()


def test_of_two_claims_on_a_node_that_shrank_the_later_is_dropped() -> None:
    shrunk = (devices(1)[0], replace(devices(2)[1], capacity_mgpu=6 * GPU))
    snapshot = a_snapshot(
        quotas=TWO,
        devices=shrunk,
        running=[
            a_running("kept", "o/other", slots(0, 1), started_at=NOW - 9_000),
            a_victim("v", "o/other", on(3), of="j"),
            a_victim("w", "o/other", on(3), of="k"),
        ],
        queued=[a_queued("j", "o/mine", gpus=4), a_queued("k", "o/mine", gpus=4)],
        claims=[a_claim("k", on(4)), a_claim("j", on(4), grace_until=NOW + 200)],
    )
    plan = plan_of(snapshot)
    assert plan.dropped_claims == ("k",)
    assert why(plan, "j").code is Code.WAITING_FOR_RECLAIM


@pytest.mark.parametrize(
    ("team", "within"), [("o/d/full", 0), ("o/d/part", 0), ("o/d/owner", 8 * GPU)]
)
def test_only_what_fits_the_team_s_own_guarantee_is_its_own(team: str, within: int) -> None:
    """A department's reserve gives the right to all three; each has 8 GPUs guaranteed. Mutants that
    died: the guarantee without its use; only new claims; only claims that were stored."""
    snapshot = a_snapshot(
        quotas={
            **{"o": 48, "o/d": 40, "o/d/full": 8, "o/d/part": 8, "o/d/owner": 8},
            **{"o/e": 8, "o/e/z": 8},
        },
        devices=devices(4),
        running=[
            a_running("a", "o/d/full", slots(0, 1), started_at=NOW - 900),
            a_running("b", "o/d/part", slots(1, 1, gpus=4), started_at=NOW - 900),
            a_running("kept", "o/e/z", slots(2, 1), started_at=NOW - 900),
            a_running("lent", "o/e/z", slots(3, 1)),
        ],
        queued=[a_queued("j", team, gpus=8)],
    )
    plan = plan_of(snapshot)
    assert victims(plan) == ["lent"]
    assert why(plan, "j").numbers["within_guarantee_mgpu"] == within
    later = replace(
        snapshot,
        running=(*snapshot.running[:3], a_victim("lent", "o/e/z", slots(3, 1), of="j")),
        claims=(a_claim("j", slots(3, 1), grace_until=NOW + 50),),
    )
    plan = plan_of(later)
    assert plan.reclaims == ()
    assert why(plan, "j").numbers["within_guarantee_mgpu"] == within


def test_what_a_later_claim_waits_for_does_not_hold_an_earlier_one_back() -> None:
    """One node of four GPUs. The victim of `first` has gone; that of `second` and `third` runs on
    for another 40 s. The two GPUs that are free are no reason to let `third` in before `first`:
    beside `leaving` and what the sisters keep there is room for one more."""
    node = slots(0, 1, gpus=1)
    snapshot = a_snapshot(
        quotas=(
            a_quota("o", 4),
            a_quota("o/a", 1),
            a_quota("o/a/one", 1),
            a_quota("o/b", 3),
            a_quota("o/b/keeps", 1, lend=0),
            a_quota("o/b/lends", 1),
            a_quota("o/b/takes", 1),
        ),
        devices=devices(1, gpus=4),
        running=[
            a_victim("leaving", "o/b/lends", slots(0, 1, gpus=2), of="second", grace_until=NOW + 40)
        ],
        queued=[
            a_queued("first", "o/a/one"),
            a_queued("second", "o/b/takes"),
            a_queued("third", "o/b/takes"),
        ],
        claims=[
            a_claim("first", node, grace_until=NOW),
            a_claim("second", node, grace_until=NOW + 40),
            a_claim("third", node, grace_until=NOW + 40),
        ],
    )
    assert [start.job for start in plan_of(snapshot).starts] == ["first"]


def refused_for_now(*running: RunningJob, behind: bool = False) -> Snapshot:
    """Two nodes of four GPUs. All that `first` claims is free; `leaving`, which goes for `last`,
    holds the other node for another 40 s, and a sister keeps a GPU. `running` runs beside `first`,
    or what `behind` it in turn claims is free there, too."""
    half = slots(1, 1, gpus=2)
    snapshot = a_snapshot(
        quotas=(
            a_quota("o", 8),
            a_quota("o/a", 2),
            a_quota("o/b", 5),
            a_quota("o/keeps", 1, lend=0),
            a_quota("p", 0),
        ),
        devices=devices(2, gpus=4),
        running=[
            a_victim("leaving", "p", slots(0, 1, gpus=4), of="last", grace_until=NOW + 40),
            *running,
        ],
        queued=[
            a_queued("first", "o/a", gpus=2),
            a_queued("second", "o/b", gpus=2),
            a_queued("last", "o/b", gpus=3),
        ],
        claims=[
            a_claim("first", half, grace_until=NOW - 10),
            a_claim("last", slots(0, 1, gpus=3), grace_until=NOW + 40),
        ],
    )
    if not behind:
        return snapshot
    second = a_claim("second", half, grace_until=NOW + 40)
    return replace(snapshot, claims=(*snapshot.claims, second))


def test_what_claims_behind_it_keep_free_is_no_reason_to_refuse_an_earlier_one() -> None:
    """Beside `leaving` and what the sister keeps there is room for one of both. Planted: what
    `second` keeps free counts, so `first` is given up, for which others were stopped, and `second`
    starts."""
    plan = plan_of(refused_for_now(behind=True))
    assert (started(plan), plan.dropped_claims, plan.reclaims) == (["first"], (), ())
    assert why(plan, "second").code is Code.WAITING_FOR_RECLAIM


def test_a_claim_that_quota_will_allow_once_others_are_gone_stands() -> None:
    """Two GPUs that somebody uses since leave `first` no room beside `leaving`. It waits for that,
    and as long as for a victim of its own. Planted: until the end of its own grace."""
    snapshot = refused_for_now(a_running("since", "o/b", slots(1, 1, gpus=2)))
    plan = plan_of(snapshot, claim_overdue_s=10)
    assert (plan.starts, plan.dropped_claims, plan.reclaims) == ((), (), ())
    assert plan_of(snapshot, claim_overdue_s=9).dropped_claims == ("first",)
    gone = replace(snapshot, running=snapshot.running[1:])
    assert sorted(started(plan_of(gone))) == ["first", "last"]


def test_who_is_being_stopped_for_an_earlier_claim_counts_for_the_next_one() -> None:
    """The claim of `j` for which `v` goes is no more, as its node is drained. It claims a free one
    until quota lets it have that, once `v` is gone; so what `v` uses is its own, and `k` can start
    beside it.

    Planted: a claim counts only those who are stopped in its cycle.
    """
    drained, *others = devices(3, gpus=4)
    plan = plan_of(
        a_snapshot(
            quotas=(
                a_quota("o", 8, borrow=0),
                a_quota("o/d", 4, borrow=0),
                a_quota("o/d/a", 4),
                a_quota("o/d/b", 0),
                a_quota("o/e", 4),
            ),
            devices=(replace(drained, capacity_mgpu=0), *others),
            running=[
                a_victim("v", "o/d/b", slots(0, 1, gpus=4), of="j", grace_until=NOW + 50),
            ],
            queued=[a_queued("j", "o/d/a", gpus=4), a_queued("k", "o/e")],
            used={("o/e", "alice"): 1_000_000},
        )
    )
    assert [(one.job, one.victims, one.grace_until) for one in plan.reclaims] == [
        ("j", (), NOW + 50)
    ]
    assert started(plan) == ["k"]
    assert why(plan, "j").numbers["victims"] == 1


def test_what_a_preempting_class_leaves_over_is_there_for_others() -> None:
    """It stops a gang on two nodes for one of them; the other one goes to the next in line.

    Planted: what could come free at most is not looked at again after somebody was stopped who is
    protected.
    """
    plan = plan_of(
        a_snapshot(
            quotas={"o": 56, "o/a": 16, "o/b": 40},
            devices=devices(3),
            running=[
                a_running("gang", "o/b", slots(0, 2), priority="low"),
                a_running("kept", "o/a", slots(2, 1)),
            ],
            queued=[
                a_queued("first", "o/b", gpus=8, priority="high"),
                a_queued("next", "o/a", gpus=8),
            ],
        )
    )
    assert [(one.job, [slot.node for slot in one.slots]) for one in plan.reclaims] == [
        ("first", ["alpha-000"]),
        ("next", ["alpha-001"]),
    ]
    assert victims(plan) == ["gang"]


def test_a_claim_that_waits_for_the_quota_of_others_victims_is_made_once() -> None:
    """Team b may borrow 1 GPU, and its job that has it is stopped for team a. Its next one claims a
    free GPU until that is gone, and team a's job the other one.

    Planted: the claim is ready at once, refused by quota in the next cycle and made anew.
    """
    snapshot = a_snapshot(
        quotas=[a_quota("o", 4, borrow=1), a_quota("o/a", 4), a_quota("o/b", 0, borrow=1)],
        devices=(*devices(1, gpus=3), devices(2, gpus=1)[1]),
        running=[
            a_running("bold", "o/b", slots(1, 1, gpus=1)),
            a_running("filling", "o/a", slots(0, 1, gpus=1)),
        ],
        queued=[
            a_queued("next", "o/b", submitted_at=NOW - 50),
            a_queued("wants", "o/a", nodes=2, gpus=1, submitted_at=NOW - 5),
        ],
    )
    world = World(snapshot, Policy(min_run_s=0))
    plan = world.step()
    assert [(one.job, one.grace_until - NOW) for one in plan.reclaims] == [
        ("wants", 300),
        ("next", 300),
    ]
    assert victims(plan) == ["bold"]
    for after_s in (1, 150, 299):
        plan = world.step(NOW + after_s)
        assert (plan.starts, plan.reclaims, plan.dropped_claims) == ((), (), ())
        told = why(plan, "next")
        assert (told.code, told.latest) == (Code.WAITING_FOR_RECLAIM, NOW + 300)
    assert sorted(started(world.step(NOW + 300))) == ["next", "wants"]

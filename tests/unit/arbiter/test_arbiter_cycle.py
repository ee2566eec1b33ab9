"""One cycle: order of service, limits, reasons, classes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from arbiter.api.plan import Classed, Code, Plan, Waiting
from arbiter.api.policy import Policy
from arbiter.api.snapshot import Phase, PriorityClass, Quota, RunningJob
from arbiter.cycle.decide import decide
from builders.arbiter_builders import (
    GPU,
    NOW,
    a_node,
    a_queued,
    a_quota,
    a_running,
    a_snapshot,
    devices,
    slots,
)
from builders.arbiter_plans import plan_of, started, why


def test_nothing_in_nothing_out() -> None:
    assert decide(a_snapshot(quotas={}, devices=()), Policy()) == Plan(NOW)


# -- order of service ---------------------------------------------------------------------


def test_guaranteed_demand_comes_before_higher_rank_and_age() -> None:
    plan = plan_of(
        a_snapshot(
            quotas={"o": 8, "o/a": 0, "o/b": 8},
            ranks={"o/a": 9},
            devices=devices(1),
            queued=[
                a_queued("spare", "o/a", gpus=8, submitted_at=NOW - 900),
                a_queued("own", "o/b", gpus=8, submitted_at=NOW - 1),
            ],
        )
    )
    assert started(plan) == ["own"]
    assert why(plan, "spare").code is Code.WAITING_FOR_FREE_GPUS


def test_the_lowest_use_of_the_guarantee_is_served_first() -> None:
    """a stands at 4 of 12, b at 2 of 8: a third against a quarter."""
    plan = plan_of(
        a_snapshot(
            quotas={"o": 20, "o/a": 12, "o/b": 8},
            devices=devices(1, gpus=8),
            running=[
                a_running("ra", "o/a", slots(0, 1, gpus=4)),
                a_running("rb", "o/b", slots(0, 1, gpus=2)),
            ],
            queued=[
                a_queued("qa", "o/a", gpus=2, submitted_at=NOW - 900),
                a_queued("qb", "o/b", gpus=2),
            ],
        )
    )
    assert started(plan) == ["qb"]


def test_equal_shares_go_by_submit_time_then_id() -> None:
    queued = [
        a_queued("y", "o/a", gpus=2, submitted_at=NOW - 5),
        a_queued("x", "o/b", gpus=2, submitted_at=NOW - 5),
        a_queued("z", "o/c", gpus=2, submitted_at=NOW - 9),
    ]
    quotas = {"o": 12, "o/a": 4, "o/b": 4, "o/c": 4}
    plan = plan_of(a_snapshot(quotas=quotas, devices=devices(3, gpus=2), queued=queued))
    assert started(plan) == ["z", "x", "y"]


def test_spare_gpus_go_by_rank_then_submit_time() -> None:
    queued = [
        a_queued(f"{team}{age}", f"o/{team}", submitted_at=NOW - age)
        for team in "abc"
        for age in (10, 20)
    ]
    plan = plan_of(
        a_snapshot(
            quotas={"o": 6, "o/a": 0, "o/b": 0, "o/c": 0},
            ranks={"o/a": 1, "o/b": 2, "o/c": 2},
            devices=devices(1, gpus=6),
            queued=queued,
        )
    )
    assert started(plan) == ["b20", "c20", "b10", "c10", "a20", "a10"]


def test_what_a_department_leaves_idle_is_its_own_teams_before_others_rank() -> None:
    """Served the other way round, a/x's job would be reclaimed by b/x in the next cycle."""
    plan = plan_of(
        a_snapshot(
            quotas={"o": 8, "o/a": 0, "o/a/x": 0, "o/b": 8, "o/b/x": 0, "o/b/y": 8},
            ranks={"o/a": 9},
            devices=devices(1),
            queued=[
                a_queued("other", "o/a/x", gpus=8, submitted_at=NOW - 900),
                a_queued("sister", "o/b/x", gpus=8),
            ],
        )
    )
    assert started(plan) == ["sister"]


def test_inside_a_team_priority_then_submit_time_then_id() -> None:
    queued = [
        a_queued("late", "o/a", submitted_at=NOW - 1),
        a_queued("b", "o/a", submitted_at=NOW - 5),
        a_queued("a", "o/a", submitted_at=NOW - 5),
        a_queued("urgent", "o/a", priority="high", submitted_at=NOW),
    ]
    plan = plan_of(a_snapshot(quotas={"o": 4, "o/a": 4}, devices=devices(1), queued=queued))
    assert started(plan) == ["urgent", "a", "b", "late"]


def test_a_blocked_job_is_passed_by_its_own_team_only_if_the_policy_skips() -> None:
    snapshot = a_snapshot(
        quotas={"o": 2, "o/a": 2},
        devices=devices(1, gpus=4),
        running=[a_running("r", "o/a", slots(0, 1, gpus=2))],
        queued=[
            a_queued("big", "o/a", gpus=4, submitted_at=NOW - 900),
            a_queued("small", "o/a", gpus=1),
        ],
    )
    assert started(plan_of(snapshot)) == ["small"]
    strict = plan_of(snapshot, skips_blocked_within_team=False)
    assert started(strict) == []
    assert why(strict, "small").code is Code.BEHIND_HIGHER_PRIORITY


def big_and_small(*running: RunningJob, of_b: int = 4, reclaims_max: int = 9) -> Plan:
    """The whole node that `big` is entitled to is not free; `small` would use up its guarantee."""
    snapshot = a_snapshot(
        quotas={"o": 8, "o/a": 4, "o/b": of_b},
        devices=devices(2, gpus=4),
        running=running,
        queued=[
            a_queued("big", "o/a", gpus=4, submitted_at=NOW - 900),
            a_queued("small", "o/a", gpus=1),
        ],
    )
    return plan_of(snapshot, reclaims_max=reclaims_max)


def test_a_guaranteed_job_that_is_blocked_keeps_its_place() -> None:
    """It is known when a node is free, or one would be if what is borrowed were gone."""
    of_b = [a_running(f"r{i}", "o/b", slots(i, 1, gpus=2)) for i in (0, 1)]
    for plan in (
        big_and_small(of_b[0], replace(of_b[1], time_limit_s=600)),
        big_and_small(*of_b, of_b=2, reclaims_max=0),
    ):
        assert (plan.starts, plan.reclaims) == ((), ())
        assert why(plan, "big").code is Code.TOPOLOGY_FRAGMENTED
        assert why(plan, "big").numbers["nodes_fitting"] == 0
        assert why(plan, "small").code is Code.BEHIND_HIGHER_PRIORITY


def test_who_waits_for_nodes_that_nobody_gives_back_keeps_no_place() -> None:
    """Planted: it kept its team from starting anything for as long as others' jobs ran, which may
    be weeks."""
    of_b = [a_running(f"r{i}", "o/b", slots(i, 1, gpus=2)) for i in (0, 1)]
    plan = big_and_small(*of_b)
    assert (started(plan), plan.reclaims) == (["small"], ())


def test_who_gets_no_reservation_keeps_a_place_that_time_limits_tell_of() -> None:
    """One reservation for two teams that wait for a whole node, and three nodes that come free.

    Planted: only who holds a reservation keeps its place. The ninth of the pool would be passed by
    its team's small jobs again and again.
    """
    snapshot = a_snapshot(
        quotas={"o": 14, "o/a": 4, "o/b": 4, "o/f": 6},
        devices=devices(3, gpus=4),
        running=[
            a_running(f"f{i}", "o/f", slots(i, 1, gpus=2), time_limit_s=600 + i) for i in range(3)
        ],
        queued=[
            a_queued("first", "o/a", gpus=4, submitted_at=NOW - 900),
            a_queued("big", "o/b", gpus=4, submitted_at=NOW - 800),
            a_queued("small", "o/b", gpus=1),
        ],
    )
    plan = plan_of(snapshot, reservations_max=1)
    assert (started(plan), [one.job for one in plan.reservations]) == ([], ["first"])
    assert why(plan, "small").code is Code.BEHIND_HIGHER_PRIORITY


def test_who_may_yet_stop_lower_classes_of_its_team_keeps_its_place() -> None:
    """The only claim of this cycle is another team's; in the next one `low` goes for `high`.

    Planted: it keeps none. `small`, of the same class, would fill the guarantee, for good.
    """
    snapshot = a_snapshot(
        quotas=[
            a_quota("o", 16),
            a_quota("o/a", 5, borrow=0),
            a_quota("o/b", 4),
            a_quota("o/c", 4),
            a_quota("o/d", 0),
        ],
        devices=devices(3, gpus=4),
        running=[
            a_running("low", "o/a", slots(0, 1, gpus=1), priority="low"),
            a_running("b", "o/b", slots(1, 1, gpus=2)),
            a_running("d", "o/d", slots(2, 1, gpus=4)),
        ],
        queued=[
            a_queued("c", "o/c", gpus=4, submitted_at=NOW - 990),
            a_queued("high", "o/a", gpus=4, priority="critical", submitted_at=NOW - 900),
            a_queued("small", "o/a", gpus=2, priority="critical"),
        ],
    )
    plan = plan_of(snapshot, reclaims_max=1)
    assert (started(plan), [one.job for one in plan.reclaims]) == ([], ["c"])


def test_what_starts_on_a_node_leaves_others_no_chance_of_it() -> None:
    """`pair` waits for two whole nodes of which nobody could give one back; then `first` takes half
    of the one that is left for `big`.

    Planted: what could be had is what it was when it was first asked for.
    """
    snapshot = a_snapshot(
        quotas={"o/a": 4, "o/b": 2, "o/c": 7, "o/d": 8, "o": 21},
        devices=devices(3, gpus=4),
        running=[
            a_running("r1", "o/c", slots(1, 1, gpus=4)),
            a_running("r2", "o/c", slots(2, 1, gpus=3)),
        ],
        queued=[
            a_queued("pair", "o/d", nodes=2, gpus=4, submitted_at=NOW - 990),
            a_queued("first", "o/b", gpus=2, submitted_at=NOW - 950),
            a_queued("big", "o/a", gpus=4, submitted_at=NOW - 900),
            a_queued("small", "o/a", gpus=1),
        ],
    )
    assert started(plan_of(snapshot)) == ["first", "small"]


def test_starts_are_bounded_and_the_rest_is_told_so() -> None:
    queued = [a_queued(f"j{i}", "o/a", submitted_at=NOW - 10 + i) for i in range(4)]
    snapshot = a_snapshot(quotas={"o": 8, "o/a": 8}, devices=devices(1), queued=queued)
    plan = plan_of(snapshot, starts_max=2)
    assert started(plan) == ["j0", "j1"]
    assert [(one.job, one.code, one.jobs_ahead) for one in plan.waiting] == [
        ("j2", Code.BEHIND_FAIR_SHARE, 0),
        ("j3", Code.BEHIND_FAIR_SHARE, 1),
    ]
    assert why(plan, "j2").numbers["starts_max"] == 2


def test_pools_do_not_know_each_other() -> None:
    plan = plan_of(
        a_snapshot(
            quotas=[a_quota("o", 8), a_quota("o/a", 8), a_quota("o", 2, pool="cpu")],
            devices=(*devices(1), *devices(1, gpus=2, pool="cpu")),
            queued=[
                a_queued("g", "o/a", gpus=8),
                a_queued("c", "o/a", gpus=2, pool="cpu"),
                a_queued("n", "o/a", gpus=1, pool="none"),
            ],
        )
    )
    assert started(plan) == ["c", "g"]
    assert [start.guaranteed_mgpu for start in plan.starts] == [0, 8 * GPU]
    assert why(plan, "n").code is Code.CLUSTER_UNAVAILABLE


# -- quota --------------------------------------------------------------------------------


def test_an_organization_without_a_quota_may_not_use_the_pool() -> None:
    plan = plan_of(
        a_snapshot(
            quotas=[a_quota("o", 8)],
            nodes=[a_node("o"), a_node("x"), a_node("x/t")],
            devices=devices(1),
            queued=[a_queued("j", "x/t")],
        )
    )
    assert why(plan, "j") == Waiting(
        "j",
        Code.NEVER_FITS,
        {"need_mgpu": GPU, "nodes_needed": 1, "mgpu_per_node": GPU, "could_ever_mgpu": 0},
    )


def test_a_team_without_a_quota_has_no_guarantee_and_no_limits() -> None:
    plan = plan_of(
        a_snapshot(
            quotas=[a_quota("o", 8)],
            nodes=[a_node("o"), a_node("o/t")],
            devices=devices(1),
            queued=[a_queued("j", "o/t", gpus=8)],
        )
    )
    assert started(plan) == ["j"]
    assert plan.starts[0].guaranteed_mgpu == 0


def test_the_team_s_own_limit_and_a_parent_s_are_told_apart() -> None:
    plan = plan_of(
        a_snapshot(
            quotas=[
                a_quota("o", 20),
                a_quota("o/d", 4, borrow=4),
                a_quota("o/d/a", 2, borrow=1),
                a_quota("o/d/b", 2),
            ],
            devices=devices(4),
            running=[
                a_running("ra", "o/d/a", slots(0, 1, gpus=2)),
                a_running("rb", "o/d/b", slots(1, 1, gpus=5)),
            ],
            queued=[a_queued("a", "o/d/a", gpus=2), a_queued("b", "o/d/b", gpus=2)],
        )
    )
    own, parent = why(plan, "a"), why(plan, "b")
    assert (own.code, own.node) == (Code.BORROW_LIMIT_REACHED, "o/d/a")
    assert (own.numbers["limit_mgpu"], own.numbers["held_mgpu"]) == (3 * GPU, 2 * GPU)
    assert (parent.code, parent.node) == (Code.PARENT_LIMIT_REACHED, "o/d")
    assert (parent.numbers["limit_mgpu"], parent.numbers["held_mgpu"]) == (8 * GPU, 7 * GPU)
    assert parent.numbers["available_by_quota_mgpu"] == GPU


def test_more_than_limits_or_devices_could_ever_give_never_fits() -> None:
    plan = plan_of(
        a_snapshot(
            quotas=[a_quota("o", 20), a_quota("o/a", 2, borrow=4), a_quota("o/b", 2, lend=0)],
            devices=devices(2),
            queued=[
                a_queued("limit", "o/a", gpus=7),
                a_queued("size", "o/b", gpus=9),
                a_queued("count", "o/b", gpus=4, nodes=3),
                a_queued("nothing", "o/b", gpus=0),
                a_queued("nobody", "o/zz"),
            ],
        )
    )
    assert {one.job: (one.code, one.numbers["could_ever_mgpu"]) for one in plan.waiting} == {
        "limit": (Code.NEVER_FITS, 6 * GPU),
        "size": (Code.NEVER_FITS, 0),
        "count": (Code.NEVER_FITS, 8 * GPU),
        "nothing": (Code.NEVER_FITS, 0),
        "nobody": (Code.NEVER_FITS, 0),
    }


def test_what_others_do_not_lend_is_never_available() -> None:
    plan = plan_of(
        a_snapshot(
            quotas=[a_quota("o", 8), a_quota("o/a", 2), a_quota("o/b", 6, lend=4)],
            devices=devices(1),
            queued=[a_queued("six", "o/a", gpus=6), a_queued("seven", "o/a", gpus=7)],
        )
    )
    assert started(plan) == ["six"]
    assert why(plan, "seven").numbers["could_ever_mgpu"] == 6 * GPU


def test_a_class_cap_binds_the_team_and_not_the_others() -> None:
    classes = (PriorityClass("normal", 10, team_cap_mgpu=3 * GPU), PriorityClass("low", 1))
    plan = plan_of(
        a_snapshot(
            quotas={"o": 8, "o/a": 8, "o/b": 0},
            devices=devices(2),
            classes=classes,
            running=[a_running("r", "o/a", slots(0, 1, gpus=2))],
            queued=[
                a_queued("capped", "o/a", gpus=2, submitted_at=NOW - 9),
                a_queued("fits", "o/a", gpus=1),
                a_queued("low", "o/a", gpus=4, priority="low"),
                a_queued("other", "o/b", gpus=2),
                a_queued("never", "o/b", gpus=4),
            ],
        ),
        skips_blocked_within_team=False,
    )
    assert started(plan) == ["fits", "low", "other"]
    assert why(plan, "capped").numbers == {
        "need_mgpu": 2 * GPU,
        "class_cap_mgpu": 3 * GPU,
        "class_in_use_mgpu": 3 * GPU,
    }
    assert why(plan, "capped").code is Code.CLASS_CAP_REACHED
    assert why(plan, "never").code is Code.NEVER_FITS


# -- clusters and devices -----------------------------------------------------------------


def test_only_clusters_that_answer_get_starts() -> None:
    fleet = (*devices(1, cluster="alpha"), *devices(1, cluster="beta"))
    queued = [
        a_queued("pinned", "o/a", cluster="alpha"),
        a_queued("free", "o/a"),
        a_queued("large", "o/a", gpus=8),
    ]
    snapshot = a_snapshot(quotas={"o": 16, "o/a": 16}, devices=fleet, queued=queued)
    plan = plan_of(replace(snapshot, clusters=frozenset({"beta"})))
    assert [(start.job, start.cluster) for start in plan.starts] == [("free", "beta")]
    assert why(plan, "pinned").code is Code.CLUSTER_UNAVAILABLE
    assert why(plan, "large").code is Code.WAITING_FOR_GUARANTEE
    nowhere = plan_of(replace(snapshot, clusters=frozenset()))
    assert {one.code for one in nowhere.waiting} == {Code.CLUSTER_UNAVAILABLE}


def test_what_still_runs_on_a_drained_node_takes_no_room_from_the_others() -> None:
    fleet = (replace(devices(1)[0], capacity_mgpu=0), *devices(3)[1:])
    snapshot = a_snapshot(
        quotas={"o": 24, "o/a": 24},
        devices=fleet,
        running=[a_running("r", "o/a", slots(0, 1)), a_running("s", "o/a", slots(1, 1))],
        queued=[a_queued("j", "o/a", gpus=8), a_queued("k", "o/a", gpus=8)],
    )
    plan = plan_of(snapshot)
    assert started(plan) == ["j"]
    assert plan.starts[0].slots == slots(2, 1)
    assert why(plan, "k").code is Code.WAITING_FOR_FREE_GPUS
    assert why(plan, "k").numbers["available_by_quota_mgpu"] == 0


def test_over_admission_is_shown_and_not_clamped() -> None:
    snapshot = a_snapshot(
        quotas=[a_quota("o", 8), a_quota("o/a", 2, borrow=0), a_quota("o/b", 6, lend=0)],
        devices=devices(1),
        running=[a_running("r", "o/a", slots(0, 1, gpus=7))],
        queued=[a_queued("j", "o/b", gpus=1)],
    )
    plan = plan_of(snapshot)
    assert started(plan) == ["j"]
    assert {use.node: use.available_mgpu for use in plan.use} == {
        "o": -5 * GPU,
        "o/a": -5 * GPU,
        "o/b": 0,
    }


def test_scattered_gpus_are_told_as_such() -> None:
    snapshot = a_snapshot(
        quotas={"o": 16, "o/a": 8, "o/b": 0},
        devices=devices(2),
        running=[
            a_running("r", "o/a", slots(0, 1, gpus=4)),
            a_running("s", "o/a", slots(1, 1, gpus=4)),
        ],
        queued=[a_queued("j", "o/b", gpus=8)],
    )
    one = why(plan_of(snapshot), "j")
    assert one.code is Code.TOPOLOGY_FRAGMENTED
    assert one.numbers["nodes_needed"] == 1
    assert one.numbers["mgpu_per_node"] == 8 * GPU
    assert one.numbers["nodes_fitting"] == 0
    assert one.numbers["largest_free_on_a_cluster_mgpu"] == 8 * GPU


def test_no_cluster_alone_has_enough() -> None:
    fleet = (*devices(1, cluster="alpha"), *devices(2, cluster="beta"))
    snapshot = a_snapshot(
        quotas={"o": 24, "o/a": 16, "o/b": 0},
        devices=fleet,
        running=[a_running("r", "o/a", slots(0, 1, cluster="beta"), cluster="beta")],
        queued=[a_queued("j", "o/b", gpus=8, nodes=2)],
    )
    one = why(plan_of(snapshot), "j")
    assert one.code is Code.WAITING_FOR_FREE_GPUS
    assert one.numbers["free_mgpu"] == 16 * GPU
    assert one.numbers["largest_free_on_a_cluster_mgpu"] == 8 * GPU


# -- estimates ----------------------------------------------------------------------------


def test_the_first_in_line_gets_the_end_of_the_time_limits() -> None:
    snapshot = a_snapshot(
        quotas={"o": 16, "o/a": 16, "o/b": 0},
        devices=devices(2),
        running=[
            a_running("r", "o/a", slots(0, 1), started_at=NOW - 100, time_limit_s=500),
            a_running("s", "o/a", slots(1, 1), started_at=NOW - 100, time_limit_s=900),
        ],
        queued=[
            a_queued("one", "o/b", gpus=8, submitted_at=NOW - 900),
            a_queued("two", "o/b", gpus=8, nodes=2),
        ],
    )
    plan = plan_of(snapshot)
    one, two = why(plan, "one"), why(plan, "two")
    assert (one.earliest, one.latest, one.method) == (None, NOW + 400, "time_limits")
    assert (two.jobs_ahead, two.latest, two.method) == (1, None, None)
    only_two = plan_of(replace(snapshot, queued=snapshot.queued[1:]))
    assert why(only_two, "two").latest == NOW + 800


def test_without_time_limits_nothing_is_promised() -> None:
    snapshot = a_snapshot(
        quotas={"o": 8, "o/a": 8, "o/b": 0},
        devices=devices(1),
        running=[a_running("r", "o/a", slots(0, 1))],
        queued=[a_queued("j", "o/b", gpus=8)],
    )
    one = why(plan_of(snapshot), "j")
    assert (one.earliest, one.latest, one.method) == (None, None, None)


# -- classes ------------------------------------------------------------------------------


def test_what_is_left_of_the_guarantee_goes_to_borrowed_jobs_in_part() -> None:
    snapshot = a_snapshot(
        quotas={"o": 16, "o/a": 10},
        devices=devices(4),
        running=[
            a_running("first", "o/a", slots(0, 1, gpus=6), started_at=NOW - 90),
            a_running(
                "second", "o/a", slots(1, 1, gpus=6), started_at=NOW - 80, guaranteed_mgpu=4 * GPU
            ),
            a_running("third", "o/a", slots(2, 1, gpus=4), started_at=NOW - 70, guaranteed_mgpu=0),
        ],
    )
    plan = plan_of(snapshot)
    assert plan.classed == (
        Classed("first.1", 6 * GPU),
        Classed("second.1", 0),
        Classed("third.1", 4 * GPU),
    )


def test_an_attempt_that_is_being_stopped_gives_its_part_to_the_others() -> None:
    going = a_running(
        "going",
        "o/a",
        slots(0, 1, gpus=6),
        started_at=NOW - 90,
        phase=Phase.STOPPING,
        grace_until=NOW + 100,
        guaranteed_mgpu=6 * GPU,
    )
    stays = a_running(
        "stays", "o/a", slots(1, 1, gpus=6), started_at=NOW - 80, guaranteed_mgpu=4 * GPU
    )
    plan = plan_of(
        a_snapshot(quotas={"o": 16, "o/a": 10}, devices=devices(4), running=[going, stays])
    )
    assert plan.classed == (Classed("going.1", 4 * GPU), Classed("stays.1", 6 * GPU))
    (org, team) = plan.use
    assert (team.in_use_mgpu, team.protected_mgpu, team.borrowed_mgpu) == (
        12 * GPU,
        6 * GPU,
        2 * GPU,
    )
    assert (org.in_use_mgpu, org.protected_mgpu) == (12 * GPU, 6 * GPU)


def test_a_start_of_higher_priority_takes_the_guaranteed_part() -> None:
    snapshot = a_snapshot(
        quotas={"o": 16, "o/a": 4},
        devices=devices(2),
        running=[a_running("r", "o/a", slots(0, 1, gpus=4), guaranteed_mgpu=4 * GPU)],
        queued=[a_queued("j", "o/a", gpus=4, priority="critical")],
    )
    plan = plan_of(snapshot)
    assert plan.starts[0].guaranteed_mgpu == 4 * GPU
    assert plan.classed == (Classed("r.1", 0),)


def test_lent_is_split_over_idle_teams_and_never_more_than_they_lend() -> None:
    snapshot = a_snapshot(
        quotas=[
            a_quota("o", 20),
            a_quota("o/a", 4),
            a_quota("o/b", 6, lend=2),
            a_quota("o/c", 8),
        ],
        devices=devices(3),
        running=[a_running("r", "o/a", (*slots(0, 1), *slots(1, 1, gpus=3)))],
    )
    lent = {use.node: use.lent_mgpu for use in plan_of(snapshot).use}
    assert lent == {"o": 0, "o/a": 0, "o/b": GPU, "o/c": 4 * GPU}


def test_unknown_teams_and_classes_do_not_stop_the_cycle() -> None:
    plan = plan_of(
        a_snapshot(
            quotas={"o": 8, "o/a": 8},
            devices=devices(1),
            running=[a_running("r", "gone", slots(0, 1, gpus=4), guaranteed_mgpu=0)],
            queued=[
                a_queued("j", "o/a", gpus=4, priority="unheard"),
                a_queued("k", "o/a", gpus=4, priority="unheard"),
            ],
        )
    )
    assert started(plan) == ["j"]
    assert plan.classed == ()
    assert why(plan, "k").numbers["available_by_quota_mgpu"] == 0


def test_a_row_for_an_unknown_node_is_of_no_effect() -> None:
    snapshot = a_snapshot(
        quotas=[a_quota("o", 8), Quota("gone", "h100", 5)],
        nodes=[a_node("o")],
        devices=devices(1),
        queued=[a_queued("j", "o")],
    )
    assert started(plan_of(snapshot)) == ["j"]


@pytest.mark.parametrize(
    ("knob", "value"),
    [
        ("grace_period_s_default", -1),
        ("grace_period_s_default", 86_401),
        ("starts_max", -1),
        ("reclaims_max", 1_000_001),
        ("claim_overdue_s", -1),
    ],
)
def test_a_policy_out_of_range_is_refused(knob: str, value: int) -> None:
    with pytest.raises(ValueError, match=f"^policy {knob} is {value}; choose "):
        Policy(**{knob: value})  # type: ignore[arg-type]


# -- where a job goes -----------------------------------------------------------------------


def test_what_is_in_its_guarantee_keeps_off_what_is_lent_and_what_borrows_joins_it() -> None:
    running = [
        a_running("first", "o/a", slots(0, 1, gpus=7), started_at=NOW - 900),
        a_running("own", "o/b", slots(1, 1, gpus=7), started_at=NOW - 900),
        a_running("lent", "o/a", slots(2, 1, gpus=7), started_at=NOW - 800),
    ]

    def place_of(team: str, **guarantees: int) -> str:
        quotas = {"o": 24, "o/a": 7, "o/b": 14, **{f"o/{one}": n for one, n in guarantees.items()}}
        snapshot = a_snapshot(
            quotas=quotas, devices=devices(3), running=running, queued=[a_queued("new", team)]
        )
        (start,) = plan_of(snapshot).starts
        return start.slots[0].node

    # The second job of o/a is beyond its guarantee, the other two are protected.
    assert place_of("o/b") == "alpha-000"
    assert place_of("o/a") == "alpha-002"
    # With 14 GPUs for o/a nothing is lent, and the first by name is as good as any.
    assert place_of("o/a", a=14) == "alpha-000"

"""Who is stopped for whom (R-53 to R-57)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from arbiter.api.plan import Code, Reclaim, Victim
from builders.arbiter_builders import (
    GPU,
    NOW,
    a_queued,
    a_quota,
    a_running,
    a_snapshot,
    devices,
    slots,
)
from builders.arbiter_plans import plan_of, victims, why
from builders.reclaiming import TWO, borrowers, on

# -- who may be stopped -------------------------------------------------------------------


def test_a_protected_job_is_never_stopped() -> None:
    snapshot = a_snapshot(
        quotas={"o": 16, "o/mine": 8, "o/other": 16},
        devices=devices(2),
        running=[a_running(f"r{i}", "o/other", slots(i, 1)) for i in range(2)],
        queued=[a_queued("j", "o/mine", gpus=8)],
    )
    plan = plan_of(snapshot)
    assert plan.reclaims == ()
    assert why(plan, "j").code is Code.WAITING_FOR_GUARANTEE
    assert "capacity_mgpu" not in why(plan, "j").numbers


def test_it_is_told_that_more_is_guaranteed_than_there_is() -> None:
    """Planted: what teams are guaranteed counts besides; as much as there is counts as more."""
    snapshot = a_snapshot(
        quotas={"o": 16, "o/t": 16, "p": 8, "p/t": 8},
        devices=devices(2),
        running=[a_running(f"r{i}", "o/t", slots(i, 1)) for i in range(2)],
        queued=[a_queued("j", "p/t", gpus=8)],
    )
    reason = why(plan_of(snapshot), "j")
    assert (reason.code, reason.numbers["capacity_mgpu"]) == (
        Code.WAITING_FOR_GUARANTEE,
        16 * GPU,
    )


@pytest.mark.parametrize(
    ("third", "capacity_mgpu"),
    [
        ({"outside_mgpu": 8 * GPU, "capacity_mgpu": 0}, None),
        ({"cluster": "silent"}, None),
        ({"capacity_mgpu": 0}, 16 * GPU),
    ],
)
def test_gpus_that_others_hold_or_silent_clusters_have_are_there(
    third: dict[str, Any], capacity_mgpu: int | None
) -> None:
    """Planted: what can be given now counts alone; a node that is down counts."""
    *two, last = devices(3)
    snapshot = a_snapshot(
        quotas={"o": 16, "o/t": 16, "p": 8, "p/t": 8},
        devices=[*two, replace(last, **third)],
        running=[a_running(f"r{i}", "o/t", slots(i, 1)) for i in range(2)],
        queued=[a_queued("j", "p/t", gpus=8)],
        clusters={"alpha"},
    )
    reason = why(plan_of(snapshot), "j")
    assert (reason.code, reason.numbers.get("capacity_mgpu")) == (
        Code.WAITING_FOR_GUARANTEE,
        capacity_mgpu,
    )


def test_only_what_fits_in_a_guarantee_reclaims() -> None:
    snapshot = borrowers(a_running("b", "o/other", on(8)))
    assert victims(plan_of(snapshot)) == ["b"]
    larger = replace(snapshot, queued=(a_queued("j", "o/mine", gpus=8, nodes=2),))
    assert plan_of(larger).reclaims == ()


def test_a_job_that_could_start_on_free_gpus_never_reclaims() -> None:
    snapshot = borrowers(a_running("b", "o/other", on(4)), gpus=4)
    plan = plan_of(snapshot)
    assert [start.job for start in plan.starts] == ["j"]
    assert plan.reclaims == ()


def test_an_ancestor_s_right_reaches_further_than_the_team_s() -> None:
    """d is guaranteed 8 and uses none: its team without a guarantee may draw on that."""
    snapshot = a_snapshot(
        quotas={"o": 16, "o/d": 8, "o/d/t": 0, "o/e": 8, "o/e/t": 8},
        devices=devices(2),
        running=[
            a_running("own", "o/e/t", slots(0, 1), started_at=NOW - 900),
            a_running("lent", "o/e/t", slots(1, 1)),
        ],
        queued=[a_queued("j", "o/d/t", gpus=8)],
    )
    assert victims(plan_of(snapshot)) == ["lent"]


def test_a_sister_s_borrowed_use_counts_as_gone_where_its_parent_s_right_is_weighed() -> None:
    """t fits in its guarantee. s borrows 2 inside d, e borrows 2 of d's: both must go, although
    d's guarantee has room for t only once s's borrowed job is gone."""
    snapshot = a_snapshot(
        quotas={"o": 16, "o/d": 8, "o/d/t": 4, "o/d/s": 4, "o/e": 8, "o/e/t": 8},
        devices=devices(1, gpus=16),
        running=[
            a_running("s4", "o/d/s", slots(0, 1, gpus=4), started_at=NOW - 900),
            a_running("s2", "o/d/s", slots(0, 1, gpus=2)),
            a_running("e8", "o/e/t", slots(0, 1, gpus=8), started_at=NOW - 900),
            a_running("e2", "o/e/t", slots(0, 1, gpus=2)),
        ],
        queued=[a_queued("j", "o/d/t", gpus=4)],
    )
    assert sorted(victims(plan_of(snapshot))) == ["e2", "s2"]


def test_what_a_sister_lends_nobody_is_in_the_way_of_what_draws_on_their_parent() -> None:
    """d is guaranteed 3, of which s keeps 1 for itself, and t has 3 of them in use: with what s
    keeps that is 4, so one of them is e's. It must come back when e asks for it."""
    snapshot = a_snapshot(
        quotas=[
            *(a_quota(node, gpus) for node, gpus in {"o": 4, "o/d": 3, "o/d/t": 1}.items()),
            a_quota("o/d/s", 2, lend=1),
            a_quota("o/e", 1),
        ],
        devices=devices(1, gpus=4),
        running=[a_running("t3", "o/d/t", slots(0, 1, gpus=3))],
        queued=[a_queued("j", "o/e", gpus=1)],
    )
    assert victims(plan_of(snapshot)) == ["t3"]


def test_a_limit_further_up_can_only_be_relieved_below_it() -> None:
    """GPUs are free, but d may not hold more: what s borrows inside d must go."""
    snapshot = a_snapshot(
        quotas=[
            a_quota("o", 40),
            a_quota("o/d", 10, borrow=0),
            a_quota("o/d/t", 5),
            a_quota("o/d/s", 5),
            a_quota("o/e", 0),
        ],
        devices=devices(5),
        running=[
            a_running("s5", "o/d/s", slots(0, 1, gpus=5), started_at=NOW - 900),
            a_running("s3", "o/d/s", slots(1, 1, gpus=3)),
            a_running("e8", "o/e", slots(2, 1)),
        ],
        queued=[a_queued("j", "o/d/t", gpus=4)],
    )
    plan = plan_of(snapshot)
    assert victims(plan) == ["s3"]
    assert plan.reclaims[0].slots == slots(1, 1, gpus=4)


def test_what_an_unreachable_cluster_runs_is_not_stopped() -> None:
    fleet = (*devices(1, cluster="alpha"), *devices(1, cluster="beta"))
    snapshot = a_snapshot(
        quotas=TWO,
        devices=fleet,
        running=[
            a_running("a", "o/other", slots(0, 1), started_at=NOW - 900),
            a_running("b", "o/other", slots(0, 1, cluster="beta"), cluster="beta"),
        ],
        queued=[a_queued("j", "o/mine", gpus=8)],
    )
    assert victims(plan_of(snapshot)) == ["b"]
    assert plan_of(replace(snapshot, clusters=frozenset({"alpha"}))).reclaims == ()


def test_nobody_is_stopped_where_even_all_borrowers_would_not_make_room() -> None:
    snapshot = a_snapshot(
        quotas={"o": 16, "o/mine": 8, "o/other": 12},
        devices=devices(2),
        running=[
            a_running("p0", "o/other", slots(0, 1, gpus=6), started_at=NOW - 900),
            a_running("p1", "o/other", slots(1, 1, gpus=6), started_at=NOW - 900),
            a_running("b0", "o/other", slots(0, 1, gpus=2)),
            a_running("b1", "o/other", slots(1, 1, gpus=2)),
        ],
        queued=[a_queued("j", "o/mine", gpus=8)],
    )
    plan = plan_of(snapshot)
    assert plan.reclaims == ()
    assert why(plan, "j").code is Code.WAITING_FOR_GUARANTEE
    halves = replace(snapshot, queued=(a_queued("j", "o/mine", gpus=2, nodes=2),))
    assert sorted(victims(plan_of(halves))) == ["b0", "b1"]


def test_a_sister_is_spared_where_only_the_parent_s_guarantee_gives_the_right() -> None:
    """t has no guarantee: it draws on what d leaves idle, which no sister of t has to give up."""
    snapshot = a_snapshot(
        quotas={"o": 24, "o/d": 16, "o/d/s": 0, "o/d/t": 0, "o/e": 8},
        devices=devices(3),
        running=[
            a_running("kept", "o/e", slots(0, 1), started_at=NOW - 900),
            a_running("lent", "o/e", slots(1, 1), started_at=NOW - 800),
            a_running("sister", "o/d/s", slots(2, 1), started_at=NOW - 1),
        ],
        queued=[a_queued("j", "o/d/t", gpus=8)],
    )
    assert victims(plan_of(snapshot)) == ["lent"]


def test_the_right_further_up_is_weighed_again_when_victims_are_let_off() -> None:
    """e6 alone would make room, but d's guarantee covers j only with s2 gone."""
    snapshot = a_snapshot(
        quotas={"o": 20, "o/d": 8, "o/d/t": 4, "o/d/s": 4, "o/e": 8, "o/f": 4},
        devices=devices(1, gpus=20),
        running=[
            a_running("s4", "o/d/s", slots(0, 1, gpus=4), started_at=NOW - 900),
            a_running("s2", "o/d/s", slots(0, 1, gpus=2), started_at=NOW - 10),
            a_running("e8", "o/e", slots(0, 1, gpus=8), started_at=NOW - 900),
            a_running("e6", "o/e", slots(0, 1, gpus=6), started_at=NOW - 90),
        ],
        queued=[a_queued("j", "o/d/t", gpus=4)],
    )
    assert victims(plan_of(snapshot)) == ["s2", "e6"]


def test_an_organizations_ranks_do_not_put_strangers_first_among_the_victims() -> None:
    """Of two that are level in their own organizations the one goes that loses less.

    Planted: the numbers of different organizations compared with each other.
    """
    plan = plan_of(
        a_snapshot(
            quotas={"x": 0, "x/a": 0, "y": 0, "y/c": 0, "z": 8, "z/d": 8},
            devices=devices(2),
            running=[
                a_running("a", "x/a", slots(0, 1), started_at=NOW - 10),
                a_running("c", "y/c", slots(1, 1), started_at=NOW - 90),
            ],
            queued=[a_queued("d", "z/d", gpus=8)],
            ranks={"x/a": 9},
        ),
        min_run_s=0,
    )
    assert victims(plan) == ["a"]


# -- in which order -----------------------------------------------------------------------


def test_only_as_many_as_needed() -> None:
    jobs = [a_running(f"b{i}", "o/other", on(2), started_at=NOW - 10 * i) for i in range(4)]
    assert victims(plan_of(borrowers(*jobs, gpus=3))) == ["b0", "b1"]


def test_the_lower_rank_goes_first_then_the_lower_priority() -> None:
    snapshot = a_snapshot(
        quotas={"o": 16, "o/mine": 8, "o/low": 0, "o/high": 0},
        ranks={"o/low": 1, "o/high": 2},
        devices=devices(1, gpus=6),
        running=[
            a_running("h", "o/high", slots(0, 1, gpus=2), priority="low"),
            a_running("n", "o/low", slots(0, 1, gpus=2), priority="normal"),
            a_running("l", "o/low", slots(0, 1, gpus=2), priority="low", started_at=NOW - 999),
        ],
        queued=[a_queued("j", "o/mine", gpus=2)],
    )
    for gpus, expected in ((2, ["l"]), (4, ["l", "n"]), (6, ["l", "n", "h"])):
        asked = replace(snapshot, queued=(a_queued("j", "o/mine", gpus=gpus),))
        assert victims(plan_of(asked)) == expected


def test_the_least_work_lost_since_the_checkpoint_goes_first_then_the_youngest() -> None:
    jobs = [
        a_running("old", "o/other", on(2), started_at=NOW - 500),
        a_running("saved", "o/other", on(2), started_at=NOW - 900, checkpoint_at=NOW - 40),
        a_running("older", "o/other", on(2), started_at=NOW - 950, checkpoint_at=NOW - 40),
        a_running("young", "o/other", on(2), started_at=NOW - 100),
    ]
    for gpus, expected in (
        (2, ["saved"]),
        (4, ["saved", "older"]),
        (6, ["saved", "older", "young"]),
    ):
        assert victims(plan_of(borrowers(*jobs, gpus=gpus))) == expected


def test_victims_that_turn_out_not_to_be_needed_are_let_off() -> None:
    """The cheapest are scattered; the node that can be cleared whole is taken."""
    snapshot = a_snapshot(
        quotas={"o": 24, "o/mine": 8, "o/other": 8, "o/third": 8},
        devices=devices(3),
        running=[
            a_running("p", "o/other", slots(0, 1, gpus=7), started_at=NOW - 900),
            a_running("q", "o/third", slots(1, 1, gpus=7), started_at=NOW - 900),
            a_running("one", "o/other", slots(0, 1, gpus=1), started_at=NOW - 1),
            a_running("top", "o/other", slots(1, 1, gpus=1), started_at=NOW - 2),
            a_running("z", "o/other", slots(2, 1), started_at=NOW - 300),
        ],
        queued=[a_queued("j", "o/mine", gpus=8)],
    )
    plan = plan_of(snapshot)
    assert victims(plan) == ["z"]
    assert plan.reclaims[0].slots == slots(2, 1)


def test_the_cluster_with_the_cheaper_victims_is_chosen() -> None:
    fleet = (*devices(1, cluster="alpha"), *devices(1, cluster="beta"))
    snapshot = a_snapshot(
        quotas={"o": 16, "o/mine": 8, "o/other": 0},
        devices=fleet,
        running=[
            a_running("a", "o/other", slots(0, 1), started_at=NOW - 2900),
            a_running(
                "b",
                "o/other",
                slots(0, 1, cluster="beta"),
                cluster="beta",
                started_at=NOW - 2800,
            ),
        ],
        queued=[a_queued("j", "o/mine", gpus=8)],
    )
    plan = plan_of(snapshot)
    assert (plan.reclaims[0].cluster, victims(plan)) == ("beta", ["b"])
    pinned = replace(snapshot, queued=(a_queued("j", "o/mine", gpus=8, cluster="alpha"),))
    assert victims(plan_of(pinned)) == ["a"]


def test_the_grace_is_the_policy_s_but_at_most_the_class_s() -> None:
    low = a_running("b", "o/other", on(4), priority="low")
    normal = a_running("c", "o/other", on(4))
    plan = plan_of(borrowers(low, normal))
    assert plan.reclaims == (
        Reclaim(
            "j",
            "alpha",
            slots(1, 1),
            (
                Victim("b.1", "b", "o/other", 4 * GPU, 60),
                Victim("c.1", "c", "o/other", 4 * GPU, 300),
            ),
            NOW + 300,
        ),
    )
    quick = plan_of(borrowers(low, normal), grace_period_s_default=30)
    assert [victim.grace_s for victim in quick.reclaims[0].victims] == [30, 30]
    assert quick.reclaims[0].grace_until == NOW + 30


def test_reclaims_are_bounded_and_the_rest_keep_their_place() -> None:
    snapshot = a_snapshot(
        quotas={"o": 16, "o/mine": 8, "o/other": 0},
        devices=devices(1),
        running=[a_running(f"b{i}", "o/other", slots(0, 1, gpus=2)) for i in range(4)],
        queued=[a_queued(f"j{i}", "o/mine", gpus=2, submitted_at=NOW - 9 + i) for i in range(4)],
    )
    plan = plan_of(snapshot, reclaims_max=3)
    assert [reclaim.job for reclaim in plan.reclaims] == ["j0", "j1", "j2"]
    assert len(set(victims(plan))) == 3
    assert why(plan, "j3").code is Code.WAITING_FOR_GUARANTEE


# -- inside a team ------------------------------------------------------------------------


def test_a_class_that_preempts_takes_from_lower_classes_of_its_own_team() -> None:
    snapshot = a_snapshot(
        quotas={"o": 8, "o/t": 8},
        devices=devices(1),
        running=[
            a_running("low", "o/t", slots(0, 1, gpus=4), priority="low", started_at=NOW - 900),
            a_running("normal", "o/t", slots(0, 1, gpus=4)),
        ],
        queued=[a_queued("j", "o/t", gpus=4, priority="critical")],
    )
    plan = plan_of(snapshot)
    assert victims(plan) == ["low"]
    for gentle in ("normal", "low"):
        asked = (a_queued("j", "o/t", gpus=4, priority=gentle),)
        assert plan_of(replace(snapshot, queued=asked)).reclaims == ()


def test_equal_classes_do_not_preempt_each_other() -> None:
    snapshot = a_snapshot(
        quotas={"o": 8, "o/t": 8},
        devices=devices(1),
        running=[a_running("r", "o/t", slots(0, 1), priority="critical")],
        queued=[a_queued("j", "o/t", gpus=8, priority="critical")],
    )
    assert plan_of(snapshot).reclaims == ()


def test_borrowers_are_asked_before_the_own_team_and_both_if_it_takes_both() -> None:
    quotas = {"o": 8, "o/t": 8, "o/b": 0}
    own = a_running("own", "o/t", slots(0, 1, gpus=4), started_at=NOW - 900)
    lent = a_running("lent", "o/b", slots(0, 1, gpus=4), started_at=NOW - 900)
    snapshot = a_snapshot(
        quotas=quotas,
        devices=devices(1),
        running=[own, lent],
        queued=[a_queued("j", "o/t", gpus=4, priority="critical")],
    )
    assert victims(plan_of(snapshot)) == ["lent"]
    whole = (a_queued("j", "o/t", gpus=8, priority="critical"),)
    assert sorted(victims(plan_of(replace(snapshot, queued=whole)))) == ["lent", "own"]

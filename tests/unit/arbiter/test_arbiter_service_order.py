"""Who is served first: fair-share, credits and rank between teams, users inside one
(R-18 to R-28)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from arbiter.api.plan import Code, Plan
from arbiter.api.policy import Policy, SpareOrder
from arbiter.api.snapshot import Balance, PriorityClass, Snapshot
from arbiter.cycle.decide import decide
from arbiter.explain.sentences import sentence
from builders.arbiter_builders import (
    CLASSES,
    GPU,
    NOW,
    a_claim,
    a_queued,
    a_quota,
    a_running,
    a_snapshot,
    a_victim,
    devices,
    slots,
)

#: Two teams of one company without guarantees of their own, and 8 GPUs to spare.
SPARE = {"x": 0, "x/a": 0, "x/b": 0}


def started(snapshot: Snapshot, **policy: object) -> list[str]:
    """The jobs that start, in the order of service."""
    return [start.job for start in decide(snapshot, Policy(**policy)).starts]  # type: ignore[arg-type]


def code_of(plan: Plan, job: str) -> Code:
    return next(one.code for one in plan.waiting if one.job == job)


def test_spare_gpus_go_to_the_team_that_has_used_less_of_its_share() -> None:
    snapshot = a_snapshot(
        quotas=SPARE,
        devices=devices(1),
        queued=[
            a_queued("a", "x/a", gpus=8, submitted_at=NOW - 900),
            a_queued("b", "x/b", gpus=8, submitted_at=NOW - 100),
        ],
        used={("x/a", "alice"): 7_201, ("x/b", "bob"): 7_200},
    )
    assert started(snapshot) == ["b"]


def test_a_share_is_what_the_weight_makes_it() -> None:
    quotas = [a_quota("x", 0), a_quota("x/a", 0), a_quota("x/b", 0)]
    heavy = [quotas[0], a_quota("x/a", 0, weight=300), quotas[2]]
    for rows, first in ((quotas, "b"), (heavy, "a")):
        snapshot = a_snapshot(
            quotas=rows,
            devices=devices(1),
            queued=[a_queued("a", "x/a", gpus=8), a_queued("b", "x/b", gpus=8)],
            used={("x/a", "alice"): 2_000, ("x/b", "alice"): 1_000},
        )
        assert started(snapshot) == [first]


def test_what_starts_is_charged_at_once_so_that_nobody_takes_all_of_one_cycle() -> None:
    """a has used an hour of one GPU less than b: it is ahead by one start, and then they take
    turns, whatever their jobs' age."""
    snapshot = a_snapshot(
        quotas=SPARE,
        devices=devices(1),
        queued=[
            *(a_queued(f"a{i}", "x/a", submitted_at=NOW - 900 + i) for i in range(8)),
            *(a_queued(f"b{i}", "x/b", submitted_at=NOW - 100 + i) for i in range(8)),
        ],
        used={("x/b", "alice"): 3_600},
    )
    assert started(snapshot) == ["a0", "a1", "b0", "a2", "b1", "a3", "b2", "a4"]


def test_what_is_promised_is_charged_as_what_starts() -> None:
    """a's claim waits for what another team gives back: b comes first where GPUs are to spare."""
    snapshot = a_snapshot(
        quotas={"x": 16, "x/a": 16, "x/b": 0, "x/c": 0},
        devices=devices(3),
        running=[a_victim("r", "x/c", slots(0, 2), of="claimed")],
        queued=[
            a_queued("claimed", "x/a", gpus=8, nodes=2, submitted_at=NOW - 900),
            a_queued("a", "x/a", gpus=8, submitted_at=NOW - 800),
            a_queued("b", "x/b", gpus=8, submitted_at=NOW - 100),
        ],
        claims=[a_claim("claimed", slots(0, 2))],
    )
    assert started(snapshot) == ["b"]


def test_guaranteed_demand_goes_by_fair_share_where_as_much_of_the_guarantee_is_used() -> None:
    snapshot = a_snapshot(
        quotas={"x": 16, "x/a": 8, "x/b": 8},
        devices=devices(1),
        queued=[
            a_queued("a", "x/a", gpus=8, submitted_at=NOW - 900),
            a_queued("b", "x/b", gpus=8, submitted_at=NOW - 100),
        ],
        used={("x/a", "alice"): 1},
    )
    assert started(snapshot) == ["b"]


def test_a_start_uses_the_guarantee_of_jobs_above_its_team_too() -> None:
    """Once x/t has started, x uses half of its guarantee and y a third. Planted: x still counts as
    if it used a quarter."""
    snapshot = a_snapshot(
        quotas={"x": 4, "x/t": 1, "y": 3},
        devices=devices(1),
        running=[
            a_running("rx", "x", slots(0, 1, gpus=1), started_at=NOW - 9_000),
            a_running("ry", "y", slots(0, 1, gpus=1), started_at=NOW - 9_000),
        ],
        queued=[
            a_queued("above", "x", submitted_at=NOW - 900),
            a_queued("below", "x/t", submitted_at=NOW - 500),
            a_queued("beside", "y", submitted_at=NOW - 100),
        ],
    )
    assert started(snapshot) == ["below", "beside", "above"]


@pytest.mark.parametrize(
    ("order", "first"),
    [
        (SpareOrder.CREDITS_THEN_FAIR_SHARE, "rich"),
        (SpareOrder.FAIR_SHARE_THEN_CREDITS, "light"),
        (SpareOrder.FAIR_SHARE, "light"),
    ],
)
def test_the_policy_says_whether_credits_come_before_fair_share(
    order: SpareOrder, first: str
) -> None:
    snapshot = a_snapshot(
        quotas={"x": 16, "x/rich": 8, "x/light": 8},
        devices=devices(3),
        running=[a_running("r1", "x/rich", slots(0, 1)), a_running("r2", "x/light", slots(1, 1))],
        queued=[a_queued("rich", "x/rich", gpus=8), a_queued("light", "x/light", gpus=8)],
        used={("x/rich", "alice"): 1_000},
        credits={"x/rich": 4, "x/light": 0},
    )
    assert started(snapshot, spare_order=order) == [first]


def test_credits_decide_between_equal_fair_shares_only_if_the_policy_has_regard_to_them() -> None:
    snapshot = a_snapshot(
        quotas={"x": 2, "x/a": 1, "x/b": 1},
        devices=devices(1),
        queued=[
            a_queued("a", "x/a", gpus=8, submitted_at=NOW - 900),
            a_queued("b", "x/b", gpus=8, submitted_at=NOW - 100),
        ],
        credits={"x/a": 0, "x/b": 1},
    )
    assert started(snapshot, spare_order=SpareOrder.FAIR_SHARE_THEN_CREDITS) == ["b"]
    assert started(snapshot, spare_order=SpareOrder.FAIR_SHARE) == ["a"]


def test_credits_are_compared_in_whole_tenths_of_a_day_of_the_guarantee() -> None:
    """With 40 GPUs guaranteed a tenth is 4 GPU-days: 7 and 4 are level, 8 is richer."""
    for credits, first in ((7, "b"), (8, "a")):
        snapshot = a_snapshot(
            quotas={"x": 80, "x/a": 40, "x/b": 40},
            devices=devices(11),
            running=[
                a_running("r1", "x/a", slots(0, 5)),
                a_running("r2", "x/b", slots(5, 5)),
            ],
            queued=[a_queued("a", "x/a", gpus=8), a_queued("b", "x/b", gpus=8)],
            used={("x/a", "alice"): 1},
            credits={"x/a": credits, "x/b": 4},
        )
        assert started(snapshot) == [first]


def test_rank_comes_before_credits_and_fair_share() -> None:
    snapshot = a_snapshot(
        quotas={"x": 2, "x/a": 1, "x/b": 1},
        devices=devices(1),
        queued=[a_queued("a", "x/a", gpus=8), a_queued("b", "x/b", gpus=8)],
        ranks={"x/b": 1},
        used={("x/b", "alice"): 9_000},
        credits={"x/a": 9},
    )
    for order in SpareOrder:
        assert started(snapshot, spare_order=order) == ["b"]


def test_an_organizations_ranks_put_it_before_no_other() -> None:
    """The first of x and the first of y are level, and the oldest job goes first; what x ranks
    lower comes after both.

    Planted: the numbers of different organizations compared with each other.
    """
    snapshot = a_snapshot(
        quotas={"x": 2, "x/a": 1, "x/b": 1, "y": 1, "y/c": 1},
        devices=devices(3),
        queued=[
            a_queued("a", "x/a", gpus=8, submitted_at=NOW - 10),
            a_queued("b", "x/b", gpus=8, submitted_at=NOW - 30),
            a_queued("c", "y/c", gpus=8, submitted_at=NOW - 20),
        ],
        ranks={"x/a": 9, "x/b": 5},
    )
    assert started(snapshot) == ["c", "a", "b"]


def test_what_a_start_borrows_holds_the_credits_for_an_hour() -> None:
    """a has two tenths of a day, b has one: a start of 3 GPUs brings a down to b, which has used
    less then; and so on by turns."""
    snapshot = a_snapshot(
        quotas={"x": 20, "x/a": 10, "x/b": 10},
        devices=devices(4),
        running=[
            a_running("r1", "x/a", (*slots(0, 1), *slots(1, 1, gpus=2))),
            a_running("r2", "x/b", (*slots(2, 1), *slots(3, 1, gpus=2))),
        ],
        queued=[
            *(a_queued(f"a{i}", "x/a", gpus=3, submitted_at=NOW - 900 + i) for i in range(2)),
            *(a_queued(f"b{i}", "x/b", gpus=3, submitted_at=NOW - 100 + i) for i in range(2)),
        ],
        credits={"x/a": 2, "x/b": 1},
    )
    assert started(snapshot) == ["a0", "b0", "a1", "b1"]


def test_inside_a_team_the_priority_class_comes_first_then_the_users_use() -> None:
    snapshot = a_snapshot(
        quotas={"x": 8, "x/a": 8},
        devices=devices(1),
        queued=[
            a_queued("heavy", "x/a", gpus=2, user="alice", submitted_at=NOW - 900),
            a_queued("light", "x/a", gpus=2, user="bob", submitted_at=NOW - 100),
            a_queued("low", "x/a", gpus=2, user="carol", priority="low", submitted_at=NOW - 950),
            a_queued("high", "x/a", gpus=2, user="alice", priority="high", submitted_at=NOW),
        ],
        used={("x/a", "alice"): 50, ("x/a", "bob"): 49},
    )
    assert started(snapshot) == ["high", "light", "heavy", "low"]


def test_users_of_a_team_take_turns_within_one_cycle() -> None:
    snapshot = a_snapshot(
        quotas={"x": 8, "x/a": 8},
        devices=devices(1),
        queued=[
            *(a_queued(f"a{i}", "x/a", gpus=2, submitted_at=NOW - 900 + i) for i in range(4)),
            *(
                a_queued(f"b{i}", "x/a", gpus=2, user="bob", submitted_at=NOW - 100 + i)
                for i in range(4)
            ),
        ],
    )
    assert started(snapshot) == ["a0", "b0", "a1", "b1"]


def test_a_users_use_of_another_team_does_not_count_in_this_one() -> None:
    snapshot = a_snapshot(
        quotas={"x": 8, "x/a": 8, "x/b": 0},
        devices=devices(1),
        queued=[
            a_queued("a", "x/a", gpus=8, submitted_at=NOW - 100),
            a_queued("b", "x/a", gpus=8, user="bob", submitted_at=NOW - 900),
        ],
        used={("x/b", "alice"): 500, ("x/a", "bob"): 1},
    )
    assert started(snapshot) == ["a"]


def test_who_waits_because_of_fair_share_is_told_the_numbers() -> None:
    snapshot = a_snapshot(
        quotas=SPARE,
        devices=devices(1),
        queued=[a_queued("a", "x/a", gpus=8), a_queued("b", "x/b", gpus=8)],
        used={("x/a", "alice"): 600_000, ("x/b", "bob"): 100_000},
    )
    plan = decide(snapshot, Policy())
    (waiting,) = plan.waiting
    assert (waiting.job, waiting.code, waiting.node) == ("a", Code.BEHIND_FAIR_SHARE, "x/a")
    told = {
        name: waiting.numbers[name] for name in ("taken_mgpu", "weight_permille", "used_permille")
    }
    assert told == {"taken_mgpu": 8 * GPU, "weight_permille": 500, "used_permille": 823}
    assert sentence(waiting, snapshot.queued[0], {}) == (
        "It needs 8 GPUs. This cycle gave 8 GPUs beyond guarantees to teams that used less of their"
        " share lately. Your team has 50 % of the weight and 82.3 % of the recent use of its level."
    )


def test_nobody_reads_of_another_organizations_share() -> None:
    snapshot = a_snapshot(
        quotas={"x": 0, "y": 0},
        devices=devices(1),
        queued=[a_queued("x", "x", gpus=8), a_queued("y", "y", gpus=8)],
        used={("x", "alice"): 600_000},
    )
    (waiting,) = decide(snapshot, Policy()).waiting
    assert (waiting.job, waiting.code, waiting.node) == ("x", Code.BEHIND_FAIR_SHARE, None)
    assert not {"used_permille", "taken_mgpu"} & set(waiting.numbers)
    assert sentence(waiting, snapshot.queued[0], {}) == (
        "It needs 8 GPUs. This cycle gave the spare GPUs to others that used less of their share"
        " lately."
    )


def test_whom_fair_share_puts_first_is_not_told_that_others_are() -> None:
    """What a needs on one node is free on none; b takes what is free on two."""
    snapshot = a_snapshot(
        quotas=SPARE,
        devices=(*devices(2, gpus=4), *devices(1, cluster="beta")),
        running=[a_running("long", "x/b", slots(0, 1, cluster="beta"), cluster="beta")],
        queued=[a_queued("a", "x/a", gpus=8), *(a_queued(f"b{i}", "x/b") for i in range(8))],
        used={("x/b", "bob"): 10_000_000},
    )
    (waiting,) = decide(snapshot, Policy()).waiting
    assert (waiting.job, waiting.code) == ("a", Code.WAITING_FOR_FREE_GPUS)


def test_whom_rank_puts_behind_is_not_behind_by_fair_share() -> None:
    snapshot = a_snapshot(
        quotas=SPARE,
        devices=devices(1),
        queued=[a_queued("a", "x/a", gpus=8), a_queued("b", "x/b", gpus=8)],
        ranks={"x/b": 1},
    )
    assert code_of(decide(snapshot, Policy()), "a") is Code.WAITING_FOR_FREE_GPUS


def test_jobs_ahead_follow_the_order_of_service() -> None:
    snapshot = a_snapshot(
        quotas=SPARE,
        devices=devices(1),
        running=[a_running("r", "x/a", slots(0, 1), started_at=NOW - 9_000)],
        queued=[
            a_queued("a", "x/a", submitted_at=NOW - 900),
            a_queued("b", "x/b", submitted_at=NOW - 100),
            a_queued("c", "x/b", user="bob", submitted_at=NOW - 50),
        ],
        used={("x/a", "alice"): 10, ("x/b", "alice"): 5},
    )
    plan = decide(snapshot, Policy())
    assert [(one.job, one.jobs_ahead) for one in plan.waiting] == [("c", 0), ("b", 1), ("a", 2)]


# -- what is reclaimed first ------------------------------------------------------------------


def the_reclaim(**given: object) -> Snapshot:
    """The owner wants 8 of the 24 GPUs that three other teams borrow, 8 each."""
    fields: dict[str, object] = {
        "quotas": {"x": 27, "x/owner": 24, "x/p": 1, "x/q": 1, "x/r": 1},
        "devices": devices(3),
        "running": [
            a_running(team, f"x/{team}", slots(i, 1), started_at=NOW - 900)
            for i, team in enumerate("pqr")
        ],
        "queued": [a_queued("mine", "x/owner", gpus=8)],
        **given,
    }
    return a_snapshot(**fields)  # type: ignore[arg-type]


def victims(snapshot: Snapshot) -> list[str]:
    (reclaim,) = decide(snapshot, Policy()).reclaims
    return [victim.job for victim in reclaim.victims]


def test_the_poorest_borrower_gives_back_first() -> None:
    assert victims(the_reclaim(credits={"x/p": 2, "x/q": 1, "x/r": 3})) == ["q"]


def test_rank_comes_before_credits_in_giving_back_too() -> None:
    assert victims(the_reclaim(credits={"x/q": 1}, ranks={"x/p": 1, "x/q": 1})) == ["r"]


def test_what_is_unpaid_is_given_back_before_all() -> None:
    """At the floor of seven days of its guarantee of one GPU q pays no longer."""
    ranks = {"x/q": 5}
    assert victims(the_reclaim(credits={"x/q": -6}, ranks=ranks)) == ["p"]
    assert victims(the_reclaim(credits={"x/q": -7}, ranks=ranks)) == ["q"]


def test_who_borrows_unpaid_comes_behind_every_debtor_who_pays() -> None:
    """b has no guarantee, so what it borrows is never paid; a is two days in debt."""
    snapshot = a_snapshot(
        quotas={"x": 1, "x/a": 1, "x/b": 0},
        devices=devices(1),
        queued=[
            a_queued("a", "x/a", gpus=8, submitted_at=NOW - 1),
            a_queued("b", "x/b", gpus=8, submitted_at=NOW - 900),
        ],
        credits={"x/a": -2, "x/b": 0},
    )
    assert started(snapshot) == ["a"]


def test_who_is_one_credit_above_the_floor_pays_and_comes_first() -> None:
    """The floor is no whole number of tenths: 9,000 s. Planted: it is rounded towards nothing; an
    unpaid borrower is a tenth better off."""
    snapshot = a_snapshot(
        quotas={"x": 2, "x/a": 1, "x/b": 1},
        devices=devices(1),
        queued=[
            a_queued("a", "x/a", gpus=8, submitted_at=NOW - 1),
            a_queued("b", "x/b", gpus=8, submitted_at=NOW - 900),
        ],
    )
    floor = -9_000 * GPU * 1_000
    balances = (Balance("x/a", "h100", floor + 1), Balance("x/b", "h100", floor))
    assert started(replace(snapshot, balances=balances), credit_floor_s=9_000) == ["a"]


def test_a_team_without_a_bank_is_never_unpaid() -> None:
    """b's organization has no bank, so b counts with 0 credits, before a's debt of two days."""
    snapshot = a_snapshot(
        quotas={"x": 1, "x/a": 1, "y": 0, "y/b": 0},
        devices=devices(1),
        queued=[
            a_queued("a", "x/a", gpus=8, submitted_at=NOW - 900),
            a_queued("b", "y/b", gpus=8, submitted_at=NOW - 1),
        ],
        credits={"x/a": -2},
    )
    assert started(snapshot) == ["b"]


def test_without_a_bank_nothing_is_unpaid() -> None:
    snapshot = the_reclaim(quotas={"x": 24, "x/owner": 24, "x/p": 0, "x/q": 0, "x/r": 0})
    assert victims(snapshot) == ["p"]


# -- preemption across teams ------------------------------------------------------------------

PREEMPTING = PriorityClass("crisis", 5_000, team_cap_mgpu=8 * GPU, preempts_across_teams=True)


def the_crisis(priority: PriorityClass, **given: object) -> Snapshot:
    """Both teams of x fill their guarantees; a wants 8 GPUs more at once."""
    fields: dict[str, object] = {
        "quotas": {"x": 16, "x/a": 8, "x/b": 8, "y": 8},
        "devices": devices(3),
        "running": [
            a_running("a", "x/a", slots(0, 1), priority="high"),
            a_running("b", "x/b", slots(1, 1), priority="high", user="bob"),
            a_running("y", "y", slots(2, 1), priority="low"),
        ],
        "queued": [a_queued("now", "x/a", gpus=8, priority=priority.id)],
        "classes": (*CLASSES, priority),
        **given,
    }
    return a_snapshot(**fields)  # type: ignore[arg-type]


def test_a_class_may_preempt_protected_lower_classes_of_its_organizations_other_teams() -> None:
    (reclaim,) = decide(the_crisis(PREEMPTING), Policy()).reclaims
    assert [(victim.job, victim.grace_s) for victim in reclaim.victims] == [("b", 300)]


@pytest.mark.parametrize(
    "priority",
    [
        PriorityClass("crisis", 5_000, team_cap_mgpu=8 * GPU),
        PriorityClass("crisis", 5_000, preempts_across_teams=True),
        PriorityClass("crisis", 100, team_cap_mgpu=8 * GPU, preempts_across_teams=True),
        PriorityClass("crisis", 5_000, team_cap_mgpu=7 * GPU, preempts_across_teams=True),
    ],
    ids=["off", "no cap", "not lower", "above the cap"],
)
def test_otherwise_it_does_not(priority: PriorityClass) -> None:
    assert decide(the_crisis(priority), Policy()).reclaims == ()


def test_whom_it_stopped_does_not_stop_it_in_turn() -> None:
    """b is entitled to its guarantee again; were the crisis not shielded, the two would stop each
    other for ever. Of another organization's guarantee it is reclaimed as anything borrowed."""
    running = [
        a_running("a", "x/a", slots(0, 1), priority="high"),
        a_running("now", "x/a", slots(1, 1), priority="crisis"),
    ]
    back = a_queued("b", "x/b", gpus=8, priority="high")
    theirs = a_queued("y", "y", gpus=8, priority="low")
    quotas = {"x": 8, "x/a": 0, "x/b": 8, "y": 8}
    snapshot = the_crisis(
        PREEMPTING, quotas=quotas, devices=devices(2), running=running, queued=[back]
    )
    (reclaim,) = decide(snapshot, Policy()).reclaims
    assert [victim.job for victim in reclaim.victims] == ["a"]
    alone = the_crisis(
        PREEMPTING,
        quotas={"x": 8, "x/a": 0, "x/b": 8},
        devices=devices(1),
        running=[a_running("now", "x/a", slots(0, 1), priority="crisis")],
        queued=[back],
    )
    plan = decide(alone, Policy())
    assert plan.reclaims == ()
    assert code_of(plan, "b") is Code.WAITING_FOR_GUARANTEE
    # What is more than the cap, as that was lowered, is no reason not to keep a guarantee.
    lowered = replace(PREEMPTING, team_cap_mgpu=7 * GPU)
    classes = tuple(lowered if one == PREEMPTING else one for one in alone.priority_classes)
    (reclaim,) = decide(replace(alone, priority_classes=classes), Policy()).reclaims
    assert [victim.job for victim in reclaim.victims] == ["now"]
    foreign = the_crisis(
        PREEMPTING,
        quotas={"x": 0, "x/a": 0, "y": 8},
        devices=devices(1),
        running=[a_running("now", "x/a", slots(0, 1), priority="crisis")],
        queued=[theirs],
    )
    (reclaim,) = decide(foreign, Policy()).reclaims
    assert [victim.job for victim in reclaim.victims] == ["now"]

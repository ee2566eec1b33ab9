"""The examples of docs/scheduling.md, played by the arbiter: `test_r11_...` is that of rule R-11.

Small worlds: nodes of 8 GPUs, teams of one organization, jobs of whole GPUs. The numbers here are
those of the document; whoever changes one changes both.

Planted, and each seen to fail one of these: a blocked job's turn is what it draws on now; ranks are
compared among organizations; no loss is costly; borrowed jobs go where protected ones are; nothing
is charged at a start; a node lends everything; a job that does not fit in
a guarantee keeps the next one out of it; a start delays a reservation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from arbiter.api.plan import Code, NodeUse, Plan
from arbiter.api.policy import Policy, SpareOrder
from arbiter.api.snapshot import (
    Device,
    Domains,
    Level,
    Maintenance,
    PriorityClass,
    QueuedJob,
    RunningJob,
    Snapshot,
    TreeNode,
)
from arbiter.cycle.decide import decide
from arbiter.cycle.scheduler import Core
from builders.arbiter_builders import (
    CLASSES,
    GPU,
    NOW,
    World,
    a_claim,
    a_node,
    a_queued,
    a_quota,
    a_running,
    a_snapshot,
    a_victim,
    devices,
    slots,
)
from builders.arbiter_plans import plan_of, started, victims, why

HOUR_S = 3_600
#: An organization of 8 GPUs and two teams that share them.
HALVES = {"o": 8, "o/a": 4, "o/b": 4}
#: No team is guaranteed anything, so no job is preempted.
NOTHING = {"o": 0, "o/a": 0, "o/b": 0}


def runs(job: str, team: str, gpus: int, *, node: int = 0, **more: object) -> RunningJob:
    """An attempt with GPUs of one node."""
    return a_running(job, team, slots(node, 1, gpus=gpus), **more)  # type: ignore[arg-type]


def use_of(plan: Plan, node: str) -> NodeUse:
    return next(one for one in plan.use if one.node == node)


def placed(plan: Plan) -> dict[str, list[int]]:
    """The numbers of the nodes on which each job starts."""
    return {start.job: [int(slot.node[-3:]) for slot in start.slots] for start in plan.starts}


def reserved(plan: Plan) -> dict[str, int]:
    """Seconds until each reservation."""
    return {one.job: one.start_at - plan.taken_at for one in plan.reservations}


# -- tree and quota -----------------------------------------------------------------------------


def test_r6_an_organization_without_a_quota_cannot_use_the_pool() -> None:
    snapshot = a_snapshot(
        quotas={"o": 8},
        nodes=[a_node("o"), a_node("o/a"), a_node("p"), a_node("p/x")],
        devices=devices(1),
        queued=[a_queued("j", "o/a", gpus=2), a_queued("k", "p/x", gpus=2)],
    )
    plan = plan_of(snapshot)
    assert started(plan) == ["j"]
    assert why(plan, "k").code is Code.NEVER_FITS


def test_r7_a_reserve_is_for_the_descendants_before_it_is_lent_outside() -> None:
    """Department d is guaranteed 6 and its teams 4, so 2 are its reserve. e borrows 4."""
    snapshot = a_snapshot(
        quotas={"o": 8, "o/d": 6, "o/d/a": 2, "o/d/b": 2, "o/e": 2},
        devices=devices(1),
        running=[
            runs("kept", "o/e", 2, started_at=NOW - 9_000),
            runs("lent", "o/e", 4, started_at=NOW - 7_000),
        ],
        queued=[a_queued("j", "o/d/a", gpus=4)],
    )
    assert victims(plan_of(snapshot)) == ["lent"]
    larger = replace(snapshot, queued=(a_queued("j", "o/d/a", gpus=7),))
    assert victims(plan_of(larger)) == []


def test_r8_what_runs_on_a_drained_node_counts_as_capacity_until_it_ends() -> None:
    drained = replace(devices(2)[1], capacity_mgpu=0)
    snapshot = a_snapshot(
        quotas={"o": 8, "o/a": 8},
        devices=[devices(2)[0], drained],
        running=[runs("r", "o/a", 4, node=1)],
        queued=[a_queued("j", "o/a", gpus=8)],
    )
    assert started(plan_of(snapshot)) == ["j"]


def test_r10_what_a_node_does_not_lend_is_held_though_nobody_uses_it() -> None:
    snapshot = a_snapshot(
        quotas=[a_quota("o", 8), a_quota("o/a", 4, lend=1), a_quota("o/b", 4)],
        devices=devices(1),
        queued=[a_queued(f"j{i}", "o/b", gpus=1) for i in range(8)],
    )
    plan = plan_of(snapshot)
    assert len(plan.starts) == 5
    assert use_of(plan, "o/b").available_mgpu == 0
    assert use_of(plan, "o/a").available_mgpu == 3 * GPU


def test_r11_a_start_is_checked_at_every_node_up_to_the_capacity() -> None:
    snapshot = a_snapshot(
        quotas=[a_quota("o", 8), a_quota("o/d", 4, borrow=2), a_quota("o/d/a", 4)],
        devices=devices(1),
        queued=[a_queued("seven", "o/d/a", gpus=7), a_queued("six", "o/d/a", gpus=6)],
    )
    plan = plan_of(snapshot)
    assert started(plan) == ["six"]
    assert why(plan, "seven").code is Code.NEVER_FITS


def test_r12_a_node_starts_within_its_unlent_guarantee_while_others_are_over_theirs() -> None:
    snapshot = a_snapshot(
        quotas=[a_quota("o", 8, borrow=0), a_quota("o/a", 4, lend=0), a_quota("o/b", 4)],
        devices=devices(2),
        running=[runs("r", "o/b", 8)],
        queued=[a_queued("j", "o/a", gpus=4), a_queued("k", "o/b", gpus=1)],
    )
    plan = plan_of(snapshot)
    assert started(plan) == ["j"]
    assert use_of(plan, "o/b").available_mgpu == -4 * GPU


# -- borrowing and lending ----------------------------------------------------------------------


def test_r13_a_borrow_limit_bounds_use_above_the_guarantee() -> None:
    snapshot = a_snapshot(
        quotas=[a_quota("o", 8), a_quota("o/a", 4, borrow=2), a_quota("o/b", 4)],
        devices=devices(1),
        running=[runs("r", "o/a", 4)],
        queued=[a_queued(f"j{i}", "o/a", gpus=1) for i in range(3)],
    )
    plan = plan_of(snapshot)
    assert started(plan) == ["j0", "j1"]
    told = why(plan, "j2")
    assert (told.code, told.numbers["limit_mgpu"]) == (Code.BORROW_LIMIT_REACHED, 6 * GPU)


@pytest.mark.parametrize(("lend", "count"), [(None, 8), (3, 7), (0, 4)])
def test_r14_a_lend_limit_bounds_what_others_use(lend: int | None, count: int) -> None:
    snapshot = a_snapshot(
        quotas=[a_quota("o", 8), a_quota("o/a", 4, lend=lend), a_quota("o/b", 4)],
        devices=devices(1),
        queued=[a_queued(f"j{i}", "o/b", gpus=1) for i in range(8)],
    )
    assert len(plan_of(snapshot).starts) == count


def test_r15_jobs_are_protected_whole_and_in_order() -> None:
    """3 of 4 GPUs are protected; the job of 2 does not fit beside them, the later one of 1 does."""
    snapshot = a_snapshot(
        quotas=HALVES,
        devices=devices(1),
        running=[
            runs("three", "o/a", 3, started_at=NOW - 300),
            runs("two", "o/a", 2, started_at=NOW - 200),
            runs("one", "o/a", 1, started_at=NOW - 100),
        ],
    )
    plan = plan_of(snapshot)
    assert (use_of(plan, "o/a").protected_mgpu, use_of(plan, "o/a").borrowed_mgpu) == (
        4 * GPU,
        2 * GPU,
    )
    asks = replace(snapshot, queued=(a_queued("j", "o/b", gpus=4),))
    assert victims(plan_of(asks)) == ["two"]


def test_r16_a_borrowed_job_becomes_protected_as_soon_as_it_fits() -> None:
    snapshot = a_snapshot(
        quotas=HALVES,
        devices=devices(1),
        running=[
            runs("first", "o/a", 4, started_at=NOW - 300),
            runs("second", "o/a", 4, started_at=NOW - 200),
        ],
        queued=[a_queued("j", "o/b", gpus=4)],
    )
    assert victims(plan_of(snapshot)) == ["second"]
    ended = replace(
        snapshot,
        running=(snapshot.running[1], runs("other", "o/b", 4)),
        queued=(),
    )
    assert use_of(plan_of(ended), "o/a").protected_mgpu == 4 * GPU


def test_r17_a_claim_takes_its_part_of_the_guarantee_before_later_jobs() -> None:
    """Team a: 8 runs 2 and claims 4, so a later job of 8 has 2 of the guarantee, not 6."""
    later = a_queued("k", "o/a", gpus=8)
    snapshot = a_snapshot(
        quotas={"o": 16, "o/a": 8, "o/b": 8},
        devices=devices(2),
        running=[
            runs("r", "o/a", 2, node=0, started_at=NOW - 900),
            runs("kept", "o/b", 4, node=0, started_at=NOW - 900),
            a_victim("v", "o/b", slots(1, 1, gpus=8), of="j"),
        ],
        queued=[a_queued("j", "o/a", gpus=4), later],
        claims=[a_claim("j", slots(1, 1, gpus=4))],
    )
    alone = replace(snapshot, claims=(), queued=(later,))
    left = [Core.of(one, Policy()).decide(NOW).guaranteed_of(later) for one in (snapshot, alone)]
    assert left == [2 * GPU, 6 * GPU]


# -- order of service ---------------------------------------------------------------------------


def test_r18_own_guarantee_then_a_department_s_then_spare_gpus() -> None:
    """One node, 8 GPUs: 4 within a's guarantee, 3 within what department d has left, 1 spare."""
    snapshot = a_snapshot(
        quotas={"o": 8, "o/d": 8, "o/d/a": 4, "o/d/b": 1, "o/e": 0, "o/e/c": 0},
        devices=devices(1),
        queued=[
            a_queued("spare", "o/e/c", gpus=4, submitted_at=NOW - 900),
            a_queued("department", "o/d/b", gpus=4, submitted_at=NOW - 500),
            a_queued("guaranteed", "o/d/a", gpus=4, submitted_at=NOW - 100),
        ],
    )
    plan = plan_of(snapshot)
    assert started(plan) == ["guaranteed", "department"]


def test_r19_within_guarantees_the_team_that_uses_least_of_its_own_comes_first() -> None:
    snapshot = a_snapshot(
        quotas={"o": 12, "o/a": 8, "o/b": 4},
        devices=devices(1, gpus=6),
        running=[runs("ra", "o/a", 2), runs("rb", "o/b", 2)],
        queued=[
            a_queued("b", "o/b", gpus=2, submitted_at=NOW - 900),
            a_queued("a", "o/a", gpus=2),
        ],
    )
    assert started(plan_of(snapshot)) == ["a"]


def test_r20_spare_gpus_go_by_rank_then_credits_then_fair_share() -> None:
    def first(order: SpareOrder = SpareOrder.CREDITS_THEN_FAIR_SHARE, **more: object) -> str:
        snapshot = a_snapshot(
            quotas={"o": 8, "o/a": 1, "o/b": 1},
            devices=devices(1),
            running=[runs("ra", "o/a", 1), runs("rb", "o/b", 1), runs("rest", "o", 1)],
            queued=[
                a_queued("b", "o/b", gpus=5, submitted_at=NOW - 900),
                a_queued("a", "o/a", gpus=5),
            ],
            **more,  # type: ignore[arg-type]
        )
        (job,) = started(decide(snapshot, Policy(spare_order=order)))
        return job

    used = {("o/a", "alice"): 90_000, ("o/b", "alice"): 10_000}
    assert first() == "b"
    assert first(used={("o/b", "alice"): 90_000}) == "a"
    assert first(used=used) == "b"
    assert first(used=used, credits={"o/a": 2, "o/b": -2}) == "a"
    assert first(SpareOrder.FAIR_SHARE, used=used, credits={"o/a": 2, "o/b": -2}) == "b"
    assert first(used=used, credits={"o/a": -2, "o/b": 2}, ranks={"o/a": 1}) == "a"


def test_r21_the_first_rank_of_each_organization_is_level() -> None:
    nodes = [a_node("o"), a_node("o/a", rank=9), a_node("p"), a_node("p/x", rank=1)]
    snapshot = a_snapshot(
        quotas={"o": 0, "o/a": 0, "p": 0, "p/x": 0},
        nodes=nodes,
        devices=devices(1),
        queued=[
            a_queued("a", "o/a", gpus=8),
            a_queued("x", "p/x", gpus=8, submitted_at=NOW - 900),
        ],
    )
    assert started(plan_of(snapshot)) == ["x"]


def test_r22_an_organization_that_does_not_go_by_credits_counts_as_having_none() -> None:
    def first(order: SpareOrder, credits: int) -> str:
        nodes = [
            replace(a_node("o"), spare_order=SpareOrder.CREDITS_THEN_FAIR_SHARE),
            a_node("o/a"),
            replace(a_node("p"), spare_order=order),
            a_node("p/x"),
        ]
        snapshot = a_snapshot(
            quotas={"o": 1, "o/a": 1, "p": 1, "p/x": 1},
            nodes=nodes,
            devices=devices(1),
            queued=[
                a_queued("a", "o/a", gpus=8),
                a_queued("x", "p/x", gpus=8, submitted_at=NOW - 900),
            ],
            credits={"o/a": credits, "p/x": 5},
        )
        (job,) = started(plan_of(snapshot))
        return job

    by_credits, by_use = SpareOrder.CREDITS_THEN_FAIR_SHARE, SpareOrder.FAIR_SHARE
    assert (first(by_credits, 1), first(by_use, 1), first(by_use, -1)) == ("x", "a", "x")


def test_r23_a_blocked_job_has_its_turn_on_the_guarantee_that_could_hold_it() -> None:
    """The gang of 8 fits in what the organization has left of 12, not in what is idle now (6): the
    small ones that fit in that come later and wait for its reservation."""
    snapshot = a_snapshot(
        quotas={"o": 12, "o/a": 0, "o/b": 0},
        ranks={"o/a": 2, "o/b": 1},
        devices=devices(2, gpus=6),
        running=[
            runs("r", "o/b", 6, node=0, started_at=NOW, time_limit_s=600),
        ],
        queued=[
            a_queued("gang", "o/a", nodes=2, gpus=4, submitted_at=NOW - 900),
            *(a_queued(f"s{i}", "o/b", gpus=3, time_limit_s=5_000) for i in range(2)),
        ],
    )
    plan = plan_of(snapshot)
    assert (started(plan), reserved(plan)["gang"]) == ([], 600)


def test_r24_class_then_the_users_use_then_age() -> None:
    snapshot = a_snapshot(
        quotas={"o": 8, "o/a": 8},
        devices=devices(1),
        queued=[
            a_queued("low", "o/a", gpus=4, priority="low", user="carol", submitted_at=NOW - 900),
            a_queued("heavy", "o/a", gpus=4, user="alice", submitted_at=NOW - 500),
            a_queued("light", "o/a", gpus=4, user="bob", submitted_at=NOW - 100),
        ],
        used={("o/a", "alice"): 90_000, ("o/a", "bob"): 10_000},
    )
    assert started(plan_of(snapshot)) == ["light", "heavy"]


def guarantee_in_use(limit_s: int | None) -> Snapshot:
    """Team a is guaranteed 8 and runs 2; its job of 6 waits for GPUs of team b that end."""
    return a_snapshot(
        quotas=[a_quota("o", 16, borrow=0), a_quota("o/a", 8), a_quota("o/b", 8)],
        devices=devices(2),
        running=[
            runs("a1", "o/a", 2, node=0, started_at=NOW - 100),
            runs("b1", "o/b", 4, node=0, started_at=NOW, time_limit_s=limit_s),
            runs("b2", "o/b", 4, node=1, started_at=NOW, time_limit_s=limit_s),
        ],
        queued=[
            a_queued("big", "o/a", gpus=6, submitted_at=NOW - 900),
            a_queued("small", "o/a", gpus=1),
        ],
    )


def test_r25_a_blocked_job_keeps_its_place_in_the_guarantee_while_ends_are_known() -> None:
    known = plan_of(guarantee_in_use(600))
    assert started(known) == []
    assert why(known, "small").code is Code.BEHIND_HIGHER_PRIORITY
    assert started(plan_of(guarantee_in_use(None))) == ["small"]


def test_r26_a_strict_queue_is_never_passed() -> None:
    snapshot = guarantee_in_use(None)
    assert started(plan_of(snapshot, skips_blocked_within_team=False)) == []
    nodes = [
        replace(node, skips_blocked_within_team=False) if node.id == "o" else node
        for node in snapshot.nodes
    ]
    assert started(plan_of(replace(snapshot, nodes=tuple(nodes)))) == []


def test_r28_a_cycle_starts_so_many_jobs_and_leaves_the_rest_for_the_next() -> None:
    snapshot = a_snapshot(
        quotas={"o": 8, "o/a": 8},
        devices=devices(1),
        queued=[a_queued(f"j{i}", "o/a") for i in range(3)],
    )
    plan = plan_of(snapshot, starts_max=2)
    assert started(plan) == ["j0", "j1"]
    assert why(plan, "j2").numbers["starts_max"] == 2


# -- fair-share ---------------------------------------------------------------------------------


def test_r31_a_start_is_charged_for_an_hour_so_teams_take_turns_within_a_cycle() -> None:
    snapshot = a_snapshot(
        quotas=NOTHING,
        devices=devices(1),
        queued=[
            *(a_queued(f"a{i}", "o/a", submitted_at=NOW - 900) for i in range(8)),
            *(a_queued(f"b{i}", "o/b") for i in range(8)),
        ],
    )
    assert started(plan_of(snapshot)) == ["a0", "b0", "a1", "b1", "a2", "b2", "a3", "b3"]


def test_r32_siblings_are_compared_level_by_level() -> None:
    """Department d used less than e for its weight, so its heavy team comes before e's idle one."""
    snapshot = a_snapshot(
        quotas={"o": 0, "o/d": 0, "o/d/a": 0, "o/e": 0, "o/e/b": 0, "o/e/c": 0},
        devices=devices(1),
        queued=[
            a_queued("a", "o/d/a", gpus=8),
            a_queued("b", "o/e/b", gpus=8, submitted_at=NOW - 900),
        ],
        used={("o/d/a", "alice"): 40_000, ("o/e/c", "alice"): 60_000},
    )
    assert started(plan_of(snapshot)) == ["a"]
    heavy = [replace(q, weight=200) if q.node == "o/e" else q for q in snapshot.quotas]
    assert started(plan_of(replace(snapshot, quotas=tuple(heavy)))) == ["b"]


# -- priority classes ---------------------------------------------------------------------------


def test_r35_a_class_cap_bounds_a_team_in_each_pool() -> None:
    capped = [*CLASSES[:2], PriorityClass("normal", 10, team_cap_mgpu=3 * GPU), CLASSES[3]]
    snapshot = a_snapshot(
        quotas={"o": 8, "o/a": 8},
        devices=devices(1),
        queued=[a_queued(f"j{i}", "o/a", gpus=2) for i in range(2)],
        classes=capped,
    )
    plan = plan_of(snapshot)
    assert (started(plan), why(plan, "j1").code) == (["j0"], Code.CLASS_CAP_REACHED)


def test_r36_a_class_may_preempt_lower_ones_of_its_own_team() -> None:
    snapshot = a_snapshot(
        quotas={"o": 8, "o/a": 8},
        devices=devices(1),
        running=[runs("r", "o/a", 8)],
        queued=[a_queued("j", "o/a", gpus=4, priority="high")],
    )
    assert victims(plan_of(snapshot)) == ["r"]
    normal = replace(snapshot, queued=(a_queued("j", "o/a", gpus=4),))
    assert plan_of(normal).reclaims == ()


def test_r37_across_teams_only_with_the_right_and_up_to_the_cap() -> None:
    def stopped(cap: int | None, across: bool) -> list[str]:
        cls = PriorityClass(
            "critical",
            1000,
            team_cap_mgpu=None if cap is None else cap * GPU,
            preempts_across_teams=across,
        )
        snapshot = a_snapshot(
            quotas=HALVES,
            devices=devices(1),
            running=[runs("ra", "o/a", 4), runs("rb", "o/b", 4)],
            queued=[a_queued("j", "o/a", gpus=4, priority="critical")],
            classes=[cls, *CLASSES[1:]],
        )
        return victims(plan_of(snapshot))

    assert (stopped(4, True), stopped(4, False), stopped(None, True), stopped(3, True)) == (
        ["rb"], [], [], [],
    )  # fmt: skip


# -- placement ----------------------------------------------------------------------------------


def test_r38_a_gang_starts_whole_on_one_cluster_or_not_at_all() -> None:
    snapshot = a_snapshot(
        quotas={"o": 24, "o/a": 24},
        devices=[*devices(1), *devices(2, gpus=4, cluster="beta")],
        queued=[a_queued("two", "o/a", nodes=2, gpus=8), a_queued("small", "o/a", nodes=2, gpus=4)],
    )
    assert {start.job: start.cluster for start in plan_of(snapshot).starts} == {"small": "beta"}


def test_r39_the_fullest_node_that_fits_is_taken() -> None:
    snapshot = a_snapshot(
        quotas={"o": 24, "o/a": 24},
        devices=devices(3),
        running=[runs("r", "o/a", 4, node=1), runs("s", "o/a", 2, node=2)],
        queued=[a_queued("j", "o/a", gpus=3)],
    )
    assert placed(plan_of(snapshot)) == {"j": [1]}


def test_r40_guaranteed_and_borrowed_jobs_keep_to_nodes_of_their_own() -> None:
    """Two nodes are half full: node 0 with a protected job, node 1 with a borrowed one."""
    snapshot = a_snapshot(
        quotas={"o": 16, "o/a": 8, "o/b": 8, "o/c": 0},
        devices=devices(2),
        running=[runs("own", "o/a", 4, node=0), runs("borrowed", "o/c", 4, node=1)],
    )
    inside = replace(snapshot, queued=(a_queued("j", "o/a", gpus=1),))
    beyond = replace(snapshot, queued=(a_queued("j", "o/c", gpus=1),))
    assert (placed(plan_of(inside)), placed(plan_of(beyond))) == ({"j": [0]}, {"j": [1]})


def racks(*names: str) -> list[Device]:
    return [
        Device("alpha", f"alpha-{i:03d}", "h100", 8 * GPU, domains=Domains("block", name))
        for i, name in enumerate(names)
    ]


def test_r42_a_required_rack_holds_all_nodes_or_the_job_waits() -> None:
    snapshot = a_snapshot(
        quotas={"o": 32, "o/a": 32},
        devices=racks("r1", "r1", "r2", "r2"),
        running=[runs("r", "o/a", 8, node=0), runs("s", "o/a", 8, node=2)],
        queued=[replace(a_queued("j", "o/a", nodes=2, gpus=8), required_topology=Level.RACK)],
    )
    assert why(plan_of(snapshot), "j").code is Code.TOPOLOGY_FRAGMENTED
    freed = replace(snapshot, running=snapshot.running[:1])
    assert placed(plan_of(freed)) == {"j": [2, 3]}


def test_r43_a_preferred_rack_is_a_wish() -> None:
    snapshot = a_snapshot(
        quotas={"o": 32, "o/a": 32},
        devices=racks("r1", "r1", "r2", "r2"),
        running=[runs("r", "o/a", 8, node=0), runs("s", "o/a", 8, node=2)],
        queued=[replace(a_queued("j", "o/a", nodes=2, gpus=8), preferred_topology=Level.RACK)],
    )
    assert placed(plan_of(snapshot)) == {"j": [1, 3]}


def test_r44_cpus_that_one_job_takes_are_not_there_for_the_next() -> None:
    node = replace(
        devices(1)[0], cpu_milli=64_000, memory_mib=512 * 1024,
        cpu_milli_per_gpu=8_000, memory_mib_per_gpu=64 * 1024,
    )  # fmt: skip
    snapshot = a_snapshot(
        quotas={"o": 8, "o/a": 8},
        devices=[node],
        queued=[
            replace(a_queued("wide", "o/a", submitted_at=NOW - 900), cpu_milli=48_000),
            *(a_queued(f"j{i}", "o/a", gpus=1) for i in range(3)),
        ],
    )
    assert sorted(started(plan_of(snapshot))) == ["j0", "j1", "wide"]


def test_r46_never_fits_is_asked_of_the_empty_fleet() -> None:
    drained = [replace(one, capacity_mgpu=0) for one in devices(2)]
    snapshot = a_snapshot(
        quotas={"o": 16, "o/a": 16},
        devices=[*devices(1), drained[1]],
        queued=[a_queued("two", "o/a", nodes=2, gpus=8), a_queued("nine", "o/a", gpus=9)],
    )
    plan = plan_of(snapshot)
    assert why(plan, "nine").code is Code.NEVER_FITS
    assert why(plan, "two").code is not Code.NEVER_FITS


# -- elastic jobs and jobs that accept several pools -----------------------------------------------


def elastic(job: QueuedJob, most: int) -> QueuedJob:
    return replace(job, node_count_max=most)


def test_r47_an_elastic_job_starts_as_soon_as_its_least_size_can() -> None:
    snapshot = a_snapshot(
        quotas={"o": 8, "o/a": 8},
        devices=devices(1),
        running=[runs("r", "o/a", 5)],
        queued=[elastic(a_queued("e", "o/a", nodes=1, gpus=2), 4)],
    )
    (start,) = plan_of(snapshot).starts
    assert sum(slot.mgpu for slot in start.slots) == 2 * GPU


def test_r48_it_grows_within_the_guarantee_in_its_turn_and_beyond_it_after_all_others() -> None:
    snapshot = a_snapshot(
        quotas={"o": 32, "o/a": 16, "o/b": 0},
        devices=devices(4),
        queued=[
            elastic(a_queued("e", "o/a", gpus=8), 4),
            a_queued("b", "o/b", gpus=8),
        ],
    )
    assert {start.job: len(start.slots) for start in plan_of(snapshot).starts} == {"e": 3, "b": 1}


def two_pools(*queued: QueuedJob, running: Sequence[RunningJob] = ()) -> Snapshot:
    """Pools h100 and a100, a node of 8 each; teams a and b are guaranteed half of each."""
    return a_snapshot(
        quotas=[
            a_quota(node, gpus, pool=pool)
            for pool in ("h100", "a100")
            for node, gpus in HALVES.items()
        ],
        devices=[*devices(1), *devices(1, cluster="beta", pool="a100")],
        queued=queued,
        running=running,
    )


def test_r50_a_job_starts_in_the_first_of_its_pools_that_has_room_in_its_turn() -> None:
    job = a_queued("j", "o/b", gpus=4, others=["a100"])
    plan = plan_of(two_pools(job))
    assert [(start.job, start.pool) for start in plan.starts] == [("j", "h100")]
    plan = plan_of(two_pools(job, running=[runs("r", "o/a", 8)]))
    assert [(start.job, start.pool) for start in plan.starts] == [("j", "a100")]
    assert plan.reclaims == ()


def test_r51_gpus_are_reclaimed_in_one_pool_only() -> None:
    beta = slots(0, 1, cluster="beta")
    busy = [runs("r", "o/a", 8), a_running("s", "o/a", beta, cluster="beta", pool="a100")]
    plan = plan_of(two_pools(a_queued("j", "o/b", gpus=4, others=["a100"]), running=busy))
    assert [(one.job, one.pool) for one in plan.reclaims] == [("j", "h100")]


# -- reclaim and victims ------------------------------------------------------------------------


def test_r53_only_a_job_within_a_guarantee_reclaims_and_only_from_those_beyond_theirs() -> None:
    def stopped(gpus: int, borrowed: int) -> list[str]:
        snapshot = a_snapshot(
            quotas=HALVES,
            devices=devices(1),
            running=[
                runs("kept", "o/a", 4, started_at=NOW - 9_000),
                runs("lent", "o/a", borrowed, started_at=NOW - 7_000),
            ],
            queued=[a_queued("j", "o/b", gpus=gpus)],
        )
        return victims(plan_of(snapshot))

    assert (stopped(4, 4), stopped(5, 4), stopped(3, 2)) == (["lent"], [], ["lent"])


def test_r54_a_job_within_its_guarantee_starts_one_grace_after_it_was_queued() -> None:
    world = World(
        a_snapshot(
            quotas=HALVES,
            devices=devices(1),
            running=[runs("kept", "o/a", 4, started_at=NOW - 9_000), runs("lent", "o/a", 4)],
        )
    )
    world.submit(a_queued("j", "o/b", gpus=4, submitted_at=NOW))
    plan = world.step()
    assert [(one.attempt, one.grace_s) for one in plan.reclaims[0].victims] == [("lent.1", 300)]
    assert started(world.step(NOW + 299)) == []
    assert started(world.step(NOW + 300)) == ["j"]


def test_r55_the_youngest_of_equals_is_stopped_and_no_more_than_needed() -> None:
    def stopped(gpus: int) -> list[str]:
        snapshot = a_snapshot(
            quotas=HALVES,
            devices=devices(1),
            running=[
                runs("kept", "o/a", 4, started_at=NOW - 9_000),
                *(runs(f"lent{i}", "o/a", 2, started_at=NOW - 7_000 - i) for i in range(2)),
            ],
            queued=[a_queued("j", "o/b", gpus=gpus)],
        )
        return victims(plan_of(snapshot))

    assert (stopped(2), stopped(4)) == (["lent0"], ["lent0", "lent1"])


def test_r56_a_job_that_would_lose_more_than_four_hours_is_stopped_last() -> None:
    """The one of low rank that lost five hours outlives the one of high rank that lost one."""
    snapshot = a_snapshot(
        quotas={"o": 8, "o/a": 8, "o/b": 0, "o/c": 0},
        ranks={"o/b": 1, "o/c": 9},
        devices=devices(1),
        running=[
            runs("low", "o/b", 4, started_at=NOW - 5 * HOUR_S),
            runs("high", "o/c", 4, started_at=NOW - 1 * HOUR_S),
        ],
        queued=[a_queued("j", "o/a", gpus=4)],
    )
    assert victims(plan_of(snapshot)) == ["high"]
    saved = replace(snapshot.running[0], checkpoint_at=NOW - HOUR_S)
    assert victims(plan_of(replace(snapshot, running=(saved, snapshot.running[1])))) == ["low"]


def test_r57_young_jobs_are_spared_but_not_immune() -> None:
    def stopped(gpus: int) -> list[str]:
        snapshot = a_snapshot(
            quotas={"o": 8, "o/a": 8, "o/b": 0},
            devices=devices(1),
            running=[
                runs("young", "o/b", 4, started_at=NOW - 599),
                runs("old", "o/b", 4, started_at=NOW - 600),
            ],
            queued=[a_queued("j", "o/a", gpus=gpus)],
        )
        return victims(plan_of(snapshot))

    assert (stopped(4), sorted(stopped(8))) == (["old"], ["old", "young"])


def test_r59_one_victim_goes_instead_of_four_that_lose_more_together() -> None:
    def stopped(hours: float) -> list[str]:
        snapshot = a_snapshot(
            quotas={"o": 16, "o/a": 16, "o/b": 0},
            devices=devices(2),
            running=[
                runs("large", "o/b", 8, node=0, started_at=NOW - HOUR_S),
                *(
                    runs(f"s{i}", "o/b", 2, node=1, started_at=NOW - int(hours * HOUR_S))
                    for i in range(4)
                ),
            ],
            queued=[a_queued("j", "o/a", gpus=8)],
        )
        return sorted(victims(plan_of(snapshot)))

    assert (stopped(1.5), stopped(0.5)) == (["large"], ["s0", "s1", "s2", "s3"])


def test_r61_what_a_victim_frees_is_kept_up_to_what_the_job_needs() -> None:
    world = World(
        a_snapshot(
            quotas={"o": 8, "o/a": 6, "o/b": 2},
            devices=devices(1),
            running=[runs("lent", "o/b", 8)],
            queued=[a_queued("j", "o/a", gpus=6)],
        )
    )
    (reclaim,) = world.step().reclaims
    assert (reclaim.slots, [one.mgpu for one in reclaim.victims]) == (
        slots(0, 1, gpus=6), [8 * GPU],
    )  # fmt: skip
    world.submit(a_queued("k", "o/b", gpus=2))
    world.submit(a_queued("m", "o/b", gpus=1, submitted_at=NOW))
    world.leave("lent")
    assert started(world.step(NOW + 20)) == ["j", "k"]


# -- claims -------------------------------------------------------------------------------------


def test_r62_what_is_free_of_a_claim_is_kept_for_its_job() -> None:
    snapshot = a_snapshot(
        quotas=HALVES,
        devices=devices(1),
        running=[
            runs("kept", "o/a", 4, started_at=NOW - 9_000),
            a_victim("v", "o/a", slots(0, 1, gpus=2), of="j", grace_until=NOW + 200),
        ],
        queued=[
            a_queued("j", "o/b", gpus=4),
            a_queued("k", "o/a", gpus=1, submitted_at=NOW - 9_000),
        ],
        claims=[a_claim("j", slots(0, 1, gpus=4), grace_until=NOW + 200)],
    )
    plan = plan_of(snapshot)
    assert plan.starts == ()
    told = why(plan, "j")
    assert (told.code, told.latest, told.numbers["earmarked_mgpu"]) == (
        Code.WAITING_FOR_RECLAIM, NOW + 200, 2 * GPU,
    )  # fmt: skip
    gone = replace(snapshot, running=snapshot.running[:1])
    assert started(plan_of(gone)) == ["j"]


def test_r63_a_claim_yields_to_a_right_further_down_the_tree() -> None:
    """j of team b, guaranteed 0, claims 4 by the department's guarantee; k of a by its own."""
    snapshot = a_snapshot(
        quotas={"o": 8, "o/d": 4, "o/d/a": 4, "o/d/b": 0, "o/e": 4},
        devices=devices(1),
        running=[
            runs("kept", "o/e", 4, started_at=NOW - 9_000),
            a_victim("v", "o/e", slots(0, 1, gpus=4), of="j"),
        ],
        queued=[
            a_queued("j", "o/d/b", gpus=4, submitted_at=NOW - 900),
            a_queued("k", "o/d/a", gpus=4),
        ],
        claims=[a_claim("j", slots(0, 1, gpus=4))],
    )
    plan = plan_of(snapshot)
    assert (plan.dropped_claims, [one.job for one in plan.reclaims], victims(plan)) == (
        ("j",), ["k"], [],
    )  # fmt: skip


def test_r64_a_claim_is_given_up_where_quota_refuses_its_job_once_the_gpus_are_here() -> None:
    snapshot = a_snapshot(
        quotas=[a_quota("o", 8), a_quota("o/a", 8), a_quota("o/b", 2, borrow=0)],
        devices=devices(1),
        running=[runs("r", "o/a", 4)],
        queued=[a_queued("j", "o/b", gpus=4)],
        claims=[a_claim("j", slots(0, 1, gpus=4))],
    )
    assert plan_of(snapshot).dropped_claims == ("j",)
    raised = replace(snapshot, quotas=(*snapshot.quotas[:2], a_quota("o/b", 4, borrow=0)))
    assert started(plan_of(raised)) == ["j"]


# -- reservations and backfill --------------------------------------------------------------------


def blocked_gang(*queued: QueuedJob, **more: object) -> Snapshot:
    """Two nodes; the first is in use for another 1,000 s, and a gang waits for both."""
    return a_snapshot(
        quotas=NOTHING,
        devices=devices(2),
        running=[runs("r", "o/a", 8, started_at=NOW, time_limit_s=1_000)],
        queued=[
            a_queued("gang", "o/b", nodes=2, gpus=8, submitted_at=NOW - 900),
            *queued,
        ],
        **more,  # type: ignore[arg-type]
    )


def test_r73_a_blocked_job_reserves_its_earliest_possible_start() -> None:
    plan = plan_of(blocked_gang())
    assert reserved(plan) == {"gang": 1_000}
    assert (why(plan, "gang").latest, why(plan, "gang").method) == (NOW + 1_000, "time_limits")
    assert plan_of(blocked_gang(), reservations_max=0).reservations == ()


@pytest.mark.parametrize("limit_s", [None, 8 * 86_400])
def test_r74_an_end_that_is_unknown_or_beyond_the_horizon_is_not_counted_on(
    limit_s: int | None,
) -> None:
    snapshot = blocked_gang(a_queued("endless", "o/a", gpus=2))
    run = replace(snapshot.running[0], time_limit_s=limit_s)
    plan = plan_of(replace(snapshot, running=(run,)))
    assert (plan.reservations, started(plan)) == ((), ["endless"])


def test_r75_a_later_job_starts_only_if_it_ends_before_the_reservation() -> None:
    plan = plan_of(
        blocked_gang(
            a_queued("endless", "o/a", gpus=2),
            a_queued("long", "o/a", gpus=2, time_limit_s=1_001),
            a_queued("short", "o/a", gpus=2, time_limit_s=1_000),
        )
    )
    assert started(plan) == ["short"]
    assert why(plan, "long").code is Code.RESERVED_FOR_LARGER_JOB


def test_r76_a_job_within_its_team_s_guarantee_waits_for_nobody_s_reservation() -> None:
    snapshot = blocked_gang(
        a_queued("own", "o/a", gpus=2, time_limit_s=2_000),
        a_queued("other", "o/c", gpus=2),
    )
    quotas = [a_quota("o", 10), a_quota("o/a", 10), a_quota("o/b", 0), a_quota("o/c", 0)]
    nodes = [*snapshot.nodes, TreeNode("o/c", "o")]
    plan = plan_of(replace(snapshot, quotas=tuple(quotas), nodes=tuple(nodes)))
    assert (started(plan), why(plan, "other").code) == (["own"], Code.RESERVED_FOR_LARGER_JOB)


def test_r77_inside_a_team_the_first_that_fits_the_guarantee_is_not_delayed() -> None:
    snapshot = blocked_gang(a_queued("small", "o/b", gpus=1))
    quotas = [a_quota("o", 16), a_quota("o/a", 0), a_quota("o/b", 16)]
    run = replace(snapshot.running[0], time_limit_s=1_000)
    kept = [a_quota("o", 16), a_quota("o/a", 8), a_quota("o/b", 8)]
    plan = plan_of(replace(snapshot, quotas=tuple(kept), running=(run,)))
    assert started(plan) == ["small"]
    busy = runs("own", "o/b", 8, started_at=NOW, time_limit_s=1_000)
    plan = plan_of(replace(snapshot, quotas=tuple(quotas), running=(busy,)))
    assert started(plan) == []


def test_r78_room_is_kept_in_the_limit_of_a_team_for_its_first_job() -> None:
    """Team a may have 8: 4 run, one of 8 waits for them. One that ends by then may start."""
    snapshot = a_snapshot(
        quotas=[a_quota("o", 8), a_quota("o/a", 8, borrow=0), a_quota("o/b", 0)],
        devices=devices(2),
        running=[runs("r", "o/a", 4, started_at=NOW, time_limit_s=300)],
        queued=[
            a_queued("first", "o/a", gpus=8, submitted_at=NOW - 900),
            a_queued("long", "o/a", gpus=1, time_limit_s=301),
            a_queued("short", "o/a", gpus=1, time_limit_s=300),
        ],
    )
    plan = plan_of(snapshot)
    assert (started(plan), plan.reservations) == (["short"], ())
    assert why(plan, "long").code is Code.RESERVED_FOR_LARGER_JOB


def test_r81_what_no_reservation_needs_is_for_everybody() -> None:
    jobs = [a_queued(f"j{i}", "o/a", gpus=1) for i in range(5)]
    snapshot = blocked_gang(*jobs)
    gang = replace(snapshot.queued[0], mgpu_per_node=5 * GPU)
    assert started(plan_of(replace(snapshot, queued=(gang, *jobs)))) == ["j0", "j1", "j2"]


def test_r82_a_stream_of_small_jobs_does_not_delay_the_first_blocked_one() -> None:
    """A job of 2 and 300 s comes every 100 s. Those that end by +1,000 s start, and no other."""
    world = World(blocked_gang())
    gang_at, small = None, dict[str, int]()
    for after in range(0, 1_001, 100):
        now = NOW + after
        for job in [job for job, ends in small.items() if ends == now]:
            world.leave(job)
        if after == 1_000:
            world.leave("r")
        world.submit(a_queued(f"s{after}", "o/a", gpus=2, time_limit_s=300, submitted_at=now))
        begun = started(world.step(now))
        small |= {job: now + 300 for job in begun if job != "gang"}
        if "gang" in begun:
            gang_at = after
    assert (gang_at, list(small)) == (1_000, [f"s{after}" for after in range(0, 701, 100)])


# -- why a job waits ----------------------------------------------------------------------------


def test_r86_behind_fair_share_names_what_the_teams_used() -> None:
    """a has 30,000 of 68,800 GPU-seconds: b's start counts for an hour already."""
    snapshot = a_snapshot(
        quotas=NOTHING,
        devices=devices(1),
        queued=[a_queued("a", "o/a", gpus=8), a_queued("b", "o/b", gpus=8)],
        used={("o/a", "alice"): 30_000, ("o/b", "alice"): 10_000},
    )
    plan = plan_of(snapshot)
    told = why(plan, "a")
    assert (started(plan), told.code, told.numbers["used_permille"]) == (
        ["b"], Code.BEHIND_FAIR_SHARE, 436,
    )  # fmt: skip


def test_r117_behind_credits_names_both_balances() -> None:
    """All 8 GPUs are in use, and b comes before a by its credits alone."""
    snapshot = a_snapshot(
        quotas={"o": 2, "o/a": 1, "o/b": 1, "p": 6},
        devices=devices(1),
        running=[runs("outside", "p", 8)],
        queued=[
            a_queued("a", "o/a", gpus=8, submitted_at=NOW - 900),
            a_queued("b", "o/b", gpus=8, submitted_at=NOW - 100),
        ],
        credits={"o/a": -2, "o/b": 30},
    )
    told = why(plan_of(snapshot), "a")
    assert (told.code, told.node) == (Code.BEHIND_CREDITS, "o/b")
    assert (told.numbers["credits_tenths"], told.numbers["ahead_credits_tenths"]) == (-20, 300)


# -- credits and metering -----------------------------------------------------------------------


def test_r91_credits_are_compared_in_tenths_of_a_day_of_guarantee() -> None:
    """5 GPU-days are 5 days of 1 GPU for a and 1.25 days of 4 GPUs for b."""

    def first(credits: dict[str, int]) -> list[str]:
        return started(
            plan_of(
                a_snapshot(
                    quotas={"o": 5, "o/a": 1, "o/b": 4},
                    devices=devices(1, gpus=13),
                    running=[runs("ra", "o/a", 1), runs("rb", "o/b", 4)],
                    queued=[
                        a_queued("b", "o/b", gpus=8, submitted_at=NOW - 900),
                        a_queued("a", "o/a", gpus=8),
                    ],
                    credits=credits,
                )
            )
        )

    assert (first({"o/a": 5, "o/b": 5}), first({"o/a": 5, "o/b": 21})) == (["a"], ["b"])


def test_r92_what_is_borrowed_at_the_floor_is_unpaid_and_stopped_first() -> None:
    """Both teams are guaranteed 1; b is 7 days of that in debt, and its job lost more work."""
    snapshot = a_snapshot(
        quotas={"o": 10, "o/a": 8, "o/b": 1, "o/c": 1},
        devices=devices(1),
        running=[
            runs("unpaid", "o/b", 4, started_at=NOW - 3 * HOUR_S),
            runs("paid", "o/c", 4, started_at=NOW - HOUR_S),
        ],
        queued=[a_queued("j", "o/a", gpus=4)],
    )

    def stopped(days: int) -> list[str]:
        with_bank = a_snapshot(
            quotas=snapshot.quotas,
            devices=snapshot.devices,
            running=snapshot.running,
            queued=snapshot.queued,
            ranks={"o/b": 9},
            credits={"o/b": days},
        )
        return victims(plan_of(with_bank))

    assert (stopped(-7), stopped(-6)) == (["unpaid"], ["paid"])


def test_r98_for_money_a_team_s_use_is_split_not_only_its_jobs() -> None:
    """3 GPUs are protected, and the next job of 3 has the last guaranteed one for the meter."""
    snapshot = a_snapshot(
        quotas=HALVES,
        devices=devices(1),
        running=[
            runs("first", "o/a", 3, started_at=NOW - 200),
            runs("second", "o/a", 3, started_at=NOW - 100),
        ],
    )
    plan = plan_of(snapshot)
    assert {one.attempt: one.guaranteed_mgpu for one in plan.classed} == {
        "first.1": 3 * GPU, "second.1": 1 * GPU,
    }  # fmt: skip
    assert use_of(plan, "o/a").protected_mgpu == 3 * GPU


def test_r118_nothing_starts_that_would_run_into_a_maintenance_window() -> None:
    """In an hour, for two hours; jobs of 1 hour, a second more, and without a limit."""
    window = Maintenance("alpha", NOW + HOUR_S, NOW + 3 * HOUR_S)
    snapshot = a_snapshot(
        quotas={"o": 8, "o/a": 8},
        devices=devices(1),
        queued=[
            a_queued("hour", "o/a", time_limit_s=HOUR_S),
            a_queued("more", "o/a", time_limit_s=HOUR_S + 1),
            a_queued("endless", "o/a"),
        ],
        maintenance=[window],
    )
    plan = plan_of(snapshot)
    assert started(plan) == ["hour"]
    assert [why(plan, job).code for job in ("more", "endless")] == [Code.MAINTENANCE] * 2
    ended = replace(snapshot, taken_at=window.end_at)
    assert sorted(started(plan_of(ended))) == ["endless", "hour", "more"]
    jobs = [a_queued(name, "o/a", gpus=8, time_limit_s=2 * HOUR_S) for name in ("one", "two")]
    some = replace(window, nodes=frozenset({devices(2)[0].node}))
    two = replace(
        a_snapshot(quotas={"o": 16, "o/a": 16}, devices=devices(2), queued=jobs),
        maintenance=(some,),
    )
    plan = plan_of(two)
    assert [slot.node for one in plan.starts for slot in one.slots] == [devices(2)[1].node]
    assert [why(plan, one.job).code for one in plan.waiting] == [Code.MAINTENANCE]

"""Reservations and backfill: who holds one, who has to wait for it, and how long at most
(R-73 to R-77)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from arbiter.api.plan import Code, Plan
from arbiter.api.policy import Policy
from arbiter.api.snapshot import QueuedJob, RunningJob, Snapshot
from arbiter.backfill.reservations import Reservations
from arbiter.cycle.decide import decide
from arbiter.cycle.scheduler import Core
from arbiter.preemption.search import Search
from builders.arbiter_builders import (
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
from builders.arbiter_plans import started, why

#: Nobody is guaranteed anything, so nothing is taken back.
NOTHING = {"o": 0, "o/a": 0, "o/b": 0}


def two_nodes(
    queued: Sequence[QueuedJob], *, running: Sequence[RunningJob] | None = None, **more: object
) -> Snapshot:
    """Two nodes of 8 GPUs; the first is in use for another 1,000 s."""
    if running is None:
        running = [a_running("r", "o/a", slots(0, 1), started_at=NOW, time_limit_s=1_000)]
    fields: dict[str, object] = {"quotas": NOTHING, "devices": devices(2), **more}
    return a_snapshot(queued=queued, running=running, **fields)  # type: ignore[arg-type]


def a_gang(**more: object) -> QueuedJob:
    """A job that needs both nodes and waits for longest."""
    fields: dict[str, object] = {"gpus": 8, "nodes": 2, "submitted_at": NOW - 900, **more}
    return a_queued("gang", "o/b", **fields)  # type: ignore[arg-type]


def held(plan: Plan) -> dict[str, int]:
    """Seconds until each reservation."""
    return {one.job: one.start_at - plan.taken_at for one in plan.reservations}


def test_a_later_job_starts_only_if_it_ends_before_the_reservation() -> None:
    """Mutants that die here: a job without a limit taken for a short one; the end compared with
    the reservation's to the second the wrong way."""
    jobs = [
        a_gang(),
        a_queued("endless", "o/a", gpus=2),
        a_queued("long", "o/a", gpus=2, time_limit_s=1_001),
        a_queued("short", "o/a", gpus=2, time_limit_s=1_000),
    ]
    plan = decide(two_nodes(jobs), Policy())
    assert held(plan)["gang"] == 1_000
    assert started(plan) == ["short"]
    one = why(plan, "long")
    assert one.code is Code.RESERVED_FOR_LARGER_JOB
    assert one.numbers == {
        "need_mgpu": 2 * GPU,
        "free_mgpu": 6 * GPU,
        "reserved_mgpu": 16 * GPU,
        "reserved_start_at": NOW + 1_000,
    }
    assert why(plan, "endless").code is Code.RESERVED_FOR_LARGER_JOB
    gang = why(plan, "gang")
    assert (gang.code, gang.earliest, gang.latest, gang.method) == (
        Code.WAITING_FOR_FREE_GPUS, None, NOW + 1_000, "time_limits",
    )  # fmt: skip


def test_what_a_reservation_does_not_need_is_for_everybody() -> None:
    jobs = [a_gang(gpus=5), *(a_queued(f"j{i}", "o/a", gpus=1) for i in range(5))]
    plan = decide(two_nodes(jobs, devices=devices(2)), Policy())
    assert held(plan)["gang"] == 1_000
    assert started(plan) == ["j0", "j1", "j2"]


def test_without_reservations_whatever_fits_starts() -> None:
    jobs = [a_gang(), a_queued("endless", "o/a", gpus=2)]
    plan = decide(two_nodes(jobs), Policy(reservations_max=0))
    assert (plan.reservations, started(plan)) == ((), ["endless"])
    assert why(plan, "gang").method is None


@pytest.mark.parametrize(
    ("limit_s", "age_s", "horizon_s"),
    [
        (None, 0, 7 * 86_400),  # nobody knows when it ends
        (1_000, 0, 999),  # it ends beyond the horizon
        (1_000, 1_601, 7 * 86_400),  # it should have ended ten minutes ago
    ],
)
def test_nobody_waits_for_an_end_that_is_unknown(
    limit_s: int | None, age_s: int, horizon_s: int
) -> None:
    """Mutants that die here: no limit, an end beyond the horizon or one long past counted on."""
    run = a_running("r", "o/a", slots(0, 1), started_at=NOW - age_s, time_limit_s=limit_s)
    jobs = [a_gang(), a_queued("endless", "o/a", gpus=2)]
    plan = decide(two_nodes(jobs, running=[run]), Policy(reservation_horizon_s=horizon_s))
    assert (plan.reservations, started(plan)) == ((), ["endless"])


def test_gpus_are_kept_for_what_is_ending_now_for_ten_minutes_at_most() -> None:
    run = a_running("r", "o/a", slots(0, 1), started_at=NOW - 1_600, time_limit_s=1_000)
    plan = decide(two_nodes([a_gang(), a_queued("j", "o/a")], running=[run]), Policy())
    assert (held(plan)["gang"], started(plan)) == (0, [])


def test_only_so_many_hold_a_reservation() -> None:
    jobs = [
        a_gang(),
        a_queued("next", "o/a", gpus=7, nodes=2, time_limit_s=50, submitted_at=NOW - 200),
        a_queued("last", "o/a", gpus=6, nodes=2, time_limit_s=50),
    ]
    jobs[0] = replace(jobs[0], time_limit_s=100)
    assert held(decide(two_nodes(jobs), Policy(reservations_max=1))) == {"gang": 1_000}
    assert held(decide(two_nodes(jobs), Policy(reservations_max=2))) == {
        "gang": 1_000, "next": 1_100,
    }  # fmt: skip
    assert held(decide(two_nodes(jobs), Policy())) == {"gang": 1_000, "next": 1_100, "last": 1_150}


def test_what_its_own_teams_limit_refuses_holds_none() -> None:
    quotas = [a_quota("o", 0), a_quota("o/a", 0), a_quota("o/b", 0, borrow=12)]
    run = a_running("r", "o/b", slots(0, 1), started_at=NOW, time_limit_s=1_000)
    jobs = [a_gang(nodes=1), a_queued("endless", "o/a", gpus=8)]
    plan = decide(two_nodes(jobs, quotas=quotas, running=[run]), Policy())
    assert why(plan, "gang").code is Code.BORROW_LIMIT_REACHED
    assert (plan.reservations, started(plan)) == ((), ["endless"])


def test_quota_is_reserved_too() -> None:
    """A department's limit keeps the job waiting; a sister may not use up what comes free there,
    a stranger may. Mutants that die here: quota not looked at where a job would start; the
    running jobs' ends not taken out of it; what starts not charged to it."""
    quotas = [a_quota("o", 0, borrow=8), a_quota("o/a", 0), a_quota("o/b", 0), a_quota("p", 0)]
    runs = [
        a_running("r", "o/a", slots(0, 1, gpus=2), started_at=NOW, time_limit_s=1_000),
        a_running("s", "o/a", slots(1, 1, gpus=3), started_at=NOW, time_limit_s=300),
    ]
    jobs = [
        a_gang(nodes=1, gpus=7),
        a_queued("sister", "o/a", gpus=1, time_limit_s=1_500),
        a_queued("short", "o/a", gpus=1, time_limit_s=1_000),
        a_queued("stranger", "p", gpus=1),
    ]
    plan = decide(two_nodes(jobs, quotas=quotas, running=runs, devices=devices(4)), Policy())
    assert held(plan)["gang"] == 1_000
    assert sorted(started(plan)) == ["short", "sister", "stranger"]
    another = [*jobs, a_queued("tail", "o/a", gpus=1)]
    plan = decide(two_nodes(another, quotas=quotas, running=runs, devices=devices(4)), Policy())
    assert why(plan, "tail").code is Code.RESERVED_FOR_LARGER_JOB
    jobs[1] = replace(jobs[1], mgpu_per_node=2 * GPU)
    plan = decide(two_nodes(jobs, quotas=quotas, running=runs, devices=devices(4)), Policy())
    assert sorted(started(plan)) == ["short", "stranger"]
    assert why(plan, "sister").code is Code.RESERVED_FOR_LARGER_JOB


def test_the_teams_own_guarantee_goes_before_what_others_have_reserved() -> None:
    """Mutant that dies here: a reservation for spare GPUs in the way of a guarantee."""
    quotas = {"o": 2, "o/a": 2, "o/b": 0}
    high = a_queued("first", "o/a", gpus=8, nodes=2, priority="high")
    run = a_running("r", "o/b", slots(0, 1), started_at=NOW, time_limit_s=1_000)
    own = a_queued("own", "o/a", gpus=2)
    plan = decide(two_nodes([high, own], quotas=quotas, running=[run]), Policy())
    assert held(plan) == {"first": 1_000}
    assert started(plan) == ["own"]


#: One organization, whose departments b and c are guaranteed so much, and their teams nothing.
DEPARTMENTS = {"o": 28, "o/b": 8, "o/b/t": 0, "o/c": 12, "o/c/t": 0}


def of_departments(
    gang: str = "o/b/t",
    small: str = "o/c/t",
    quotas: Mapping[str, int] = DEPARTMENTS,
    small_gpus: int = 4,
) -> Snapshot:
    """A team of department b runs on one of two nodes for 1,000 s, and one of c on the only node of
    another cluster. The `gang` needs both nodes; the team that `small` is of wants first 8 GPUs on
    the other cluster, which does not fit in what c is guaranteed, and then 4 anywhere."""
    there = slots(0, 1, cluster="beta")
    return a_snapshot(
        quotas=quotas,
        devices=[*devices(2), *devices(1, cluster="beta")],
        running=[
            a_running("r", "o/b/t", slots(0, 1), started_at=NOW, time_limit_s=1_000),
            a_running("z", "o/c/t", there, cluster="beta", started_at=NOW, time_limit_s=2_000),
        ],
        queued=[
            replace(a_gang(time_limit_s=100), team=gang, clusters=frozenset({"alpha"})),
            a_queued("older", small, gpus=8, cluster="beta", submitted_at=NOW - 800),
            a_queued("small", small, gpus=small_gpus, submitted_at=NOW - 700),
        ],
    )


def test_a_departments_guarantee_goes_before_what_is_reserved_beyond_anothers() -> None:
    """The small job has its turn behind an older one of its team, which draws on the guarantee of
    the organization, as the gang does that was there first. If the gang ran, department c could
    take its GPUs back. Planted: only a team's own guarantee goes before a reservation."""
    plan = decide(of_departments(), Policy())
    assert (held(plan), started(plan)) == ({"gang": 1_000, "older": 2_000}, ["small"])


@pytest.mark.parametrize(
    ("gang", "small", "quotas", "small_gpus"),
    [
        # The gang fits in what its own department is guaranteed, or that is still to come.
        ("o/b/t", "o/c/t", {**DEPARTMENTS, "o": 36, "o/b": 24}, 4),
        # The small job does not fit in what its department is guaranteed.
        ("o/b/t", "o/c/t", DEPARTMENTS, 5),
        # Both are of one department, and neither of their teams is guaranteed anything.
        ("o/c/g", "o/c/t", {**DEPARTMENTS, "o/c/g": 0}, 4),
    ],
)
def test_it_does_not_go_before_what_could_not_be_taken_back(
    gang: str, small: str, quotas: Mapping[str, int], small_gpus: int
) -> None:
    """Mutants that die here: it does not matter on whose guarantee the gang draws; nor on whose the
    small job; nor whether they share what they draw on."""
    plan = decide(of_departments(gang, small, quotas, small_gpus), Policy())
    assert (held(plan)["gang"], started(plan)) == (1_000, [])
    assert why(plan, "small").code is Code.RESERVED_FOR_LARGER_JOB


def of_one_team(
    guaranteed: int, running: Sequence[tuple[str, int, int | None, int]], big: int, limit_s: int
) -> Plan:
    """A node of 8 GPUs, all of which the organization is guaranteed. Of what runs the name (`b...`
    is of another team, which is guaranteed nothing), GPUs, how long it runs on, and how long ago
    it was submitted. `big` GPUs were asked for 500 s ago, and one by a `small` job after that."""
    return decide(
        a_snapshot(
            quotas={"o": 8, "o/a": guaranteed, "o/b": 0},
            devices=devices(1),
            running=[
                a_running(name, f"o/{name[0]}", slots(0, 1, gpus=gpus), started_at=NOW,
                          time_limit_s=left_s, submitted_at=NOW - ago_s)
                for name, gpus, left_s, ago_s in running
            ],
            queued=[
                a_queued("big", "o/a", gpus=big, time_limit_s=9_000, submitted_at=NOW - 500),
                a_queued("small", "o/a", gpus=1, time_limit_s=limit_s, submitted_at=NOW - 400),
            ],
        ),
        Policy(),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("guaranteed", "running", "big"),
    [
        (8, [("a1", 2, 50, 600), ("a2", 2, 100, 600), ("a3", 2, 300, 600)], 6),
        # Who has passed it does not keep it out of the guarantee.
        (7, [("a1", 2, None, 600), ("a2", 2, 100, 300), ("a3", 2, 5_000, 300)], 4),
        # Nor does it come first where it fits in the guarantee by then.
        (7, [("a1", 2, None, 600), ("a2", 3, 100, 300), ("a3", 2, 5_000, 300)], 4),
        # Nor does what its team has borrowed.
        (4, [("a1", 5, None, 600), ("a2", 2, 100, 600)], 3),
    ],
)
def test_inside_a_team_who_comes_first_is_not_delayed_by_who_fits_in_the_guarantee_now(
    guaranteed: int, running: list[tuple[str, int, int | None, int]], big: int
) -> None:
    """Else jobs that are small enough would fill what ends again and again, and it would wait for
    good. Planted: what fits in the guarantee now waits for no reservation beyond it; what has
    passed the job counts before it; all counts that runs of the team, be it protected or not."""
    plan = of_one_team(guaranteed, running, big, 101)
    assert (held(plan)["big"], started(plan)) == (100, [])
    assert (why(plan, "big").latest, why(plan, "big").method) == (NOW + 100, "time_limits")
    assert why(plan, "small").code is Code.RESERVED_FOR_LARGER_JOB
    assert started(of_one_team(guaranteed, running, big, 100)) == ["small"]


@pytest.mark.parametrize(
    ("running", "big"),
    [
        # It asks for more than the team is guaranteed.
        ([("b1", 2, None, 600), ("b2", 4, 100, 600)], 6),
        # It would have to borrow beside an earlier one.
        ([("a1", 3, None, 600), ("b1", 1, None, 600), ("b2", 2, 100, 600)], 4),
    ],
)
def test_who_fits_in_the_guarantee_goes_before_what_its_own_team_would_borrow(
    running: list[tuple[str, int, int | None, int]], big: int
) -> None:
    """And of the larger one no moment is told that the start has made impossible. Planted: the size
    alone counts; nothing is compared with what has started since."""
    plan = of_one_team(4, running, big, 5_000)
    assert (held(plan), started(plan)) == ({"big": 100}, ["small"])
    assert (why(plan, "big").latest, why(plan, "big").method) == (None, None)


def test_a_strict_queue_lets_nobody_pass_who_waits_for_a_reservation() -> None:
    jobs = [
        a_gang(),
        a_queued("long", "o/a", gpus=2, time_limit_s=5_000, submitted_at=NOW - 50),
        a_queued("short", "o/a", gpus=1, time_limit_s=100, submitted_at=NOW - 40),
    ]
    strict = Policy(skips_blocked_within_team=False)
    assert started(decide(two_nodes(jobs), Policy())) == ["short"]
    assert started(decide(two_nodes(jobs), strict)) == []


def a_stream(
    policy: Policy, until_s: int, *, above: str = "o", quotas: Mapping[str, int] = NOTHING
) -> int | None:
    """After how many seconds a job that needs both nodes starts among a stream of jobs of half a
    node that run for their whole limit of 400 to 1,000 s; None when it still waits. Both teams are
    below `above`."""
    gang, team = replace(a_gang(), team=f"{above}/b"), f"{above}/a"
    world = World(a_snapshot(quotas=quotas, devices=devices(2), queued=[gang]), policy)
    world.running = {
        f"r{i}": a_running(
            f"r{i}", team, slots(i // 2, 1, gpus=4), started_at=NOW, time_limit_s=400 + 200 * i
        )
        for i in range(4)
    }
    number = 0
    while world.now < NOW + until_s:
        for run in list(world.running.values()):
            if run.time_limit_s is not None and run.started_at + run.time_limit_s <= world.now:
                world.leave(run.job)
        while len(world.queued) < 6:
            limit_s = 400 + number * 50 % 650
            small = a_queued(f"j{number:04d}", team, gpus=4, time_limit_s=limit_s)
            world.submit(replace(small, submitted_at=world.now))
            number += 1
        if "gang" in {start.job for start in world.step().starts}:
            return world.now - NOW
        world.now += 10
    return None


def test_a_stream_of_small_jobs_does_not_starve_a_large_one() -> None:
    """The bound: the longest time limit of what runs when it is first in line, and a cycle. Without
    reservations it waits for as long as the stream goes on."""
    assert a_stream(Policy(reservations_max=0), 20_000) is None
    assert a_stream(Policy(), 20_000) == 1_000


@pytest.mark.parametrize(
    ("above", "quotas"),
    [
        ("o", {"o": 16, "o/a": 0, "o/b": 0}),
        ("o/d", {"o": 16, "o/d": 16, "o/d/a": 0, "o/d/b": 0}),
        ("o/d", {"o": 16, "o/d": 0, "o/d/a": 0, "o/d/b": 0}),
    ],
)
def test_neither_does_one_that_fits_in_what_others_leave_idle(
    above: str, quotas: Mapping[str, int]
) -> None:
    """Each small job fits in what is idle of a guarantee above both teams, and the large one does
    not while any runs. Mutants: blocked jobs have their turn by what they draw on now; only what
    their organization is guaranteed counts; only what their department is."""
    assert a_stream(Policy(), 20_000, above=above, quotas=quotas) == 1_000


def test_who_waits_behind_it_is_told_so() -> None:
    """All of their organization's guarantee; team a has used more. Planted: the order that is told
    goes by what the large job draws on now, so that all small ones are ahead of it."""
    jobs = [a_gang(), *(a_queued(f"small{i}", "o/a", gpus=2, time_limit_s=2_000) for i in "12")]
    plan = decide(two_nodes(jobs, quotas={"o": 16, "o/a": 0, "o/b": 0}), Policy())
    assert (started(plan), held(plan)) == ([], {"gang": 1_000})
    assert {one.job: (one.code, one.jobs_ahead) for one in plan.waiting} == {
        "gang": (Code.WAITING_FOR_FREE_GPUS, 0),
        "small1": (Code.RESERVED_FOR_LARGER_JOB, 1),
        "small2": (Code.RESERVED_FOR_LARGER_JOB, 2),
    }


@pytest.mark.parametrize(
    ("rank", "waits_s", "guaranteed", "starts"),
    [(2, 1, 16, False), (1, 950, 16, False), (2, 1, 15, True)],
)
def test_a_blocked_job_has_its_turn_on_the_guarantee_that_it_would_fit_in(
    rank: int, waits_s: int, guaranteed: int, starts: bool
) -> None:
    """Node 2 is free, and the gang could have it and node 1 in 1,000 s; the other job, of another
    team, runs for longer. With 16 GPUs the gang would fit in the guarantee of the organization if
    nobody drew on it, so it has its turn there, before any rank or age. With 15 the gang does not
    fit and comes by its rank.

    Planted: the gang has its turn on what it draws on now."""
    running = [
        a_running("long", "o/c", slots(0, 1), started_at=NOW, time_limit_s=5_000),
        a_running("half", "o/c", slots(1, 1, gpus=4), started_at=NOW, time_limit_s=1_000),
    ]
    other = a_queued("other", "o/a", gpus=8, time_limit_s=2_000, submitted_at=NOW - waits_s)
    snapshot = two_nodes(
        [a_gang(time_limit_s=100), other],
        running=running,
        quotas={"o": guaranteed, "o/a": 0, "o/b": 0, "o/c": 0},
        devices=devices(3),
        ranks={"o/a": rank, "o/b": 1},
    )
    plan = decide(snapshot, Policy())
    assert started(plan) == (["other"] if starts else [])
    # What runs on node 2 ends in 2,000 s then; without it the other one follows the gang.
    assert held(plan) == ({"gang": 2_000} if starts else {"gang": 1_000, "other": 1_100})


def test_who_fits_in_the_guarantee_still_goes_before_spare_gpus_of_a_higher_rank() -> None:
    """A job of 4 fits in what is idle of the organization's guarantee, and one of 8 of a higher
    rank does not; there is room for one of them and nobody is blocked. Planted: who could start has
    its turn where it would have it if it could not."""
    running = [
        a_running("long", "o/c", slots(0, 1), started_at=NOW, time_limit_s=5_000),
        a_running("half", "o/c", slots(1, 1, gpus=4), started_at=NOW, time_limit_s=1_000),
        a_running("rest", "o/c", slots(1, 1, gpus=4), started_at=NOW, time_limit_s=1_000),
    ]
    jobs = [a_queued("eight", "o/a", gpus=8), a_queued("four", "o/b", gpus=4)]
    quotas = {"o": 20, "o/a": 0, "o/b": 0, "o/c": 0}
    fields: dict[str, object] = {"quotas": quotas, "devices": devices(3), "ranks": {"o/a": 2}}
    plan = decide(two_nodes(jobs, running=running, **fields), Policy())
    assert started(plan) == ["four"]


def test_what_teams_are_guaranteed_themselves_is_no_place_to_wait_at() -> None:
    """Nobody of the organization draws on anything but the own guarantee of team a, so the gang of
    team b waits for spare GPUs, behind those of a higher rank. Mutant: what teams draw on their own
    guarantees counts as left for others."""
    quotas = {"o": 16, "o/d": 16, "o/d/a": 8, "o/d/b": 0, "o/e": 0, "o/e/c": 0}
    running = [
        a_running("own", "o/d/a", slots(0, 1), started_at=NOW, time_limit_s=1_000),
        a_running("other", "o/e/c", slots(1, 1, gpus=4), started_at=NOW, time_limit_s=1_000),
    ]
    queued = [
        a_queued("gang", "o/d/b", nodes=2, gpus=8, time_limit_s=100),
        a_queued("small", "o/e/c", gpus=4, time_limit_s=2_000),
    ]
    snapshot = a_snapshot(
        quotas=quotas, devices=devices(2), running=running, queued=queued, ranks={"o/e": 2}
    )
    assert started(decide(snapshot, Policy())) == ["small"]


@pytest.mark.parametrize("limit_s", [None, 500_000])
def test_what_is_held_back_for_spare_gpus_keeps_no_guarantee_waiting(limit_s: int | None) -> None:
    """A job that fits in its team's own guarantee takes back beside what is held for a larger one
    that does not. Mutants: victims are sought in what is left beside all reservations; what could
    be freed at most leaves out what is held back."""
    running = [
        a_running("protected", "b/t", slots(1, 1), started_at=NOW - 9_000, time_limit_s=limit_s),
        a_running(
            "borrowed", "b/t", slots(0, 1, gpus=4), started_at=NOW - 5_000, time_limit_s=limit_s
        ),
    ]
    larger = a_queued("larger", "a/t", nodes=2, gpus=8, submitted_at=NOW - 100)
    own = a_queued("own", "a/t", gpus=8, submitted_at=NOW - 50)
    snapshot = a_snapshot(
        quotas={"a": 8, "a/t": 8, "b": 8, "b/t": 8},
        devices=devices(2),
        running=running,
        queued=[larger, own],
    )
    plan = decide(snapshot, Policy())
    assert [one.job for one in plan.reservations] == (["larger"] if limit_s else [])
    assert [(one.job, [v.job for v in one.victims]) for one in plan.reclaims] == [
        ("own", ["borrowed"])
    ]


def test_the_end_of_a_job_that_takes_gpus_back_is_counted_once() -> None:
    """It gets 4 GPUs back and is gone after its limit; on the other 4 nobody knows an end.

    Planted: the claim that a cycle makes before it asks for ends is noted a second time.
    """
    plan = decide(
        a_snapshot(
            quotas={"o": 8, "o/a": 4, "o/b": 0, "o/c": 4},
            devices=devices(1),
            running=[
                a_running("borrowed", "o/b", slots(0, 1, gpus=4), is_preemptible=True),
                a_running("forever", "o/c", slots(0, 1, gpus=4)),
            ],
            queued=[
                a_queued("short", "o/a", gpus=4, time_limit_s=100, submitted_at=NOW - 900),
                a_queued("whole", "o/a", gpus=8, submitted_at=NOW - 800),
            ],
        ),
        Policy(),
    )
    assert [one.job for one in plan.reclaims] == ["short"]
    assert plan.reservations == ()


def test_gpus_of_a_victim_on_another_cluster_come_free_after_its_grace() -> None:
    """The job gets GPUs on one cluster; who goes for the sake of quota runs on the other one.

    Planted: only victims on the claim's own cluster count as being stopped.
    """
    plan = decide(
        a_snapshot(
            quotas=[
                a_quota("o", 8, borrow=0),
                a_quota("o/a", 8),
                a_quota("o/b", 0),
                a_quota("x", 0),
                a_quota("x/c", 0),
            ],
            devices=devices(1) + devices(1, cluster="beta"),
            running=[a_running("r", "o/b", slots(0, 1, cluster="beta"), cluster="beta")],
            queued=[
                a_queued("first", "o/a", gpus=8, cluster="alpha"),
                a_queued("then", "x/c", gpus=8, cluster="beta"),
            ],
        ),
        Policy(),
    )
    assert [(one.job, one.cluster) for one in plan.reclaims] == [("first", "alpha")]
    assert held(plan) == {"then": 300}


def test_quota_that_a_victim_of_this_cycle_uses_comes_free_after_its_grace() -> None:
    """The job's devices are free all the time; the limit of its organization is not.

    Planted: only what was stopped before this cycle is waited for.
    """
    plan = decide(
        a_snapshot(
            quotas=[
                a_quota("o", 8),
                a_quota("o/a", 8),
                a_quota("x", 0, borrow=8),
                a_quota("x/b", 0),
                a_quota("x/c", 0),
            ],
            devices=devices(1) + devices(1, cluster="beta"),
            running=[a_running("r", "x/b", slots(0, 1))],
            queued=[
                a_queued("first", "o/a", gpus=8, cluster="alpha"),
                a_queued("then", "x/c", gpus=8, cluster="beta"),
            ],
        ),
        Policy(),
    )
    assert [one.job for one in plan.reclaims] == ["first"]
    assert held(plan) == {"then": 300}


def test_the_end_of_a_job_that_uses_its_claim_is_known_at_once() -> None:
    """Planted: who starts by a claim is noted before anything is reserved, and so by nobody."""
    plan = decide(
        a_snapshot(
            quotas={"o": 8, "o/a": 8, "o/b": 0},
            devices=devices(1),
            queued=[
                a_queued("claimed", "o/a", gpus=8, time_limit_s=1_000),
                a_queued("then", "o/b", gpus=8),
            ],
            claims=[a_claim("claimed", slots(0, 1))],
        ),
        Policy(),
    )
    assert started(plan) == ["claimed"]
    assert held(plan) == {"then": 1_000}


def test_ends_are_followed_however_many_run_and_those_of_reserved_jobs_among_them() -> None:
    """A hundred full nodes, one of which ends every 100 s. Of what the first gang reserves, the
    second one gets 25 nodes when the limit of the first is over.

    Planted: only the first part of the ends is looked at; the reserved jobs' ends come behind
    all that runs; quota is asked again before all of one moment has ended.
    """
    running = [
        a_running(f"r{i:02d}", "o/a", slots(i, 1), started_at=NOW, time_limit_s=10_000 - 100 * i)
        for i in range(100)
    ]
    jobs = [
        a_queued("one", "o/b", gpus=8, nodes=70, time_limit_s=500, submitted_at=NOW - 900),
        a_queued("two", "o/b", gpus=8, nodes=25, submitted_at=NOW - 800),
    ]
    plan = decide(
        a_snapshot(queued=jobs, running=running, quotas=NOTHING, devices=devices(100)), Policy()
    )
    assert held(plan) == {"one": 7_000, "two": 7_500}


def test_a_node_on_which_something_starts_in_between_is_looked_at_anew() -> None:
    """Both gangs want a whole node. When the first has its reservation, the second node is known to
    come free at 500; then something starts there that may run until 2,000.

    Planted: ends that were followed for the first gang are kept for that node.
    """
    running = [
        a_running("r0", "o/a", slots(0, 1), started_at=NOW, time_limit_s=300),
        a_running("r1", "o/a", slots(1, 1, gpus=4), started_at=NOW, time_limit_s=500),
    ]
    jobs = [
        a_queued("one", "o/b", gpus=8, submitted_at=NOW - 900),
        a_queued("small", "o/b", gpus=4, submitted_at=NOW - 800, time_limit_s=2_000),
        a_queued("two", "o/a", gpus=8, submitted_at=NOW - 700),
    ]
    plan = decide(two_nodes(jobs, running=running), Policy())
    assert started(plan) == ["small"]
    assert held(plan) == {"one": 300, "two": 2_000}


def test_what_comes_free_after_its_start_makes_no_node_roomier_for_a_job() -> None:
    """The first job waits until 1,000 for its kind of node. At 300, when the second one starts, two
    nodes have just room for it, and the first of them is chosen; that this one is empty from 600
    on matters to nobody.

    Planted: all that came free until 1,000 counted for the second job too.
    """
    nodes = devices(3)
    running = [
        a_running("a", "o/a", slots(0, 1, gpus=4), started_at=NOW, time_limit_s=300),
        a_running("b", "o/a", slots(0, 1, gpus=4), started_at=NOW, time_limit_s=600),
        a_running("c", "o/a", slots(1, 1, gpus=4), started_at=NOW, time_limit_s=300),
        a_running("d", "o/a", slots(1, 1, gpus=4), started_at=NOW, time_limit_s=9_000),
        a_running("e", "o/a", slots(2, 1), started_at=NOW, time_limit_s=1_000),
    ]
    far = a_queued("far", "o/b", gpus=4, submitted_at=NOW - 900)
    plan = decide(
        a_snapshot(
            queued=[
                replace(far, features=frozenset({"big"})),
                a_queued("near", "o/b", gpus=4, submitted_at=NOW - 800),
            ],
            running=running,
            quotas=NOTHING,
            devices=(*nodes[:2], replace(nodes[2], features=frozenset({"big"}))),
        ),
        Policy(),
    )
    assert held(plan) == {"far": 1_000, "near": 300}
    assert plan.reservations[1].slots == slots(0, 1, gpus=4)


def test_ends_are_followed_anew_once_gpus_are_taken_back() -> None:
    """The second gang would have had the node of a job that ends at 500; but for another job that
    one is stopped, which itself may run until 300 + 2,000.

    Planted: ends that were followed for the first gang are kept.
    """
    nodes = devices(4)
    running = [
        a_running("kept", "o/z", slots(0, 1), started_at=NOW, time_limit_s=300),
        a_running("borrowed", "o/a", slots(1, 1), started_at=NOW, time_limit_s=500),
        a_running("half", "o/z", slots(2, 1, gpus=4), started_at=NOW),
        a_running("other", "o/z", slots(3, 1, gpus=4), started_at=NOW),
    ]
    one = a_queued("one", "o/x", gpus=8, submitted_at=NOW - 900)
    plan = decide(
        a_snapshot(
            queued=[
                replace(one, features=frozenset({"big"})),
                a_queued("due", "o/c", gpus=8, submitted_at=NOW - 800, time_limit_s=2_000),
                a_queued("two", "o/a", gpus=8, submitted_at=NOW - 700),
            ],
            running=running,
            quotas={"o": 32, "o/a": 0, "o/c": 8, "o/x": 8, "o/z": 16},
            devices=(replace(nodes[0], features=frozenset({"big"})), *nodes[1:]),
        ),
        Policy(),
    )
    assert [reclaim.job for reclaim in plan.reclaims] == ["due"]
    assert held(plan) == {"one": 300, "two": 2_300}


def test_nothing_is_reserved_for_nobody_who_could_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one job that fits would delay the first gang: then nobody is to start, and the other
    reservations are made only when somebody asks why all wait.

    Planted: that all who fit would delay it is not looked at.
    """
    asked: list[str] = []
    reserve = Reservations.reserve

    def noted(self: Reservations, job: QueuedJob, *args: Any, **more: Any) -> None:
        asked.append(job.id)
        reserve(self, job, *args, **more)

    monkeypatch.setattr(Reservations, "reserve", noted)
    others = [
        a_queued(f"g{i}", "o/b", gpus=7 - i, nodes=2, submitted_at=NOW - 800 + i, time_limit_s=9)
        for i in range(3)
    ]
    jobs = [a_gang(time_limit_s=9), *others, a_queued("endless", "o/a", gpus=2)]
    core = Core.of(two_nodes(jobs), Policy())
    assert (core.cycle(NOW, explains=False).starts, asked) == ((), ["gang"])
    asked.clear()
    assert list(held(core.cycle(NOW))) == asked
    assert asked == ["gang", "g0", "g1", "g2", "endless"]


@pytest.mark.parametrize(
    ("stopped", "stranger", "reclaimed", "searches"),
    [
        (False, False, [], 0),
        (True, False, [("wide", [])], 1),
        (False, True, [("wide", ["stranger"])], 1),
    ],
)
def test_who_may_take_nothing_back_from_anybody_looks_for_no_victims(
    monkeypatch: pytest.MonkeyPatch,
    stopped: bool,
    stranger: bool,
    reclaimed: list[tuple[str, list[str]]],
    searches: int,
) -> None:
    """The job fits in what its organization is guaranteed, and its sister team borrows, but by the
    organization's guarantee only others can be asked. Then nobody is to start, and nothing needs to
    be reserved; but for what comes back anyway. Mutants: all search who fit in some guarantee; what
    comes back is not looked at; nobody is asked but sister teams."""
    calls = Counter[str]()

    def count(cls: type, name: str) -> None:
        plain = getattr(cls, name)

        def counted(self: object, *args: object, **more: object) -> object:
            calls[name] += 1
            return plain(self, *args, **more)

        monkeypatch.setattr(cls, name, counted)

    count(Search, "run")
    count(Reservations, "reserve")
    wide = a_queued("wide", "o/a", gpus=8, time_limit_s=100)
    running = [
        *(a_running(f"b{i}", "o/b", slots(i, 1)) for i in range(2)),
        a_running("b2", "o/b", slots(2, 1, gpus=4)),
        a_running("stranger", "p/s" if stranger else "o/b", slots(3, 1, gpus=4)),
    ]
    if stopped:
        running[2] = a_victim("b2", "o/b", slots(2, 1, gpus=4), of="nobody")
    snapshot = a_snapshot(
        quotas={"o": 32, "o/a": 0, "o/b": 0, "p": 0, "p/s": 0},
        devices=devices(4),
        running=running,
        queued=[wide] if reclaimed else [wide, replace(wide, id="x", mgpu_per_node=7 * GPU)],
    )
    plan = Core.of(snapshot, Policy()).cycle(NOW, explains=False)
    assert [(one.job, [v.job for v in one.victims]) for one in plan.reclaims] == reclaimed
    assert (calls["run"], calls["reserve"]) == (searches, 0)
    assert decide(snapshot, Policy()).reclaims == plan.reclaims


def test_what_leaves_a_node_of_a_reservation_for_nobody_is_room_there_by_then() -> None:
    """Half of the gang's first node is being given back, for a job that is gone: who takes the
    other half delays nobody.

    Planted: only what ends by itself is counted, and half of the node stays idle.
    """
    running = [
        a_victim("leaving", "o/a", slots(0, 1, gpus=4), of="gone"),
        a_running("r", "o/a", slots(1, 1), started_at=NOW, time_limit_s=800),
    ]
    jobs = [a_gang(gpus=4), a_queued("endless", "o/a", gpus=4)]
    plan = decide(two_nodes(jobs, running=running), Policy())
    assert held(plan) == {"gang": 800}
    assert started(plan) == ["endless"]

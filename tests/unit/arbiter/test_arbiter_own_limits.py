"""Room that is kept inside a team: in its own limits for its first job which only these refuse, and
in its guarantee for those that wait for known ends or lent GPUs (R-78, R-25)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from arbiter.api.plan import Code, Plan
from arbiter.api.policy import Policy
from arbiter.api.snapshot import OtherPool, Phase, QueuedJob, RunningJob, Snapshot
from arbiter.cycle.decide import decide
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
from builders.arbiter_plans import started, victims, why


def big(gpus: int = 8, **more: object) -> QueuedJob:
    """The first of the team."""
    return a_queued("big", "o/a", gpus=gpus, submitted_at=NOW - 900, **more)  # type: ignore[arg-type]


def small(name: str, limit_s: int | None, *, gpus: int = 1, **more: object) -> QueuedJob:
    """One behind it."""
    return a_queued(name, "o/a", gpus=gpus, time_limit_s=limit_s, **more)  # type: ignore[arg-type]


def running(
    *jobs: tuple[str, int, int | None], team: str | None = None, **more: object
) -> list[RunningJob]:
    """On one node: the name (the first letter is the team's), GPUs, and how long it runs on."""
    return [
        a_running(name, team or f"o/{name[0]}", slots(0, 1, gpus=gpus), started_at=NOW,
                  time_limit_s=left_s, **more)  # type: ignore[arg-type]
        for name, gpus, left_s in jobs
    ]  # fmt: skip


def a_team(
    runs: Sequence[RunningJob],
    queued: Sequence[QueuedJob],
    *,
    guaranteed: int = 8,
    borrow: int | None = 0,
    capped: int | None = None,
    nodes: int = 2,
) -> Snapshot:
    """Team a, of two nodes of 8 GPUs, and team b, which is guaranteed nothing. `capped` is a's cap
    in class `normal`."""
    classes = [
        replace(cls, team_cap_mgpu=None if capped is None or cls.id != "normal" else capped * GPU)
        for cls in CLASSES
    ]
    return a_snapshot(
        quotas=[a_quota("o", 8), a_quota("o/a", guaranteed, borrow=borrow), a_quota("o/b", 0)],
        devices=devices(nodes),
        running=runs,
        queued=queued,
        classes=classes,
    )


def plan_of_team(runs: Sequence[RunningJob], queued: Sequence[QueuedJob], **more: int) -> Plan:
    return decide(a_team(runs, queued, **more), Policy())


def test_who_comes_later_starts_only_if_it_ends_before_the_limit_has_room() -> None:
    """Mutants that die here: nothing is kept; the end compared with the moment to the second the
    wrong way; a job without a limit taken for a short one; a reservation of devices made for it;
    those who wait for it keep places in the guarantee, so that a short one has none."""
    jobs = [big(), small("endless", None), small("long", 301, gpus=2), small("short", 300, gpus=3)]
    plan = plan_of_team(running(("a1", 2, 300), ("a2", 2, 100)), jobs)
    assert (started(plan), plan.reservations) == (["short"], ())
    assert why(plan, "big").code is Code.BORROW_LIMIT_REACHED
    assert why(plan, "endless").code is Code.RESERVED_FOR_LARGER_JOB
    told = why(plan, "long")
    assert (told.code, told.numbers["reserved_mgpu"], told.numbers["reserved_start_at"]) == (
        Code.RESERVED_FOR_LARGER_JOB, 8 * GPU, NOW + 300,
    )  # fmt: skip


def test_what_the_first_does_not_need_of_the_limit_is_for_everybody() -> None:
    """Mutants that die here: starts, or ends by the same moment, not counted."""
    jobs = [big(5), *(small(f"j{i}", None) for i in range(4))]
    runs = running(("a1", 2, 300), ("a2", 2, 300), ("a3", 1, None))
    assert started(plan_of_team(runs, jobs)) == ["j0", "j1"]


def test_who_is_gone_by_then_leaves_room_for_others() -> None:
    """Planted: each start takes room from it; none does."""
    jobs = [big(7), small("j0", 300), small("j1", 300), small("j2", 301), small("j3", 301)]
    assert started(plan_of_team(running(("a1", 4, 300)), jobs)) == ["j0", "j1", "j2"]


def test_room_is_kept_for_the_first_of_those_whom_the_limit_refuses() -> None:
    jobs = [big(8), small("less", 300, gpus=5, submitted_at=NOW - 800), small("j", None)]
    assert started(plan_of_team(running(("a1", 4, 300)), jobs)) == []
    assert started(plan_of_team(running(("a1", 4, 300)), [*jobs[1:]])) == ["j"]


@pytest.mark.parametrize(("left_s", "horizon_s"), [(None, 7 * 86_400), (1_000, 999)])
def test_nobody_waits_for_an_end_that_is_unknown(left_s: int | None, horizon_s: int) -> None:
    snapshot = a_team(running(("a1", 4, left_s)), [big(), small("endless", None)])
    plan = decide(snapshot, Policy(reservation_horizon_s=horizon_s))
    assert started(plan) == ["endless"]


def test_in_a_capped_class_its_own_jobs_wait_and_no_others() -> None:
    """Mutants that die here: the cap's jobs not told from the team's others; the whole team has to
    wait; only the team's limit is looked at."""
    runs = [
        *running(("a1", 2, 300)),
        *running(("a2", 2, 900), priority="low"),
    ]
    jobs = [
        big(5),
        small("long", 301),
        small("short", 300),
        small("other", None, priority="low"),
    ]
    plan = plan_of_team(runs, jobs, capped=5)
    assert started(plan) == ["short", "other"]
    assert why(plan, "big").code is Code.CLASS_CAP_REACHED
    assert why(plan, "long").numbers["reserved_start_at"] == NOW + 300


def test_nothing_is_kept_for_who_would_have_to_borrow() -> None:
    """Of six GPUs that it may hold the team is guaranteed four. What fits in those goes first again
    and again, so that who borrows would make room for nobody. Planted: room is kept for all sizes;
    also where the guarantee is in use then."""
    runs = running(("a1", 2, 300), ("a2", 1, 100))
    for gpus, starts in ((6, ["endless"]), (4, [])):
        jobs = [big(gpus), small("endless", None)]
        assert started(plan_of_team(runs, jobs, guaranteed=4, borrow=2)) == starts
    # There is room at 300, in the guarantee at 500, and one GPU beside it then.
    runs = [
        *running(("a1", 1, 300), ("a9", 3, None)),
        *running(("a3", 1, 500), submitted_at=NOW - 5_000),
    ]
    jobs = [big(4), small("long", 501, gpus=2), small("short", 500, gpus=2)]
    plan = plan_of_team(runs, jobs, guaranteed=4, borrow=4)
    assert started(plan) == ["short"]


def test_other_teams_do_not_wait() -> None:
    jobs = [big(), a_queued("b2", "o/b", gpus=8)]
    assert started(plan_of_team(running(("a1", 4, 300)), jobs)) == ["b2"]


def test_gpus_are_not_taken_back_for_who_would_take_its_place() -> None:
    """The other team fills the rest of both nodes with what it has borrowed. The first GPUs come
    back a grace from now. Mutants that die here: claims are free to pass; its own time alone counts
    and not the grace before it."""
    runs = [
        *running(("a1", 4, 1_000), ("b1", 4, None)),
        a_running("b2", "o/b", slots(1, 1), started_at=NOW - 50),
    ]
    for limit_s, claims in ((None, []), (701, []), (700, ["small"])):
        plan = plan_of_team(runs, [big(), small("small", limit_s)])
        assert [reclaim.job for reclaim in plan.reclaims] == claims
        assert (victims(plan) != []) == bool(claims)


def crowded(*own: tuple[str, int, int | None], queued: Sequence[QueuedJob]) -> Snapshot:
    """Five nodes with one GPU free each, and one with `own`; what team b holds is protected."""
    others = [a_running(f"b{i}", "o/b", slots(i, 1, gpus=7)) for i in range(1, 6)]
    snapshot = a_team([*running(*own), *others], queued, nodes=6)
    quotas = a_quota("o", 48), a_quota("o/a", 8, borrow=0), a_quota("o/b", 40)
    return replace(snapshot, quotas=quotas)


def test_who_waits_behind_it_holds_no_devices_in_vain() -> None:
    """The second could start when b0 ends, and would have to let the first pass then. Mutant that
    dies here: it is given a reservation."""
    jobs = [big(1, nodes=6), small("second", None, gpus=3)]
    plan = decide(crowded(("a1", 4, 1_000), ("b0", 4, 200), queued=jobs), Policy())
    assert (plan.reservations, started(plan)) == ((), [])
    assert why(plan, "second").code is Code.BEHIND_HIGHER_PRIORITY
    plan = decide(crowded(("a1", 4, 1_000), ("b0", 4, 200), queued=jobs[1:]), Policy())
    assert [one.job for one in plan.reservations] == ["second"]


def test_what_is_reserved_for_one_of_its_team_is_taken_from_what_it_leaves() -> None:
    """The limit leaves two GPUs beside the first when a1 ends. The second needs both, on one node,
    and waits for that, too. Planted: a third one takes one of them."""
    own = ("a1", 3, 300), ("b0", 5, 500)
    jobs = [big(1, nodes=6), small("second", None, gpus=2), small("third", None)]
    plan = decide(crowded(*own, queued=jobs), Policy())
    assert ([one.job for one in plan.reservations], started(plan)) == (["second"], [])
    plan = decide(crowded(*own, queued=[jobs[0], jobs[2]]), Policy())
    assert started(plan) == ["third"]
    # One that borrows comes before, from 300 to 400: only then there is room. Planted: not counted.
    before = small("before", 100, gpus=4, submitted_at=NOW - 5_000)
    jobs = [before, big(1, nodes=5), small("long", 401, nodes=4), small("short", 400, nodes=4)]
    snapshot = crowded(("a1", 4, 300), ("b0", 4, 500), queued=jobs)
    quotas = a_quota("o", 45), a_quota("o/a", 6, borrow=2), a_quota("o/b", 40)
    plan = decide(replace(snapshot, quotas=quotas), Policy())
    assert ([one.job for one in plan.reservations], started(plan)) == (["before"], ["short"])


def test_what_is_claimed_for_one_behind_it_is_taken_from_what_it_leaves() -> None:
    """Both could take back what the other team has borrowed. Planted: both do."""
    runs = [
        *running(("a1", 4, 300), ("b1", 4, None)),
        a_running("b2", "o/b", slots(1, 1), started_at=NOW - 50),
    ]
    plan = plan_of_team(runs, [big(6), small("second", None, gpus=2), small("third", None)])
    assert [reclaim.job for reclaim in plan.reclaims] == ["second"]


def test_an_elastic_job_grows_no_further_than_that() -> None:
    """Mutant that dies here: it grows into what is kept."""
    elastic = replace(small("elastic", None, gpus=1), node_count=1, node_count_max=8)
    runs = [
        a_running("a1", "o/a", slots(0, 1, gpus=2), started_at=NOW, time_limit_s=300),
    ]
    plan = decide(a_team(runs, [big(7), elastic], nodes=8), Policy())
    (start,) = plan.starts
    assert (start.job, len(start.slots)) == ("elastic", 1)


def test_what_is_stopped_for_another_team_is_gone_by_the_end_of_its_grace() -> None:
    """Mutants that die here: it is not counted; it is never gone."""
    runs = [
        *running(("a1", 2, 30), ("b1", 4, None)),
        a_running("b3", "o/b", slots(1, 1, gpus=7)),
        a_victim("a2", "o/a", slots(0, 1, gpus=2), of="b2", grace_until=NOW + 200),
    ]
    claimed = a_queued("b2", "o/b", gpus=2, submitted_at=NOW - 5_000)
    claim = a_claim("b2", slots(0, 1, gpus=2), grace_until=NOW + 200)
    for limit_s, starts in ((200, ["j"]), (201, [])):
        snapshot = a_team(runs, [claimed, big(), small("j", limit_s)])
        assert started(decide(replace(snapshot, claims=(claim,)), Policy())) == starts


def test_what_is_stopped_or_claimed_for_the_team_counts_until_its_end() -> None:
    """a2 is gone when its grace is over, and the claimed one a minute after its GPUs are there.
    Mutants that die here: claims not counted; what is being stopped never gone."""
    claimed = a_queued("claimed", "o/a", gpus=2, submitted_at=NOW - 5_000, time_limit_s=60)
    runs = [
        *running(("a1", 2, 30), ("b1", 4, None)),
        a_running("b2", "o/b", slots(1, 1, gpus=7)),
        a_victim("a2", "o/a", slots(0, 1, gpus=2), of="claimed", grace_until=NOW + 200),
    ]
    jobs = [claimed, big(), small("long", 261), small("short", 260)]
    snapshot = replace(
        a_team(runs, jobs), claims=(a_claim("claimed", slots(0, 1, gpus=2), grace_until=NOW + 200),)
    )
    assert started(decide(snapshot, Policy())) == ["short"]


def test_what_of_a_limit_jobs_hold_that_are_being_stopped_is_told() -> None:
    """Who reads that all is held reads, too, what of it will be there. Planted: not told."""
    runs = [
        *running(("a1", 6, None)),
        a_victim("a2", "o/a", slots(1, 1, gpus=2), of="claimed", grace_until=NOW + 200),
    ]
    claimed = a_queued("claimed", "o/a", gpus=2, submitted_at=NOW - 5_000)
    claim = a_claim("claimed", slots(0, 1, gpus=2), grace_until=NOW + 200)
    snapshot = replace(a_team(runs, [claimed, small("j", None)]), claims=(claim,))
    found = why(decide(snapshot, Policy()), "j")
    told = {name: found.numbers[f"{name}_mgpu"] // GPU for name in ("held", "leaving", "limit")}
    assert (found.code, told) == (
        Code.BORROW_LIMIT_REACHED,
        {"held": 8, "leaving": 2, "limit": 8},
    )


def test_nothing_is_kept_in_a_pool_where_a_job_holds_no_reservations() -> None:
    """It accepts two pools and waits for the other one."""
    there = replace(big(), pool="a100", others=(OtherPool("h100"),))
    beta = {"cluster": "beta", "pool": "a100"}
    on_beta = slots(0, 1, gpus=4, cluster="beta")
    snapshot = a_team(
        [*running(("a1", 4, 300)), a_running("a2", "o/a", on_beta, **beta)],  # type: ignore[arg-type]
        [there, small("endless", None)],
    )
    quotas = [a_quota(node, 8, borrow=0, pool="a100") for node in ("o", "o/a")]
    plan = decide(
        replace(
            snapshot,
            quotas=(*snapshot.quotas, *quotas),
            devices=(*snapshot.devices, *devices(1, **beta)),
            clusters=frozenset(("alpha", "beta")),
        ),
        Policy(),
    )
    assert started(plan) == ["endless"]


def a_stream(policy: Policy, *, capped: int | None, until_s: int) -> int | None:
    """After how many seconds a job starts that needs all that its team may use among a stream of
    jobs of the team of one GPU that run for their whole limit of 300 to 900 s; None when it still
    waits. There are enough GPUs."""
    limit = {"capped": capped, "borrow": None} if capped is not None else {}
    world = World(a_team([], [big(4)], guaranteed=4, **limit), policy)  # type: ignore[arg-type]
    world.running = {
        run.job: run for run in running(*((f"a{i}", 1, 300 + 100 * i) for i in range(4)))
    }
    number = 0
    while world.now < NOW + until_s:
        for run in list(world.running.values()):
            if run.time_limit_s is not None and run.started_at + run.time_limit_s <= world.now:
                world.leave(run.job)
        while len(world.queued) < 6:
            limit_s = 300 + number * 50 % 600
            world.submit(small(f"j{number:04d}", limit_s, submitted_at=world.now))
            number += 1
        if "big" in started(world.step()):
            return world.now - NOW
        world.now += 10
    return None


def test_an_end_that_nobody_knows_keeps_nobody_of_the_team_waiting() -> None:
    """What is stopped nobody knows when, or belongs to nodes below, counts and never goes. Planted:
    it is not counted, so that there seemed to be room at 300."""
    ending = running(("a2", 2, 300))
    for more in ({}, {"grace_until": NOW - 5_000}):
        stuck = running(("a1", 3, None), phase=Phase.STOPPING, **more)
        assert started(plan_of_team([*stuck, *ending], [big(8), small("j", 301)])) == ["j"]
    runs = [*running(("b1", 3, None)), *running(("a2", 2, 300), team="o")]
    jobs = [replace(big(8), team="o"), replace(small("j", 301), team="o")]
    snapshot = replace(a_team(runs, jobs), quotas=(a_quota("o", 8, borrow=0),))
    assert started(decide(snapshot, Policy())) == ["j"]


def test_where_a_job_needs_the_limit_and_the_cap_room_is_kept_in_both() -> None:
    """Planted: in the one that refused it."""
    # The limit refuses it, and its class has room for it and for one more.
    runs = running(("l1", 5, 300), priority="low", team="o/a")
    jobs = [big(4), small("two", None, gpus=2), small("one", None)]
    assert started(plan_of_team(runs, jobs, capped=5)) == ["one"]
    # Its class refuses it, and the limit has room for it and for one more.
    runs = running(("n1", 4, 300), team="o/a")
    jobs = [big(5), small("low3", None, gpus=3, priority="low"), small("low", None, priority="low")]
    assert started(plan_of_team(runs, jobs, capped=5)) == ["low"]
    # The cap has room at 200, the guarantee at 500.
    runs = [
        *running(("n1", 2, 200), team="o/a"),
        *running(("h1", 3, 500), priority="high", team="o/a"),
    ]
    jobs = [big(3), small("long", 501), small("short", 500)]
    assert started(plan_of_team(runs, jobs, capped=3, guaranteed=5, borrow=1)) == ["short"]


def test_nothing_is_kept_for_who_has_no_place() -> None:
    """Eight GPUs of one node, where others' protected ones are in the way: free, lent and own GPUs
    together are not enough. Planted: not looked at."""
    quotas = a_quota("o", 16), a_quota("o/a", 8, borrow=0), a_quota("o/b", 8)
    for guaranteed, starts in ((8, ["j"]), (0, [])):
        runs = [
            *running(("a1", 4, 300), ("b1", 1, None)),
            a_running("b2", "o/b", slots(1, 1, gpus=1)),
        ]
        snapshot = a_team(runs, [big(), small("j", 301)])
        with_b = (*quotas[:2], a_quota("o/b", guaranteed))
        assert started(decide(replace(snapshot, quotas=with_b), Policy())) == starts
    # Nor has it any on a cluster that accepts nothing now.
    on_beta = slots(1, 1, cluster="beta")
    runs = [*running(("a1", 4, 300)), a_running("b1", "o/b", on_beta, cluster="beta")]
    snapshot = a_team(runs, [big(4, nodes=2), small("j", 301)], nodes=1)
    fleet = (*snapshot.devices, *devices(2, cluster="beta"))
    snapshot = replace(snapshot, quotas=quotas, devices=fleet, clusters=frozenset(["beta"]))
    assert started(decide(snapshot, Policy())) == ["j"]
    # What ends by then is free, and what is lent beside its own team's can be taken back. Planted:
    # only one of them counts.
    for runs in ((("a1", 4, 300),), (("a1", 4, 300), ("b1", 2, None))):
        plan = plan_of_team(running(*runs), [big(), small("j", 301)], nodes=1)
        assert (started(plan), plan.reclaims) == ([], ())


def test_who_takes_the_place_of_its_own_team_may_take_it_for_as_long() -> None:
    """Where low holds two GPUs without an end another job may hold as many; where it is gone before
    the first could start, it may not. Planted: no claims of the team; all victims make room; nobody
    looks whom it is that goes."""
    fill = a_running("b1", "o/b", slots(1, 1), started_at=NOW)
    quotas = a_quota("o", 24), a_quota("o/a", 6, borrow=0), a_quota("o/b", 16)
    for left_s, gpus, claims in ((None, 4, [("h2", ["low"])]), (200, 5, [])):
        runs = [
            *running(("h1", 4, 300), priority="high", team="o/a"),
            *running(("low", 2, left_s), priority="low", team="o/a"),
            *running(("b2", 2, None)),
            fill,
        ]
        queued = [big(gpus, priority="high"), small("h2", None, gpus=2, priority="high")]
        plan = decide(replace(a_team(runs, queued), quotas=quotas), Policy())
        assert [(claim.job, victims(plan)) for claim in plan.reclaims] == claims


@pytest.mark.parametrize("capped", [None, 4])
def test_a_stream_of_its_own_team_does_not_starve_a_large_job(capped: int | None) -> None:
    """The bound is that of reservations: the longest limit of what runs when it is first in line,
    and a cycle. Where ends are not looked at, it waits for as long as the stream goes on."""
    assert a_stream(Policy(reservation_horizon_s=0), capped=capped, until_s=20_000) is None
    assert a_stream(Policy(), capped=capped, until_s=20_000) == 600


@pytest.mark.parametrize("limit_s", [900, 3_600, None])
@pytest.mark.parametrize("ends_s", [3_600, 1_800])
def test_a_stream_of_its_own_team_delays_nobody_beyond_a_known_end(
    ends_s: int, limit_s: int | None
) -> None:
    """`y` waits for a node that is free in an hour by the limit of what runs, or sooner, behind
    `x`, which waits for one of another kind for a day; nobody holds a reservation. Each five
    minutes three small jobs of the team come, which would fill its guarantee.

    Planted: a place for the first of a team alone. `y` waited as long as `x`.
    """
    x, y, *plain = devices(4, gpus=4)
    world = World(
        a_snapshot(
            quotas={"o": 16, "o/a": 8, "o/f": 8},
            devices=[
                replace(x, features=frozenset("x")),
                replace(y, features=frozenset("y")),
                *plain,
            ],
            running=[
                a_running("fx", "o/f", slots(0, 1, gpus=4), started_at=NOW, time_limit_s=86_400),
                a_running("fy", "o/f", slots(1, 1, gpus=4), started_at=NOW, time_limit_s=3_600),
            ],
            queued=[
                replace(
                    a_queued(kind, "o/a", gpus=4, submitted_at=NOW - age), features=frozenset(kind)
                )
                for kind, age in (("x", 900), ("y", 800))
            ],
        ),
        Policy(reservations_max=0),
    )
    for now in range(NOW, NOW + 7_200, 300):
        for run in list(world.running.values()):
            limit = ends_s if run.job == "fy" else run.time_limit_s
            if limit is not None and run.started_at + limit <= now:
                world.leave(run.job)
        for name in "123":
            job = a_queued(f"s{now}.{name}", "o/a", submitted_at=now, time_limit_s=limit_s)
            world.submit(job)
        if "y" in [start.job for start in world.step(now).starts]:
            break
    assert now - NOW == ends_s

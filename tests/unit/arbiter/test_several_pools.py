"""Jobs that accept several pools, case by case (R-50 to R-52)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from arbiter.api.plan import Code, Plan
from arbiter.api.policy import Policy
from arbiter.api.snapshot import Claim, Device, OtherPool, QueuedJob, Snapshot
from arbiter.cycle.decide import decide
from arbiter.cycle.scheduler import Core
from builders.arbiter_builders import (
    GPU,
    NOW,
    a_queued,
    a_quota,
    a_running,
    a_snapshot,
    a_victim,
    devices,
    slots,
)


def _world(
    *queued: QueuedJob, gpus: tuple[int, int] = (8, 8), guaranteed: int = 8, **more: object
) -> Snapshot:
    """Pools h100 on alpha and a100 on beta, one node each, and teams x and y with equal quotas."""
    return a_snapshot(
        quotas=[
            a_quota(node, guaranteed if "/" in node else 2 * guaranteed, pool=pool)
            for pool in ("h100", "a100")
            for node in ("o", "o/x", "o/y")
        ],
        devices=[
            *devices(1, gpus=gpus[0]),
            *devices(1, gpus=gpus[1], cluster="beta", pool="a100"),
        ],
        queued=queued,
        **more,  # type: ignore[arg-type]
    )


def _starts(plan: Plan) -> dict[str, str | None]:
    return {start.job: start.pool for start in plan.starts}


def test_it_starts_in_the_pool_that_it_names_first() -> None:
    first = a_queued("1", "o/x", others=["a100"])
    second = a_queued("2", "o/x", pool="a100", others=["h100"])
    assert _starts(decide(_world(first, second), Policy())) == {"1": "h100", "2": "a100"}


def test_two_that_each_come_first_where_the_other_would_rather_be_both_get_their_wish() -> None:
    first = a_queued("1", "o/x", gpus=8, pool="a100", others=["h100"])
    second = a_queued("2", "o/x", gpus=8, others=["a100"], submitted_at=NOW - 50)
    ahead = a_queued("0", "o/x", gpus=8, others=["a100"], submitted_at=NOW - 300)
    assert _starts(decide(_world(first, second), Policy())) == {"1": "a100", "2": "h100"}
    plan = decide(_world(first, second, ahead), Policy())
    assert _starts(plan) == {"0": "h100", "1": "a100"}


def test_it_does_not_wait_for_the_pool_that_it_likes_best() -> None:
    snapshot = _world(
        a_queued("1", "o/x", gpus=8, others=["a100"]),
        running=[a_running("r", "o/y", slots(0, 1))],
        guaranteed=4,
    )
    assert _starts(decide(snapshot, Policy())) == {"1": "a100"}


def test_a_start_in_a_later_pool_goes_before_taking_back_in_an_earlier_one() -> None:
    """Both in the same cycle: nobody is stopped for whom there is room elsewhere."""
    running = [a_running("r", "o/x", slots(0, 1))]
    snapshot = _world(a_queued("1", "o/y", gpus=4, others=["a100"]), running=running, guaranteed=4)
    plan = decide(snapshot, Policy())
    assert (_starts(plan), plan.reclaims) == ({"1": "a100"}, ())
    alone = replace(snapshot, queued=(a_queued("1", "o/y", gpus=4),))
    assert [one.job for one in decide(alone, Policy()).reclaims] == ["1"]


def test_gpus_are_taken_back_in_the_first_pool_that_owes_them() -> None:
    beta = slots(0, 1, cluster="beta")
    snapshot = _world(
        a_queued("1", "o/y", gpus=4, others=["a100"]),
        running=[
            a_running("r", "o/x", slots(0, 1)),
            a_running("s", "o/x", beta, cluster="beta", pool="a100"),
        ],
        guaranteed=4,
    )
    plan = decide(snapshot, Policy())
    assert [(one.job, one.pool, one.cluster) for one in plan.reclaims] == [("1", "h100", "alpha")]
    (told,) = plan.waiting
    assert (told.code, told.pool, told.elsewhere) == (Code.WAITING_FOR_RECLAIM, "h100", ())


def test_who_waits_for_gpus_that_are_being_given_back_stands_in_no_other_line() -> None:
    snapshot = _world(
        a_queued("1", "o/y", gpus=8, others=["a100"]),
        running=[a_victim("r", "o/x", slots(0, 1), of="1")],
        claims=[Claim("1", "alpha", slots(0, 1), NOW + 300, NOW - 10, "h100")],
    )
    plan = decide(snapshot, Policy())
    assert (plan.starts, plan.dropped_claims) == ((), ())
    assert [(one.pool, one.elsewhere) for one in plan.waiting] == [("h100", ())]
    gone = replace(snapshot, clusters=frozenset({"beta"}))
    plan = decide(gone, Policy())
    assert (_starts(plan), plan.dropped_claims) == ({"1": "a100"}, ("1",))


def test_who_loses_its_claim_takes_nothing_back_elsewhere_in_the_same_cycle() -> None:
    """As in one pool: whoever stores the plan drops claims and makes others, one of each job."""
    beta = slots(0, 1, cluster="beta")
    snapshot = _world(
        a_queued("1", "o/y", gpus=4, others=["a100"]),
        running=[a_running("s", "o/x", beta, cluster="beta", pool="a100")],
        claims=[Claim("1", "alpha", slots(0, 1, gpus=4), NOW + 300, NOW - 10, "h100")],
        guaranteed=4,
        clusters=["beta"],
    )
    plan = decide(snapshot, Policy())
    assert (plan.starts, plan.reclaims, plan.dropped_claims) == ((), (), ("1",))
    plan = decide(replace(snapshot, claims=()), Policy())
    assert [(one.job, one.pool) for one in plan.reclaims] == [("1", "a100")]


def test_a_claim_is_in_the_pool_that_it_names() -> None:
    beta = slots(0, 1, cluster="beta")
    snapshot = _world(
        a_queued("1", "o/y", gpus=8, others=["a100"]),
        running=[a_victim("r", "o/x", beta, of="1", cluster="beta", pool="a100")],
        claims=[Claim("1", "beta", beta, NOW + 300, NOW - 10, "a100")],
    )
    plan = decide(snapshot, Policy())
    assert (plan.starts, plan.dropped_claims) == ((), ())
    assert [one.pool for one in plan.waiting] == ["a100"]


def test_who_started_elsewhere_keeps_no_place_in_the_guarantee_of_its_team() -> None:
    """Three of the eight GPUs of its first pool are broken: it starts in the second, and what is
    behind it in the first starts there."""
    snapshot = _world(
        a_queued("1", "o/x", gpus=8, others=["a100"]),
        a_queued("2", "o/x", gpus=5, submitted_at=NOW - 50),
        gpus=(5, 8),
        running=[],
    )
    drained = Device("alpha", "alpha-001", "h100", 0)
    whole = Device("gamma", "gamma-000", "h100", 8 * GPU)
    for more in (drained, whole):
        plan = decide(
            replace(
                snapshot,
                devices=(*snapshot.devices, more),
                clusters=frozenset({"alpha", "beta"}),
            ),
            Policy(),
        )
        assert _starts(plan) == {"1": "a100", "2": None}


def test_it_reserves_in_one_pool_only() -> None:
    beta = slots(0, 1, cluster="beta")
    snapshot = _world(
        a_queued("1", "o/x", gpus=8, others=["a100"]),
        running=[
            a_running("r", "o/x", slots(0, 1), time_limit_s=1_000),
            a_running("s", "o/x", beta, cluster="beta", pool="a100", time_limit_s=500),
        ],
        guaranteed=16,
    )
    plan = decide(snapshot, Policy())
    assert [(one.job, one.pool) for one in plan.reservations] == [("1", "h100")]
    (told,) = plan.waiting
    assert (told.pool, told.latest) == ("h100", NOW + 950)
    assert [(one.pool, one.jobs_ahead) for one in told.elsewhere] == [("a100", 0)]


def test_it_reserves_in_the_first_pool_that_could_ever_hold_it() -> None:
    beta = slots(0, 1, cluster="beta")
    snapshot = _world(
        a_queued("1", "o/x", gpus=8, others=["a100"]),
        gpus=(4, 8),
        running=[a_running("s", "o/x", beta, cluster="beta", pool="a100", time_limit_s=500)],
        guaranteed=16,
    )
    plan = decide(snapshot, Policy())
    assert [(one.job, one.pool) for one in plan.reservations] == [("1", "a100")]
    (told,) = plan.waiting
    assert (told.pool, told.latest) == ("a100", NOW + 450)
    assert [(one.pool, one.code) for one in told.elsewhere] == [("h100", Code.NEVER_FITS)]


def test_where_it_reserves_does_not_depend_on_who_is_like_it_there_alone() -> None:
    """All of the second pool has what one job asks for, so both are of one shape there; nothing of
    the first has, so that one reserves in the second, whoever was queued before.

    Planted: jobs that are of one shape in a pool, and accept the same pools, are of one class.
    """
    beta = slots(0, 1, cluster="beta")
    plain = a_queued("1", "o/x", gpus=8, others=["a100"], submitted_at=NOW - 90)
    wishing = replace(plain, id="2", features=frozenset({"ib"}), submitted_at=NOW - 80)
    snapshot = _world(
        plain,
        wishing,
        running=[
            a_running("r", "o/x", slots(0, 1), time_limit_s=1_000),
            a_running("s", "o/x", beta, cluster="beta", pool="a100", time_limit_s=500),
        ],
        guaranteed=24,
    )
    a100 = replace(snapshot.devices[1], features=frozenset({"ib"}))
    snapshot = replace(snapshot, devices=(snapshot.devices[0], a100))
    for queued in (snapshot.queued, snapshot.queued[::-1]):
        plan = decide(replace(snapshot, queued=queued), Policy())
        reserved = {(one.job, one.pool) for one in plan.reservations}
        assert reserved == {("1", "h100"), ("2", "a100")}


def test_each_pool_has_its_own_clusters() -> None:
    job = replace(
        a_queued("1", "o/x", cluster="beta"), others=(OtherPool("a100", frozenset({"beta"})),)
    )
    assert _starts(decide(_world(job), Policy())) == {"1": "a100"}


def test_one_pool_in_the_list_is_the_pool() -> None:
    """Whatever the name: nothing else says that it is the only one."""
    plan = decide(_world(a_queued("1", "o/x")), Policy())
    assert [(start.job, start.pool) for start in plan.starts] == [("1", None)]


def test_the_limit_of_starts_is_for_all_pools_whatever_is_decided_anew() -> None:
    jobs = [a_queued(str(i), "o/x", pool="a100", others=["h100"]) for i in range(3)]
    jobs += [a_queued(f"{i}", "o/x", others=["a100"]) for i in range(3, 6)]
    plan = decide(_world(*jobs), Policy(starts_max=4))
    assert _starts(plan) == {"0": "a100", "1": "a100", "3": "h100", "4": "h100"}


def test_where_the_limit_of_starts_binds_it_still_starts_in_a_later_pool() -> None:
    snapshot = _world(
        a_queued("0", "o/x"),
        a_queued("1", "o/x", gpus=8, others=["a100"], submitted_at=NOW - 500),
        running=[a_running("r", "o/x", slots(0, 1, gpus=4))],
    )
    assert _starts(decide(snapshot, Policy())) == {"0": None, "1": "a100"}
    assert _starts(decide(snapshot, Policy(starts_max=1))) == {"1": "a100"}


def test_a_claim_that_is_given_up_where_the_limit_of_starts_binds_is_told_of() -> None:
    """Else it would be kept beside the claim that was made on the same GPUs.

    Planted: who stands in one pool only stands in its first one, whatever it claims in another.
    """
    beta = slots(0, 1, cluster="beta")
    snapshot = a_snapshot(
        quotas=[
            a_quota(node, gpus, pool=pool)
            for pool in ("h100", "a100")
            for node, gpus in (("o", 16), ("o/x", 0), ("o/y", 16))
        ],
        devices=[*devices(1), *devices(2, cluster="beta", pool="a100")],
        running=[
            a_victim("v", "o/x", beta, of="1", cluster="beta", pool="a100"),
            a_running("r", "o/y", slots(1, 1, gpus=7, cluster="beta"), cluster="beta", pool="a100"),
            a_running("s", "o/y", slots(0, 1, gpus=7)),
        ],
        queued=[
            a_queued("1", "o/x", gpus=8, others=["a100"]),
            a_queued("2", "o/y", gpus=8, pool="a100"),
            a_queued("3", "o/y", pool="a100"),
            a_queued("4", "o/y"),
        ],
        claims=[Claim("1", "beta", beta, NOW + 300, NOW - 10, "a100")],
    )
    for starts_max, started in ((2, ["3", "4"]), (1, ["3"])):
        plan = decide(snapshot, Policy(starts_max=starts_max))
        assert [one.job for one in plan.starts] == started
        assert ([one.job for one in plan.reclaims], plan.dropped_claims) == (["2"], ("1",))


def test_a_pool_named_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="job 1 names a pool twice"):
        Core.of(_world(a_queued("1", "o/x", others=["h100"])), Policy())


def test_rounds_that_do_not_end_leave_each_job_in_one_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("arbiter.cycle.multi_pool.ROUNDS_MAX", 1)
    first = a_queued("1", "o/x", gpus=8, others=["a100"])
    second = a_queued("2", "o/x", gpus=8, others=["a100"], submitted_at=NOW - 50)
    plan = decide(_world(first, second), Policy())
    assert _starts(plan) == {"1": "h100"}
    assert [(one.job, one.pool, one.elsewhere) for one in plan.waiting] == [("2", "h100", ())]


def test_a_line_goes_on_when_the_job_that_opened_it_is_gone() -> None:
    """Planted: the cycle asks where the first of the line could start, which is not there any
    more; it failed with a KeyError."""
    running = [
        a_running("r", "o/y", slots(0, 1)),
        a_running("s", "o/y", slots(0, 1, cluster="beta"), cluster="beta", pool="a100"),
    ]
    jobs = [a_queued(name, "o/x", gpus=8, others=["a100"]) for name in "12"]
    snapshot = _world(*jobs, running=running)
    core = Core.of(snapshot, Policy())
    core.cycle(NOW)
    core.withdraw("1")
    assert core.cycle(NOW) == decide(replace(snapshot, queued=(jobs[1],)), Policy())


def test_jobs_with_other_first_pools_are_of_different_kinds_in_a_later_one() -> None:
    """Planted: only what comes after the first counts; who could start in no other pool was taken
    for one that could, and got no place in the last one."""
    pools = {"h100": 4, "a100": 8, "v100": 8, "b200": 4}
    snapshot = a_snapshot(
        quotas=[a_quota(node, 8, pool=pool) for pool in pools for node in ("o", "o/x")],
        devices=[
            one
            for pool, gpus in pools.items()
            for one in devices(1, gpus=gpus, cluster=pool, pool=pool)
        ],
        running=[
            a_running(
                pool,
                "o/x",
                slots(0, 1, cluster=pool),
                cluster=pool,
                pool=pool,
                time_limit_s=3_600,
            )
            for pool in ("a100", "v100")
        ],
        queued=[
            a_queued("wide", "o/x", gpus=8, pool="a100", others=["b200", "v100"]),
            a_queued("only", "o/x", gpus=8, others=["b200", "v100"], submitted_at=NOW - 50),
        ],
    )
    reserved = [(one.job, one.pool) for one in decide(snapshot, Policy()).reservations]
    assert reserved == [("wide", "a100"), ("only", "v100")]


def test_a_cycle_at_its_bound_leaves_a_job_its_reservation_in_its_second_pool() -> None:
    """It waits for all of a100, never fits in h100, and the other would hold what is reserved.

    Found by an attack: it stood in the first pool that it names, was told that it never fits, and
    others took what was reserved for it. Planted: who is served nowhere stands in its first pool.
    """
    jobs = [a_queued(f"s{at}", "o/x", submitted_at=NOW - 500 + at) for at in range(3)]
    both = a_queued("both", "o/x", gpus=8, others=["a100"], submitted_at=NOW - 100)
    later = a_queued("later", "o/x", gpus=4, pool="a100", submitted_at=NOW - 10)
    running = a_running(
        "r",
        "o/x",
        slots(0, 1, gpus=4, cluster="beta"),
        cluster="beta",
        pool="a100",
        time_limit_s=150,
    )
    snapshot = _world(*jobs, both, later, gpus=(4, 8), guaranteed=16, running=[running])
    for starts_max, started in ((1, {"s0"}), (2, {"s0", "s1"}), (100, {"s0", "s1", "s2"})):
        plan = decide(snapshot, Policy(starts_max=starts_max))
        assert set(_starts(plan)) == started
        assert [(one.job, one.pool) for one in plan.reservations] == [("both", "a100")]
        assert next(one for one in plan.waiting if one.job == "both").pool == "a100"


def test_pools_do_as_much_as_each_other_in_a_cycle_at_its_bound() -> None:
    """Planted: what may start is dealt out in the order of the pools' names; what is left over is
    not dealt out."""
    jobs = [
        a_queued(f"{pool}{at}", "o/x", pool=pool, submitted_at=NOW - 100 + at + 10 * (pool > "b"))
        for pool in ("a100", "h100")
        for at in range(4 if pool == "a100" else 2)
    ]
    for starts_max, started in (
        (1, {"a1000"}),
        (2, {"a1000", "h1000"}),
        (3, {"a1000", "a1001", "h1000"}),
        (5, {"a1000", "a1001", "a1002", "h1000", "h1001"}),
    ):
        assert set(_starts(decide(_world(*jobs), Policy(starts_max=starts_max)))) == started

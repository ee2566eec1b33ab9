"""Elastic jobs: the size with which they start, and what they take nothing of (R-47 to R-49)."""

from __future__ import annotations

from dataclasses import replace

from arbiter.api.plan import Code, Plan
from arbiter.api.policy import Policy
from arbiter.api.snapshot import Domains, Level, PriorityClass, QueuedJob, Snapshot
from arbiter.cycle.decide import decide
from builders.arbiter_builders import (
    CLASSES,
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


def elastic(id: str, team: str, least: int, most: int, **more: object) -> QueuedJob:
    """A job of `least` to `most` nodes of 8 GPUs, or of `gpus` each."""
    fields: dict[str, object] = {"gpus": 8, **more}
    return replace(a_queued(id, team, nodes=least, **fields), node_count_max=most)  # type: ignore[arg-type]


def sizes(plan: Plan) -> dict[str, int]:
    return {start.job: len(start.slots) for start in plan.starts}


def decided(snapshot: Snapshot, policy: Policy | None = None) -> dict[str, int]:
    return sizes(decide(snapshot, policy or Policy()))


def test_it_starts_with_all_that_is_free_up_to_its_most() -> None:
    for free, granted in ((1, 0), (2, 2), (3, 3), (4, 4), (5, 4)):
        plan = decide(
            a_snapshot(
                quotas={"o": 8 * free, "o/t": 8 * free},
                devices=devices(free),
                queued=[elastic("e", "o/t", 2, 4)],
            ),
            Policy(),
        )
        assert sizes(plan).get("e", 0) == granted
        assert all(slot.mgpu == 8 * GPU for start in plan.starts for slot in start.slots)


def test_it_is_granted_no_more_than_quota_allows() -> None:
    quotas = [a_quota("o", 64), a_quota("o/t", 16, borrow=11)]
    snapshot = a_snapshot(quotas=quotas, devices=devices(8), queued=[elastic("e", "o/t", 1, 8)])
    assert decided(snapshot) == {"e": 3}


def test_it_is_granted_no_more_than_its_class_lets_the_team_have() -> None:
    capped = [*CLASSES[:2], PriorityClass("normal", 10, team_cap_mgpu=30 * GPU), CLASSES[3]]
    for guaranteed in (64, 0):
        snapshot = a_snapshot(
            quotas={"o": 64, "o/t": guaranteed},
            devices=devices(8),
            queued=[elastic("e", "o/t", 1, 8)],
            classes=capped,
        )
        assert decided(snapshot) == {"e": 3}


def test_within_its_teams_guarantee_it_goes_before_who_borrows() -> None:
    snapshot = a_snapshot(
        quotas={"o": 32, "o/a": 24, "o/b": 0},
        devices=devices(4),
        queued=[
            elastic("e", "o/a", 1, 4),
            *(a_queued(f"b{i}", "o/b", gpus=8, submitted_at=NOW - 900) for i in range(4)),
        ],
    )
    assert decided(snapshot) == {"e": 3, "b0": 1}


def test_beyond_it_every_job_that_can_start_goes_first_whatever_its_rank() -> None:
    snapshot = a_snapshot(
        quotas={"o": 32, "o/a": 8, "o/b": 0},
        devices=devices(4),
        queued=[
            elastic("e", "o/a", 1, 4),
            *(a_queued(f"b{i}", "o/b", gpus=8) for i in range(2)),
        ],
        ranks={"o/a": 9},
    )
    assert decided(snapshot) == {"e": 2, "b0": 1, "b1": 1}


def test_what_is_left_over_goes_in_the_order_of_service() -> None:
    for first in ("o/a", "o/b"):
        snapshot = a_snapshot(
            quotas={"o": 48, "o/a": 0, "o/b": 0},
            devices=devices(6),
            queued=[elastic("a", "o/a", 1, 4), elastic("b", "o/b", 1, 4)],
            ranks={first: 1},
        )
        other = "b" if first == "o/a" else "a"
        assert decided(snapshot) == {first[-1]: 4, other: 2}


def test_gpus_are_taken_back_for_its_least_only() -> None:
    world = World(
        a_snapshot(
            quotas={"o": 32, "o/a": 32, "o/b": 0},
            devices=devices(4),
            running=[a_running(f"v{i}", "o/b", slots(i, 1)) for i in range(4)],
            queued=[elastic("e", "o/a", 2, 4)],
        )
    )
    plan = world.step()
    (reclaim,) = plan.reclaims
    assert len(reclaim.slots) == len(reclaim.victims) == 2
    assert world.waiting("e").numbers["need_mgpu"] == 16 * GPU
    for victim in reclaim.victims:
        world.leave(victim.job)
    other = next(job for job in world.running if world.running[job].beneficiary is None)
    world.leave(other)
    # What has become free besides by then it gets, too.
    assert sizes(world.step()) == {"e": 3}


def test_it_never_fits_only_if_its_least_does_not() -> None:
    snapshot = a_snapshot(
        quotas={"o": 16, "o/t": 16},
        devices=devices(2),
        queued=[elastic("e", "o/t", 1, 99), elastic("never", "o/t", 3, 99)],
    )
    plan = decide(snapshot, Policy())
    assert sizes(plan) == {"e": 2}
    assert [(one.job, one.code, one.numbers["need_mgpu"]) for one in plan.waiting] == [
        ("never", Code.NEVER_FITS, 24 * GPU)
    ]


def test_it_leaves_the_place_of_a_blocked_job_of_its_own_team_alone() -> None:
    """The gang of two is before it and fits the team's guarantee, but needs nodes of 16."""
    snapshot = a_snapshot(
        quotas={"o": 48, "o/a": 32, "o/b": 0},
        devices=(*devices(6), *devices(1, gpus=16, cluster="big")),
        running=[a_running("r", "o/b", slots(0, 1, gpus=16, cluster="big"), cluster="big")],
        queued=[
            a_queued("first", "o/a", gpus=16, submitted_at=NOW - 500),
            elastic("e", "o/a", 1, 6, cluster="alpha"),
        ],
    )
    plan = decide(snapshot, Policy(reclaims_max=0))
    assert sizes(plan) == {"e": 2}


def test_it_takes_nothing_that_is_reserved_however_short_it_runs() -> None:
    running = [a_running("long", "o/b", slots(0, 2), started_at=NOW - 50, time_limit_s=3_600)]
    queued = [
        a_queued("gang", "o/a", nodes=4, gpus=8, submitted_at=NOW - 500),
        elastic("e", "o/c", 1, 2, time_limit_s=600),
    ]
    snapshot = a_snapshot(
        quotas={"o": 32, "o/a": 0, "o/b": 0, "o/c": 0},
        devices=devices(4),
        running=running,
        queued=queued,
    )
    assert decided(snapshot) == {"e": 1}
    assert decided(replace(snapshot, queued=tuple(queued[1:]))) == {"e": 2}


def test_what_is_reserved_behind_it_is_known_without_explanations_too() -> None:
    """Mutant that dies here: without explanations the cycle ends although a start could grow, when
    nobody else can start any more."""
    snapshot = a_snapshot(
        quotas={"o": 32, "o/a": 0, "o/b": 0, "o/c": 0},
        devices=devices(4),
        running=[a_running("long", "o/b", slots(0, 2), started_at=NOW - 50, time_limit_s=3_600)],
        queued=[
            elastic("e", "o/c", 1, 2, time_limit_s=600, submitted_at=NOW - 900),
            a_queued("gang", "o/a", nodes=4, gpus=8),
        ],
        ranks={"o/c": 1},
    )
    for explains in (True, False):
        assert sizes(decide(snapshot, Policy(), explains=explains)) == {"e": 1}


def test_it_gets_nothing_more_while_others_wait_at_whom_nobody_looked() -> None:
    snapshot = a_snapshot(
        quotas={"o": 32, "o/a": 0, "o/b": 0},
        devices=devices(4),
        queued=[elastic("e", "o/a", 1, 4, submitted_at=NOW - 900), a_queued("b", "o/b", gpus=8)],
    )
    assert decided(snapshot, Policy(starts_max=1)) == {"e": 1}
    assert decided(snapshot) == {"e": 3, "b": 1}


def test_its_further_nodes_are_in_the_domain_that_it_requires() -> None:
    racks = ["r", "s", "s", "s", "r"]
    fleet = tuple(
        replace(device, domains=Domains(rack=rack))
        for device, rack in zip(devices(5), racks, strict=True)
    )
    job = replace(elastic("e", "o/t", 2, 5), required_topology=Level.RACK)
    # What is guaranteed is looked for as a whole; what is left over is added to the least, which
    # has been put where it leaves the larger domain whole.
    for guaranteed, rack, granted in ((40, "s", 3), (0, "r", 2)):
        snapshot = a_snapshot(quotas={"o": 40, "o/t": guaranteed}, devices=fleet, queued=[job])
        (start,) = decide(snapshot, Policy()).starts
        assert [racks[int(slot.node[-1])] for slot in start.slots] == [rack] * granted


def test_near_nodes_come_first_where_it_prefers_them() -> None:
    racks = ["r", "s", "s", "s"]
    fleet = tuple(
        replace(device, domains=Domains(rack=rack))
        for device, rack in zip(devices(4), racks, strict=True)
    )
    job = replace(elastic("e", "o/t", 2, 3), preferred_topology=Level.RACK)
    snapshot = a_snapshot(quotas={"o": 40, "o/t": 0}, devices=fleet, queued=[job])
    (start,) = decide(snapshot, Policy()).starts
    assert [slot.node for slot in start.slots] == ["alpha-001", "alpha-002", "alpha-003"]


def test_it_counts_as_what_it_was_granted() -> None:
    world = World(
        a_snapshot(
            quotas={"o": 32, "o/t": 16},
            devices=devices(4),
            queued=[elastic("e", "o/t", 1, 3)],
        )
    )
    plan = world.step()
    (start,) = plan.starts
    assert (len(start.slots), start.guaranteed_mgpu) == (3, 16 * GPU)
    assert world.use("o/t").in_use_mgpu == 24 * GPU
    world.step()
    # Protected is a job as a whole or not at all.
    assert world.use("o/t").protected_mgpu == 0


def test_nobody_grows_while_somebody_may_not_ask_back_what_is_guaranteed() -> None:
    """Planted: growth as long as jobs may start, which is stopped whole a cycle later."""
    running = [
        a_running(f"v{node}", team, slots(node, 1, gpus=4), started_at=NOW - 9_000)
        for node, team in enumerate(("e/t", "b/t", "b/t"))
    ]
    snapshot = a_snapshot(
        quotas={"a": 16, "a/t": 16, "b": 0, "b/t": 0, "e": 8, "e/t": 8},
        devices=devices(3),
        running=running,
        queued=[
            a_queued("first", "a/t", gpus=8),
            a_queued("second", "a/t", gpus=8, submitted_at=NOW - 90),
            elastic("e", "e/t", 1, 3, gpus=4, submitted_at=NOW - 10),
        ],
    )
    world = World(snapshot, Policy(reclaims_max=1))
    plan = world.step()
    assert sizes(plan) == {"e": 1}
    asked = [plan.reclaims[0], world.step().reclaims[0]]
    assert [[victim.job for victim in one.victims] for one in asked] == [["v1"], ["v2"]]

"""Jobs that ask for a rack, a block or an NVLink domain: where they start, and why they wait
(R-42, R-43, R-87)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from arbiter.api.plan import Code, Plan, Waiting
from arbiter.api.policy import Policy
from arbiter.api.snapshot import Device, Domains, Level, QueuedJob, Slot, Snapshot
from arbiter.cycle.decide import decide
from arbiter.explain.sentences import sentence
from arbiter.placement.free_devices import FreeDevices, Place, Shape
from arbiter.placement.node_sets import NodeKinds
from arbiter.placement.topology import TopologyPlans
from builders.arbiter_builders import (
    GPU,
    NOW,
    a_claim,
    a_queued,
    a_running,
    a_snapshot,
    a_victim,
    slots,
)

NAMES = {"h100": "h100", "alpha": "alpha"}


def fleet(*places: str, cluster: str = "alpha", gpus: int = 8) -> tuple[Device, ...]:
    """One node for each "block rack nvlink", where "-" is none."""
    return tuple(
        Device(
            cluster,
            f"{cluster}-{i:03d}",
            "h100",
            gpus * GPU,
            domains=Domains(*(name.strip("-") for name in place.split())),
        )
        for i, place in enumerate(places)
    )


def required(job: QueuedJob, level: str) -> QueuedJob:
    return replace(job, required_topology=Level(level))


def preferred(job: QueuedJob, level: str) -> QueuedJob:
    return replace(job, preferred_topology=Level(level))


def decided(snapshot: Snapshot) -> Plan:
    return decide(snapshot, Policy())


def placed(plan: Plan) -> dict[str, list[int]]:
    """The numbers of the nodes on which each job starts."""
    return {start.job: [int(slot.node[-3:]) for slot in start.slots] for start in plan.starts}


def waiting(plan: Plan, job: str) -> Waiting:
    return next(one for one in plan.waiting if one.job == job)


def gang(id: str = "j", *, nodes: int = 2, gpus: int = 8, team: str = "o/t") -> QueuedJob:
    return a_queued(id, team, nodes=nodes, gpus=gpus)


# -- starts -------------------------------------------------------------------------------------


def test_a_required_rack_holds_the_whole_gang() -> None:
    """Rack 2 is the smallest one that holds it; a gang without a wish takes the smallest first."""
    devices = fleet("a 1", "a 2", "a 2", "a 3", "a 1", "a 1")
    snapshot = a_snapshot(quotas={"o": 48, "o/t": 48}, devices=devices, queued=[gang()])
    assert placed(decided(snapshot)) == {"j": [1, 3]}
    asked = replace(snapshot, queued=(required(gang(), "rack"),))
    assert placed(decided(asked)) == {"j": [1, 2]}


def test_racks_of_two_blocks_that_bear_one_name_are_two() -> None:
    devices = fleet("a 1", "b 1", "b 2", "b 2")
    snapshot = a_snapshot(
        quotas={"o": 32, "o/t": 32}, devices=devices, queued=[required(gang(), "rack")]
    )
    assert placed(decided(snapshot)) == {"j": [2, 3]}


def test_an_nvlink_domain_may_reach_over_racks() -> None:
    devices = fleet("a 1 -", "a 1 x", "a 2 x", "a 2 -")
    snapshot = a_snapshot(
        quotas={"o": 32, "o/t": 32}, devices=devices, queued=[required(gang(), "nvlink")]
    )
    assert placed(decided(snapshot)) == {"j": [1, 2]}


def test_equal_racks_are_taken_of_the_smaller_block() -> None:
    devices = fleet("a 1", "a 1", "a 2", "a 2", "b 1", "b 1")
    snapshot = a_snapshot(
        quotas={"o": 48, "o/t": 48}, devices=devices, queued=[required(gang(), "rack")]
    )
    assert placed(decided(snapshot)) == {"j": [4, 5]}


def test_least_is_left_over_on_the_nodes_before_domains_are_compared() -> None:
    """Rack 1 has two half free nodes besides two free ones; rack 2 has free ones only."""
    devices = fleet("a 1", "a 1", "a 1", "a 1", "a 2", "a 2")
    snapshot = a_snapshot(
        quotas={"o": 48, "o/t": 48},
        devices=devices,
        running=[a_running("r", "o/t", slots(0, 2, gpus=4))],
        queued=[required(gang(gpus=4), "rack")],
    )
    assert placed(decided(snapshot)) == {"j": [0, 1]}


def test_one_node_is_in_one_domain_of_every_level() -> None:
    """Whatever is known of where it stands."""
    jobs = [required(gang(level, nodes=1, gpus=1), level) for level in Level]
    snapshot = a_snapshot(quotas={"o": 8, "o/t": 8}, devices=fleet("- -"), queued=jobs)
    assert len(decided(snapshot).starts) == 4


@pytest.mark.parametrize(
    ("level", "busy", "nodes"),
    [
        ("nvlink", [], [1, 2]),
        ("nvlink", [1], [0, 2]),
        ("rack", [], [3, 4]),
        ("rack", [3], [0, 1]),
        ("rack", [1, 3], [0, 2]),
        ("block", [], [5, 6]),
        ("block", [3, 5, 0, 1], [2, 4]),
        ("rack", [0, 1, 3, 5], [2, 4]),
        ("rack", [1, 3, 4, 5], [0, 2]),
    ],
)
def test_preferred_takes_the_tightest_that_has_room(
    level: str, busy: list[int], nodes: list[int]
) -> None:
    """Rack 1 (0 to 2) has an NVLink domain (1, 2), rack 2 is 3 and 4, block b is 5 and 6."""
    devices = fleet("a 1", "a 1 x", "a 1 x", "a 2", "a 2", "b 3", "b 4")
    snapshot = a_snapshot(
        quotas={"o": 56, "o/t": 56},
        devices=devices,
        running=[a_running(f"r{i}", "o/t", slots(i, 1)) for i in busy],
        queued=[preferred(gang(), level)],
    )
    assert placed(decided(snapshot)) == {"j": nodes}


def test_the_rest_of_a_gang_goes_where_it_just_fits() -> None:
    """Mutant: into the next largest block."""
    devices = fleet("a 1", "a 1", "b 1", "b 1", "b 1", "c 1")
    snapshot = a_snapshot(
        quotas={"o": 48, "o/t": 48}, devices=devices, queued=[preferred(gang(nodes=4), "block")]
    )
    assert placed(decided(snapshot)) == {"j": [2, 3, 4, 5]}


def test_preferred_starts_spread_where_nothing_is_known() -> None:
    """But rather on the cluster where it is close together."""
    snapshot = a_snapshot(
        quotas={"o": 64, "o/t": 64}, devices=fleet("- -", "- -"), queued=[preferred(gang(), "rack")]
    )
    assert placed(decided(snapshot)) == {"j": [0, 1]}
    both = replace(
        snapshot,
        devices=(*snapshot.devices, *fleet("a 1", "a 1", "a 1", cluster="beta")),
        clusters=frozenset({"alpha", "beta"}),
    )
    (start,) = decided(both).starts
    assert start.cluster == "beta"


def test_small_jobs_leave_whole_racks_and_blocks_alone() -> None:
    """Of five free nodes the one alone in its rack is opened, and then filled; then the smaller
    block's."""
    devices = fleet("a 1", "a 1", "a 2", "b 1", "b 1", "a 1")
    snapshot = a_snapshot(
        quotas={"o": 48, "o/t": 48},
        devices=devices,
        running=[a_running("r", "o/t", slots(5, 1))],
        queued=[gang(f"j{i:02d}", nodes=1, gpus=4) for i in range(5)],
    )
    found = placed(decided(snapshot))
    assert found == {"j00": [3], "j01": [3], "j02": [4], "j03": [4], "j04": [2]}


def test_the_smallest_block_is_found_anew_when_another_one_changes() -> None:
    """Mutants: what was found out of the blocks stayed when another block lost nodes, or when
    one got some back."""
    devices = fleet("a 1", "a 1", "b 1", "b 1", "b 1")
    kinds = NodeKinds(devices)
    free = FreeDevices(
        {"alpha": {device.node: 8 for device in devices}}, kinds, TopologyPlans(devices, kinds)
    )
    shape = Shape(8, 1, None, 8)
    assert free.find(shape) == Place("alpha", ("alpha-000",))
    free.take("alpha", "alpha-003", 8)
    free.take("alpha", "alpha-004", 8)
    assert free.find(shape) == Place("alpha", ("alpha-002",))
    free.take("alpha", "alpha-003", -8)
    free.take("alpha", "alpha-004", -8)
    assert free.find(shape) == Place("alpha", ("alpha-000",))
    free.take("alpha", "alpha-000", 8)
    assert free.find(shape) == Place("alpha", ("alpha-001",))


# -- waits --------------------------------------------------------------------------------------


def test_a_job_that_fits_but_in_no_one_rack_says_so() -> None:
    job = required(gang(nodes=3), "rack")
    snapshot = a_snapshot(
        quotas={"o": 48, "o/t": 48},
        devices=fleet("a 1", "a 1", "a 1", "a 2", "a 2", "a 2"),
        running=[a_running("r", "o/t", (*slots(0, 1), *slots(3, 1)), time_limit_s=500)],
        queued=[job],
    )
    reason = waiting(decided(snapshot), "j")
    assert reason.code is Code.TOPOLOGY_FRAGMENTED
    assert (reason.numbers["nodes_fitting"], reason.numbers["nodes_in_one_domain"]) == (4, 2)
    assert (reason.latest, reason.method) == (NOW + 450, "time_limits")
    assert sentence(reason, job, NAMES) == (
        "32 GPUs are free on one cluster, but scattered: it needs 3 nodes of one rack with 8 free"
        " each, and none has more than 2."
    )


def test_the_end_of_a_job_that_completes_no_rack_is_no_estimate() -> None:
    snapshot = a_snapshot(
        quotas={"o": 32, "o/t": 32},
        devices=fleet("a 1", "a 1", "a 2", "a 2"),
        running=[
            a_running("soon", "o/t", slots(0, 1), time_limit_s=100),
            a_running("late", "o/t", slots(1, 1), time_limit_s=900),
            a_running("next", "o/t", slots(2, 1), time_limit_s=300),
        ],
        queued=[required(gang(), "rack")],
    )
    assert waiting(decided(snapshot), "j").latest == NOW + 250


def test_what_no_domain_can_ever_hold_never_fits() -> None:
    jobs = [
        required(gang("rack", nodes=3), "rack"),
        required(gang("link", nodes=2), "nvlink"),
        required(gang("node", nodes=2), "node"),
        required(gang("large", nodes=2, gpus=9), "block"),
        preferred(gang("wish", nodes=3), "rack"),
    ]
    snapshot = a_snapshot(
        quotas={"o": 40, "o/t": 40},
        devices=fleet("a 1", "a 1", "a 2", "a 2"),
        running=[a_running("r", "o/t", slots(0, 1)), a_running("s", "o/t", slots(2, 1))],
        queued=jobs,
    )
    plan = decided(snapshot)
    assert waiting(plan, "wish").code is Code.WAITING_FOR_GUARANTEE
    told = {
        one.job: (one.code, one.numbers["could_ever_mgpu"], sentence(one, job, NAMES))
        for one in plan.waiting
        for job in jobs
        if job.id == one.job and job.id != "wish"
    }
    never, begin = Code.NEVER_FITS, "This job will never start as it is: it"
    assert told == {
        "rack": (
            never,
            16 * GPU,
            f"{begin} needs 3 nodes with 8 GPUs each in one rack, and none of pool h100 has more"
            " than 2.",
        ),
        "link": (
            never,
            0,
            f"{begin} needs 2 nodes with 8 GPUs each in one NVLink domain, and no NVLink domain of"
            " pool h100 is known to have even one such node. If the clusters do not report NVLink"
            " domains, make it a preference or leave it out.",
        ),
        "node": (
            never,
            8 * GPU,
            f"{begin} must have its 16 GPUs on one node, and no node of pool h100 is so large.",
        ),
        "large": (
            never,
            0,
            f"{begin} needs 2 nodes with 9 GPUs each in one block, and no block of pool h100 is"
            " known to have even one such node. If the clusters do not report blocks, make it a"
            " preference or leave it out.",
        ),
    }


def test_a_drained_node_may_complete_its_rack_again() -> None:
    drained, other = fleet("a 1", "a 1")
    snapshot = a_snapshot(
        quotas={"o": 16, "o/t": 16},
        devices=(replace(drained, capacity_mgpu=0), other),
        queued=[required(gang(), "rack")],
    )
    assert waiting(decided(snapshot), "j").code is Code.WAITING_FOR_GUARANTEE


# -- reclaim ------------------------------------------------------------------------------------


def test_only_what_makes_a_rack_free_is_taken_back() -> None:
    """The two cheapest victims (the youngest) are in two racks that protected jobs hold in part.

    Mutant: nodes counted as ready wherever they are.
    """
    plan = decided(
        a_snapshot(
            quotas={"o": 48, "o/t": 16, "o/s": 16},
            devices=fleet("a 1", "a 1", "a 2", "a 2", "a 3", "a 3"),
            running=[
                a_running("keep1", "o/s", slots(0, 1), started_at=NOW - 9000),
                a_running("keep2", "o/s", slots(2, 1), started_at=NOW - 9000),
                a_running("young1", "o/s", slots(1, 1), started_at=NOW - 10),
                a_running("young2", "o/s", slots(3, 1), started_at=NOW - 20),
                a_running("old1", "o/s", slots(4, 1), started_at=NOW - 5000),
                a_running("old2", "o/s", slots(5, 1), started_at=NOW - 5000),
            ],
            queued=[required(gang(), "rack")],
        )
    )
    (reclaim,) = plan.reclaims
    assert sorted(victim.job for victim in reclaim.victims) == ["old1", "old2"]
    assert reclaim.slots == (Slot("alpha-004", 8 * GPU), Slot("alpha-005", 8 * GPU))


def test_nothing_is_stopped_for_a_rack_that_cannot_come_free() -> None:
    plan = decided(
        a_snapshot(
            quotas={"o": 32, "o/t": 16, "o/s": 16},
            devices=fleet("a 1", "a 1", "a 2", "a 2"),
            running=[
                a_running("keep1", "o/s", slots(0, 1), started_at=NOW - 9000),
                a_running("keep2", "o/s", slots(2, 1), started_at=NOW - 9000),
                a_running("young1", "o/s", slots(1, 1), started_at=NOW - 10),
                a_running("young2", "o/s", slots(3, 1), started_at=NOW - 10),
            ],
            queued=[required(gang(), "rack")],
        )
    )
    assert (plan.reclaims, waiting(plan, "j").code) == ((), Code.WAITING_FOR_GUARANTEE)


def test_victims_join_what_is_free_in_their_rack() -> None:
    """Mutant: the nodes of the claim were chosen out of all racks."""
    plan = decided(
        a_snapshot(
            quotas={"o": 40, "o/t": 24, "o/s": 16},
            devices=fleet("a 1", "a 2", "a 2", "a 3", "a 3"),
            running=[
                a_running("keep", "o/s", slots(3, 2), started_at=NOW - 9000),
                a_running("lent", "o/s", slots(1, 1), started_at=NOW - 5000),
            ],
            queued=[required(gang(), "rack")],
        )
    )
    (reclaim,) = plan.reclaims
    assert [victim.job for victim in reclaim.victims] == ["lent"]
    assert [slot.node for slot in reclaim.slots] == ["alpha-001", "alpha-002"]


def test_a_claim_on_nodes_that_are_no_longer_in_one_rack_is_given_up() -> None:
    """Mutant: the claim was kept, and the job would have started on two racks."""

    def plan(*places: str) -> Plan:
        return decided(
            a_snapshot(
                quotas={"o": 32, "o/t": 16, "o/s": 16},
                devices=fleet(*places),
                running=[
                    a_victim("v", "o/s", slots(0, 1), of="j"),
                    a_running("own", "o/s", slots(2, 2)),
                ],
                queued=[required(gang(), "rack")],
                claims=[a_claim("j", slots(0, 2))],
            )
        )

    kept = plan("a 1", "a 1", "a 2", "a 2")
    assert (kept.dropped_claims, waiting(kept, "j").code) == ((), Code.WAITING_FOR_RECLAIM)
    assert plan("a 1", "a 3", "a 2", "a 2").dropped_claims == ("j",)

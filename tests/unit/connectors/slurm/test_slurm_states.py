"""Slurm's states and records in our words, one by one."""

from dataclasses import replace
from typing import Any

import pytest

from connectors.errors import UnknownNativeState
from connectors.protocol import NodeCapacity, Outcome, RankSlot, WorkloadPhase
from connectors.slurm.logs import RankExits
from connectors.slurm.neutral import SlurmJob, SlurmNode, SlurmPartition
from connectors.slurm.observing import native_of, node_capacities, observation_of
from connectors.slurm.options import SlurmPool
from connectors.slurm.states import outcome_of, phase_of

JOB = SlurmJob(
    job_id=7,
    name="key-0123456789ab",
    user="ana",
    account="a",
    partition="gpu",
    qos="g-a",
    comment="",
    state="RUNNING",
    state_flags=frozenset(),
    reason="None",
    is_held=False,
    submit_time=100,
    start_time=110,
    end_time=170,
    exit_code=None,
    exit_signal=None,
    node_count=2,
    nodes=("n1", "n2"),
    gpus_requested={"h100": 4},
    gpus_allocated={"h100": 4},
    gpus_by_node={"n1": 2, "n2": 2},
    time_limit_s=60,
)
WAITING = replace(JOB, state="PENDING", nodes=(), gpus_allocated={}, gpus_by_node={}, end_time=None)
NO_EXITS = RankExits()


@pytest.mark.parametrize(
    ("state", "flags", "phase"),
    [
        ("PENDING", "", WorkloadPhase.STARTING),
        ("CONFIGURING", "", WorkloadPhase.STARTING),
        ("RUNNING", "CONFIGURING", WorkloadPhase.STARTING),
        ("RUNNING", "POWER_UP_NODE", WorkloadPhase.STARTING),
        ("RUNNING", "", WorkloadPhase.RUNNING),
        ("RUNNING", "SIGNALING", WorkloadPhase.RUNNING),
        ("RUNNING", "RESIZING", WorkloadPhase.RUNNING),
        ("RUNNING", "STOPPED", WorkloadPhase.RUNNING),
        ("SUSPENDED", "", WorkloadPhase.RUNNING),
        ("RUNNING", "STAGE_OUT", WorkloadPhase.STOPPING),
        ("RUNNING", "COMPLETING", WorkloadPhase.STOPPING),
        ("COMPLETED", "COMPLETING", WorkloadPhase.STOPPING),
        ("CANCELLED", "COMPLETING", WorkloadPhase.STOPPING),
        ("PREEMPTED", "COMPLETING", WorkloadPhase.STOPPING),
        ("PENDING", "REQUEUED COMPLETING", WorkloadPhase.STOPPING),
        ("PENDING", "REQUEUED", WorkloadPhase.STARTING),
        ("PENDING", "REQUEUE_HOLD", WorkloadPhase.HELD),
        ("PENDING", "SPECIAL_EXIT", WorkloadPhase.HELD),
        ("PENDING", "RESV_DEL_HOLD", WorkloadPhase.HELD),
        *((state, "", WorkloadPhase.ENDED) for state in ("COMPLETED", "FAILED", "CANCELLED")),
        *((state, "", WorkloadPhase.ENDED) for state in ("TIMEOUT", "DEADLINE", "NODE_FAIL")),
        *((state, "", WorkloadPhase.ENDED) for state in ("BOOT_FAIL", "PREEMPTED", "REVOKED")),
        ("OUT_OF_MEMORY", "", WorkloadPhase.ENDED),
    ],
)
def test_phases(state: str, flags: str, phase: WorkloadPhase) -> None:
    """Mutant: the base state was looked at before COMPLETING; five ended with GPUs taken."""
    job = replace(JOB, state=state, state_flags=frozenset(flags.split()))
    assert phase_of(job) is phase
    seen = observation_of("key", job, NO_EXITS)
    assert seen.is_released is (phase is WorkloadPhase.ENDED)
    assert (seen.outcome is None) is (phase is not WorkloadPhase.ENDED)


def test_only_what_was_never_queued_anew_has_one_run() -> None:
    assert observation_of("key", JOB, NO_EXITS).is_only_run is True
    assert observation_of("key", replace(JOB, restarts=1), NO_EXITS).is_only_run is False


def test_a_waiting_job_is_held_by_its_priority() -> None:
    assert phase_of(replace(WAITING, is_held=True)) is WorkloadPhase.HELD
    assert phase_of(replace(JOB, is_held=True)) is WorkloadPhase.RUNNING


@pytest.mark.parametrize(
    ("state", "signal", "outcome"),
    [
        ("COMPLETED", None, Outcome.SUCCEEDED),
        ("FAILED", None, Outcome.FAILED),
        ("FAILED", 9, Outcome.FAILED),
        ("FAILED", 24, Outcome.TIMED_OUT),
        ("FAILED", 31, Outcome.START_FAILED),
        ("FAILED", 53, Outcome.START_FAILED),
        ("FAILED", 6, Outcome.STOPPED),
        ("OUT_OF_MEMORY", None, Outcome.FAILED),
        ("CANCELLED", 15, Outcome.STOPPED),
        ("REVOKED", None, Outcome.STOPPED),
        ("TIMEOUT", None, Outcome.TIMED_OUT),
        ("DEADLINE", None, Outcome.TIMED_OUT),
        ("NODE_FAIL", None, Outcome.NODE_FAILED),
        ("BOOT_FAIL", None, Outcome.NODE_FAILED),
        ("PREEMPTED", None, Outcome.PREEMPTED),
        ("LAUNCH_FAILED", None, Outcome.START_FAILED),
    ],
)
def test_outcomes(state: str, signal: int | None, outcome: Outcome) -> None:
    assert outcome_of(replace(JOB, state=state, exit_signal=signal)) is outcome


@pytest.mark.parametrize("state", ["ASCENDED", "", "EXPEDITING"])
def test_a_state_that_is_unknown_never_is_an_end(state: str) -> None:
    """Mutant: unknown states fell through to ENDED."""
    job = replace(JOB, state=state)
    with pytest.raises(UnknownNativeState):
        phase_of(job)
    with pytest.raises(UnknownNativeState):
        outcome_of(job)
    seen = observation_of("key", job, NO_EXITS)
    assert (seen.phase, seen.is_released, seen.outcome) == (WorkloadPhase.RUNNING, False, None)
    assert "unknown here" in seen.message
    waiting = observation_of("key", replace(WAITING, state=state), NO_EXITS)
    assert waiting.phase is WorkloadPhase.STARTING


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("PartitionNodeLimit", "more nodes than its partition"),
        ("PartitionTimeLimit", "longer than its partition allows"),
        ("BadConstraints", "features"),
        ("InvalidAccount", "account does not exist"),
        ("InvalidQOS", "QoS does not exist"),
        ("AssocGrpGRES", "limit of its account"),
        ("AssocMaxJobsLimit", "limit of its account"),
        ("QOSGrpGRES", "limit of its QoS"),
        ("QOSMaxGRESPerUser", "limit of its QoS"),
        ("QOSNotAllowed", "may not be used in the partition"),
        ("ReqNodeNotAvail,_UnavailableNodes:n1", "down, drained or reserved"),
    ],
)
def test_what_will_not_start_by_itself_says_why(reason: str, words: str) -> None:
    message = observation_of("key", replace(WAITING, reason=reason), NO_EXITS).message
    assert words in message
    assert message.endswith(f"({reason}).")


@pytest.mark.parametrize(
    ("reason", "message"),
    [
        ("Priority", "jobs of a higher priority are before it (Priority)."),
        ("Resources", "the nodes or GPUs that it needs are in use (Resources)."),
        ("QOSGrpCpuLimit", "a limit of its QoS in Slurm keeps it from starting (QOSGrpCpuLimit)."),
    ],
)
def test_what_waits_for_others_says_for_what(reason: str, message: str) -> None:
    seen = observation_of("key", replace(WAITING, reason=reason), NO_EXITS)
    assert (seen.message, seen.is_stuck) == (
        f"It waits in the cluster's own queue: {message}",
        False,
    )


def test_a_reason_that_nobody_knows_is_told_as_it_is() -> None:
    seen = observation_of("key", replace(WAITING, reason="Full\nMoon"), NO_EXITS)
    assert seen.message == "It waits in the cluster's own queue (Full?Moon)."


@pytest.mark.parametrize(
    ("reason", "was_let_go", "by_others"),
    [
        ("JobHeldUser", False, False),
        ("JobHeldAdmin", False, True),
        ("JobHeldUser", True, True),
        ("JobHeldAdmin", True, True),
    ],
)
def test_who_holds_it(reason: str, was_let_go: bool, by_others: bool) -> None:
    held = replace(WAITING, reason=reason, is_held=True)
    seen = observation_of("key", held, NO_EXITS, was_let_go=was_let_go)
    assert (seen.phase, seen.is_stuck, seen.is_held_by_others) == (
        WorkloadPhase.HELD,
        by_others,
        by_others,
    )
    assert seen.message.startswith(
        {
            (False, "JobHeldUser"): "The cluster holds it until it is sure",
            (True, "JobHeldUser"): "It had been released, and somebody holds it on the cluster",
        }.get((by_others, reason), "Somebody who administers the cluster holds it there")
    )
    waits = observation_of("key", WAITING, NO_EXITS, was_let_go=True)
    assert (waits.is_stuck, waits.is_held_by_others) == (False, False)


@pytest.mark.parametrize("reason", ["None", ""])
def test_what_was_not_looked_at_yet_says_nothing(reason: str) -> None:
    seen = observation_of("key", replace(WAITING, reason=reason), NO_EXITS)
    assert (seen.message, seen.is_stuck) == ("", False)


@pytest.mark.parametrize(
    "reason",
    [
        *("BadConstraints", "PartitionDown", "PartitionNodeLimit", "InvalidQOS", "InvalidAccount"),
        *("QOSMaxGRESPerJob", "AssocMaxWallDurationPerJobLimit", "QOSGrpGRES", "AssocGrpGRES"),
        *("PartitionConfig", "AccountingPolicy", "PartitionInactive"),
    ],
)
def test_what_somebody_must_change_is_stuck(reason: str) -> None:
    """Planted: a held job counted as stuck, and so did any limit of a group."""
    seen = observation_of("key", replace(WAITING, reason=reason), NO_EXITS)
    assert (seen.phase, seen.is_stuck) == (WorkloadPhase.STARTING, True)
    assert seen.message.startswith("The cluster does not start it: ")
    assert observation_of("key", replace(JOB, reason=reason), NO_EXITS).is_stuck is False


@pytest.mark.parametrize(
    "reason",
    [
        *("BadConstraints", "PartitionNodeLimit", "PartitionTimeLimit", "InvalidAccount"),
        *("InvalidQOS", "AccountNotAllowed", "QOSNotAllowed", "ReqResv", "RequiresReservation"),
        *("QOSMaxWallDurationPerJobLimit", "AssocMaxWallDurationPerJobLimit", "QOSTimeLimit"),
        *("AssociationTimeLimit", "QOSMaxGRESPerJob", "AssocMaxGRESPerNode", "QOSMaxCpuPerNode"),
        *("QOSMaxNodePerJobLimit", "AssocMaxMemPerJob", "QOSMinGRES", "QOSMinCpuNotSatisfied"),
        *("MaxMemPerLimit", "QOSMaxMemoryMinutesPerJob"),
    ],
)
def test_what_can_never_start_is_told_from_what_waits(reason: str) -> None:
    """Planted: BadConstraints, which Slurm holds itself, was released each second."""
    for is_held in (False, True):
        waits = replace(WAITING, reason=reason, is_held=is_held)
        seen = observation_of("key", waits, NO_EXITS, was_let_go=is_held)
        assert (seen.never_starts, seen.is_stuck, seen.is_held_by_others) == (True, True, False)
        assert seen.message.startswith("The cluster does not start it: ")
        assert seen.message.endswith(f"({reason}).")
    assert observation_of("key", replace(JOB, reason=reason), NO_EXITS).never_starts is False


@pytest.mark.parametrize(
    "reason",
    [
        *("None", "Resources", "Priority", "BeginTime", "PartitionDown", "PartitionInactive"),
        *("ReqNodeNotAvail, UnavailableNodes:n1", "QOSGrpGRES", "AssocGrpGRES", "JobHeldUser"),
        *("JobHeldAdmin", "AssocMaxJobsLimit", "QOSMaxJobsPerUserLimit", "QOSMaxGRESPerUser"),
        *("QOSMaxNodePerUserLimit", "AssocGrpNodeLimit", "NodeDown", "DependencyNeverSatisfied"),
    ],
)
def test_what_may_start_when_others_end_or_return(reason: str) -> None:
    assert observation_of("key", replace(WAITING, reason=reason), NO_EXITS).never_starts is False


def test_times_and_places() -> None:
    running = observation_of("key", JOB, NO_EXITS)
    assert (running.started_at, running.ended_at, running.released_at) == (110, None, None)
    assert running.slots == (RankSlot("n1", 2_000), RankSlot("n2", 2_000))
    # The start of a waiting job is only expected.
    waiting = observation_of("key", WAITING, NO_EXITS)
    assert (waiting.started_at, waiting.slots) == (None, None)
    ended = observation_of("key", replace(JOB, state="COMPLETED", gpus_by_node={}), NO_EXITS)
    assert (ended.started_at, ended.ended_at, ended.released_at) == (110, 170, 170)
    assert ended.slots == (RankSlot("n1", 2_000), RankSlot("n2", 2_000))
    assert ended.exit_codes == {0: 0, 1: 0}
    never = observation_of("key", replace(WAITING, state="CANCELLED", end_time=120), NO_EXITS)
    assert (never.started_at, never.ended_at, never.outcome) == (None, 120, Outcome.STOPPED)


@pytest.mark.parametrize(
    ("changes", "exits", "codes"),
    [
        ({"exit_code": 3}, RankExits({0: 3, 1: -15}), {0: 3, 1: -15}),
        ({"exit_code": 3}, NO_EXITS, {}),
        ({"exit_code": 3, "node_count": 1}, NO_EXITS, {0: 3}),
        ({"exit_code": 137, "node_count": 1}, NO_EXITS, {0: -9}),
        ({"exit_signal": 9, "node_count": 1}, NO_EXITS, {0: -9}),
        ({"exit_signal": 24, "node_count": 1}, NO_EXITS, {}),
    ],
)
def test_exit_codes(changes: dict[str, Any], exits: RankExits, codes: dict[int, int]) -> None:
    job = replace(JOB, state="FAILED", **changes)
    assert observation_of("key", job, exits).exit_codes == codes


def test_a_native_job() -> None:
    seen = native_of(replace(JOB, qos="tg-borrow"), pool="h100", gpus=4, borrow_qos="tg-borrow")
    assert (seen.mgpu, seen.is_preemptible, seen.started_at) == (4_000, True, 110)
    assert seen.slots == (RankSlot("n1", 2_000), RankSlot("n2", 2_000))
    other = native_of(WAITING, pool="h100", gpus=4, borrow_qos="tg-borrow")
    assert (other.is_preemptible, other.started_at, other.slots) == (False, None, ())


NODE = SlurmNode(
    name="n1",
    state="IDLE",
    state_flags=frozenset(),
    reason="",
    partitions=("gpu",),
    features=(),
    gpus={"h100": 8},
)
POOLS = {"big": SlurmPool("gpu", "h100", None)}
PARTITIONS = {"gpu": SlurmPartition("gpu", "UP", ("n1",), None, {"h100": 8})}


@pytest.mark.parametrize(
    ("changes", "is_schedulable", "state"),
    [
        ({"features": ("nvlink", "ib")}, True, "idle"),
        ({"state": "MIXED", "reason": "old"}, True, "mixed"),
        ({"state_flags": {"DRAIN"}, "reason": "fans\n"}, False, "idle+drain"),
        ({"state": "DOWN", "state_flags": {"NOT_RESPONDING"}}, False, "down+not_responding"),
        ({"state_flags": {"MAINTENANCE"}}, False, "idle+maintenance"),
        ({"partitions": ("debug",)}, False, "idle, not in partition gpu"),
    ],
)
def test_nodes(changes: dict[str, Any], is_schedulable: bool, state: str) -> None:
    if "state_flags" in changes:
        changes = {**changes, "state_flags": frozenset(changes["state_flags"])}
    (seen,) = node_capacities(replace(NODE, **changes), POOLS, PARTITIONS)
    assert seen == NodeCapacity(
        "n1",
        "big",
        8_000,
        is_schedulable,
        state,
        reason="fans?" if changes.get("reason") == "fans\n" else "",
        features=changes.get("features", ()),
    )


def test_nodes_of_partitions_that_are_closed_and_of_nobody() -> None:
    closed = {"gpu": replace(PARTITIONS["gpu"], state="DRAIN")}
    (seen,) = node_capacities(NODE, POOLS, closed)
    assert seen == NodeCapacity("n1", "big", 8_000, False, "idle, partition gpu drain")
    assert node_capacities(replace(NODE, gpus={"a100": 8}), POOLS, PARTITIONS) == []
    assert node_capacities(replace(NODE, gpus={}), POOLS, PARTITIONS) == []


def test_a_node_with_gpus_of_several_types_is_in_a_pool_with_each() -> None:
    """Mutant: in the first of them only; its other GPUs were nobody's."""
    node = replace(
        NODE, gpus={"h100": 4, "1g.10gb": 14, "a100": 2}, state_flags=frozenset({"DRAIN"})
    )
    pools = {**POOLS, "small": SlurmPool("parts", "1g.10gb", None)}
    partitions = {**PARTITIONS, "parts": SlurmPartition("parts", "UP", ("n1",), None, {})}
    assert node_capacities(replace(node, partitions=("gpu", "parts")), pools, partitions) == [
        NodeCapacity("n1", "big", 4_000, False, "idle+drain"),
        NodeCapacity("n1", "small", 14_000, False, "idle+drain"),
    ]
    assert [one.state for one in node_capacities(node, pools, partitions)] == [
        "idle+drain",
        "idle+drain, not in partition parts",
    ]


def test_the_cpus_and_the_memory_of_a_node() -> None:
    """And what jobs get of them with each GPU; Slurm's megabytes are 2^20 bytes."""
    node = replace(NODE, cpus=128, memory_mb=2_000_000)
    per_gpu = {"cpus_per_gpu": 14, "memory_mb_per_gpu": 200_000}
    (seen,) = node_capacities(node, POOLS, PARTITIONS, **per_gpu)
    assert (seen.cpu_milli, seen.memory_mib) == (128_000, 2_000_000)
    assert (seen.cpu_milli_per_gpu, seen.memory_mib_per_gpu) == (14_000, 200_000)
    (bare,) = node_capacities(NODE, POOLS, PARTITIONS)
    assert (bare.cpu_milli, bare.memory_mib, bare.cpu_milli_per_gpu) == (None, None, 0)

"""A pool of CPU cores on a real Slurm: a partition of nodes without GPUs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from builders.connector_builders import (
    a_workload,
    eventually,
    observed,
    until_released,
    until_running,
)
from conformance.core_rigs import POOL, SlurmCoreRig
from connectors.accounts import AccountLate
from connectors.errors import LogUnavailable, NotPrepared, WorkloadRejected
from connectors.protocol import Outcome, RankSlot
from connectors.slurm.accounts import open_account
from primitives.units import DeviceKind
from slurm_bed import BedCores, SlurmBed

pytestmark = pytest.mark.slurm
TELL = 'echo "$RANK $TIDEGATE_CPUS_PER_NODE $TIDEGATE_GPUS_PER_NODE [$TIDEGATE_GPU_SLOTS]"'


@pytest.fixture
def cores(slurm_bed: SlurmBed) -> BedCores:
    return slurm_bed.cores


@pytest.fixture
def rig(slurm_bed: SlurmBed) -> Iterator[SlurmCoreRig]:
    """Beside the pool of GPUs it has one of cores, which get 100 MiB each."""
    rig = SlurmCoreRig(slurm_bed)
    yield rig
    rig.close()


@pytest.fixture
def sbatch(slurm_bed: SlurmBed) -> Iterator[list[str]]:
    """Numbers of jobs that are taken away again."""
    numbers: list[str] = []
    yield numbers
    if numbers:
        slurm_bed.run(["scancel", *numbers])


def first_line(rig: SlurmCoreRig, key: str, rank: int) -> str:
    def read() -> str:
        try:
            return rig.log(key, rank=rank)
        except LogUnavailable:
            return ""

    return eventually(read)


def gang(*, mgpu: int, nodes: int, script: str = TELL):
    slots = tuple(RankSlot("", mgpu) for _ in range(nodes))
    return a_workload(script, slots=slots, pool=POOL)


def test_nodes_without_gpus_offer_their_cores(rig: SlurmCoreRig, cores: BedCores) -> None:
    """Their CPUs are not counted a second time beside them. Mutants: they are; nodes with GPUs
    offer cores too."""
    nodes = {node.name: node for node in rig.connector.inventory().nodes}
    of_cores = {name: node for name, node in nodes.items() if node.pool == POOL}
    assert len(of_cores) == cores.node_count
    assert cores.first_node in of_cores
    assert {
        (node.device, node.capacity_mgpu, node.cpu_milli, node.cpu_milli_per_gpu)
        for node in of_cores.values()
    } == {(DeviceKind.CPU, cores.cores_per_node * 1_000, None, 0)}
    assert {node.memory_mib_per_gpu for node in of_cores.values()} == {100}
    assert {node.device for node in nodes.values() if node.pool == "h100"} == {DeviceKind.GPU}
    assert len(nodes) == cores.node_count + rig.node_count


def test_a_gang_runs_on_cores_and_says_so(rig: SlurmCoreRig) -> None:
    """Held, known again, released, run, and found in the account. Mutants: a gres is asked for; the
    signed size is compared with no GPUs, so that it counts as altered."""
    workload = gang(mgpu=3_000, nodes=2, script=f"{TELL}; sleep 1000")
    native_id = rig.submit(workload)
    held = eventually(lambda: rig.connector.observe().seen(workload.key, native_id))
    assert (held.is_altered, held.pool) == (False, POOL)
    rig.release(workload.key, native_id)
    until_running(rig.connector, workload.key)
    seen = observed(rig.connector, workload.key)
    assert seen is not None
    assert seen.slots is not None
    assert [slot.mgpu for slot in seen.slots] == [3_000, 3_000]
    assert {slot.node[0] for slot in seen.slots} == {"c"}
    told = rig.bed.run(["scontrol", "show", "job", native_id])
    assert "gres" not in told
    assert "MinMemoryNode=300M" in told
    assert [first_line(rig, workload.key, rank) for rank in range(2)] == [
        "0 3 0 []\n",
        "1 3 0 []\n",
    ]
    # What ends in the second of its start was never held, by the account.
    eventually(lambda: rig.connector.observe().observed_at > (seen.started_at or 0))
    rig.connector.stop(workload.key, native_id=native_id)
    ended = until_released(rig.connector, workload.key)
    assert ended.outcome is Outcome.STOPPED
    account = open_account(rig.connector)
    started = ended.started_at or 0

    def accounted() -> tuple[str, int] | None:
        try:
            runs = account.runs(start=started - 10, end=started + 3_600).runs
        except AccountLate:
            return None
        return next(((run.pool, run.mgpu) for run in runs if run.key == workload.key), None)

    assert eventually(accounted) == (POOL, 6_000)


def test_what_people_submit_themselves_counts_by_its_nodes(
    rig: SlurmCoreRig, sbatch: list[str], slurm_bed: SlurmBed, cores: BedCores
) -> None:
    """Mutant: whatever has no GPUs counts as cores of the pool, also on nodes with GPUs."""
    on_cores = rig.submit_beside("--partition", cores.partition, "-c", "2", "--time=10")
    beside_gpus = rig.submit_beside("--partition", "h100", "-c", "2", "--time=10")
    waiting = rig.submit_beside("--partition", cores.partition, "-c", "3", "--hold")
    sbatch += [on_cores, beside_gpus, waiting]

    def listed():
        states = slurm_bed.run(["squeue", "-h", "-o", "%T", "-j", f"{on_cores},{beside_gpus}"])
        if states.split() != ["RUNNING", "RUNNING"]:
            return None
        return {one.native_id: one for one in rig.connector.observe().natives}

    natives = eventually(listed)
    assert beside_gpus not in natives
    found = natives[on_cores]
    assert (found.pool, found.mgpu) == (POOL, 2_000)
    assert [(slot.node[0], slot.mgpu) for slot in found.slots] == [("c", 2_000)]
    assert (natives[waiting].pool, natives[waiting].mgpu) == (POOL, 3_000)
    account = open_account(rig.connector)
    started = found.started_at or 0

    def accounted() -> dict[str, tuple[str, int]] | None:
        try:
            runs = account.runs(start=started - 10, end=started + 3_600).runs
        except AccountLate:
            return None
        ours = {run.native_id: (run.pool, run.mgpu) for run in runs}
        return {number: ours[number] for number in sbatch if number in ours}

    assert eventually(accounted) == {on_cores: (POOL, 2_000)}


def test_more_cores_than_a_node_has_are_refused(rig: SlurmCoreRig, cores: BedCores) -> None:
    most = cores.cores_per_node
    with pytest.raises(NotPrepared, match=f"1 nodes with {most + 1} cores and no GPUs"):
        rig.submit(gang(mgpu=(most + 1) * 1_000, nodes=1))
    with pytest.raises(WorkloadRejected, match="a Slurm cluster gives whole cores"):
        rig.submit(gang(mgpu=500, nodes=1))

"""What every connector must do with a pool of CPU cores: the nodes that it tells, the workloads
that ask for cores, and what others hold of them."""

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
from conformance.core_rigs import (
    POOL,
    CoreRig,
    KubernetesCoreRig,
    LocalCoreRig,
    SlurmCoreRig,
)
from connectors.errors import WorkloadRejected
from connectors.protocol import NativeWorkload, Outcome, RankSlot, Workload
from primitives.units import DeviceKind

TELL = 'echo "$RANK $TIDEGATE_CPUS_PER_NODE $TIDEGATE_GPUS_PER_NODE [$TIDEGATE_GPU_SLOTS]"'


@pytest.fixture(
    params=[
        "local",
        pytest.param("slurm", marks=pytest.mark.slurm),
        pytest.param("kubernetes", marks=pytest.mark.kube),
    ]
)
def rig(request: pytest.FixtureRequest) -> Iterator[CoreRig]:
    """One cluster of each kind."""
    match request.param:
        case "local":
            opened: CoreRig = LocalCoreRig(request.getfixturevalue("tmp_path"))
        case "slurm":
            opened = SlurmCoreRig(request.getfixturevalue("slurm_bed"))
        case _:
            opened = KubernetesCoreRig(request.getfixturevalue("kube_bed"))
    yield opened
    opened.close()


def a_gang(rig: CoreRig, *, mgpu: int, ranks: int = 1, script: str = "exit 0") -> Workload:
    """Ranks on different nodes of the pool."""
    slots = tuple(RankSlot(node, mgpu) for node in sorted(rig.cores)[:ranks])
    return a_workload(script, slots=slots, pool=POOL)


def test_nodes_of_cores_offer_their_cores_once(rig: CoreRig) -> None:
    """Mutants: they offer GPUs; a core is one; what the system keeps of a node is offered; nodes
    with GPUs offer cores too."""
    nodes = rig.connector.inventory().nodes
    of_cores = [node for node in nodes if node.device is DeviceKind.CPU]
    assert {node.name: node.capacity_mgpu for node in of_cores} == rig.cores
    assert {(node.pool, node.is_schedulable) for node in of_cores} == {(POOL, True)}
    others = [node for node in nodes if node.device is not DeviceKind.CPU]
    assert {(node.pool, node.device) for node in others} == {("h100", DeviceKind.GPU)}
    assert len({node.name for node in nodes}) == len(nodes) == rig.node_count + len(rig.cores)


def test_a_gang_of_cores_has_them_on_nodes_of_the_pool_and_is_told_so(rig: CoreRig) -> None:
    """Mutants: a rank is told of GPUs; it is observed with none of what it has."""
    script = f"{TELL}; while ! [ -e {rig.scratch}/go ]; do sleep 0.02; done"
    workload = a_gang(rig, mgpu=3_000, ranks=2, script=script)
    rig.start(workload)
    until_running(rig.connector, workload.key)
    seen = observed(rig.connector, workload.key)
    assert seen is not None
    slots = seen.slots or workload.slots
    assert {slot.mgpu for slot in slots} == {3_000}
    assert len({slot.node for slot in slots} & rig.cores.keys()) == 2
    (rig.scratch / "go").touch()
    assert until_released(rig.connector, workload.key).outcome is Outcome.SUCCEEDED
    told = [rig.log(workload.key, rank=rank) for rank in range(2)]
    assert told == ["0 3 0 []\n", "1 3 0 []\n"]


def test_parts_of_cores_above_one_and_more_than_a_node_has_are_rejected(rig: CoreRig) -> None:
    """In words of cores. Mutant: they were told in thousandths of GPUs."""
    most = max(rig.cores.values()) // 1_000
    for mgpu in (1_500, (most + 1) * 1_000):
        with pytest.raises(WorkloadRejected, match=r"[0-9] cores|whole cores"):
            rig.submit(a_gang(rig, mgpu=mgpu))
    assert rig.connector.observe().observations == {}


def test_what_others_hold_of_a_node_is_told_and_not_taken_from_it(rig: CoreRig) -> None:
    """Mutants: only who holds GPUs is told of; it is taken from what the node offers as well, and
    so counted twice; it is told for good."""
    if isinstance(rig, LocalCoreRig):
        pytest.skip("nobody uses this cluster beside the portal")
    node = min(rig.cores)

    def told(native_id: str) -> NativeWorkload | None:
        natives = rig.connector.observe().natives
        return next((one for one in natives if one.native_id == native_id and one.slots), None)

    with rig.holding(node, 3) as native_id:
        found = eventually(lambda: told(native_id))
        assert (found.pool, found.mgpu, found.slots) == (POOL, 3_000, (RankSlot(node, 3_000),))
        offered = {one.name: one.capacity_mgpu for one in rig.connector.inventory().nodes}
        assert offered[node] == rig.cores[node]

    def is_over() -> bool:
        found = told(native_id)
        return found is None or found.is_released

    eventually(is_over)

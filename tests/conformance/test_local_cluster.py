"""What only the local cluster has: devices, UNIX users, drained nodes, and its own directory."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import socket
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from shutil import which

import pytest

from builders.connector_builders import (
    a_key,
    a_workload,
    eventually,
    lines,
    observed,
    until_released,
    until_running,
    whole_log,
)
from conformance.rigs import CLUSTER_ID, IsolatedRig, LocalRig
from connectors.errors import ClusterUnavailable, NodeRefused, WorkloadRejected
from connectors.local import options as local_options
from connectors.local import publishing
from connectors.local.attempt_files import AttemptFiles
from connectors.local.connector import DISK_FREE_BYTES_MIN
from connectors.local.node_control import control_nodes
from connectors.local.observing import AttemptReader
from connectors.protocol import (
    BatchLaunch,
    ClusterConnector,
    NodeCapacity,
    Observation,
    Outcome,
    RankSlot,
    WorkloadPhase,
)
from connectors.registry import open_connector

SHOW_SLOTS = 'echo "$TIDEGATE_GPU_SLOTS|$CUDA_VISIBLE_DEVICES|$NVIDIA_VISIBLE_DEVICES"'


def hold(
    rig: LocalRig,
    mgpu: int,
    *,
    node: str = "node-001",
    pool: str = "h100",
    script: str = SHOW_SLOTS,
) -> str:
    """Start something that keeps its devices until the file named like its key appears."""
    key = a_key()
    wait = f"while ! [ -e {rig.scratch}/{key} ]; do sleep 0.02; done"
    slots = (RankSlot(node, mgpu),)
    rig.connector.submit(a_workload(f"{script}; {wait}", key=key, pool=pool, slots=slots))
    return key


def slots_of(rig: LocalRig, key: str) -> str:
    until_running(rig.connector, key)
    return eventually(lambda: whole_log(rig.connector, key).strip())


# Messages


def test_what_the_notice_before_the_time_limit_ends_says_so(local_rig: LocalRig) -> None:
    """Planted: "was killed by signal 15", and nobody knew by whom, long before the limit."""
    workload = a_workload("sleep 60", time_limit_s=2, grace_s=1)
    local_rig.start(workload)
    seen = until_released(local_rig.connector, workload.key)
    assert (seen.outcome, seen.exit_codes, seen.message) == (
        Outcome.TIMED_OUT,
        {0: 143},
        "it ended after the notice of its time limit",
    )


# Devices


def test_virtual_gpus_are_numbered_and_no_real_one_is_visible(local_rig: LocalRig) -> None:
    assert slots_of(local_rig, hold(local_rig, 8000)) == "0,1,2,3,4,5,6,7||void"


def test_a_device_is_never_handed_out_twice(local_rig: LocalRig) -> None:
    """Mutant: allocations of others were not read; both jobs got the same devices."""
    first = slots_of(local_rig, hold(local_rig, 3000))
    second = slots_of(local_rig, hold(local_rig, 5000))
    elsewhere = slots_of(local_rig, hold(local_rig, 1000, node="node-002"))
    assert (first, second, elsewhere) == ("0,1,2||void", "3,4,5,6,7||void", "0||void")


def test_each_shared_gpu_is_a_node_with_its_own_device(local_rig: LocalRig) -> None:
    """Planted: each is device 0; the free half of one GPU and of another start a job on both."""
    group = {"count": 1, "gpus": 2, "pool": "l4", "prefix": "s-", "shared": True}
    local_rig.options["nodes"] = [local_rig.options["nodes"], group]
    local_rig.connector = local_rig.open()
    nodes = {node.name: node for node in local_rig.connector.inventory().nodes if node.pool == "l4"}
    assert {name: node.capacity_mgpu for name, node in nodes.items()} == {
        "s-001-gpu0": 1000,
        "s-001-gpu1": 1000,
    }

    def part(mgpu: int, index: int) -> str:
        return hold(local_rig, mgpu, node=f"s-001-gpu{index}", pool="l4")

    shares = [slots_of(local_rig, part(*one)) for one in ((600, 0), (500, 1), (400, 0), (499, 1))]
    assert shares == ["0||void", "1||void", "0||void", "1||void"]
    with pytest.raises(WorkloadRejected, match="s-001-gpu1 has 1 GPU in all, fewer than asked"):
        part(1500, 1)


def test_gpus_that_are_not_shared_are_given_whole(local_rig: LocalRig) -> None:
    """Planted: a half ran on a node of 8, where what is free cannot always be had in one piece."""
    for mgpu, words in ((500, r"0\.5 GPUs"), (1500, r"1\.5 GPUs")):
        with pytest.raises(WorkloadRejected, match=f"asks for {words}; node-001 gives whole ones"):
            hold(local_rig, mgpu)


def test_what_finds_no_free_device_waits_and_starts_when_there_is_one(local_rig: LocalRig) -> None:
    first = hold(local_rig, 5000)
    until_running(local_rig.connector, first)
    second = hold(local_rig, 4000)
    seen = eventually(
        lambda: (
            (now := observed(local_rig.connector, second))
            and now.native_state == "waiting_for_devices"
            and now
        )
    )
    assert (seen.phase, seen.started_at) == (WorkloadPhase.STARTING, None)
    (local_rig.scratch / first).touch()
    until_released(local_rig.connector, first)
    assert slots_of(local_rig, second) == "0,1,2,3||void"


def test_what_waits_for_devices_can_be_stopped(local_rig: LocalRig) -> None:
    until_running(local_rig.connector, hold(local_rig, 8000))
    waiting = hold(local_rig, 8000, script=f"touch {local_rig.scratch}/proof")
    local_rig.connector.stop(waiting)
    ended = until_released(local_rig.connector, waiting)
    assert (ended.outcome, ended.started_at, ended.exit_codes) == (Outcome.STOPPED, None, {})
    assert not (local_rig.scratch / "proof").exists()


def test_a_workload_without_gpus_runs_beside_full_devices(local_rig: LocalRig) -> None:
    until_running(local_rig.connector, hold(local_rig, 8000))
    assert slots_of(local_rig, hold(local_rig, 0)) == "||void"


@pytest.fixture
def fake_nvidia_smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program of that name first in PATH, answering like the real one with four GPUs."""
    directory = tmp_path / "bin"
    directory.mkdir()
    program = directory / "nvidia-smi"
    program.write_text("#!/bin/sh\nprintf '0\\n1\\n2\\n3\\n'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{directory}:{os.environ['PATH']}")
    monkeypatch.setattr(local_options, "_real_gpus", None)
    return program


@pytest.mark.usefixtures("fake_nvidia_smi")
@pytest.mark.parametrize("use_real_gpus", ["auto", True])
def test_real_gpus_are_one_node_and_visible_by_index(
    local_rig: LocalRig, use_real_gpus: object
) -> None:
    """The answer of nvidia-smi is made up here; on a machine with GPUs see the same indices."""
    connector = open_connector(
        "local", {**local_rig.options, "use_real_gpus": use_real_gpus}, CLUSTER_ID
    )
    host = socket.gethostname()
    assert connector.inventory().nodes == (
        NodeCapacity(host, "h100", 4_000, is_schedulable=True, state="up"),
    )
    script = 'echo "$CUDA_DEVICE_ORDER $CUDA_VISIBLE_DEVICES ${NVIDIA_VISIBLE_DEVICES-unset}"'
    workload = a_workload(script, slots=(RankSlot(host, 1000), RankSlot(host, 2000)))
    connector.submit(workload)
    until_released(connector, workload.key)
    logs = [whole_log(connector, workload.key, rank=rank) for rank in range(2)]
    assert logs == ["PCI_BUS_ID 0 unset\n", "PCI_BUS_ID 1,2 unset\n"]
    with pytest.raises(WorkloadRejected, match="no node"):
        connector.submit(a_workload())


@pytest.mark.usefixtures("fake_nvidia_smi")
def test_real_gpus_that_are_shared_are_visible_by_index(local_rig: LocalRig) -> None:
    """Planted: every part was of the first GPU."""
    nodes = {**local_rig.options["nodes"], "shared": True}
    local_rig.options |= {"nodes": nodes, "use_real_gpus": True}
    connector = local_rig.open()
    host = socket.gethostname()
    assert [(node.name, node.capacity_mgpu) for node in connector.inventory().nodes] == [
        (f"{host}-gpu{index}", 1000) for index in range(4)
    ]
    slots = (RankSlot(f"{host}-gpu3", 500),)
    workload = a_workload('echo "$CUDA_VISIBLE_DEVICES"', slots=slots)
    connector.submit(workload)
    until_released(connector, workload.key)
    assert whole_log(connector, workload.key) == "3\n"


def test_real_gpus_that_nvidia_smi_lost_do_not_become_virtual(
    local_rig: LocalRig, fake_nvidia_smi: Path
) -> None:
    fake_nvidia_smi.write_text("#!/bin/sh\necho 'driver mismatch' >&2; exit 18\n")
    connector = open_connector("local", {**local_rig.options, "use_real_gpus": "auto"}, CLUSTER_ID)
    with pytest.raises(ClusterUnavailable, match="driver mismatch"):
        connector.inventory()


@pytest.mark.parametrize("code", [6, 9])
def test_without_gpus_nvidia_smi_is_ignored(
    local_rig: LocalRig, fake_nvidia_smi: Path, code: int
) -> None:
    fake_nvidia_smi.write_text(f"#!/bin/sh\nexit {code}\n")
    connector = open_connector("local", {**local_rig.options, "use_real_gpus": "auto"}, CLUSTER_ID)
    assert len(connector.inventory().nodes) == 130
    with pytest.raises(ClusterUnavailable, match="lists no GPU"):
        open_connector(
            "local", {**local_rig.options, "use_real_gpus": True}, CLUSTER_ID
        ).inventory()


# Nodes


def test_drained_nodes_take_no_new_work(local_rig: LocalRig) -> None:
    (local_rig.root / "drained.json").write_text(json.dumps(["node-002", "unknown"]))
    nodes = {node.name: node for node in local_rig.connector.inventory().nodes}
    assert [name for name, node in nodes.items() if not node.is_schedulable] == ["node-002"]
    assert nodes["node-002"] == NodeCapacity(
        "node-002", "h100", 8_000, is_schedulable=False, state="drained"
    )


@pytest.mark.parametrize(("missing_bytes", "state"), [(1, ("disk full", False)), (0, ("up", True))])
def test_nothing_is_started_on_a_full_disk(
    local_rig: LocalRig,
    monkeypatch: pytest.MonkeyPatch,
    missing_bytes: int,
    state: tuple[str, bool],
) -> None:
    """What runs goes on and can be stopped. Mutant: the bound was taken for used bytes."""
    running = hold(local_rig, 1000)
    until_running(local_rig.connector, running)
    real = shutil.disk_usage(local_rig.root)
    almost = real._replace(used=1, free=DISK_FREE_BYTES_MIN - missing_bytes)
    monkeypatch.setattr(shutil, "disk_usage", {local_rig.root: almost}.__getitem__)
    nodes = local_rig.connector.inventory().nodes
    assert {(node.state, node.is_schedulable) for node in nodes} == {state}
    assert sum(node.capacity_mgpu for node in nodes) == 130 * 8_000
    local_rig.connector.stop(running)
    until_released(local_rig.connector, running)


@pytest.mark.parametrize("content", ["", '{"node-001": 1}', '"node-001"', "[1]"])
def test_a_list_of_drained_nodes_that_cannot_be_read_is_not_guessed(
    local_rig: LocalRig, content: str
) -> None:
    (local_rig.root / "drained.json").write_text(content)
    with pytest.raises(ClusterUnavailable, match=r"drained\.json"):
        local_rig.connector.inventory()


def unschedulable(rig: LocalRig) -> list[tuple[str, str, str]]:
    return [
        (node.name, node.state, node.reason)
        for node in rig.connector.inventory().nodes
        if not node.is_schedulable
    ]


def test_a_node_is_drained_and_resumed(local_rig: LocalRig) -> None:
    control = control_nodes(local_rig.connector)
    for reason in ("fans", "fans", "new fans"):
        control.drain("node-002", reason)
    control.drain("node-005", "disk")
    assert unschedulable(local_rig) == [
        ("node-002", "drained", "new fans"),
        ("node-005", "drained", "disk"),
    ]
    for _ in range(2):
        control.resume("node-002")
    assert unschedulable(local_rig) == [("node-005", "drained", "disk")]
    with pytest.raises(NodeRefused, match="no node 'node-999'"):
        control.drain("node-999", "x")
    assert unschedulable(local_rig) == [("node-005", "drained", "disk")]
    control.resume("node-999")
    control.resume("node-005")
    assert unschedulable(local_rig) == []
    assert sorted(path.name for path in local_rig.root.glob("drained*")) == [
        "drained.json",
        "drained.lock",
    ]


def test_what_a_person_drained_by_hand_is_kept(local_rig: LocalRig) -> None:
    (local_rig.root / "drained.json").write_text('["node-001"]')
    control_nodes(local_rig.connector).drain("node-002", "fans")
    assert unschedulable(local_rig) == [
        ("node-001", "drained", ""),
        ("node-002", "drained", "fans"),
    ]


def test_no_drain_is_lost_among_many_at_once(local_rig: LocalRig) -> None:
    """Mutant: without the lock, a reader's older list overwrote what was drained meanwhile."""
    control = control_nodes(local_rig.connector)
    names = [f"node-{number:03d}" for number in range(1, 41)]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda name: control.drain(name, "all"), names))
    assert [name for name, _, _ in unschedulable(local_rig)] == names


# UNIX users


@pytest.fixture
def open_directory() -> Iterator[Path]:
    """A directory that any user may pass through."""
    directory = Path(tempfile.mkdtemp(prefix="tidegate-test-"))
    directory.chmod(0o711)
    yield directory
    shutil.rmtree(directory)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_ranks_run_as_the_mapped_user(
    open_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = pwd.struct_passwd(("gridalice", "x", 23_456, 23_457, "", "/home/gridalice", "/bin/sh"))
    monkeypatch.setattr(pwd, "getpwnam", lambda name: {"gridalice": entry}[name])
    monkeypatch.setattr(os, "getgrouplist", lambda name, gid: [gid, 23_458])
    rig = LocalRig(open_directory)
    connector = open_connector(
        "local", {**rig.options, "run_as": {"alice": "gridalice"}}, CLUSTER_ID
    )
    script = "id -u; id -g; id -G; echo $HOME; touch made; cat ../spec.json || true"
    workload = a_workload(script)
    connector.submit(workload)
    assert until_released(connector, workload.key).exit_codes == {0: 0}
    assert whole_log(connector, workload.key).splitlines() == [
        "23456",
        "23457",
        "23457 23458",
        "/home/gridalice",
    ]
    made = (rig.attempt(workload.key) / "work" / "made").stat()
    assert (made.st_uid, stat.S_IMODE(made.st_mode)) == (23_456, 0o644)
    assert "denied" in whole_log(connector, workload.key, stream="stderr")


@pytest.mark.skipif(os.geteuid() != 0, reason="run_as needs root")
@pytest.mark.parametrize(
    "mapping", [{}, {"alice": "root"}, {"alice": "daemon"}, {"alice": "nobody"}, {"alice": "no!"}]
)
def test_users_that_may_not_run_jobs(local_rig: LocalRig, mapping: dict[str, str]) -> None:
    connector = open_connector("local", {**local_rig.options, "run_as": mapping}, CLUSTER_ID)
    with pytest.raises(WorkloadRejected):
        connector.submit(a_workload())
    assert connector.observe().observations == {}


# The directory


def test_a_stop_before_the_submit_is_listed_at_once(local_rig: LocalRig) -> None:
    local_rig.connector.stop("never-submitted")
    seen = local_rig.connector.observe().observations["never-submitted"]
    assert (seen.phase, seen.outcome, seen.is_released) == (
        WorkloadPhase.ENDED,
        Outcome.STOPPED,
        True,
    )
    assert (seen.started_at, seen.exit_codes) == (None, {})


def test_what_was_forgotten_does_not_run_again(local_rig: LocalRig) -> None:
    """Mutant: `forget` left no mark; a late submit ran the job a second time."""
    workload = a_workload(f"echo started >> {local_rig.scratch}/proof")
    local_rig.connector.submit(workload)
    until_released(local_rig.connector, workload.key)
    local_rig.connector.forget(workload.key)
    assert local_rig.connector.submit(workload) == workload.key
    local_rig.connector.stop(workload.key)
    assert local_rig.connector.observe().observations == {}
    assert lines(local_rig.scratch / "proof") == ["started"]
    assert list((local_rig.root / "trash").iterdir()) == []


def test_a_submit_that_overlaps_with_forgetting_does_not_run_again(
    local_rig: LocalRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has looked for the mark before `forget` made it, and publishes after.

    Mutant: the supervisor did not look for the mark; the job ran a second time.
    """
    workload = a_workload(f"echo started >> {local_rig.scratch}/proof")
    local_rig.connector.submit(workload)
    until_released(local_rig.connector, workload.key)
    local_rig.connector.forget(workload.key)
    monkeypatch.setattr(publishing, "was_forgotten", lambda root, key: False)
    local_rig.connector.submit(workload)
    ended = until_released(local_rig.connector, workload.key)
    assert (ended.outcome, ended.started_at) == (Outcome.STOPPED, None)
    assert lines(local_rig.scratch / "proof") == ["started"]


def test_an_attempt_that_took_the_place_of_another_is_read_anew(local_rig: LocalRig) -> None:
    """Mutant: finished attempts were remembered by the inode of their directory alone, which
    the file system gives to the next directory."""
    workload = a_workload("exit 3")
    local_rig.connector.submit(workload)
    before = until_released(local_rig.connector, workload.key)
    end = local_rig.attempt(workload.key) / "end.json"
    record = json.loads(end.read_bytes())
    record["exit_codes"] = {"0": 4}
    end.write_text(json.dumps(record))
    os.utime(end, (before.ended_at or 0, 0))
    seen = observed(local_rig.connector, workload.key)
    assert seen is not None
    assert seen.exit_codes == {0: 4}


def test_what_was_left_behind_is_tidied_once_an_hour_whoever_forgets(local_rig: LocalRig) -> None:
    """Each message to a cluster may be sent by a connector of its own.

    Mutant: the hour was counted from the opening of the connector, so nothing was ever tidied."""

    def trash_left() -> bool:
        (local_rig.root / "trash" / "left").mkdir(exist_ok=True)
        local_rig.open().forget("unknown")
        return (local_rig.root / "trash" / "left").exists()

    assert [trash_left(), trash_left()] == [False, True]
    an_hour_ago = time.time() - 3_601
    os.utime(local_rig.root / "tidied", (an_hour_ago, an_hour_ago))
    assert [trash_left(), trash_left()] == [False, True]


def test_tidying_removes_only_what_is_old(local_rig: LocalRig) -> None:
    running = hold(local_rig, 1000)
    until_running(local_rig.connector, running)
    for name in ("staging/old", "staging/new", "trash/any"):
        (local_rig.root / name / "work").mkdir(parents=True)
    for name in ("forgotten/old", "forgotten/new"):
        (local_rig.root / name).touch()
    for name in ("staging/old", "forgotten/old"):
        os.utime(local_rig.root / name, (0, 0))
    publishing.tidy(local_rig.root)
    left = {
        name: sorted(path.name for path in (local_rig.root / name).iterdir())
        for name in ("staging", "forgotten", "trash", "attempts")
    }
    assert left == {"staging": ["new"], "forgotten": ["new"], "trash": [], "attempts": [running]}


def test_supervisors_carry_nothing_of_the_portal_s_environment(
    local_rig: LocalRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job of the same user may read it in /proc. Mutant: they inherited the environment."""
    monkeypatch.setenv("PORTAL_SECRET", "hush")
    running = hold(local_rig, 1000)
    until_running(local_rig.connector, running)
    environment = Path(f"/proc/{local_rig.supervisor(running)}/environ").read_bytes()
    assert environment == b"LANG=C.UTF-8\0"


def test_a_root_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    connector = open_connector("local", {"root": str(tmp_path / "file")}, CLUSTER_ID)
    with pytest.raises(ClusterUnavailable, match="cannot use"):
        connector.prepare()


def calls(connector: ClusterConnector) -> list[Callable[[], object]]:
    return [
        connector.observe,
        connector.inventory,
        lambda: connector.submit(a_workload()),
        lambda: connector.notify("unknown"),
        lambda: connector.stop("unknown"),
        lambda: connector.forget("unknown"),
        lambda: connector.read_log("unknown", rank=0, stream="stdout", offset=0, limit=1),
    ]


def test_a_root_that_has_gone_is_not_an_empty_cluster(local_rig: LocalRig) -> None:
    """Not for those who had it open, not for those who come later, and nothing is made there.

    Mutants: a missing directory was read as one without attempts; whoever opened a connector
    made the root anew."""
    away = local_rig.root.rename(local_rig.root.with_name("away"))
    for connector in (local_rig.connector, local_rig.open()):
        for call in calls(connector):
            with pytest.raises(ClusterUnavailable, match="is gone"):
                call()
    assert not local_rig.root.exists()
    away.rename(local_rig.root)
    assert local_rig.connector.observe().observations == {}


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        (None, f"write the line {CLUSTER_ID} into"),
        ("", "is the folder of another cluster, ''"),
        ("another\n", "is the folder of another cluster, 'another'"),
        (f"{CLUSTER_ID}2\n", f"is the folder of another cluster, '{CLUSTER_ID}2'"),
    ],
)
def test_a_root_without_the_cluster_s_name_is_not_its_own(
    local_rig: LocalRig, written: str | None, problem: str
) -> None:
    """As when a disk is not mounted, or a copy stands where the root was.

    Mutant: only a foreign name was refused, so that an empty folder passed."""
    running = hold(local_rig, 1000)
    until_running(local_rig.connector, running)
    away = local_rig.root.rename(local_rig.root.with_name("away"))
    publishing.make_root(local_rig.root)
    if written is not None:
        (local_rig.root / "cluster").write_text(written)
    for connector in (local_rig.connector, local_rig.open()):
        for call in calls(connector):
            with pytest.raises(ClusterUnavailable, match=problem):
                call()
    assert list((local_rig.root / "attempts").iterdir()) == []
    shutil.rmtree(local_rig.root)
    away.rename(local_rig.root)
    assert list(local_rig.open().observe().observations) == [running]


def test_a_root_that_is_swapped_during_a_listing_makes_it_worthless(
    local_rig: LocalRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    def list_elsewhere(*_: object) -> tuple[dict[str, Observation], list[AttemptFiles]]:
        local_rig.root.rename(local_rig.root.with_name("away"))
        return {}, []

    monkeypatch.setattr(AttemptReader, "list", list_elsewhere)
    with pytest.raises(ClusterUnavailable, match="is gone"):
        local_rig.connector.observe()
    local_rig.root.with_name("away").rename(local_rig.root)
    monkeypatch.undo()


def test_a_root_is_prepared_once_and_for_one_cluster(local_rig: LocalRig) -> None:
    running = hold(local_rig, 1000)
    other = open_connector("local", local_rig.options, "other")
    with pytest.raises(ClusterUnavailable, match="the folder of another cluster"):
        other.prepare()
    local_rig.open().prepare()
    assert (local_rig.root / "cluster").read_text() == f"{CLUSTER_ID}\n"
    assert list(local_rig.open().observe().observations) == [running]
    assert list(local_rig.root.glob("*.tmp")) == []


def test_opening_touches_nothing(tmp_path: Path) -> None:
    open_connector("local", {"root": str(tmp_path / "root")}, CLUSTER_ID)
    assert not (tmp_path / "root").exists()


# Batch jobs


def batch(rig: LocalRig, script: str, **launch: int) -> tuple[Observation, list[str]]:
    """Run `script` as a batch job of two nodes, and return its end and its lines."""
    workload = a_workload(f"#!/bin/bash\n{script}", ranks=2, batch=BatchLaunch(77, **launch))
    rig.start(workload)
    seen = until_released(rig.connector, workload.key)
    return seen, whole_log(rig.connector, workload.key).splitlines()


def test_a_batch_script_runs_once_and_starts_tasks_on_all_its_nodes(
    isolated_rig: IsolatedRig,
) -> None:
    """Planted: the script on every node; RANK and WORLD_SIZE of ranks that are none."""
    seen, said = batch(
        isolated_rig,
        'echo "$SLURM_JOB_NODELIST $SLURM_NTASKS ${RANK-none} ${WORLD_SIZE-none}"\n'
        "srun -l bash -c 'echo $SLURM_PROCID $SLURMD_NODENAME $TIDEGATE_GPU_SLOTS' | sort",
        tasks_per_node=2,
    )
    assert (seen.outcome, dict(seen.exit_codes)) == (Outcome.SUCCEEDED, {0: 0})
    assert said == [
        "node-[001-002] 4 none none",
        "0: 0 node-001 0,1,2,3,4,5,6,7",
        "1: 1 node-001 0,1,2,3,4,5,6,7",
        "2: 2 node-002 0,1,2,3,4,5,6,7",
        "3: 3 node-002 0,1,2,3,4,5,6,7",
    ]


def test_the_first_node_of_a_batch_job_can_be_found_by_its_name(isolated_rig: IsolatedRig) -> None:
    """Most scripts for several nodes take their rendezvous address so. Planted: no hosts file."""
    seen, said = batch(
        isolated_rig,
        'head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)\n'
        'echo "$head $(getent hosts "$head" | cut -d" " -f1)"',
    )
    assert (seen.outcome, said) == (Outcome.SUCCEEDED, ["node-001 127.0.0.1"])


@pytest.mark.skipif(which("mpirun") is None, reason="needs Open MPI (openmpi-bin of Debian)")
def test_open_mpi_starts_its_ranks_with_our_srun(isolated_rig: IsolatedRig) -> None:
    """Open MPI finds a job of Slurm by its variables, and starts a daemon a node by `srun`."""
    seen, said = batch(
        isolated_rig,
        "export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1\n"
        "mpirun bash -c 'echo $OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE on $SLURMD_NODENAME'"
        " | sort",
        tasks_per_node=2,
    )
    assert (seen.outcome, said) == (
        Outcome.SUCCEEDED,
        ["0 of 4 on node-001", "1 of 4 on node-001", "2 of 4 on node-002", "3 of 4 on node-002"],
    )


def test_the_end_of_a_batch_script_is_that_of_its_job(isolated_rig: IsolatedRig) -> None:
    seen, _ = batch(isolated_rig, "srun -n 2 bash -c 'exit $((SLURM_PROCID * 7))'")
    assert (seen.outcome, dict(seen.exit_codes)) == (Outcome.FAILED, {0: 7})

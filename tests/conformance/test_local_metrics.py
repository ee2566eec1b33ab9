"""Metrics of real processes on a local cluster."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from builders.connector_builders import a_workload, eventually, until_released, until_running
from conformance.rigs import LocalRig
from connectors.local import options as local_options
from connectors.metrics import FinalMetrics, GpuSample, MetricReader, MetricSample
from connectors.protocol import RankSlot
from connectors.registry import KINDS

MIB = 1 << 20
#: Holds 100 MiB, and burns a second of CPU time in a child that ends.
BUSY = """
python3 - <<'END'
import subprocess, sys, time
held = bytearray(100 << 20)
held[::4096] = b"x" * len(held[::4096])
burn = "import time\\nwhile time.process_time() < 1: pass"
subprocess.run([sys.executable, "-c", burn], check=True)
open("burnt", "w").close()
while True: time.sleep(1)
END
"""


def reader_of(rig: LocalRig) -> MetricReader:
    opener = KINDS["local"].open_metrics
    assert opener is not None
    return opener(rig.connector)


def sampled(rig: LocalRig, key: str) -> MetricSample:
    (found,) = reader_of(rig).running([key])
    return found


def test_cpu_time_of_ended_children_and_memory_in_use_count(local_rig: LocalRig) -> None:
    """Planted: only processes that live had CPU time. Planted: the memory of the first process."""
    workload = a_workload(BUSY)
    local_rig.connector.submit(workload)
    work = local_rig.root / "attempts" / workload.key / "work"
    eventually(lambda: (work / "burnt").exists())
    found = sampled(local_rig, workload.key)
    assert found.cpu_time_ms is not None
    assert found.memory_bytes is not None
    assert found.processes is not None
    assert 1_000 <= found.cpu_time_ms < 20_000
    assert 100 * MIB <= found.memory_bytes < 400 * MIB
    assert 2 <= found.processes <= 4
    assert found.gpus is None
    local_rig.connector.stop(workload.key)
    until_released(local_rig.connector, workload.key)
    assert reader_of(local_rig).running([workload.key, "unknown-key"]) == []
    ended = reader_of(local_rig).ended(workload.key, workload.key)
    assert ended is not None
    assert ended.cpu_time_ms is not None
    assert ended.memory_peak_bytes is not None
    assert ended.cpu_time_ms >= found.cpu_time_ms - 20
    assert ended.memory_peak_bytes >= 100 * MIB


def test_all_ranks_count(local_rig: LocalRig) -> None:
    """Also of a rank beside one that is not started yet.

    Planted: the figures of the first rank alone. Planted: the attempt had no figures then.
    """
    slots = (RankSlot("node-001", 1000), RankSlot("node-002", 1000))
    workload = a_workload("exec sleep 100", slots=slots)
    local_rig.connector.submit(workload)
    until_running(local_rig.connector, workload.key)
    assert sampled(local_rig, workload.key).processes == 2
    (local_rig.root / "attempts" / workload.key / "ranks" / "0.started").unlink()
    assert sampled(local_rig, workload.key).processes == 1


def test_an_end_without_records_has_no_figures(local_rig: LocalRig) -> None:
    """An attempt of an earlier version, one that never ran, and an unknown one."""
    workload = a_workload("exit 0")
    local_rig.connector.submit(workload)
    until_released(local_rig.connector, workload.key)
    reader = reader_of(local_rig)
    assert isinstance(reader.ended(workload.key, workload.key), FinalMetrics)
    gone = local_rig.root / "attempts" / workload.key / "ranks" / "0.gone"
    gone.write_text('{"at":1,"mono_ms":1}')
    assert reader.ended(workload.key, workload.key) is None
    gone.unlink()
    assert reader.ended(workload.key, workload.key) is None
    assert reader.ended("unknown-key", "unknown-key") is None


@pytest.fixture
def two_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program that answers like nvidia-smi with two GPUs, with a process on the first."""
    directory = tmp_path / "bin"
    directory.mkdir()
    program = directory / "nvidia-smi"
    program.write_text(
        "#!/bin/sh\n"
        'case "$1" in\n'
        "*=index) printf '0\\n1\\n' ;;\n"
        "--query-gpu=*) printf '0, GPU-a, 35, 1024, 81559\\n1, GPU-b, [N/A], 3, 81559\\n' ;;\n"
        "*) printf 'GPU-a, 4026, 1010\\n' ;;\n"
        "esac\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{directory}:{os.environ['PATH']}")
    monkeypatch.setattr(local_options, "_real_gpus", None)
    return program


@pytest.mark.usefixtures("two_gpus")
def test_whole_gpus_are_read_by_index(local_rig: LocalRig) -> None:
    """The answer of nvidia-smi is made up here. Planted: a GPU without a process was held."""
    local_rig.options |= {"use_real_gpus": True}
    local_rig.connector = local_rig.open()
    host = socket.gethostname()
    workload = a_workload("exec sleep 100", slots=(RankSlot(host, 2000),))
    local_rig.connector.submit(workload)
    until_running(local_rig.connector, workload.key)
    assert sampled(local_rig, workload.key).gpus == (
        GpuSample(host, 0, 35, 1024 * MIB, 81559 * MIB, has_process=True),
        GpuSample(host, 1, None, 3 * MIB, 81559 * MIB, has_process=False),
    )


@pytest.mark.parametrize("line", ["[Not Supported]", "GPU-b, [N/A], [N/A]"])
@pytest.mark.parametrize("mgpu", [1000, 500])
def test_without_a_list_of_processes_nobody_knows_of_any(
    local_rig: LocalRig, two_gpus: Path, line: str, mgpu: int
) -> None:
    """Planted: the line was left out, and the GPU had no process."""
    two_gpus.write_text(two_gpus.read_text().replace("GPU-a, 4026, 1010", line))
    nodes = {**local_rig.options["nodes"], "shared": True}
    local_rig.options |= {"nodes": nodes, "use_real_gpus": True}
    local_rig.connector = local_rig.open()
    node = f"{socket.gethostname()}-gpu1"
    workload = a_workload("exec sleep 100", slots=(RankSlot(node, mgpu),))
    local_rig.connector.submit(workload)
    until_running(local_rig.connector, workload.key)
    memory_bytes = 3 * MIB if mgpu == 1000 else None
    assert sampled(local_rig, workload.key).gpus == (
        GpuSample(node, 1, None, memory_bytes, 81559 * MIB, has_process=None),
    )


@pytest.mark.usefixtures("two_gpus")
def test_a_shared_gpu_has_the_figures_of_the_job_alone(local_rig: LocalRig) -> None:
    """A foreign process says nothing about ours. Planted: the utilisation of all of it."""
    nodes = {**local_rig.options["nodes"], "shared": True}
    local_rig.options |= {"nodes": nodes, "use_real_gpus": True}
    local_rig.connector = local_rig.open()
    host = socket.gethostname()
    for index, held in ((0, None), (1, False)):
        node = f"{host}-gpu{index}"
        workload = a_workload("exec sleep 100", slots=(RankSlot(node, 500),))
        local_rig.connector.submit(workload)
        until_running(local_rig.connector, workload.key)
        assert sampled(local_rig, workload.key).gpus == (
            GpuSample(node, index, None, 0, 81559 * MIB, has_process=held),
        )

from pathlib import Path

import pytest

from connectors.local.allocations import Allocation
from connectors.local.attempt_spec import AttemptSpec, Slot
from connectors.local.launch import rank_environment, script_command


def a_spec(*, uses_real_gpus: bool = False) -> AttemptSpec:
    return AttemptSpec(
        key="job-1",
        trace="cafe",
        boot_id="boot",
        slots=(Slot("node-a", 2000, 8), Slot("node-b", 500, 8)),
        uses_real_gpus=uses_real_gpus,
        environment={"PATH": "/bin", "CUDA_VISIBLE_DEVICES": "7"},
        time_limit_s=None,
        notice_signal=15,
        grace_s=30,
        log_cap_bytes=1,
        credentials=None,
    )


@pytest.mark.parametrize(
    ("script", "command"),
    [
        (b"", ["/bin/sh"]),
        (b"echo hi\n", ["/bin/sh"]),
        (b"# !/bin/bash\n", ["/bin/sh"]),
        (b"#!\n", ["/bin/sh"]),
        (b"#!/bin/bash", ["/bin/bash"]),
        (b"#!  /bin/bash  \nexit\n", ["/bin/bash"]),
        (b"#!/usr/bin/env -S python3 -I\n", ["/usr/bin/env", "-S python3 -I"]),
        (b"#!/bin/bash\r\n", ["/bin/bash\r"]),
    ],
)
def test_the_interpreter_is_found_as_the_kernel_does(
    tmp_path: Path, script: bytes, command: list[str]
) -> None:
    path = tmp_path / "script"
    path.write_bytes(script)
    assert script_command(str(path)) == [*command, str(path)]


def test_the_environment_of_a_rank() -> None:
    assert rank_environment(a_spec(), Allocation(20_001, ((0, 5), (3,))), 1) == {
        "PATH": "/bin",
        "CUDA_VISIBLE_DEVICES": "",
        "NVIDIA_VISIBLE_DEVICES": "void",
        "LOCAL_RANK": "0",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "20001",
        "NNODES": "2",
        "NODE_RANK": "1",
        "RANK": "1",
        "TIDEGATE_GPUS_PER_NODE": "1",
        "TIDEGATE_GPU_SLOTS": "3",
        "TIDEGATE_NODE": "node-b",
        "TIDEGATE_TRACE": "cafe",
        "WORLD_SIZE": "2",
    }


def test_a_rank_on_cores_is_told_how_many_and_sees_no_gpu() -> None:
    """Mutant: cores are told as GPUs."""
    spec = a_spec()
    spec.is_of_cores = True
    environment = rank_environment(spec, Allocation(20_001, ((0, 5), (3,))), 0)
    names = ("CPUS_PER_NODE", "GPUS_PER_NODE", "GPU_SLOTS")
    assert [environment[f"TIDEGATE_{name}"] for name in names] == ["2", "0", ""]
    assert environment["CUDA_VISIBLE_DEVICES"] == ""


def test_real_devices_are_visible_and_the_workload_cannot_say_otherwise() -> None:
    environment = rank_environment(
        a_spec(uses_real_gpus=True), Allocation(20_001, ((0, 5), (3,))), 0
    )
    assert environment["CUDA_VISIBLE_DEVICES"] == "0,5"
    assert environment["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    assert "NVIDIA_VISIBLE_DEVICES" not in environment

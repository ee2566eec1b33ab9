import subprocess
from pathlib import Path

import pytest

import batch
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


@pytest.mark.parametrize(
    ("first", "is_login"),
    [
        ("#!/bin/bash -l", True),
        ("#!/bin/bash --login", True),
        ("#!/bin/sh -el", True),
        ("#!/bin/bash -e", False),
        ("#!/bin/bash --noprofile", False),
        ("#!/usr/bin/python3 -l", False),
    ],
)
def test_a_login_shell_is_known_by_its_option(tmp_path: Path, first: str, is_login: bool) -> None:
    """Only a batch job needs the command. Against: any option with an l."""
    path = tmp_path / "script"
    path.write_text(f"{first}\n")
    assert ("-c" in script_command(str(path), is_batch=True)) is is_login
    assert "-c" not in script_command(str(path))


def test_the_script_of_a_login_shell_finds_srun(tmp_path: Path) -> None:
    """`/etc/profile` sets PATH anew. Planted: the command as the `#!` line has it."""
    profile = tmp_path / ".bash_profile"
    profile.write_text("PATH=/usr/bin:/bin\nexport FROM_PROFILE=yes\n")
    path = tmp_path / "script"
    path.write_text(
        '#!/bin/bash -l\nset -eu\ncommand -v srun\necho "$0 $1 ${BASH_SOURCE[0]} $FROM_PROFILE"\n'
        "exit 3\n"
    )
    ended = subprocess.run(
        [*script_command(str(path), is_batch=True), "first argument"],
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    programs = Path(batch.__file__).parent.resolve() / "bin" / "srun"
    said = f"{programs}\n{path} first argument {path} yes\n"
    assert (ended.returncode, ended.stdout) == (3, said)


def test_the_environment_of_a_rank() -> None:
    assert rank_environment(a_spec(), Allocation(20_001, ((0, 5), (3,))), 1, 9) == {
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
    environment = rank_environment(spec, Allocation(20_001, ((0, 5), (3,))), 0, 9)
    names = ("CPUS_PER_NODE", "GPUS_PER_NODE", "GPU_SLOTS")
    assert [environment[f"TIDEGATE_{name}"] for name in names] == ["2", "0", ""]
    assert environment["CUDA_VISIBLE_DEVICES"] == ""


def test_real_devices_are_visible_and_the_workload_cannot_say_otherwise() -> None:
    environment = rank_environment(
        a_spec(uses_real_gpus=True), Allocation(20_001, ((0, 5), (3,))), 0, 9
    )
    assert environment["CUDA_VISIBLE_DEVICES"] == "0,5"
    assert environment["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    assert "NVIDIA_VISIBLE_DEVICES" not in environment

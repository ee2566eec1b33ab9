"""The command line and the environment of a rank."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Mapping

import batch
from batch.places import Place
from batch.variables import BatchJob, job_variables, start_variables
from connectors.local.allocations import Allocation
from connectors.local.attempt_spec import AttemptSpec, Credentials
from connectors.local.processes import TRACE_VARIABLE

_SHEBANG_BYTES_MAX = 256
#: `srun` and the other programs of a batch job.
_PROGRAMS = os.path.join(os.path.dirname(os.path.realpath(batch.__file__)), "bin")
_SHELLS = frozenset({"ash", "bash", "dash", "ksh", "sh", "zsh"})
_LOGIN = re.compile(r"--login|-[A-Za-z]*l[A-Za-z]*")


def script_command(script: str, *, is_batch: bool = False) -> list[str]:
    """Return the command line that runs `script`: by its `#!` line, else by /bin/sh.

    Reading the line here instead of executing the file lets scripts run on a file system that is
    mounted noexec. As on Linux, everything after the interpreter is one argument.

    A login shell sets PATH anew and would not find `srun`. So the script of a batch job is sourced
    by a command that puts the programs first again.
    """
    with open(script, "rb") as file:
        head = file.read(_SHEBANG_BYTES_MAX)
    if not head.startswith(b"#!"):
        return ["/bin/sh", script]
    line = os.fsdecode(head[2:].partition(b"\n")[0]).strip(" \t")
    words = re.split(r"[ \t]+", line, maxsplit=1) if line else ["/bin/sh"]
    if is_batch and os.path.basename(words[0]) in _SHELLS and _LOGIN.fullmatch(words[-1]):
        return [*words, "-c", f'PATH={shlex.quote(_PROGRAMS)}:$PATH; . "$0"', script]
    return [*words, script]


def rank_environment(
    spec: AttemptSpec, allocation: Allocation, rank: int, started_at: int
) -> Mapping[str, str]:
    """Return the environment of rank `rank`: the workload's variables, and those of its place.

    The rank starts at `started_at`, in seconds of UNIX time.

    Every rank is the only one on its (virtual) node, so its local rank is 0. With virtual GPUs or
    none, the CUDA variables hide all GPUs, so that no rank uses a real one by chance. Cores are
    counted, not bound: a variable has their number.

    The script of a batch job is told about all nodes, in Slurm's variables, and finds `srun` first
    on its PATH. It has no rendezvous variables: it sets them itself for its tasks.
    """
    devices = ",".join(map(str, allocation.devices[rank]))
    held = str(len(allocation.devices[rank]))
    if spec.uses_real_gpus:
        place = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": devices}
    else:
        place = {"CUDA_VISIBLE_DEVICES": "", "NVIDIA_VISIBLE_DEVICES": "void"}
    if spec.is_of_cores:
        place |= {"TIDEGATE_CPUS_PER_NODE": held, "TIDEGATE_GPUS_PER_NODE": "0"}
        place |= {"TIDEGATE_GPU_SLOTS": ""}
    else:
        place |= {"TIDEGATE_GPUS_PER_NODE": held, "TIDEGATE_GPU_SLOTS": devices}
    if spec.batch is not None:
        return {**spec.environment, **place, **_of_batch(spec, spec.batch, allocation, started_at)}
    return {
        **spec.environment,
        **place,
        "LOCAL_RANK": "0",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(allocation.port),
        "NNODES": str(len(spec.slots)),
        "NODE_RANK": str(rank),
        "RANK": str(rank),
        "TIDEGATE_NODE": spec.slots[rank].node,
        "WORLD_SIZE": str(len(spec.slots)),
        TRACE_VARIABLE: spec.trace,
    }


def _of_batch(
    spec: AttemptSpec, job: BatchJob, allocation: Allocation, started_at: int
) -> dict[str, str]:
    identity = spec.credentials or Credentials(os.getuid(), os.getgid(), ())
    devices = [() if spec.is_of_cores else held for held in allocation.devices]
    places = [Place(slot.node, held) for slot, held in zip(spec.slots, devices, strict=True)]
    return {
        **job_variables(job, places),
        **start_variables(
            user_id=identity.uid,
            group_id=identity.gid,
            started_at=started_at,
            time_limit_s=spec.time_limit_s,
        ),
        "PATH": f"{_PROGRAMS}:{spec.environment.get('PATH', os.defpath)}",
        "TIDEGATE_PYTHON": sys.executable,
        TRACE_VARIABLE: spec.trace,
    }

"""Questions to nvidia-smi about the GPUs of this machine."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass

from connectors.errors import ClusterUnavailable

_TIMEOUT_S = 20
#: "A query to find an object was unsuccessful" and "NVIDIA driver is not loaded", says its manual.
_NO_GPU = (6, 9)
_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class NvidiaGpu:
    """A GPU of this machine.

    `processes` has the memory in bytes by process number. None means that nvidia-smi lists no
    processes here, as for a driver without that support.
    """

    utilisation_percent: int | None
    memory_bytes: int | None
    memory_total_bytes: int | None
    processes: Mapping[int, int | None] | None


def nvidia_smi(query: str) -> list[str] | None:
    """Return the lines of an answer without units; None on a machine without GPUs of NVIDIA.

    Raises ClusterUnavailable when nvidia-smi exists but does not answer properly.
    """
    command = shutil.which("nvidia-smi")
    if command is None:
        return None
    try:
        answer = subprocess.run(  # noqa: S603 - a fixed command without input
            [command, query, "--format=csv,noheader,nounits"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TIMEOUT_S,
            check=False,
            text=True,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ClusterUnavailable(f"nvidia-smi did not answer: {error}") from error
    if answer.returncode in _NO_GPU:
        return None
    if answer.returncode != 0:
        # A failure does not mean "no GPUs": virtual nodes would replace the real one for a while.
        raise ClusterUnavailable(f"nvidia-smi failed: {(answer.stderr or answer.stdout)[:500]}")
    return [line.strip() for line in answer.stdout.splitlines()]


def nvidia_gpus() -> dict[int, NvidiaGpu]:
    """Return the GPUs of this machine by index. Raises ClusterUnavailable."""
    lines = nvidia_smi("--query-gpu=index,uuid,utilization.gpu,memory.used,memory.total")
    apps = nvidia_smi("--query-compute-apps=gpu_uuid,pid,used_memory")
    processes = _processes(apps)
    found = {}
    for line in lines or ():
        cells = _cells(line)
        if len(cells) == 5 and cells[0].isdecimal():
            index, uuid, utilisation, used, total = cells
            found[int(index)] = NvidiaGpu(
                _number(utilisation),
                _bytes(used),
                _bytes(total),
                None if processes is None else processes.get(uuid, {}),
            )
    return found


def _processes(lines: list[str] | None) -> dict[str, dict[int, int | None]] | None:
    """Return the processes by GPU; None if any line names no process, as "[Not Supported]"."""
    if lines is None:
        return None
    found: dict[str, dict[int, int | None]] = {}
    for line in filter(None, lines):
        cells = _cells(line)
        if len(cells) != 3 or not cells[1].isdecimal():
            return None
        uuid, pid, memory = cells
        found.setdefault(uuid, {})[int(pid)] = _bytes(memory)
    return found


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.split(",")]


def _number(text: str) -> int | None:
    """Return a figure; None for "[N/A]"."""
    return int(text) if text.isdecimal() else None


def _bytes(text: str) -> int | None:
    number = _number(text)
    return None if number is None else number * _MIB

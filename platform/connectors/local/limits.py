"""What a rank may use at most: by limits of its processes, and by a cgroup where there is one.

A cgroup (version 2, as root) bounds the memory, the CPU and the number of processes of one rank.
Without one, the processes of a user are bounded together, and memory and CPU are not.
"""

from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Mapping

from connectors.local.attempt_files import integer, integer_or_none, text

#: Where version 2 is mounted when it is the machine's only one.
CGROUPS = "/sys/fs/cgroup"
_FOLDER = "tidegate-jobs"
_CONTROLLERS = ("cpu", "memory", "pids")
_CPU_PERIOD_US = 100_000


class Limits:
    """Of one rank: processes and threads, bytes of one file, open files of one process; in a
    cgroup below `cgroups` ("": none) memory in bytes and CPU in milli-cores, where not None."""

    def __init__(
        self,
        *,
        processes: int,
        file_bytes: int,
        open_files: int,
        cgroups: str = "",
        memory_bytes: int | None = None,
        cpu_milli: int | None = None,
    ) -> None:
        self.processes = processes
        self.file_bytes = file_bytes
        self.open_files = open_files
        self.cgroups = cgroups
        self.memory_bytes = memory_bytes
        self.cpu_milli = cpu_milli

    def to_json(self) -> dict[str, object]:
        """The record that `read_limits` reads."""
        return dict(vars(self))


def read_limits(record: Mapping[str, object]) -> Limits:
    """Raises CorruptRecord."""
    return Limits(
        processes=integer(record, "processes"),
        file_bytes=integer(record, "file_bytes"),
        open_files=integer(record, "open_files"),
        cgroups=text(record, "cgroups"),
        memory_bytes=integer_or_none(record, "memory_bytes"),
        cpu_milli=integer_or_none(record, "cpu_milli"),
    )


def apply_limits(limits: Limits) -> None:
    """Bound this process and all that it starts; no core files. What is lower already stays."""
    for which, most in (
        (resource.RLIMIT_NPROC, limits.processes),
        (resource.RLIMIT_FSIZE, limits.file_bytes),
        (resource.RLIMIT_NOFILE, limits.open_files),
        (resource.RLIMIT_CORE, 0),
    ):
        hard = resource.getrlimit(which)[1]
        bound = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(which, (bound, bound))


def usable_cgroups(root: str = CGROUPS) -> str:
    """The folder for cgroups of ranks, made ready; "" where version 2 cannot be used."""
    try:
        with open(f"{root}/cgroup.controllers", encoding="ascii") as file:
            offered = file.read().split()
        if not set(_CONTROLLERS) <= set(offered):
            return ""
        folder = f"{root}/{_FOLDER}"
        _write(f"{root}/cgroup.subtree_control", _enabling())
        os.makedirs(folder, mode=0o755, exist_ok=True)
        _write(f"{folder}/cgroup.subtree_control", _enabling())
    except OSError:
        return ""
    return folder


def _enabling() -> str:
    return " ".join(f"+{name}" for name in _CONTROLLERS)


def join_cgroup(limits: Limits, name: str) -> None:
    """Move this process, and with it all that it starts, into a cgroup of its own.

    Raises OSError: what cannot be bounded is not started.
    """
    if not limits.cgroups:
        return
    folder = f"{limits.cgroups}/{name}"
    os.makedirs(folder, exist_ok=True)
    _write(f"{folder}/pids.max", str(limits.processes))
    if limits.memory_bytes is not None:
        _write(f"{folder}/memory.max", str(limits.memory_bytes))
    if limits.cpu_milli is not None:
        quota_us = max(1_000, limits.cpu_milli * _CPU_PERIOD_US // 1_000)
        _write(f"{folder}/cpu.max", f"{quota_us} {_CPU_PERIOD_US}")
    _write(f"{folder}/cgroup.procs", "0")


def remove_cgroups(limits: Limits, names: list[str]) -> None:
    """Remove cgroups in which nothing is left; one that is in use, or gone, is left alone."""
    if limits.cgroups:
        for name in names:
            with contextlib.suppress(OSError):
                os.rmdir(f"{limits.cgroups}/{name}")


def _write(path: str, line: str) -> None:
    with open(path, "w", encoding="ascii") as file:
        file.write(line)

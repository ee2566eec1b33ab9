"""Limits of a rank: resource limits of its processes, and a cgroup where there is one.

A cgroup (version 2, as root) limits the memory, CPU and number of processes of one rank. Without
one, the number of processes is limited per user, and memory and CPU are not limited.
"""

from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Mapping

from connectors.local.attempt_files import integer, integer_or_none, text

#: The mount point of version 2 on a machine without version 1.
CGROUPS = "/sys/fs/cgroup"
_FOLDER = "tidegate-jobs"
_CONTROLLERS = ("cpu", "memory", "pids")
_CPU_PERIOD_US = 100_000


class Limits:
    """The limits of one rank.

    `processes` counts threads too. `file_bytes` is the size of one file, and `open_files` counts
    per process. In a cgroup below `cgroups` ("": none), `memory_bytes` and `cpu_milli`
    (milli-cores) are limits unless None.
    """

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
        """Return the record that `read_limits` reads."""
        return dict(vars(self))


def read_limits(record: Mapping[str, object]) -> Limits:
    """Read the limits of `to_json`. Raises CorruptRecord."""
    return Limits(
        processes=integer(record, "processes"),
        file_bytes=integer(record, "file_bytes"),
        open_files=integer(record, "open_files"),
        cgroups=text(record, "cgroups"),
        memory_bytes=integer_or_none(record, "memory_bytes"),
        cpu_milli=integer_or_none(record, "cpu_milli"),
    )


def apply_limits(limits: Limits) -> None:
    """Limit this process and its children, without core files. Lower existing limits stay."""
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
    """Return the prepared folder for cgroups of ranks; "" where version 2 cannot be used."""
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


def cgroup_name(trace: str, rank: int) -> str:
    """Return the name of the cgroup of a rank of the attempt with `trace`."""
    return f"{trace}-{rank}"


def cgroup_folder(limits: Limits | None, name: str) -> str:
    """Return the folder of a cgroup; "" where ranks have none."""
    return "" if limits is None or not limits.cgroups else f"{limits.cgroups}/{name}"


def join_cgroup(limits: Limits, name: str) -> None:
    """Move this process, and with it all its children, into a cgroup of its own.

    Raises OSError: a process that cannot be limited is not started.
    """
    folder = cgroup_folder(limits, name)
    if not folder:
        return
    os.makedirs(folder, exist_ok=True)
    _write(f"{folder}/pids.max", str(limits.processes))
    if limits.memory_bytes is not None:
        _write(f"{folder}/memory.max", str(limits.memory_bytes))
    if limits.cpu_milli is not None:
        quota_us = max(1_000, limits.cpu_milli * _CPU_PERIOD_US // 1_000)
        _write(f"{folder}/cpu.max", f"{quota_us} {_CPU_PERIOD_US}")
    _write(f"{folder}/cgroup.procs", "0")


def remove_cgroups(limits: Limits, names: list[str]) -> None:
    """Remove empty cgroups; a cgroup that is in use, or gone, is left alone."""
    if limits.cgroups:
        for name in names:
            with contextlib.suppress(OSError):
                os.rmdir(f"{limits.cgroups}/{name}")


def _write(path: str, line: str) -> None:
    with open(path, "w", encoding="ascii") as file:
        file.write(line)

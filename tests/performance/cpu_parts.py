"""CPU time by part of a machine on which all run together, so that each pays for its own.

What a node starts is the node's too, however short its life and whoever becomes its parent: the
kernel counts by cgroup (version 2), where this may make one. Elsewhere it is all the rest.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from slurm_bed import SlurmBed


class Parts:
    """The parts of a bed, of the database and of this benchmark."""

    def __init__(self, bed: SlurmBed, nodes: Path | None) -> None:
        self._bed = bed
        self._nodes = nodes

    def spent_s(self, pids: Sequence[int]) -> dict[str, float]:
        """CPU seconds so far of our processes `pids`, the database without what this benchmark
        asks of it, Slurm's servers and their database, the nodes with the jobs on them, and this
        benchmark with its sessions."""
        database_s, asked_here_s = _database_s()
        servers = ("slurmctld", "slurmdbd", "slurmrestd")
        found = {
            "Tidegate": sum(cpu_s_of(psutil.Process(pid)) for pid in pids),
            "PostgreSQL": database_s,
            "Slurm's servers": sum(cpu_s_of(daemon(self._bed, name)) for name in servers),
            "their database": cpu_s_of(daemon(self._bed, "mariadbd")),
        }
        here = {"this benchmark": cpu_s_of(psutil.Process()) + asked_here_s}
        if self._nodes is not None:
            return found | {"nodes and jobs": _usage_s(self._nodes)} | here
        whole = psutil.cpu_times()
        busy_s = whole.user + whole.nice + whole.system + whole.softirq
        return found | {"all else": busy_s - sum((found | here).values())} | here


@contextmanager
def parts_of(bed: SlurmBed) -> Iterator[Parts]:
    """The nodes of the bed have a cgroup of their own inside the block."""
    nodes = [int(path.read_text()) for path in (bed.folder / "run").glob("slurmd-*.pid")]
    before = {pid: found for pid in nodes if (found := _cgroup_of(pid)) is not None}
    group = _make_group(list(before))
    try:
        yield Parts(bed, group)
    finally:
        if group is not None:
            _leave(group, before)


def told(before: Mapping[str, float], after: Mapping[str, float], count: int) -> str:
    """What was spent on each of `count` between the two."""
    return ", ".join(
        f"{part} {(after[part] - before[part]) * 1_000 / count:.0f} ms" for part in after
    )


def daemon(bed: SlurmBed, name: str) -> psutil.Process:
    """A daemon of the bed."""
    return psutil.Process(int((bed.folder / "run" / f"{name}.pid").read_text()))


def cpu_s_of(process: psutil.Process) -> float:
    """CPU seconds so far of one process."""
    times = process.cpu_times()
    return float(times.user + times.system)


def _database_s() -> tuple[float, float]:
    """CPU seconds so far of the server of our database, ended sessions included, but not of the
    sessions of this process; and of those."""
    from django.db import connection

    ports = [
        own.laddr.port for own in psutil.Process().net_connections("tcp") if own.status != "LISTEN"
    ]
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pid, client_port = ANY(%s) FROM pg_stat_activity "
            "WHERE client_port IS NOT NULL AND datname = current_database()",
            [ports],
        )
        is_ours = dict(cursor.fetchall())
        cursor.execute("SELECT pg_backend_pid()")
        (pid,) = cursor.fetchone()
    server = psutil.Process(pid).parent()
    assert server is not None
    ended = server.cpu_times()
    found = cpu_s_of(server) + float(ended.children_user + ended.children_system)
    here = 0.0
    for session in server.children():
        with suppress(psutil.NoSuchProcess):
            spent_s = cpu_s_of(session)
            if is_ours.get(session.pid):
                here += spent_s
            else:
                found += spent_s
    return found, here


def _cgroup_of(pid: int) -> Path | None:
    """Where the kernel counts what a process spends; None where it does so for whole machines."""
    mounts = [line.split() for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    places = [words[4] for words in mounts if words[words.index("-") + 1] == "cgroup2"]
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        if places and line.startswith("0::"):
            return Path(places[0]) / line[3:].lstrip("/")
    return None


def _make_group(pids: Sequence[int]) -> Path | None:
    """A new cgroup with these processes; None where none can be made."""
    top = _cgroup_of(os.getpid())
    if top is None or not pids:
        return None
    group = top / f"tidegate-bench-{os.getpid()}"
    try:
        group.mkdir()
        _usage_s(group)
        for pid in pids:
            (group / "cgroup.procs").write_text(str(pid))
    except (OSError, KeyError):
        return None
    return group


def _usage_s(group: Path) -> float:
    lines = (group / "cpu.stat").read_text().splitlines()
    return int(dict(line.split() for line in lines)["usage_usec"]) / 1_000_000


def _leave(group: Path, before: Mapping[int, Path]) -> None:
    """Put everything back where it was; what nodes have started goes where the first was."""
    first = next(iter(before.values()))
    for text in (group / "cgroup.procs").read_text().split():
        with suppress(OSError):
            (before.get(int(text), first) / "cgroup.procs").write_text(text)
    with suppress(OSError):
        group.rmdir()

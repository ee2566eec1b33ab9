"""CPU time, memory and number of the processes of ranks, from `/proc` and from their cgroups.

The CPU time is complete: a process passes its own and that of its waited-for children on to the
process that waits for it, in the end to the rank's keeper (proc(5), `cutime`). The memory is the
sum of resident sets, in which a page that processes share counts once for each. A cgroup counts
it once, and is preferred.
"""

from __future__ import annotations

import os
import resource
from collections import deque
from collections.abc import Collection, Mapping
from typing import NamedTuple

from connectors.local.processes import stat_fields

_TICK_MS = 1_000 // os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class TreeUse(NamedTuple):
    """The use of the processes below a keeper. `pids` are those that live, zombies included."""

    cpu_time_ms: int
    memory_bytes: int
    pids: frozenset[int]


class _Figures(NamedTuple):
    parent: int
    own_ticks: int
    waited_ticks: int
    pages: int


def tree_uses(keepers: Collection[int]) -> dict[int, TreeUse]:
    """Return the use below each of `keepers` that lives, after one look at all processes."""
    seen = _figures()
    children: dict[int, list[int]] = {}
    for pid, figures in seen.items():
        children.setdefault(figures.parent, []).append(pid)
    return {keeper: _use_below(keeper, seen, children) for keeper in keepers if keeper in seen}


def _use_below(
    keeper: int, seen: Mapping[int, _Figures], children: Mapping[int, list[int]]
) -> TreeUse:
    # The keeper itself does no work of the job, but what its children used counts.
    ticks, pages = seen[keeper].waited_ticks, 0
    below: set[int] = set()
    todo = deque(children.get(keeper, ()))
    while todo:
        pid = todo.popleft()
        if pid in below:
            continue
        below.add(pid)
        ticks += seen[pid].own_ticks + seen[pid].waited_ticks
        pages += seen[pid].pages
        todo.extend(children.get(pid, ()))
    return TreeUse(ticks * _TICK_MS, pages * _PAGE_BYTES, frozenset(below))


def _figures() -> dict[int, _Figures]:
    found = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            fields = stat_fields(int(name))[1]
            user, system, waited_user, waited_system = map(int, fields[11:15])
            found[int(name)] = _Figures(
                int(fields[1]), user + system, waited_user + waited_system, int(fields[21])
            )
        except (OSError, ValueError, IndexError):
            continue
    return found


class Memory(NamedTuple):
    """The memory of a rank now and at most. A cgroup knows its peak from Linux 5.19 on."""

    now_bytes: int
    peak_bytes: int | None


def cgroup_memory(folder: str) -> Memory | None:
    """Return the memory of the cgroup at `folder`; None if there is no such cgroup."""
    now = _number(f"{folder}/memory.current") if folder else None
    return None if now is None else Memory(now, _number(f"{folder}/memory.peak"))


def _number(path: str) -> int | None:
    try:
        with open(path, encoding="ascii") as file:
            return int(file.read())
    except (OSError, ValueError):
        return None


def used_record(cgroup: str) -> dict[str, object]:
    """Return what the ended children of this process used, for the record of a rank's end.

    Without a cgroup at the folder `cgroup`, the peak is that of the largest single process.
    """
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    memory = cgroup_memory(cgroup)
    peak_bytes = None if memory is None else memory.peak_bytes
    return {
        "cpu_time_ms": int(1_000 * (used.ru_utime + used.ru_stime)),
        "memory_peak_bytes": used.ru_maxrss * 1_024 if peak_bytes is None else peak_bytes,
    }

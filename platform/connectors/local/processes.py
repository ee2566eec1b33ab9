"""Finds and signals exactly the processes of one attempt, however they try to hide.

A process number may be reused at any time, so a remembered number alone is never signalled. First a
pidfd is opened. Then the number is checked to be still one of ours. Only then is the signal sent
through the pidfd (pidfd_open(2), Linux 5.3 or later).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from typing import NamedTuple

_PR_SET_CHILD_SUBREAPER = 36

#: Set in every rank's environment to the attempt's own random trace.
TRACE_VARIABLE = "TIDEGATE_TRACE"


def become_subreaper() -> None:
    """Make orphaned descendants children of this process (prctl(2), PR_SET_CHILD_SUBREAPER)."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER) failed")


def _processes() -> dict[int, _Process]:
    """Return every visible process, without zombies."""
    numbers = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return {pid: found for pid in numbers if (found := _process(pid)) is not None}


def stat_fields(pid: int) -> tuple[str, list[bytes]]:
    """Return the name of a process and the fields of its `/proc/PID/stat` from the state on.

    Raises OSError when there is no such process.
    """
    with open(f"/proc/{pid}/stat", "rb") as file:
        # The name, in parentheses, may contain anything, also ") R 1".
        head, _, tail = file.read().rpartition(b")")
    return os.fsdecode(head.partition(b"(")[2]), tail.split()


def _process(pid: int) -> _Process | None:
    try:
        name, fields = stat_fields(pid)
        return None if fields[0] in b"ZX" else _Process(name, int(fields[1]), int(fields[19]))
    except (OSError, ValueError, IndexError):
        return None


def signal_descendants(keepers: Collection[int], number: int) -> int:
    """Signal all descendants of the processes `keepers`, but not the keepers.

    Returns how many were signalled. Processes forked meanwhile may be missed: repeat until the
    keepers report that nothing is left.
    """
    seen = _processes()

    def is_below(pid: int) -> bool:
        now = _process(pid)
        return now is not None and now.parent in (seen[pid].parent, *keepers)

    return sum(
        _signal_if(pid, number, is_below)
        for keeper in keepers
        for pid in _descendants(keeper, seen)
    )


#: Programs that run scripts. One that runs the script itself and does not handle a notice would die
#: of it, and with it the rest of the script.
_SHELLS = frozenset(
    {"ash", "bash", "busybox", "csh", "dash", "fish", "ksh", "mksh", "rbash", "sh", "tcsh", "zsh"}
)
#: The name that our `srun` gives itself. Its tasks are descendants, so they get what it would pass
#: on.
_STEP_STARTER = "srun"


class _Process(NamedTuple):
    """A process. `started_ticks` tells it from a later one with its number."""

    name: str
    parent: int
    started_ticks: int


def send_notice(keeper: int, first: int, number: int, *, is_for_first_only: bool) -> None:
    """Send the notice signal once to each process of the rank with this keeper.

    `first` is the rank's first process. If it is a shell, it gets the signal only if it handles it.
    With `is_for_first_only`, only that process gets it, in any case.
    """
    seen = _processes()
    for pid in _descendants(keeper, seen):
        process = seen[pid]
        if is_for_first_only:
            is_chosen = pid == first
        elif pid == first:
            is_chosen = process.name not in _SHELLS or _handles(pid, number)
        else:
            is_chosen = process.name != _STEP_STARTER
        if is_chosen:
            _signal_if(pid, number, partial(_is_still, process))


def _is_still(process: _Process, pid: int) -> bool:
    """Return whether `pid` is still that process; its parent may have ended."""
    now = _process(pid)
    return now is not None and now.started_ticks == process.started_ticks


def descendants(keeper: int) -> list[int]:
    """Return the processes below `keeper`, parents first."""
    return list(_descendants(keeper, _processes()))


def _descendants(keeper: int, processes: Mapping[int, _Process]) -> Iterator[int]:
    """Yield the processes below `keeper`, parents first."""
    children: dict[int, list[int]] = {}
    for pid, process in processes.items():
        children.setdefault(process.parent, []).append(pid)
    todo = deque(children.get(keeper, ()))
    while todo:
        pid = todo.popleft()
        todo.extend(children.get(pid, ()))
        yield pid


def _handles(pid: int, number: int) -> bool:
    """Return whether process `pid` has a handler for signal `number`."""
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            caught = next(line for line in file if line.startswith(b"SigCgt:"))
    except (OSError, StopIteration):
        return False
    return bool(int(caught.split()[1], 16) >> (number - 1) & 1)


def signal_traced(trace: str, number: int) -> int:
    """Signal every process with `trace` in its environment. Return how many there are.

    Number 0 only counts. Sees the processes of this user, and as root those of all users.
    """
    mark = f"{TRACE_VARIABLE}={trace}".encode()
    return sum(
        _signal_if(int(name), number, lambda pid: _carries(pid, mark))
        for name in os.listdir("/proc")
        if name.isdigit() and _carries(int(name), mark)
    )


def _carries(pid: int, mark: bytes) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return mark in file.read().split(b"\0")
    except OSError:
        return False


def _signal_if(pid: int, number: int, is_ours: Callable[[int], bool]) -> bool:
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        if not is_ours(pid):
            return False
        if number:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(descriptor, number)
        return True
    finally:
        os.close(descriptor)

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
from collections.abc import Callable, Collection

_PR_SET_CHILD_SUBREAPER = 36

#: Set in every rank's environment to the attempt's own random trace.
TRACE_VARIABLE = "TIDEGATE_TRACE"


def become_subreaper() -> None:
    """Make orphaned descendants children of this process (prctl(2), PR_SET_CHILD_SUBREAPER)."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER) failed")


def parents() -> dict[int, int]:
    """Return the parent of every visible process, without zombies."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (parent := _parent(int(name))) is not None:
            found[int(name)] = parent
    return found


def _parent(pid: int) -> int | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The name, in parentheses, may contain anything, also ") R 1".
            state, parent = file.read().rpartition(b")")[2].split(None, 2)[:2]
    except (OSError, ValueError):
        return None
    return None if state in b"ZX" else int(parent)


def signal_descendants(keepers: Collection[int], number: int) -> int:
    """Signal all descendants of the processes `keepers`, but not the keepers.

    Returns how many were signalled. Processes forked meanwhile may be missed: repeat until the
    keepers report that nothing is left.
    """
    parent_of = parents()
    children: dict[int, list[int]] = {}
    for pid, parent in parent_of.items():
        children.setdefault(parent, []).append(pid)

    def is_below(pid: int) -> bool:
        return _parent(pid) in (parent_of[pid], *keepers)

    signalled = 0
    todo = [child for keeper in keepers for child in children.get(keeper, ())]
    while todo:
        pid = todo.pop()
        todo.extend(children.get(pid, ()))
        signalled += _signal_if(pid, number, is_below)
    return signalled


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

"""The end of an attempt for people: what its exit code means, and whether it ignored its notice."""

from __future__ import annotations

import signal
from datetime import datetime, timedelta

from connectors.protocol import Outcome

#: Clusters report ends in whole seconds; the portal has deadlines with microseconds.
_CLUSTERS_CLOCK = timedelta(seconds=1)
#: Shells and container runtimes add this to the number of the signal that killed a process.
_SIGNAL_BASE = 128

_MEANINGS = {
    0: "success",
    1: "general error of the program",
    2: "wrong usage of a command, or an error of the program",
    124: "timed out in the script, as `timeout` reports it",
    125: "the container or the wrapper of the command failed before it",
    126: "command not executable: its permission or its interpreter is wrong",
    127: "command not found",
    128: "invalid exit code given to `exit`",
    255: "exit code out of range, or a lost connection of ssh or srun",
}
_SIGNAL_MEANINGS = {
    signal.SIGHUP: "its terminal was closed",
    signal.SIGINT: "interrupted",
    signal.SIGQUIT: "asked to quit",
    signal.SIGILL: "illegal instruction: built for another CPU?",
    signal.SIGABRT: "aborted by the program itself, such as a failed assertion",
    signal.SIGBUS: "bus error: a mapped file or shared memory is too small",
    signal.SIGFPE: "arithmetic error",
    signal.SIGKILL: "perhaps out of memory",
    signal.SIGSEGV: "invalid memory access",
    signal.SIGPIPE: "wrote to a closed pipe",
    signal.SIGTERM: "asked to end",
    signal.SIGXCPU: "CPU time used up",
    signal.SIGXFSZ: "file larger than allowed",
}
_MEMORY_WORDS = ("out_of_memory", "oomkilled", "oom_kill", "out of memory", "more memory than")


def exit_code_meaning(
    code: int, *, outcome: str | None = None, native_state: str = "", message: str = ""
) -> str:
    """Return the meaning of an exit code in a few words.

    A negative code is the signal that killed the rank. The other arguments are those of the
    attempt. If they tell who killed the rank, no other cause is guessed.
    """
    number = -code if code < 0 else code - _SIGNAL_BASE
    try:
        killed_by = signal.Signals(number) if code < 0 or code > _SIGNAL_BASE else None
    except ValueError:
        killed_by = None
    if killed_by is None:
        if code < 0:
            return f"killed by signal {-code}"
        return _MEANINGS.get(code, "an exit code of the program's own")
    why = _SIGNAL_MEANINGS.get(killed_by, "")
    if killed_by is signal.SIGKILL:
        report = f"{native_state} {message}".lower()
        if any(words in report for words in _MEMORY_WORDS):
            why = "out of memory"
        elif outcome == Outcome.STOPPED:
            why = "stopped by force"
        elif outcome == Outcome.TIMED_OUT:
            why = "the time limit was over"
    return f"killed by {killed_by.name}" + (f": {why}" if why else "")


def ignored_notice(
    *,
    outcome: str | None,
    notice_at: datetime | None,
    grace_until: datetime | None,
    ended_at: datetime | None,
) -> bool:
    """Return whether an attempt got a notice, used all of its grace and was killed."""
    return (
        outcome == Outcome.STOPPED
        and notice_at is not None
        and grace_until is not None
        and ended_at is not None
        and notice_at < grace_until
        and ended_at > grace_until - _CLUSTERS_CLOCK
    )

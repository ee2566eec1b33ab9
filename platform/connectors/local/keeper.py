"""The keeper of one rank: a fork of the supervisor that starts the rank and outlives everything.

It is the parent of the rank's first process and adopts every descendant that loses its parent
(subreaper), so it alone knows the exit code and when the last process is gone, even when the
supervisor has been killed meanwhile. It writes both down and ends. It decides nothing.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence

from connectors.local.attempt_files import AttemptFiles, try_lock, wake, write_json
from connectors.local.attempt_spec import Credentials
from connectors.local.processes import become_subreaper

_INHERITED_DESCRIPTORS_MAX = 1024
#: One a second: a disk that stays full for longer than an hour costs the exit code.
_RECORD_TRIES = 3_600
#: Python ignores these; a program expects them at their defaults.
_RANK_SIGNALS = (
    signal.SIGCHLD,
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGPIPE,
    signal.SIGTERM,
    signal.SIGXFSZ,
)


def now_record() -> dict[str, object]:
    """The present, as seconds since the epoch for people and as a clock that never jumps."""
    return {"at": int(time.time()), "mono_ms": time.monotonic_ns() // 1_000_000}


def fork_keeper(
    files: AttemptFiles,
    rank: int,
    argv: Sequence[str],
    environment: Mapping[str, str],
    credentials: Credentials | None,
) -> int:
    """Start the keeper of `rank` and return its process number. Raises OSError (no processes).

    However many keepers are forked for a rank, by however many supervisors, the rank is
    started at most once: only the one that gets the rank's lock and finds no `started`
    record starts it, and it writes that record first.
    """
    pid = os.fork()
    if pid == 0:
        try:
            _keep(files, rank, argv, environment, credentials)
            os._exit(0)
        except BaseException as error:  # a fork must never return into the supervisor's loop
            print(f"keeper of rank {rank}: {error!r}", file=sys.stderr, flush=True)
        finally:
            os._exit(70)
    return pid


def _keep(
    files: AttemptFiles,
    rank: int,
    argv: Sequence[str],
    environment: Mapping[str, str],
    credentials: Credentials | None,
) -> None:
    signal.set_wakeup_fd(-1)
    # The supervisor's own lock is among these: it must go when the supervisor does.
    os.closerange(3, _INHERITED_DESCRIPTORS_MAX)
    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    become_subreaper()
    if try_lock(files.rank(rank, "lock")) is None:
        return
    if os.path.exists(files.rank(rank, "started")) or os.path.exists(files.rank(rank, "exit")):
        return
    write_json(files.rank(rank, "started"), {"keeper": os.getpid(), **now_record()})
    pid, problem = _start(files, rank, argv, environment, credentials)
    if problem:
        os.waitpid(pid, 0)
        _record(files.rank(rank, "exit"), {"code": None, "error": problem, **now_record()})
    else:
        write_json(files.rank(rank, "pid"), {"pid": pid})
        wake(files.control)
        _reap(files, rank, pid)
    _record(files.rank(rank, "gone"), now_record())
    wake(files.control)


def _start(
    files: AttemptFiles,
    rank: int,
    argv: Sequence[str],
    environment: Mapping[str, str],
    credentials: Credentials | None,
) -> tuple[int, str]:
    """Process number of the rank, and what went wrong when it could not be executed."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(reader)
            _execute(files, rank, argv, environment, credentials)
        except BaseException as error:  # reported through the pipe, which an exec closes
            os.write(writer, f"cannot run {argv[0]}: {error}".encode()[:1000])
        finally:
            os._exit(127)
    os.close(writer)
    with open(reader, "rb") as pipe:
        return pid, pipe.read().decode(errors="replace")


def _execute(
    files: AttemptFiles,
    rank: int,
    argv: Sequence[str],
    environment: Mapping[str, str],
    credentials: Credentials | None,
) -> None:
    os.setsid()
    os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
    # Files, not pipes: a pipe would block the rank or break under it when its reader is killed.
    # Appending, so that the supervisor can cut a file at its cap while the rank writes.
    for stream, descriptor in (("stdout", 1), ("stderr", 2)):
        log = os.open(files.log(rank, stream), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        if credentials is not None:
            os.fchown(log, credentials.uid, credentials.gid)
        os.dup2(log, descriptor)
    if credentials is not None:
        os.setgroups(credentials.groups)
        os.setgid(credentials.gid)
        os.setuid(credentials.uid)
    os.chdir(files.work)
    os.umask(0o022)
    for number in _RANK_SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    os.execve(argv[0], list(argv), dict(environment))  # noqa: S606 - running it is the purpose


def _reap(files: AttemptFiles, rank: int, leader: int) -> None:
    """Wait until no descendant is left; record how the rank's first process ended."""
    while True:
        try:
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
        except ChildProcessError:
            return
        if ended is None:
            continue
        if ended.si_pid != leader:
            os.waitpid(ended.si_pid, 0)
            continue
        is_exit = ended.si_code == os.CLD_EXITED
        code = ended.si_status if is_exit else -ended.si_status
        _record(files.rank(rank, "exit"), {"code": code, "error": "", **now_record()})
        # Until it is reaped its number names its group and nothing else. Whoever signals the
        # group holds the same lock and looks for the `exit` record first.
        lock = try_lock(files.signals_lock, is_waiting=True)
        os.waitpid(leader, 0)
        if lock is not None:
            os.close(lock)
        wake(files.control)


def _record(path: str, record: Mapping[str, object]) -> None:
    """Write what is known nowhere else, also when the disk is full for a while."""
    for _ in range(_RECORD_TRIES):
        try:
            write_json(path, record)
        except OSError:
            time.sleep(1)
        else:
            return
    write_json(path, record)

"""The keeper of one rank: a fork of the supervisor that starts the rank and outlives everything.

It is the parent of the rank's first process and adopts every orphaned descendant (subreaper). So
only the keeper learns the exit code and the end of the last process, even when the supervisor has
been killed meanwhile. It records both and ends. It decides nothing.

If the attempt has a sandbox, the rank's first process is created in it (see `sandbox`). Orphans are
then adopted by process 1 of the sandbox.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence

from connectors.local.attempt_files import AttemptFiles, try_lock, wake, write_json
from connectors.local.attempt_spec import Credentials
from connectors.local.limits import (
    Limits,
    apply_limits,
    cgroup_folder,
    join_cgroup,
    remove_cgroups,
)
from connectors.local.own_files import OwnFiles, enter, refusal_text
from connectors.local.processes import become_subreaper
from connectors.local.sandbox import Inhabitant, Sandbox, forbid_new_privileges, spawn
from connectors.local.usage import used_record

_INHERITED_DESCRIPTORS_MAX = 1024
#: One try per second: if the disk stays full for over an hour, the exit code is lost.
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
    """Return the present as epoch seconds for people, and by a monotonic clock in milliseconds."""
    return {"at": int(time.time()), "mono_ms": time.monotonic_ns() // 1_000_000}


class Start:
    """The start of a rank: its command line, environment, limits, and the author's files."""

    def __init__(
        self,
        argv: Sequence[str],
        environment: Mapping[str, str],
        *,
        credentials: Credentials | None,
        sandbox: Sandbox | None,
        limits: Limits | None,
        cgroup: str,
        files: OwnFiles,
    ) -> None:
        self.argv = list(argv)
        self.environment = dict(environment)
        self.credentials = credentials
        self.sandbox = sandbox
        self.limits = limits
        self.cgroup = cgroup
        self.files = files


def fork_keeper(files: AttemptFiles, rank: int, start: Start) -> int:
    """Start the keeper of `rank` and return its process number. Raises OSError (no processes).

    The rank is started at most once, however many keepers and supervisors there are. Only the
    keeper that gets the rank's lock and finds no `started` record starts it, and it writes that
    record first.
    """
    pid = os.fork()
    if pid == 0:
        try:
            _keep(files, rank, start)
            os._exit(0)
        except BaseException as error:  # a fork must never return into the supervisor's loop
            print(f"keeper of rank {rank}: {error!r}", file=sys.stderr, flush=True)
        finally:
            os._exit(70)
    return pid


def _keep(files: AttemptFiles, rank: int, start: Start) -> None:
    signal.set_wakeup_fd(-1)
    # One of these is the supervisor's lock, which must end with the supervisor.
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
    started, problem = _start(files, rank, start)
    if problem:
        started.end()
        _reap_all()
        _record(files.rank(rank, "exit"), {"code": None, "error": problem, **now_record()})
    else:
        write_json(files.rank(rank, "pid"), {"pid": started.pid})
        wake(files.control)
        _reap(files, rank, started)
    used = used_record(cgroup_folder(start.limits, start.cgroup))
    if start.limits is not None:
        remove_cgroups(start.limits, [start.cgroup])
    _record(files.rank(rank, "gone"), {**now_record(), **used})
    wake(files.control)


def _start(files: AttemptFiles, rank: int, start: Start) -> tuple[Inhabitant, str]:
    """Return the rank's first process, and why it could not be executed ("": it was)."""
    reader, writer = os.pipe()
    logs = _open_logs(files, rank, start.credentials)

    def join() -> None:
        if start.limits is not None:
            join_cgroup(start.limits, start.cgroup)

    def become_rank(first: Callable[[], None] = lambda: None) -> None:
        try:
            os.close(reader)
            first()
            _execute(logs, files.work, start)
        except BaseException as error:  # reported through the pipe, which an exec closes
            os.write(writer, f"cannot run {start.argv[0]}: {error}".encode()[:1000])
        finally:
            os._exit(127)

    if start.sandbox is not None:
        started = spawn(start.sandbox, become_rank, before=join)
    else:
        started = Inhabitant(os.fork())
        if started.pid == 0:
            become_rank(join)
    for descriptor in (writer, *logs):
        os.close(descriptor)
    with open(reader, "rb") as pipe:
        return started, started.problem or pipe.read().decode(errors="replace")


def _open_logs(files: AttemptFiles, rank: int, credentials: Credentials | None) -> tuple[int, int]:
    """Return descriptors of the rank's stdout and stderr.

    They are files: a pipe would block or break the rank when its reader is killed. They are opened
    for appending, so that the supervisor can cut a file at its cap while the rank writes.
    """
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
    out, err = (os.open(files.log(rank, stream), flags, 0o600) for stream in ("stdout", "stderr"))
    if credentials is not None:
        for log in (out, err):
            os.fchown(log, credentials.uid, credentials.gid)
    return out, err


def _execute(logs: tuple[int, int], work: str, start: Start) -> None:
    os.setsid()
    os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
    for log, descriptor in zip(logs, (1, 2), strict=True):
        os.dup2(log, descriptor)
    if start.limits is not None:
        apply_limits(start.limits)
    if start.credentials is not None:
        os.setgroups(start.credentials.groups)
        os.setgid(start.credentials.gid)
        os.setuid(start.credentials.uid)
    if start.credentials is not None or start.sandbox is not None:
        forbid_new_privileges()
    os.chdir(work)
    os.umask(0o022)
    try:
        enter(start.files)
    except OSError as error:
        # It is for the job's author, whose log has it; another node would do no better.
        os.write(2, f"{refusal_text(error)}\n".encode())
        os._exit(1)
    for number in _RANK_SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    os.execve(start.argv[0], start.argv, start.environment)  # noqa: S606 - running it is the purpose


def _reap_all() -> None:
    while True:
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _reap(files: AttemptFiles, rank: int, started: Inhabitant) -> None:
    """Wait until no descendant is left, and record how the rank's first process ended."""
    leader = started.pid
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
        # Until it is reaped, its number identifies its group. The supervisor signals groups only
        # under the same lock, and only without an `exit` record.
        lock = try_lock(files.signals_lock, is_waiting=True)
        os.waitpid(leader, 0)
        if lock is not None:
            os.close(lock)
        started.let_go()
        wake(files.control)


def _record(path: str, record: Mapping[str, object]) -> None:
    """Write a record that exists nowhere else, even if the disk is full for a while."""
    for _ in range(_RECORD_TRIES):
        try:
            write_json(path, record)
        except OSError:
            time.sleep(1)
        else:
            return
    write_json(path, record)

"""The supervisor of one attempt: starts its ranks, ends them in time and records its end.

There is one per running attempt, in a session of its own, and it needs no portal process. It lives
as long as it holds the lock `supervisor.lock`. If it is killed, the ranks run on under their
keepers. The next process that looks at the attempt starts another supervisor, which reads the
current state from the records. All its actions follow from the records and the clock, so it does
not matter how many supervisors take part.
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import signal
import sys
import time
from collections.abc import Callable

from connectors.local import allocations
from connectors.local.attempt_files import (
    STREAMS,
    AttemptFiles,
    CorruptRecord,
    boot_id,
    has_ended,
    integer,
    integer_or_none,
    read_json,
    try_lock,
    wake,
    write_json,
)
from connectors.local.attempt_spec import AttemptSpec, read_spec
from connectors.local.keeper import Start, fork_keeper, now_record
from connectors.local.launch import rank_environment, script_command
from connectors.local.limits import cgroup_name, remove_cgroups
from connectors.local.log_caps import cut_log
from connectors.local.log_times import LogTimes
from connectors.local.own_files import own_files
from connectors.local.processes import (
    become_subreaper,
    send_notice,
    signal_descendants,
    signal_traced,
)
from connectors.local.rank_records import (
    OUTCOME_BY_CAUSE,
    Rank,
    cause_in,
    describe,
    recorded_indices,
)
from connectors.protocol import ENDING_S, ahead_ms

_TICK_MS = 1_000
_BUSY_TICK_MS = 100
_SOON_MS = 20
#: The most keepers per rank. A keeper that dies before it starts its rank is replaced.
_KEEPERS_PER_RANK_MAX = 3
#: The most lines of one supervisor in supervisor.log: an error may repeat every second.
_COMPLAINTS_MAX = 100


def main(attempt: str) -> None:
    """Become the supervisor of `attempt` in the background, unless it has one or has ended."""
    files = AttemptFiles(attempt)
    lock = try_lock(files.supervisor_lock)
    if lock is None or has_ended(files):
        return
    # The lock is taken before the caller continues, and the child inherits it.
    if os.fork() != 0:
        os._exit(0)
    os.setsid()
    os.chdir("/")
    os.umask(0o077)
    Supervisor(files).run()


class Supervisor:
    """The supervisor of the attempt in `files`, until it ends or is killed."""

    def __init__(self, files: AttemptFiles) -> None:
        self.files = files
        self.root = os.path.dirname(os.path.dirname(files.path))
        self.key = os.path.basename(files.path)
        self.problem = ""
        try:
            self.spec = read_spec(files.spec)
        except (OSError, CorruptRecord) as error:
            self.problem = f"its record cannot be read ({error}); stop it to be rid of it"
            self.spec = _stand_in(self.key)
        indices = recorded_indices(files) if self.problem else range(self.spec.ranks)
        self.ranks = [Rank(files, index) for index in indices]
        self.allocation: allocations.Allocation | None = None
        self.cause = ""
        self.cause_ms = 0
        self.is_noticed = False
        self.noticed_ms: int | None = None
        self.is_limit_noticed = False
        self.time_limit_s = self.spec.time_limit_s
        self.is_rest_termed = False
        self.keepers_due_ms = 0
        self.complaints = 0
        self.sweep_due_ms: int | None = None
        self.log_times = LogTimes()
        self.written: dict[str, object] = {}
        self._take_over()

    def _take_over(self) -> None:
        """Adopt the decisions of an earlier supervisor. If lost, the same ones follow again."""
        with contextlib.suppress(OSError, CorruptRecord):
            state = read_json(self.files.state)
            self.is_noticed = state.get("is_noticed") is True
            self.is_limit_noticed = state.get("is_limit_noticed") is True
            # A supervisor of an earlier version recorded no limit.
            if "time_limit_s" in state:
                self.time_limit_s = integer_or_none(state, "time_limit_s")
            self.noticed_ms = integer_or_none(state, "noticed_ms")
            if state.get("cause") in OUTCOME_BY_CAUSE:
                self.cause_ms = integer(state, "cause_ms")
                self.cause = str(state["cause"])

    def run(self) -> None:
        """Step until the attempt has ended and nothing of it is left."""
        gc.disable()  # nothing here makes cycles, and collecting would unshare the forks' memory
        become_subreaper()
        control = os.open(self.files.control, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(control, warn_on_full_buffer=False)
        poll = select.poll()
        poll.register(control, select.POLLIN)
        while True:
            try:
                wait_ms = self.step(time.monotonic_ns() // 1_000_000)
            except (OSError, CorruptRecord) as error:  # a full disk, for example: it may pass
                self._complain(error)
                wait_ms = _TICK_MS
            if wait_ms is None:
                return
            poll.poll(wait_ms)
            with contextlib.suppress(BlockingIOError):
                os.read(control, 4096)

    def _complain(self, error: Exception) -> None:
        self.complaints += 1
        if self.complaints <= _COMPLAINTS_MAX:
            with contextlib.suppress(OSError):
                print(f"{int(time.time())} {error!r}", file=sys.stderr, flush=True)

    def step(self, now_ms: int) -> int | None:
        """Look, decide, act. Returns the ms until the next step; None when everything is over."""
        is_stop_asked = os.path.exists(self.files.stop_request)
        if self.problem and not is_stop_asked:
            self._write_state({"phase": "running", "native_state": "unreadable"}, self.problem)
            return _TICK_MS
        if self.spec.boot_id != boot_id():
            self._end_after_reboot()
            return None
        self._read_ranks(now_ms)
        self._read_limit()
        if self.problem or not (self.is_over or self.cause):
            self._decide_to_end(now_ms, is_stop_asked)
        wait_ms = self._cut_logs()
        if self.cause:
            self._close_unstarted()
        elif not self.is_over:
            wait_ms = min(wait_ms, self._start_missing(), self._notice(now_ms))
            wait_ms = min(wait_ms, self._limit_ms() - now_ms)
        if self.is_over and all(rank.is_gone for rank in self.ranks) and not self._strays(0):
            self._end(self._described())
            return None
        if self.is_over or self.cause:
            wait_ms = min(wait_ms, self._end_what_runs(now_ms, is_stop_asked))
        self._write_state(self._described())
        return max(1, wait_ms)

    def _described(self) -> dict[str, object]:
        cause = self.cause
        if not cause and self.is_over and self.is_limit_noticed:
            # The limit ended it, whatever its ranks made of the notice: exit code 0 means "saved".
            cause = "limit_noticed"
        return describe(self.ranks, cause, is_waiting=self.allocation is None)

    @property
    def is_over(self) -> bool:
        """Return whether every rank's first process has ended."""
        return all(rank.is_over for rank in self.ranks)

    def _read_ranks(self, now_ms: int) -> None:
        is_looking_for_keepers = self._reap() or now_ms >= self.keepers_due_ms
        if is_looking_for_keepers:
            self.keepers_due_ms = now_ms + _TICK_MS
        names = set(os.listdir(self.files.ranks))
        for rank in self.ranks:
            if not rank.is_gone:
                rank.read(names, is_looking_for_keeper=is_looking_for_keepers)

    def _reap(self) -> bool:
        """Reap keepers, and orphans whose keeper was killed. Return whether there were any."""
        is_any = False
        with contextlib.suppress(ChildProcessError):
            while (pid := os.waitpid(-1, os.WNOHANG)[0]) != 0:
                is_any = True
                for rank in self.ranks:
                    if rank.own_keeper == pid:
                        rank.own_keeper = None
        return is_any

    # Starting

    def _start_missing(self) -> int:
        missing = [rank for rank in self.ranks if rank.started_ms is None and not rank.is_over]
        if missing and os.path.exists(f"{self.root}/forgotten/{self.key}"):
            # A forgotten attempt was submitted again: it must not run a second time.
            os.close(os.open(self.files.stop_request, os.O_WRONLY | os.O_CREAT, 0o600))
            return 0
        if missing and self.allocation is None:
            self.allocation = allocations.try_allocate(self.root, self.spec)
            if self.allocation is None:
                return _BUSY_TICK_MS
        for rank in missing:
            if rank.own_keeper is None and self.allocation is not None:
                self._start(rank, self.allocation)
        return _TICK_MS

    def _start(self, rank: Rank, allocation: allocations.Allocation) -> None:
        if rank.forks == _KEEPERS_PER_RANK_MAX:
            self._close_rank(rank, "it could not be started; supervisor.log says why")
            return
        rank.forks += 1
        for stream in STREAMS:
            self.log_times.begin(self.files.log(rank.index, stream))
        start = Start(
            [
                *script_command(self.files.script, is_batch=self.spec.batch is not None),
                *self.spec.arguments,
            ],
            rank_environment(self.spec, allocation, rank.index, int(time.time())),
            credentials=self.spec.credentials,
            sandbox=self.spec.sandbox,
            limits=self.spec.limits,
            cgroup=self._cgroup(rank.index),
            files=own_files(self.spec.files, rank.index, self.spec.slots[rank.index].node),
        )
        rank.own_keeper = fork_keeper(self.files, rank.index, start)

    def _cgroup(self, rank: int) -> str:
        return cgroup_name(self.spec.trace, rank)

    def _close_unstarted(self) -> None:
        for rank in self.ranks:
            if rank.started_ms is None and not rank.is_over:
                self._close_rank(rank, "")

    def _close_rank(self, rank: Rank, error: str) -> None:
        """Record that a rank ended before it began, unless a keeper is starting it right now."""
        lock = try_lock(self.files.rank(rank.index, "lock"))
        if lock is None:
            return
        try:
            if not os.path.exists(self.files.rank(rank.index, "started")):
                record = {"code": None, "error": error, **now_record()}
                write_json(self.files.rank(rank.index, "exit"), record)
                write_json(self.files.rank(rank.index, "gone"), now_record())
        finally:
            os.close(lock)
        wake(self.files.control)

    # Ending

    def _decide_to_end(self, now_ms: int, is_stop_asked: bool) -> None:
        cause = cause_in(self.ranks)
        if is_stop_asked:
            cause = "stopped"
        elif now_ms >= self._limit_ms():
            cause = "timed_out"
        elif cause == "rank_failed" and self.is_noticed:
            # After a notice, ranks may end one by one. The sender of the notice ends the rest.
            cause = ""
        self.cause, self.cause_ms = cause, now_ms

    def _limit_ms(self) -> int:
        started = [rank.started_ms for rank in self.ranks if rank.started_ms is not None]
        if self.time_limit_s is None or not started:
            return sys.maxsize
        return min(started) + 1_000 * self.time_limit_s

    def _read_limit(self) -> None:
        """Take a longer time limit over, unless the notice of the earlier one was given."""
        if self.time_limit_s is None or self.is_limit_noticed:
            return
        with contextlib.suppress(FileNotFoundError):
            asked = integer(read_json(self.files.limit_request), "time_limit_s")
            self.time_limit_s = max(self.time_limit_s, asked)

    def _notice(self, now_ms: int) -> int:
        """Send the notice when it is due: once per attempt, on request or before the limit.

        Whichever comes first is the cause of the end that follows.
        """
        if self.is_noticed:
            return _TICK_MS
        due_ms = self._limit_ms()
        spec = self.spec
        due_ms -= ahead_ms(self.time_limit_s, spec.signal_ahead_s, spec.grace_s)
        is_asked = os.path.exists(self.files.notify_request)
        if now_ms < due_ms and not is_asked:
            return min(_TICK_MS, due_ms - now_ms)
        for rank in self.ranks:
            if rank.is_noticed or rank.is_gone or rank.pid is None or rank.keeper is None:
                continue
            if not rank.is_kept:
                continue
            send_notice(
                rank.keeper, rank.pid, spec.notice_signal, is_for_first_only=spec.signals_shell_only
            )
            rank.is_noticed = True
            self.noticed_ms = now_ms
            self.is_limit_noticed = self.is_limit_noticed or not is_asked
        self.is_noticed = all(rank.is_noticed or rank.is_over for rank in self.ranks)
        return _TICK_MS if self.is_noticed else _BUSY_TICK_MS

    def _end_what_runs(self, now_ms: int, is_stop_asked: bool) -> int:
        """Send TERM, and KILL after a while. After a stop or the time limit, KILL at once.

        Processes that outlive the ranks after a notice keep the rest of its grace.

        Return the ms until the next call.
        """
        grace_ms = 1_000 * self.spec.grace_s
        is_in_grace = self.noticed_ms is not None and not self.cause
        if self.noticed_ms is not None and is_in_grace:
            kill_ms = sys.maxsize if self.is_limit_noticed else self.noticed_ms + grace_ms
        else:
            since_ms = self.cause_ms
            if not self.cause:
                since_ms = max((rank.ended_ms or 0 for rank in self.ranks), default=0)
            kill_ms = since_ms + min(grace_ms, 1_000 * ENDING_S)
        kill_ms = min(kill_ms, self._limit_ms())
        if now_ms >= kill_ms or is_stop_asked or self.cause == "stopped":
            return self._kill(now_ms)
        if is_in_grace:
            return min(_TICK_MS, kill_ms - now_ms)
        for rank in self._signal_groups(signal.SIGTERM, lambda rank: rank.is_termed):
            rank.is_termed = True
        if (self.is_over or self.cause == "lost") and not self.is_rest_termed:
            self.is_rest_termed = True
            self._signal_rest(signal.SIGTERM)
        return min(_TICK_MS, kill_ms - now_ms)

    def _kill(self, now_ms: int) -> int:
        """Kill whole groups, and a little later their strays. Return the ms until the next call."""
        self._signal_groups(signal.SIGKILL, lambda _: False)
        if self.sweep_due_ms is None and not self.is_over:
            self.sweep_due_ms = now_ms + _SOON_MS
        elif self.sweep_due_ms is None or now_ms >= self.sweep_due_ms:
            self._signal_rest(signal.SIGKILL)
            self.sweep_due_ms = now_ms + _BUSY_TICK_MS
        return self.sweep_due_ms - now_ms

    def _signal_groups(self, number: int, is_done: Callable[[Rank], bool]) -> list[Rank]:
        """Signal the process groups of the running ranks. Return the ranks that were signalled."""
        lock = try_lock(self.files.signals_lock)
        if lock is None:
            return []
        signalled = []
        try:
            for rank in self.ranks:
                if rank.pid is None or rank.is_over or is_done(rank):
                    continue
                # The rank is not reaped yet: its keeper first writes `exit` and then needs the
                # lock.
                if not os.path.exists(self.files.rank(rank.index, "exit")) and rank.is_kept:
                    os.killpg(rank.pid, number)
                    signalled.append(rank)
        finally:
            os.close(lock)
        return signalled

    def _signal_rest(self, number: int) -> None:
        """Signal descendants in any process group."""
        keepers = [
            rank.keeper
            for rank in self.ranks
            if rank.keeper is not None and not rank.is_gone and rank.is_kept
        ]
        if keepers:
            signal_descendants(keepers, number)
        self._strays(number)

    def _strays(self, number: int) -> int:
        """Signal what a killed keeper left behind (0: only count). Return how many there are."""
        if not self.spec.trace or not any(rank.is_lost for rank in self.ranks):
            return 0
        return signal_traced(self.spec.trace, number)

    # Telling

    def _cut_logs(self) -> int:
        """Cut every log at its cap. Returns the ms until the next check: few if logs grow fast."""
        is_cut = False
        for rank in self.ranks:
            if rank.started_ms is not None and rank.gone_at is None:
                for stream in STREAMS:
                    path = self.files.log(rank.index, stream)
                    self.log_times.look(path)
                    is_cut = cut_log(path, self.spec.log_cap_bytes) or is_cut
        return _BUSY_TICK_MS if is_cut else _TICK_MS

    def _write_state(self, summary: dict[str, object], message: str = "") -> None:
        if self.is_noticed and summary["native_state"] == "running":
            summary["native_state"] = "noticed"
        state = {
            **summary,
            "supervisor": os.getpid(),
            "message": message or summary.get("message", ""),
            "cause": self.cause,
            "cause_ms": self.cause_ms,
            "is_noticed": self.is_noticed,
            "noticed_ms": self.noticed_ms,
            "is_limit_noticed": self.is_limit_noticed,
            "time_limit_s": self.time_limit_s,
        }
        if state != self.written:
            write_json(self.files.state, state)
            self.written = state

    def _end(self, summary: dict[str, object]) -> None:
        """Write the end record durably, and release the attempt's devices."""
        now = int(time.time())
        ended_at = summary["ended_at"] if isinstance(summary["ended_at"], int) else now
        gone = [now if rank.gone_at is None else rank.gone_at for rank in self.ranks]
        for rank in self.ranks:
            for stream in STREAMS:
                self.log_times.look(self.files.log(rank.index, stream))
                cut_log(self.files.log(rank.index, stream), self.spec.log_cap_bytes)
        released_at = max([ended_at, *gone])
        message = summary["message"] or self.problem
        if self.spec.limits is not None:
            # Cgroups of keepers that were killed are still there.
            remove_cgroups(self.spec.limits, [self._cgroup(rank.index) for rank in self.ranks])
        end = {**summary, "ended_at": ended_at, "released_at": released_at, "message": message}
        write_json(self.files.end, end, is_durable=True)
        allocations.release(self.root, self.key)

    def _end_after_reboot(self) -> None:
        """End the attempt as lost: a reboot ended all of its processes, and none is started."""
        with contextlib.suppress(OSError):
            self._read_ranks(0)
        summary = describe(self.ranks, "lost", is_waiting=False)
        started_at = summary["started_at"] if isinstance(summary["started_at"], int) else 0
        # Its real end was earlier. The start of this boot is the earliest certain time.
        ended_at = max(started_at, _booted_at())
        for rank in self.ranks:
            rank.gone_at = ended_at
        summary.update(phase="ended", native_state="ended", outcome="node_failed")
        summary["ended_at"] = ended_at
        summary["message"] = "the machine was restarted while this ran or was about to start"
        self._end(summary)


def _booted_at() -> int:
    with open("/proc/stat", "rb") as file:
        for line in file:
            if line.startswith(b"btime "):
                return int(line.split()[1])
    return int(time.time())


def _stand_in(key: str) -> AttemptSpec:
    """Return a spec for an attempt with an unreadable one: enough to end it, not to start it."""
    return AttemptSpec(
        key=key,
        trace="",
        boot_id=boot_id(),
        slots=(),
        uses_real_gpus=False,
        environment={},
        time_limit_s=None,
        notice_signal=signal.SIGTERM,
        grace_s=0,
        log_cap_bytes=1 << 30,
        credentials=None,
    )

"""What Pods write is kept in files, where it stays when the Pods are gone.

Below `log_root` each attempt has a directory of its own, named as its object, and each rank two
files in it: `0.log`, what it wrote, and `0.json`, how far that is complete. Whoever reads a log
needs these files only and no right in the cluster.

`FOLLOWERS_MAX` Pods are followed at once, each by a thread with a connection, those that are being
deleted first. The others are asked in turn by `ASKERS_MAX` more threads, each Pod every
`ASK_EVERY_S` seconds and all together `ASKS_PER_S` a second at most; these threads also fetch the
rest of what has ended, at once. A log is taken up again
where it stopped (see `log_positions`).
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import shutil
import stat
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from connectors.errors import ClusterUnavailable, ConnectorError, LogUnavailable
from connectors.kubernetes.api import KubeRefused, NotFound
from connectors.kubernetes.cluster_state import rank_of_ours
from connectors.kubernetes.log_positions import LineReader, Position
from connectors.kubernetes.naming import CONTAINER, CONTAINERS, cluster_label, workload_name
from connectors.kubernetes.options import KubernetesOptions
from connectors.kubernetes.reading import Object, Odd, needed, part, parts, text
from connectors.protocol import LogChunk

log = logging.getLogger(__name__)

FOLLOWERS_MAX = 16
ASKERS_MAX = 4
ASK_EVERY_S = 5.0
ASKS_PER_S = 20
#: After what could not be fetched it is tried again after so long.
AGAIN_S = 1.0
#: A follower that hears nothing for so long asks again.
SILENCE_S = 300.0
#: And an answer that is not followed must be there within so long.
ASK_SILENCE_S = 10.0
#: A stream that says nothing for so long after the end of its Pod is not waited for.
QUIET_S = 0.3
#: For how long what has ended is waited for; after that it comes when it comes.
WAIT_FOR_END_S = 3.0
#: How often it is written down how far a log is.
NOTED_EVERY_S = 1.0
#: A keeper that is told of no Pods for so long lets another process keep the logs.
IDLE_S = 30.0
LOG_CHUNK_BYTES_MAX = 1 << 20
#: Ranks that any workload can have; only for what is a file name.
RANKS_MAX = 1_000_000

STREAMS = ("stdout", "stderr")
_STATE_BYTES_MAX = 4_096
#: How the API server says that there is no such log.
_NO_LOG_CODE = 400
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_WRITE = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class LogSource(Protocol):
    """Where logs come from; `api.KubeApi` is one."""

    def stream(
        self, path: str, *, query: Mapping[str, str] | None = None, silence_s: float = ...
    ) -> LogStream:
        """See `api.KubeApi.stream`."""
        ...


class LogStream(Protocol):
    """See `api.Stream`."""

    def __iter__(self) -> Iterator[bytes]: ...

    def close(self) -> None:
        """End it, from any thread."""
        ...


# Reading


class KubernetesLogs:
    """Implements `connectors.protocol.LogReader`."""

    def __init__(self, options: KubernetesOptions) -> None:
        self._root = options.log_root

    def read_log(
        self,
        key: str,
        *,
        rank: int,
        stream: str,
        offset: int,
        limit: int,
        cluster_user: str | None = None,
    ) -> LogChunk:
        """See `ClusterConnector.read_log`. All that a Pod writes is its stdout."""
        return read_log(self._root, key, rank=rank, stream=stream, offset=offset, limit=limit)


def read_log(
    root: str | None, key: str, *, rank: int, stream: str, offset: int, limit: int
) -> LogChunk:
    """At most `limit` bytes, and 1 MiB, of what a rank wrote, from `offset`.

    Raises LogUnavailable when there is none, and ClusterUnavailable when it cannot be read.
    """
    if root is None:
        raise LogUnavailable("this cluster keeps no outputs: its option log_root is not set")
    if stream not in STREAMS:
        raise LogUnavailable(f"there is no stream {stream[:40]!r}; use stdout")
    if stream != "stdout":
        raise LogUnavailable("Kubernetes writes both streams into one: read stdout")
    if not 0 <= rank < RANKS_MAX:
        raise LogUnavailable(f"there is no rank {rank}")
    try:
        with _directory(root, key) as directory:
            # Asked first: what is complete now was complete when its size is taken.
            state = _read_state(directory, rank)
            with _opened(directory, f"{rank}.log", _READ) as file:
                size = os.fstat(file).st_size
                start = max(0, size + offset) if offset < 0 else min(offset, size)
                data = os.pread(file, max(0, min(limit, LOG_CHUNK_BYTES_MAX, size - start)), start)
    except (FileNotFoundError, NotADirectoryError):
        raise LogUnavailable(f"{key[:80]} has no output of rank {rank}, or not yet") from None
    except PermissionError as error:
        raise LogUnavailable(f"the portal may not read the output of {key[:80]}: {error}") from None
    except OSError as error:
        raise ClusterUnavailable(f"cannot read the log of {key[:80]}: {error}") from error
    end = start + len(data)
    return LogChunk(data, start, end, state.is_complete and end == size, state.is_truncated)


@contextlib.contextmanager
def _directory(root: str, key: str, *, makes: bool = False) -> Iterator[int]:
    """The directory of `key`, opened; no symbolic link below `root` is followed. Raises OSError."""
    top = os.open(root, _DIRECTORY)
    try:
        name = workload_name(key)
        if makes:
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, 0o700, dir_fd=top)
        opened = os.open(name, _DIRECTORY | os.O_NOFOLLOW, dir_fd=top)
    finally:
        os.close(top)
    try:
        yield opened
    finally:
        os.close(opened)


@contextlib.contextmanager
def _opened(directory: int, name: str, flags: int) -> Iterator[int]:
    # Without waiting: opening a pipe that somebody put there would never end.
    opened = os.open(name, flags, 0o600, dir_fd=directory)
    try:
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            raise FileNotFoundError(name)
        yield opened
    finally:
        os.close(opened)


def _read_state(directory: int, rank: int) -> Position:
    """What was written down; nothing where that is missing or damaged. Raises OSError."""
    fresh = Position()
    try:
        with _opened(directory, f"{rank}.json", _READ) as file:
            said = json.loads(os.pread(file, _STATE_BYTES_MAX, 0))
    except (FileNotFoundError, ValueError):
        return fresh
    # A damaged one makes the log be fetched anew, which writes the same over it.
    names = Position.__slots__
    if not isinstance(said, dict) or any(
        type(said.get(name)) is not type(getattr(fresh, name)) for name in names
    ):
        return fresh
    return Position(**{name: said[name] for name in names})


def _write_state(directory: int, rank: int, position: Position) -> None:
    name, new = f"{rank}.json", f"{rank}.json.new"
    said = {one: getattr(position, one) for one in Position.__slots__}
    with contextlib.suppress(FileNotFoundError):
        os.unlink(new, dir_fd=directory)
    with _opened(directory, new, _WRITE | os.O_EXCL) as file:
        os.pwrite(file, json.dumps(said).encode(), 0)
    os.rename(new, name, src_dir_fd=directory, dst_dir_fd=directory)


# Keeping


@dataclass(slots=True)
class _Log:
    """The log of one Pod. `stream` is what is being read of it just now."""

    key: str
    rank: int
    uid: str
    path: str
    container: str = CONTAINER
    is_started: bool = False
    is_ended: bool = False
    is_gone: bool = False
    is_urgent: bool = False
    is_complete: bool = False
    is_busy: bool = False
    is_followed: bool = False
    ended_at_s: float = 0.0
    heard_at_s: float = 0.0
    next_at_s: float = 0.0
    stream: LogStream | None = None
    is_stopped: bool = False
    has_begun: bool = False
    ended_before: bool = False


class LogKeeper:
    """Keeps the logs of the Pods that it is told of, below `root`, by threads of its own.

    There is one at a time for each cluster and `root`, in whatever process: others stand by. What
    cannot be fetched or written is tried again and never raised.
    """

    def __init__(self, source: LogSource, *, root: str, cluster_id: str, cap_bytes: int) -> None:
        self._source = source
        self._cluster_id = cluster_id
        self._root = root
        self._lock_name = f".{cluster_label(cluster_id)}.lock"
        self._cap_bytes = cap_bytes
        self._changed = threading.Condition()
        self._logs: dict[str, _Log] = {}
        self._forgotten: set[str] = set()
        self._threads = 0
        self._followers = 0
        self._is_closed = False
        self._lock: int | None = None
        self._told_s = 0.0
        self._ask_at_s = 0.0

    def tend(self, pods: Iterable[tuple[str, int, Object]]) -> None:
        """Keep the logs of `pods`, which are all Pods of ours that there are: key, rank, Pod.

        Returns at once. What was told of before and is not any more is gone.
        """
        told: dict[str, _Log] = {}
        for key, rank, pod in pods:
            with contextlib.suppress(Odd):
                one = _log_of(key, rank, pod)
                told[one.uid] = one
        with self._changed:
            self._told_s = time.monotonic()
            if self._is_closed or not self._holds_lock():
                return
            self._forgotten &= {one.key for one in told.values()}
            for uid, new in told.items():
                known = self._logs.get(uid)
                if known is not None:
                    _take_over(known, new)
                elif new.key not in self._forgotten:
                    self._logs[uid] = new
            for uid in [uid for uid in self._logs if uid not in told]:
                gone = self._logs[uid]
                if gone.is_complete:
                    del self._logs[uid]
                    continue
                gone.is_gone = True
                _note_end(gone, is_ended=True)
                _stop(gone)
            self._wake()

    def pod_changed(self, before: Object | None, now: Object | None) -> None:
        """What one Pod was and is, between two calls of `tend`: a short one would be missed."""
        pod = now or before or {}
        try:
            found = rank_of_ours(pod, cluster_id=self._cluster_id)
            if found is None:
                return
            new = _log_of(*found, pod)
        except Odd:
            return
        is_gone = now is None
        with self._changed:
            # Whoever is not told of all Pods is not the one who keeps their logs.
            is_told = time.monotonic() - self._told_s <= IDLE_S
            if self._is_closed or self._lock is None or not is_told or new.key in self._forgotten:
                return
            known = self._logs.get(new.uid)
            if known is not None:
                _take_over(known, new)
                if is_gone:
                    known.is_gone = True
                    _note_end(known, is_ended=True)
                    _stop(known)
            elif not is_gone:
                self._logs[new.uid] = new
            self._wake()

    def _wake(self) -> None:
        """Let there be threads for what is to be read, and have them look."""
        self._stop_quiet()
        is_open = sum(_is_open(one) for one in self._logs.values())
        for _ in range(self._threads, min(FOLLOWERS_MAX + ASKERS_MAX, is_open)):
            self._threads += 1
            threading.Thread(target=self._work, name="kube-logs", daemon=True).start()
        self._changed.notify_all()

    def _stop_quiet(self) -> None:
        """A stream that does not end with its Pod is ended: the rest is asked for."""
        now = time.monotonic()
        for one in self._logs.values():
            if one.is_followed and one.is_ended and now - one.heard_at_s >= QUIET_S:
                _stop(one)

    def catch_up(self, within_s: float) -> bool:
        """Wait until the logs of all that has ended are complete, `within_s` seconds at most, and
        `WAIT_FOR_END_S` for each; returns whether they are."""
        until = time.monotonic() + within_s
        with self._changed:
            while True:
                now = time.monotonic()
                waiting = [
                    one.ended_at_s + WAIT_FOR_END_S
                    for one in self._logs.values()
                    if one.is_ended and not one.is_complete
                ]
                late = min(until, max(waiting, default=now))
                if not waiting or late <= now or self._is_closed:
                    return not waiting
                self._stop_quiet()
                self._changed.wait(min(late - now, QUIET_S / 2))

    def forget(self, key: str) -> None:
        """Remove what is kept of `key`. Idempotent."""
        with self._changed:
            self._forgotten.add(key)
            for uid in [uid for uid, one in self._logs.items() if one.key == key]:
                _stop(self._logs.pop(uid))
            # Behind the lock: whoever writes looks there first.
            with contextlib.suppress(OSError):
                remove_logs(self._root, key)
            self._changed.notify_all()

    def close(self) -> None:
        """Stop; what is kept stays, and is taken up again by whoever comes next."""
        with self._changed:
            self._is_closed = True
            for one in self._logs.values():
                _stop(one)
            self._give_lock_back()
            self._changed.notify_all()

    def _holds_lock(self) -> bool:
        """Whether no other process keeps these logs."""
        if self._lock is not None:
            return True
        try:
            os.makedirs(self._root, mode=0o700, exist_ok=True)
            top = os.open(self._root, _DIRECTORY)
            try:
                opened = os.open(self._lock_name, _WRITE, 0o600, dir_fd=top)
            finally:
                os.close(top)
        except OSError as error:
            log.warning("logs cannot be kept below %s: %s", self._root, error)
            return False
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(opened)
            return False
        self._lock = opened
        return True

    def _give_lock_back(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _work(self) -> None:
        while (task := self._next()) is not None:
            one, is_following = task
            try:
                is_done = self._fetch(one, is_following=is_following)
            except FileNotFoundError:
                is_done = one.has_begun
            except (ConnectorError, OSError) as error:
                is_done = False
                log.debug("the log of %s rank %d: %s", one.key, one.rank, error)
            except Exception:
                is_done = False
                log.exception("the log of %s rank %d could not be kept", one.key, one.rank)
            with self._changed:
                one.is_busy, one.stream = False, None
                if one.is_followed:
                    one.is_followed = False
                    self._followers -= 1
                one.is_complete = one.is_complete or is_done
                one.next_at_s = time.monotonic() + (AGAIN_S if is_following else ASK_EVERY_S)
                if one.is_ended:
                    # What ended while it was read has a rest that is fetched at once.
                    at_once = not one.ended_before
                    one.next_at_s = 0.0 if at_once else time.monotonic() + AGAIN_S
                self._changed.notify_all()

    def _next(self) -> tuple[_Log, bool] | None:
        """The next log to read, and whether to follow it; None when it is over."""
        with self._changed:
            while True:
                now = time.monotonic()
                if not self._is_closed and now - self._told_s > IDLE_S:
                    for one in self._logs.values():
                        _stop(one)
                    self._logs.clear()
                    self._give_lock_back()
                if self._is_closed or not self._logs:
                    self._threads -= 1
                    return None
                self._stop_quiet()
                task = self._chosen(now)
                if task is not None:
                    one, is_following = task
                    one.is_busy, one.ended_before = True, one.is_ended
                    if is_following:
                        one.is_followed = True
                        self._followers += 1
                    return task
                self._changed.wait(self._idle_s(now))

    def _chosen(self, now: float) -> tuple[_Log, bool] | None:
        ready = [one for one in self._logs.values() if _is_open(one) and not one.is_busy]
        ready = [one for one in ready if one.next_at_s <= now]
        ended = [one for one in ready if one.is_ended]
        if ended:
            return min(ended, key=lambda one: one.ended_at_s), False
        if self._followers < FOLLOWERS_MAX and ready:
            return max(ready, key=lambda one: one.is_urgent), True
        if ready and self._ask_at_s <= now:
            self._ask_at_s = now + 1 / ASKS_PER_S
            return min(ready, key=lambda one: (not one.is_urgent, one.next_at_s)), False
        return None

    def _idle_s(self, now: float) -> float:
        later = [
            one.next_at_s - now for one in self._logs.values() if _is_open(one) and not one.is_busy
        ]
        wait_s = min(max(min(later, default=IDLE_S), self._ask_at_s - now, 0.01), IDLE_S / 4)
        is_ending = any(one.is_followed and one.is_ended for one in self._logs.values())
        return min(wait_s, QUIET_S) if is_ending else wait_s

    def _fetch(self, one: _Log, *, is_following: bool) -> bool:
        """Fetch what is new of a log; returns whether it is complete. Raises ConnectorError and
        OSError."""
        is_ended, is_gone = one.is_ended, one.is_gone
        with self._writer(one) as writer:
            if writer.is_over:
                return is_ended and writer.complete()
            if is_gone:
                return writer.complete()
            try:
                stream = self._source.stream(
                    f"{one.path}/log",
                    query=_query(one.container, writer.position, is_following=is_following),
                    silence_s=SILENCE_S if is_following else ASK_SILENCE_S,
                )
            except NotFound:
                return writer.complete()
            except KubeRefused as error:
                if is_ended and error.code == _NO_LOG_CODE:
                    # There never was a container, or its node has nothing of it any more.
                    return writer.complete()
                raise
            try:
                with self._changed:
                    if self._is_closed or one.uid not in self._logs:
                        return False
                    one.stream, one.is_stopped = stream, False
                for chunk in stream:
                    one.heard_at_s = time.monotonic()
                    writer.take(chunk)
                    if writer.is_full:
                        break
            finally:
                stream.close()
            # What was followed to its end, which came after the Pod's, is as good as asked for.
            is_whole = is_ended or (is_following and one.is_ended and not one.is_stopped)
            if not is_whole:
                return False
            writer.finish()
            return writer.complete()

    @contextlib.contextmanager
    def _writer(self, one: _Log) -> Iterator[_Writer]:
        with contextlib.ExitStack() as stack:
            with self._changed:
                if one.uid not in self._logs:
                    raise ClusterUnavailable("forgotten meanwhile")
                # Who forgot it in another process removed its directory: it is not made again.
                makes = not one.has_begun
                directory = stack.enter_context(_directory(self._root, one.key, makes=makes))
                one.has_begun = True
            file = stack.enter_context(_opened(directory, f"{one.rank}.log", _WRITE))
            writer = _Writer(directory, file, one, self._cap_bytes)
            try:
                yield writer
            finally:
                writer.note()


class _Writer:
    """Appends to the files of one rank. Nothing that was there is ever taken away: what is fetched
    a second time, because it was not noted, is written over itself."""

    def __init__(self, directory: int, file: int, one: _Log, cap_bytes: int) -> None:
        self._directory = directory
        self._file = file
        self._rank = one.rank
        position = _read_state(directory, one.rank)
        if position.pod != one.uid:
            # Another Pod for the same rank: what it writes comes after what is there.
            is_truncated = bool(position.pod) and position.is_truncated
            size = os.fstat(file).st_size if position.pod else 0
            position = Position(pod=one.uid, size=size, is_truncated=is_truncated)
        self.position = position
        self._reader = LineReader(position, cap_bytes)
        self._noted_s = time.monotonic()

    @property
    def is_full(self) -> bool:
        """Whether nothing more is to be kept."""
        return self.position.is_truncated

    @property
    def is_over(self) -> bool:
        """Whether nothing of it needs to be fetched any more."""
        return self.position.is_complete or self.position.is_truncated

    def take(self, chunk: bytes) -> None:
        """Keep what is new in `chunk`. Raises OSError."""
        self._append(self._reader.take(chunk))
        if time.monotonic() - self._noted_s >= NOTED_EVERY_S:
            self.note()

    def finish(self) -> None:
        """The answer has ended and nothing more is ever written. Raises OSError."""
        self._append(self._reader.finish())

    def complete(self) -> bool:
        """Note that nothing more ever comes; returns True. Raises OSError."""
        self.position.is_complete = True
        self.note()
        return True

    def note(self) -> None:
        """Write down how far it is. Raises OSError."""
        self._noted_s = time.monotonic()
        _write_state(self._directory, self._rank, self.position)

    def _append(self, new: bytes) -> None:
        at = self.position.size - len(new)
        while new:
            written = os.pwrite(self._file, new, at)
            new, at = new[written:], at + written


def remove_logs(root: str, key: str) -> None:
    """Remove the directory of `key`; one that is not there is fine. Raises OSError."""
    top = os.open(root, _DIRECTORY)
    try:
        shutil.rmtree(workload_name(key), dir_fd=top)
    except FileNotFoundError:
        return
    finally:
        os.close(top)


def _log_of(key: str, rank: int, pod: Object) -> _Log:
    """What the Pod says of its log. Raises Odd."""
    namespace, name = needed(pod, "metadata", "namespace"), needed(pod, "metadata", "name")
    phase = text(pod, "status", "phase")
    states = [part(one, "state") for one in parts(pod, "status", "containerStatuses")]
    is_ended = phase in ("Succeeded", "Failed") or (
        bool(states) and all("terminated" in state for state in states)
    )
    if not 0 <= rank < RANKS_MAX:
        raise Odd("the rank is no rank")
    now = time.monotonic()
    return _Log(
        key=key,
        rank=rank,
        uid=needed(pod, "metadata", "uid"),
        path=f"/api/v1/namespaces/{namespace}/pods/{name}",
        container=_container_of(pod),
        is_started=is_ended or any(state.keys() & {"running", "terminated"} for state in states),
        is_ended=is_ended,
        is_urgent=bool(text(pod, "metadata", "deletionTimestamp")),
        ended_at_s=now if is_ended else 0.0,
        heard_at_s=now,
    )


def _container_of(pod: Object) -> str:
    """The name of the container that runs the script: some operators want one of their own."""
    names = [text(one, "name") for one in parts(pod, "spec", "containers")]
    return next((name for name in names if name in CONTAINERS), CONTAINER)


def _query(container: str, position: Position, *, is_following: bool) -> dict[str, str]:
    query = {"container": container, "timestamps": "true"}
    if is_following:
        query["follow"] = "true"
    since = position.since()
    return query if since is None else {**query, "sinceTime": since}


def _is_open(one: _Log) -> bool:
    return not one.is_complete and (one.is_started or one.is_ended)


def _note_end(one: _Log, *, is_ended: bool) -> None:
    """Whether its Pod has ended: the rest of it is fetched at once."""
    if is_ended and not one.is_ended:
        one.is_ended = True
        one.next_at_s = 0.0
        one.ended_at_s = one.heard_at_s = time.monotonic()


def _take_over(known: _Log, new: _Log) -> None:
    known.is_started = known.is_started or new.is_started
    known.is_urgent = new.is_urgent
    _note_end(known, is_ended=new.is_ended)


def _stop(one: _Log) -> None:
    if one.stream is not None:
        one.is_stopped = True
        one.stream.close()

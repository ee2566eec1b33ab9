"""Stores the outputs of Pods in files (`log_files`), where they outlive the Pods.

At most `FOLLOWERS_MAX` Pods are followed at once, each by a thread with a connection. Pods that are
being deleted come first. A follower makes one request, and the API server has no work while nothing
is written.

`ASKERS_MAX` more threads poll the others in turn: each Pod every `ASK_EVERY_S` seconds, and at most
`ASKS_PER_S` Pods a second. These threads also fetch the rest of an ended log at once. A log
continues where it stopped (see `log_positions`).
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import threading
import time
from collections.abc import Collection, Iterable, Iterator

from connectors.errors import ClusterUnavailable, ConnectorError
from connectors.kubernetes.client.api import KubeRefused, NotFound
from connectors.kubernetes.logs.log_files import (
    DIRECTORY,
    WRITE,
    LogWriter,
    opened_directory,
    opened_file,
    remove_logs,
)
from connectors.kubernetes.logs.pod_logs import (
    LogSource,
    PodLog,
    is_open,
    log_of,
    note_end,
    pause_after,
    query_of,
    stop,
    take_over,
)
from connectors.kubernetes.objects.cluster_state import rank_of_ours
from connectors.kubernetes.objects.naming import cluster_label
from connectors.kubernetes.objects.reading import Object, Odd

log = logging.getLogger(__name__)
FOLLOWERS_MAX = 512
#: The number of polling threads, and the most threads that wait for work.
ASKERS_MAX = 4
ASK_EVERY_S = 5.0
ASKS_PER_S = 20
#: Seconds until the next try after a failure; see also `pause_after`.
AGAIN_S = 1.0
#: Seconds of silence after which a follower sends its request again.
SILENCE_S = 300.0
#: Seconds of silence allowed in an answer that is not followed.
ASK_SILENCE_S = 10.0
#: Seconds of silence after the end of its Pod until a stream is closed.
QUIET_S = 0.3
#: Seconds to wait for an ended log; after that it is fetched later.
WAIT_FOR_END_S = 3.0
#: Seconds without a call of `tend` after which another process may store the logs.
IDLE_S = 30.0
#: The API server's code for a log that does not exist.
_NO_LOG_CODE = 400


class LogKeeper:
    """Stores the logs of the given Pods below `root`, with its own threads.

    Only one process at a time does so for each cluster and `root`; others stand by. Failures to
    fetch or write are retried and never raised.
    """

    def __init__(self, source: LogSource, *, root: str, cluster_id: str, cap_bytes: int) -> None:
        self._source = source
        self._cluster_id = cluster_id
        self._root = root
        self._lock_name = f".{cluster_label(cluster_id)}.lock"
        self._cap_bytes = cap_bytes
        self._changed = threading.Condition()
        self._logs: dict[str, PodLog] = {}
        self._forgotten: set[str] = set()
        self._threads = 0
        self._busy = 0
        self._followers = 0
        self._is_closed = False
        self._lock: int | None = None
        self._tended_s = 0.0
        self._ask_at_s = 0.0

    def tend(self, pods: Iterable[tuple[str, int, Object]]) -> None:
        """Store the logs of `pods`: key, rank and Pod of every Pod of ours that exists.

        Returns at once. A Pod of an earlier call that is missing now is gone.
        """
        listed: dict[str, PodLog] = {}
        for key, rank, pod in pods:
            with contextlib.suppress(Odd):
                one = log_of(key, rank, pod)
                one.was_listed = True
                listed[one.uid] = one
        with self._changed:
            self._tended_s = time.monotonic()
            if self._is_closed or not self._holds_lock():
                return
            self._forgotten &= {one.key for one in listed.values()}
            for uid, new in listed.items():
                known = self._logs.get(uid)
                if known is not None:
                    known.was_listed = True
                    take_over(known, new)
                elif new.key not in self._forgotten:
                    self._logs[uid] = new
            # A Pod that only a change reported may be newer than this list of Pods.
            for uid in [u for u, one in self._logs.items() if one.was_listed and u not in listed]:
                gone = self._logs[uid]
                if gone.is_complete:
                    del self._logs[uid]
                    continue
                gone.is_gone = True
                note_end(gone, is_ended=True)
                stop(gone)
            self._wake()

    def pod_changed(self, before: Object | None, now: Object | None) -> None:
        """Process the change of one Pod between calls of `tend`, which would miss a short one."""
        pod = now or before or {}
        try:
            found = rank_of_ours(pod, cluster_id=self._cluster_id)
            if found is None:
                return
            new = log_of(*found, pod)
        except Odd:
            return
        is_gone = now is None
        with self._changed:
            # A process without calls of `tend` does not store the logs.
            is_tended = time.monotonic() - self._tended_s <= IDLE_S
            if self._is_closed or self._lock is None or not is_tended or new.key in self._forgotten:
                return
            known = self._logs.get(new.uid)
            if known is not None:
                take_over(known, new)
                if is_gone:
                    known.is_gone = True
                    note_end(known, is_ended=True)
                    stop(known)
            elif not is_gone:
                self._logs[new.uid] = new
            self._wake()

    def _wake(self) -> None:
        """Start the threads for readable logs, and wake them."""
        self._stop_quiet()
        self._have_threads()
        self._changed.notify_all()

    def _have_threads(self) -> None:
        """Start one thread for each readable log, and a few that wait for the others."""
        now = time.monotonic()
        waiting = [one for one in self._logs.values() if is_open(one) and not one.is_busy]
        ready = sum(one.next_at_s <= now for one in waiting)
        wanted = self._busy + max(ready, min(ASKERS_MAX, len(waiting)))
        for _ in range(self._threads, min(FOLLOWERS_MAX + ASKERS_MAX, wanted)):
            self._threads += 1
            threading.Thread(target=self._work, name="kube-logs", daemon=True).start()

    def _stop_quiet(self) -> None:
        """End streams that do not end with their Pod; the rest is then requested."""
        now = time.monotonic()
        for one in self._logs.values():
            if one.is_followed and one.is_ended and now - one.heard_at_s >= QUIET_S:
                stop(one)

    def catch_up(self, keys: Collection[str], within_s: float) -> bool:
        """Wait until the logs of ended Pods of `keys` are complete. Return whether they are.

        It waits at most `within_s` seconds, and `WAIT_FOR_END_S` for each log.
        """
        until = time.monotonic() + within_s
        with self._changed:
            while True:
                now = time.monotonic()
                waiting = [
                    one.ended_at_s + WAIT_FOR_END_S
                    for one in self._logs.values()
                    if one.is_ended and not one.is_complete and one.key in keys
                ]
                late = min(until, max(waiting, default=now))
                if not waiting or late <= now or self._is_closed:
                    return not waiting
                self._stop_quiet()
                self._changed.wait(min(late - now, QUIET_S / 2))

    def forget(self, key: str) -> None:
        """Remove the stored output of `key`. Idempotent."""
        with self._changed:
            self._forgotten.add(key)
            for uid in [uid for uid, one in self._logs.items() if one.key == key]:
                stop(self._logs.pop(uid))
            # Inside the lock: writers check `_logs` first.
            with contextlib.suppress(OSError):
                remove_logs(self._root, key)
            self._changed.notify_all()

    def close(self) -> None:
        """Stop. Stored output stays, and the next keeper continues it."""
        with self._changed:
            self._is_closed = True
            for one in self._logs.values():
                stop(one)
            self._give_lock_back()
            self._changed.notify_all()

    def _holds_lock(self) -> bool:
        """Return whether this process alone stores these logs."""
        if self._lock is not None:
            return True
        try:
            os.makedirs(self._root, mode=0o700, exist_ok=True)
            top = os.open(self._root, DIRECTORY)
            try:
                opened = os.open(self._lock_name, WRITE, 0o600, dir_fd=top)
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
            began_s = time.monotonic()
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
                self._busy -= 1
                if one.is_followed:
                    one.is_followed = False
                    self._followers -= 1
                one.is_complete = one.is_complete or is_done
                now = time.monotonic()
                if one.is_ended and not one.ended_before:
                    # The Pod ended while its log was read: the rest is fetched at once.
                    one.next_at_s = 0.0
                elif one.is_ended or is_following:
                    pause_s = pause_after(one, began_s=began_s, now_s=now, again_s=AGAIN_S)
                    one.next_at_s = now + pause_s
                else:
                    one.next_at_s = now + ASK_EVERY_S
                self._changed.notify_all()

    def _next(self) -> tuple[PodLog, bool] | None:
        """Return the next log to read, and whether to follow it; None when the thread is to end."""
        with self._changed:
            while True:
                now = time.monotonic()
                if not self._is_closed and now - self._tended_s > IDLE_S:
                    for one in self._logs.values():
                        stop(one)
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
                    self._busy += 1
                    if is_following:
                        one.is_followed = True
                        self._followers += 1
                    self._have_threads()
                    return task
                if self._threads - self._busy > ASKERS_MAX:
                    self._threads -= 1
                    return None
                self._changed.wait(self._idle_s(now))

    def _chosen(self, now: float) -> tuple[PodLog, bool] | None:
        ready = [one for one in self._logs.values() if is_open(one) and not one.is_busy]
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
            one.next_at_s - now for one in self._logs.values() if is_open(one) and not one.is_busy
        ]
        wait_s = min(max(min(later, default=IDLE_S), self._ask_at_s - now, 0.01), IDLE_S / 4)
        is_ending = any(one.is_followed and one.is_ended for one in self._logs.values())
        return min(wait_s, QUIET_S) if is_ending else wait_s

    def _fetch(self, one: PodLog, *, is_following: bool) -> bool:
        """Fetch the new part of a log. Return whether it is complete.

        Raises ConnectorError and OSError.
        """
        is_ended, is_gone = one.is_ended, one.is_gone
        with self._writer(one) as writer:
            if writer.is_over:
                return is_ended and writer.complete()
            if is_gone:
                return writer.complete()
            try:
                stream = self._source.stream(
                    f"{one.path}/log",
                    query=query_of(one.container, writer.position, is_following=is_following),
                    silence_s=SILENCE_S if is_following else ASK_SILENCE_S,
                )
            except NotFound:
                return writer.complete()
            except KubeRefused as error:
                if is_ended and error.code == _NO_LOG_CODE:
                    # There never was a container, or its node has no log of it any more.
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
            # A stream that was followed beyond the Pod's end is as complete as a request.
            is_whole = is_ended or (is_following and one.is_ended and not one.is_stopped)
            if not is_whole:
                return False
            writer.finish()
            return writer.complete()

    @contextlib.contextmanager
    def _writer(self, one: PodLog) -> Iterator[LogWriter]:
        with contextlib.ExitStack() as stack:
            with self._changed:
                if one.uid not in self._logs:
                    raise ClusterUnavailable("forgotten meanwhile")
                # Another process may have forgotten it and removed its directory, which is not
                # created again.
                makes = not one.has_begun
                directory = stack.enter_context(opened_directory(self._root, one.key, makes=makes))
                one.has_begun = True
            file = stack.enter_context(opened_file(directory, f"{one.rank}.log", WRITE))
            times = stack.enter_context(opened_file(directory, f"{one.rank}.times", WRITE))
            writer = LogWriter(
                directory, file, times, rank=one.rank, pod=one.uid, cap_bytes=self._cap_bytes
            )
            try:
                yield writer
            finally:
                writer.note()

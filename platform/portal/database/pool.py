"""A pool of connections without threads and without back-off.

Without an idle connection, the thread that asks connects itself. So it fails at once while the
server is unreachable, and the first call after its return succeeds. `psycopg_pool` connects in its
own threads with growing pauses, and tries dead connections one by one, 1, 2 and 4 s apart.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from threading import BoundedSemaphore, Lock
from time import monotonic
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus

#: Age at which a connection is closed, because the server's process for it grows.
LIFETIME_S = 3600.0
#: Idle time after which a connection is closed.
IDLE_S = 600.0

Connection = psycopg.Connection[Any]


class NoConnectionFree(psycopg.OperationalError):
    """All connections of the pool were in use during the whole time-out."""


class Pool:
    """At most `max_size` connections at once, each opened by `connect` in the thread that asks.

    `getconn` waits at most `timeout` seconds for another thread to return a connection.
    """

    def __init__(self, connect: Callable[[], Connection], *, max_size: int, timeout: float) -> None:
        self._connect = connect
        self._max_size = max_size
        self._timeout_s = timeout
        self._places = BoundedSemaphore(max_size)
        self._lock = Lock()
        self._idle: list[tuple[Connection, float]] = []
        self._made_at: dict[int, float] = {}
        self._is_closed = False

    def open(self) -> None:
        """Do nothing, as connections open on demand. Django calls this before each `getconn`."""

    def getconn(self) -> Connection:
        """Return a connection that answers.

        Raises NoConnectionFree, or psycopg.OperationalError when the server is unreachable.
        """
        if not self._places.acquire(timeout=self._timeout_s):
            raise NoConnectionFree(
                f"All {self._max_size} connections were in use for {self._timeout_s:.0f} s."
            )
        try:
            while (found := self._take_idle()) is not None:
                if _answers(found):
                    return found
                # A dead connection died with its server, and so did the other idle ones.
                self._discard(found)
                self._close_idle()
            made = self._connect()
        except BaseException:
            self._places.release()
            raise
        # Django returns the connection to this attribute. psycopg does not warn if it ends
        # unclosed.
        made._pool = self
        with self._lock:
            self._made_at[id(made)] = monotonic()
        return made

    def putconn(self, given: Connection) -> None:
        """Take a connection back. An open transaction is rolled back."""
        try:
            self._keep(given)
        finally:
            self._places.release()

    def close(self) -> None:
        """Close the idle connections now, and the others when they are returned."""
        self._is_closed = True
        self._close_idle()

    def _take_idle(self) -> Connection | None:
        with self._lock:
            # The latest one first, so that surplus connections grow old and are closed.
            return self._idle.pop()[0] if self._idle else None

    def _keep(self, given: Connection) -> None:
        with suppress(psycopg.Error):
            given.rollback()
            given.autocommit = True
        now = monotonic()
        with self._lock:
            is_usable = (
                not self._is_closed
                and given.pgconn.transaction_status == TransactionStatus.IDLE
                and now - self._made_at[id(given)] < LIFETIME_S
            )
            if is_usable:
                self._idle.append((given, now))
            old = [one for one, at in self._idle if now - at >= IDLE_S]
            self._idle = [(one, at) for one, at in self._idle if now - at < IDLE_S]
        for one in old if is_usable else (*old, given):
            self._discard(one)

    def _close_idle(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for one, _ in idle:
            self._discard(one)

    def _discard(self, one: Connection) -> None:
        with self._lock:
            self._made_at.pop(id(one), None)
        with suppress(psycopg.Error):
            one.close()


def _answers(one: Connection) -> bool:
    """Return whether the server answers on this connection."""
    try:
        # One round trip, in autocommit as every idle connection.
        one.execute("")
    except psycopg.Error:
        return False
    return True

"""One leader at a time for each role, and a fence against writes of former leaders.

A leader holds a session advisory lock on a connection of its own, and an epoch in the database. The
lock makes fail-over fast. The epoch makes it safe: each transaction of a leader first reads its
epoch FOR SHARE. So a deposed leader that wakes up can write nothing.

A leader that hangs keeps its lock for ever. A standby that sees an old heartbeat therefore ends the
connection of the *recorded* leader. It never ends the connection of an unknown holder of the lock.
"""

from __future__ import annotations

import hashlib
import logging
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from threading import Event, Thread

import psycopg
from django.conf import settings
from django.db import (
    DatabaseError,
    InterfaceError,
    close_old_connections,
    connection,
    transaction,
)

from live.pulse import Pulse
from live.waking import dedicated_connection

log = logging.getLogger(__name__)

WORK_NOTED_EVERY_S = 1.0
STANDBY_S = 0.5
RETRY_S = 1.0
#: A step of a loop that takes longer, despite the database's time-outs, hangs. The supervisor may
#: then replace the process. In seconds.
STEP_WITHIN_S = 60.0


class NotLeading(Exception):
    """This process no longer leads; the write in progress was not committed."""


@contextmanager
def fence(role: str, epoch: int) -> Iterator[None]:
    """A transaction that only a current leader can commit.

    Raises NotLeading when `epoch` is over. FOR SHARE makes a new leader wait for this transaction
    instead of overtaking it.
    """
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT 1 FROM jobs_leadership WHERE role = %s AND epoch = %s FOR SHARE",
                [role, epoch],
            )
            if cursor.fetchone() is None:
                raise NotLeading(f"{role} epoch {epoch} is over")
        yield


def keep_out(role: str) -> None:
    """Wait for the fenced transactions of `role`, and block new ones.

    The block lasts until the caller's transaction ends.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT FROM jobs_leadership WHERE role = %s FOR UPDATE", [role])


class Leadership:
    """A bid for the leadership of `role`: `campaign` until it succeeds, then watch `is_leading`.

    A standby deposes a leader whose heartbeat is older than `ttl_s` seconds. The leader itself
    stops at 60 % of `ttl_s`, by its own monotonic clock.
    """

    def __init__(self, role: str, *, ttl_s: float) -> None:
        self.role = role
        self.epoch = 0
        self._ttl_s = ttl_s
        self._stack = ExitStack()
        self._beat_at = float("-inf")
        self._noted_at = float("-inf")
        self._ended = Event()
        self._beating: Thread | None = None

    @property
    def is_leading(self) -> bool:
        """Return whether the last heartbeat is recent enough to continue.

        A False is final for the epoch, because its caller may have stopped working.
        """
        if time.monotonic() - self._beat_at >= 0.6 * self._ttl_s:
            self._ended.set()
        return not self._ended.is_set()

    def fence(self) -> AbstractContextManager[None]:
        """Return a transaction fenced by this leader's epoch; see `fence`."""
        return fence(self.role, self.epoch)

    def campaign(self) -> bool:
        """Try once to lead. Return whether this process now leads.

        Raises psycopg.OperationalError when the database is unreachable.
        """
        self.resign()
        with ExitStack() as stack:
            own = stack.enter_context(dedicated_connection(f"tidegate-{self.role}-leader"))
            own.execute("SET lock_timeout = '5s'")
            own.execute(
                "INSERT INTO jobs_leadership (role, epoch, holder) VALUES (%s, 0, '') "
                "ON CONFLICT (role) DO NOTHING",
                [self.role],
            )
            row = own.execute("SELECT pg_try_advisory_lock(%s)", [_lock_key(self.role)]).fetchone()
            if row is None or not row[0]:
                self._depose_silent_leader(own)
                return False
            holder = f"{socket.gethostname()}:{os.getpid()}"
            row = own.execute(
                "UPDATE jobs_leadership SET epoch = epoch + 1, holder = %s, "
                "backend_pid = pg_backend_pid() "
                "WHERE role = %s RETURNING epoch",
                [holder, self.role],
            ).fetchone()
            assert row is not None
            self.epoch = row[0]
            own.execute(
                "INSERT INTO jobs_heartbeat (role, epoch, at) VALUES (%s, %s, clock_timestamp()) "
                "ON CONFLICT (role) DO UPDATE SET epoch = excluded.epoch, at = excluded.at",
                [self.role, self.epoch],
            )
            self._beat_at = time.monotonic()
            self._ended = Event()
            self._stack = stack.pop_all()
        self._beating = Thread(
            target=self._beat, args=(own, self.epoch, self._ended), daemon=True, name="heartbeat"
        )
        self._beating.start()
        log.info("%s leads in epoch %d", self.role, self.epoch)
        return True

    def note_work(self) -> None:
        """Store that the leader has just done its work, at most once a second."""
        if time.monotonic() - self._noted_at < WORK_NOTED_EVERY_S:
            return
        with connection.cursor() as cursor:
            cursor.execute(
                "UPDATE jobs_heartbeat SET worked_at = clock_timestamp() "
                "WHERE role = %s AND epoch = %s",
                [self.role, self.epoch],
            )
        self._noted_at = time.monotonic()

    def resign(self) -> None:
        """Give up the leadership at once, if this process holds it."""
        self._ended.set()
        if self._beating is not None:
            self._beating.join(timeout=10)
            self._beating = None
        self._stack.close()

    def _beat(self, own: psycopg.Connection, epoch: int, ended: Event) -> None:
        while not ended.wait(self._ttl_s / 5):
            started = time.monotonic()
            try:
                cursor = own.execute(
                    "UPDATE jobs_heartbeat SET at = clock_timestamp() "
                    "WHERE role = %s AND epoch = %s",
                    [self.role, epoch],
                )
            except psycopg.Error as error:
                log.warning("%s lost its connection: %s", self.role, error)
                ended.set()
                return
            if cursor.rowcount != 1:
                log.warning("%s was deposed from epoch %d", self.role, epoch)
                ended.set()
                return
            self._beat_at = started

    def _depose_silent_leader(self, own: psycopg.Connection) -> None:
        row = own.execute(
            "SELECT l.backend_pid, l.epoch FROM jobs_leadership l "
            "JOIN jobs_heartbeat h ON h.role = l.role AND h.epoch = l.epoch "
            "WHERE l.role = %s AND h.at < clock_timestamp() - make_interval(secs => %s)",
            [self.role, self._ttl_s],
        ).fetchone()
        if row is None or row[0] is None:
            return
        log.warning("%s of epoch %d is silent; its connection is ended", self.role, row[1])
        # Only the recorded backend, and only while it still belongs to a leader of this role in
        # this database. Another portal may have its database on this server.
        own.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE pid = %s AND application_name = %s AND datname = current_database()",
            [row[0], f"tidegate-{self.role}-leader"],
        )


def _lock_key(role: str) -> int:
    digest = hashlib.sha256(f"tidegate/{role}".encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)


def lead(role: str, stopping: Event, act: Callable[[Leadership], None], pulse: Pulse) -> None:
    """Campaign for `role`, call `act` while leading, and repeat until `stopping` is set.

    `act` must return when it no longer leads or `stopping` is set.
    """
    while not stopping.is_set():
        pulse.promise(STEP_WITHIN_S)
        # A new object for each term, so that a thread of an earlier term writes with the earlier
        # epoch.
        leadership = Leadership(role, ttl_s=settings.LEADER_TTL_S)
        try:
            if leadership.campaign():
                act(leadership)
            else:
                stopping.wait(STANDBY_S)
        except NotLeading as error:
            log.warning("%s", error)
        except (psycopg.Error, DatabaseError, InterfaceError) as error:
            log.warning("%s waits for the database: %s", role, str(error).splitlines()[0])
            close_old_connections()
            stopping.wait(RETRY_S)
        finally:
            with suppress(psycopg.Error):
                leadership.resign()

"""Wakes a waiting process at commit when there is work for it. PostgreSQL carries the notice.

A notice is only a hint: each waiting process also checks for work every few seconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from django.db import DEFAULT_DB_ALIAS, connection, connections


def wake(role: str) -> None:
    """Wake the leader of `role` ("arbiter", "observer") when this transaction commits."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_notify(%s, '')", [channel_of(role)])


def channel_of(role: str) -> str:
    """Return the PostgreSQL channel that wakes the leader of `role`."""
    return f"tidegate_{role}"


@contextmanager
def dedicated_connection(application_name: str) -> Iterator[psycopg.Connection]:
    """Open an autocommit connection to the default database, outside every pool.

    It is for session state (LISTEN, advisory locks) that must not leak into requests. Keepalives
    detect a dead peer. Raises psycopg.OperationalError when the database is unreachable.
    """
    settings = connections[DEFAULT_DB_ALIAS].settings_dict
    with psycopg.connect(
        host=settings["HOST"],
        port=settings["PORT"],
        user=settings["USER"],
        password=settings["PASSWORD"],
        dbname=settings["NAME"],
        connect_timeout=5,
        application_name=application_name,
        autocommit=True,
        keepalives=1,
        keepalives_idle=5,
        keepalives_interval=2,
        keepalives_count=3,
    ) as own:
        yield own


class Listener:
    """Waits for notices to a role on a connection of its own."""

    def __init__(self, own: psycopg.Connection, role: str) -> None:
        self._connection = own
        own.execute(psycopg.sql.SQL("LISTEN {}").format(psycopg.sql.Identifier(channel_of(role))))

    def wait(self, timeout_s: float) -> bool:
        """Return whether a notice came within `timeout_s`. Notices that piled up count as one."""
        came = False
        for _ in self._connection.notifies(timeout=timeout_s, stop_after=1):
            came = True
        for _ in self._connection.notifies(timeout=0):
            came = True
        return came

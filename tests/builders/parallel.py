"""Acts of several threads at once, each with its own database connection."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Barrier
from typing import TypeVar

from django.db import connection

Result = TypeVar("Result")


def at_once(acts: Sequence[Callable[[], Result]]) -> list[Result]:
    """The results of `acts`, which all begin together; raises what one of them raised."""
    start = Barrier(len(acts), timeout=60)

    def run(act: Callable[[], Result]) -> Result:
        try:
            start.wait()
            return act()
        finally:
            connection.close()

    with ThreadPoolExecutor(max_workers=len(acts)) as pool:
        return list(pool.map(run, acts))


def in_thread(pool: ThreadPoolExecutor, act: Callable[[], Result]) -> Future[Result]:
    """Run `act` on a database connection of its own."""

    def run() -> Result:
        try:
            return act()
        finally:
            connection.close()

    return pool.submit(run)


def somebody_waits_for_a_lock() -> bool:
    """Whether a statement in this database waits for another transaction."""
    with connection.cursor() as cursor:
        # A transaction sees one frozen picture of the activity unless told otherwise.
        cursor.execute("SELECT pg_stat_clear_snapshot()")
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' "
            "AND datname = current_database()"
        )
        (waiting,) = cursor.fetchone()
    return bool(waiting)

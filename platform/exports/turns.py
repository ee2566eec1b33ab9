"""One turn at a time: of all workers together, one writes a file or audits the charges.

Such work takes minutes. More of it at once would leave no worker for budgets and credits.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from live.waking import dedicated_connection

_TRY_LOCK = "SELECT pg_try_advisory_lock(hashtextextended('exports', 0))"


@contextmanager
def only_one() -> Iterator[bool]:
    """Yield whether this is the only turn. If so, it stays the only one until the context ends.

    The end of a killed worker's connection ends its turn. Raises psycopg.OperationalError when the
    database is unreachable.
    """
    with dedicated_connection("tidegate-exports") as own:
        (is_ours,) = own.execute(_TRY_LOCK).fetchone() or (False,)
        yield is_ours

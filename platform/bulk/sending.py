"""Statements that are sent while earlier statements still run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection


@contextmanager
def sent_ahead() -> Iterator[None]:
    """Send statements without waiting for their results. At the end of the block, all have run.

    The database works on a statement while the next one is built. Only code that reads the result
    of a statement waits for it. Use this inside a transaction.

    A failed statement raises its usual error, but maybe late: at a later statement, at the read of
    a later result, or at the end of the block. Statements after the failed one do not run. So catch
    errors outside of the block.
    """
    connection.ensure_connection()
    assert connection.connection is not None
    with connection.wrap_database_errors, connection.connection.pipeline():
        yield

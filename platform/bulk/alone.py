"""Transactions in which no other worker writes a table."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection, transaction


@contextmanager
def alone_with(table: str) -> Iterator[None]:
    """Let no other worker write `table` until the end, and read one snapshot from then on.

    So no note of a change is deleted that the writer of what it changes has not seen. Within a
    transaction of the caller, the snapshot is that of each statement.
    """
    is_outermost = not connection.in_atomic_block
    with transaction.atomic():
        with connection.cursor() as cursor:
            if is_outermost:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            cursor.execute(f"LOCK TABLE {table} IN SHARE ROW EXCLUSIVE MODE")
        yield

"""Statements that are sent while those before them still run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection


@contextmanager
def sent_ahead() -> Iterator[None]:
    """Who asks for no result of a statement does not wait for it: the database works on it while
    the next one is built. All have run at the end.

    For the inside of a transaction. A statement that fails raises what it raises elsewhere, but
    maybe only with a later one, or where somebody asks for a later one's result, at the latest at
    the end; later ones are not run then. So who catches it does so outside of the block.
    """
    connection.ensure_connection()
    assert connection.connection is not None
    with connection.wrap_database_errors, connection.connection.pipeline():
        yield

"""The rows that this process reads and writes now: all, or those of some organizations.

A request is limited to its sender's organizations as soon as the sender is known. The database
connection (`portal.database`) tells PostgreSQL before the next statement, and row-level security
hides all other rows, whatever the statement says. It is a second wall behind
`tenants.access.visible`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar
from uuid import UUID

Part = TypeVar("Part")

#: Ids of organizations; None is all rows.
Rows = frozenset[UUID] | None

_rows: ContextVar[Rows] = ContextVar("row_access", default=None)


def rows_now() -> Rows:
    """Return the organizations whose rows are visible now; None when all rows are."""
    return _rows.get()


def limit_to(organizations: Iterable[UUID]) -> None:
    """Limit what follows in the innermost context of this module to these organizations."""
    _rows.set(frozenset(organizations))


@contextmanager
def limited_rows(rows: Rows) -> Iterator[None]:
    """Read and write the rows of these organizations inside of the context; None is all rows."""
    before = _rows.get()
    _rows.set(rows)
    try:
        yield
    finally:
        # Not by a token: a generator may end in another context than the one that it began in.
        _rows.set(before)


@contextmanager
def all_rows() -> Iterator[None]:
    """Read and write the rows of all organizations inside of the context.

    Some answers depend on every organization, such as what starts next on a shared cluster. The
    caller then shows no more than the reader may see.
    """
    with limited_rows(None):
        yield


def keeping_rows(parts: Iterator[Part]) -> Iterator[Part]:
    """Yield `parts`, each of them read with the rows of the moment of this call."""
    return _read_with(rows_now(), parts)


def _read_with(rows: Rows, parts: Iterator[Part]) -> Iterator[Part]:
    try:
        while True:
            with limited_rows(rows):
                try:
                    part = next(parts)
                except StopIteration:
                    return
            yield part
    finally:
        # A reader that leaves ends the parts, too, with their rows.
        if isinstance(parts, Generator):
            with limited_rows(rows):
                parts.close()

"""Transactions that are tried and taken back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import transaction


class _RolledBack(Exception):
    """Ends the transaction of a trial."""


@contextmanager
def rolled_back() -> Iterator[None]:
    """Return a context whose writes are taken back at its end, also within a transaction."""
    try:
        with transaction.atomic():
            yield
            raise _RolledBack
    except _RolledBack:
        pass

"""Statements that are planned once per connection, for queries of almost every request."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar, cast
from uuid import UUID

import orjson
import psycopg
from django.db import DEFAULT_DB_ALIAS, connection
from django.db.backends.utils import CursorWrapper
from django.db.models import Model
from psycopg.abc import Buffer
from psycopg.adapt import Loader
from psycopg.pq import Format

Row = TypeVar("Row", bound=Model)


class _JsonbLoader(Loader):
    """Reads JSON with orjson, at a third of the cost. Stored JSON has no number beyond 64 bits."""

    format = Format.BINARY

    def load(self, data: Buffer) -> Any:
        """Return the value in `data`. The first byte is the version of the format."""
        return orjson.loads(memoryview(data)[1:])


class _PreparedCursor(psycopg.Cursor[Any]):
    """Prepares each statement under a name that psycopg derives from its text."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        super().__init__(connection)
        self.adapters.register_loader("jsonb", _JsonbLoader)

    def execute(self, query: Any, params: Any = None, **options: Any) -> _PreparedCursor:
        """Execute a statement with separate parameters. Rows come in PostgreSQL's binary form."""
        super().execute(query, params, prepare=True, binary=True)
        if connection.queries_logged:
            # Django logs this text. psycopg forgets it for a statement that was prepared before.
            self._query = self._convert_query(query, params)
        return self


def prepared_cursor() -> CursorWrapper:
    """Return a cursor of Django's default connection for one of a few constant statements.

    PostgreSQL plans such a statement for any value of its parameters. So use it for look-ups by
    key, not for filters. Parameters are typed in the text (`%s::uuid[]`). Values come as psycopg
    reads them: JSON as objects, times in UTC.
    """
    # Only the inner cursor is replaced, so that Django's time limits, logging and errors stay.
    wrapped = connection.cursor()
    wrapped.cursor = _PreparedCursor(cast(Any, connection.connection))
    return wrapped


def array_text(values: Iterable[UUID | int | str]) -> str:
    """Return a PostgreSQL array as text.

    This is ten times faster than a list, of which the driver quotes each element.

    Use it for plain words only, because nothing is quoted.
    """
    return "{" + ",".join(map(str, values)) + "}"


def columns(model: type[Model], alias: str) -> str:
    """Return the columns of a table with this `alias`, for the list of a SELECT."""
    return ", ".join(f'{alias}."{field.column}"' for field in model._meta.concrete_fields)


def taken(model: type[Row], values: Sequence[Any]) -> tuple[Row, Sequence[Any]]:
    """Return a row from the first of `values`, in the order of `columns`, and the other values."""
    names = [field.attname for field in model._meta.concrete_fields]
    return model.from_db(DEFAULT_DB_ALIAS, names, values[: len(names)]), values[len(names) :]

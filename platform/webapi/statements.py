"""Statements that are planned once per connection, for what almost every request asks."""

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
    """JSON by orjson, at a third of the cost; what we store has no number beyond 64 bits."""

    format = Format.BINARY

    def load(self, data: Buffer) -> Any:
        """The value in `data`, whose first byte is the form's version."""
        return orjson.loads(memoryview(data)[1:])


class _PreparedCursor(psycopg.Cursor[Any]):
    """Prepares what it is given, under a name that psycopg derives from the text."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        super().__init__(connection)
        self.adapters.register_loader("jsonb", _JsonbLoader)

    def execute(self, query: Any, params: Any = None, **options: Any) -> _PreparedCursor:
        """Execute; parameters travel apart from the text, rows in PostgreSQL's own form."""
        super().execute(query, params, prepare=True, binary=True)
        if connection.queries_logged:
            # What Django logs; psycopg forgets it for a statement that was prepared before.
            self._query = self._convert_query(query, params)
        return self


def prepared_cursor() -> CursorWrapper:
    """A cursor of Django's default connection for one of a handful of constant statements.

    PostgreSQL plans such a statement for any value of its parameters, so it is for look-ups by
    keys and not for filters. Parameters are typed in the text (`%s::uuid[]`). Values come as
    psycopg reads them: JSON as objects, times in UTC.
    """
    # The cursor that Django itself would wrap is replaced, so that its time limits, its logging
    # of statements and its errors stay.
    wrapped = connection.cursor()
    wrapped.cursor = _PreparedCursor(cast(Any, connection.connection))
    return wrapped


def array_text(values: Iterable[UUID | int | str]) -> str:
    """A PostgreSQL array as text: the driver quotes a list element by element, ten times
    slower. For plain words only: nothing is quoted."""
    return "{" + ",".join(map(str, values)) + "}"


def columns(model: type[Model], alias: str) -> str:
    """The columns of a table that goes by `alias`, for the list of a SELECT."""
    return ", ".join(f'{alias}."{field.column}"' for field in model._meta.concrete_fields)


def taken(model: type[Row], values: Sequence[Any]) -> tuple[Row, Sequence[Any]]:
    """A row from the first of `values`, as `columns` asked for them, and the others."""
    names = [field.attname for field in model._meta.concrete_fields]
    return model.from_db(DEFAULT_DB_ALIAS, names, values[: len(names)]), values[len(names) :]

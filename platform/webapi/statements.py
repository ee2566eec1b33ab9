"""Statements that are planned once per connection, for what almost every request asks."""

from __future__ import annotations

from typing import Any, cast

import psycopg
from django.db import connection
from django.db.backends.utils import CursorWrapper


class _PreparedCursor(psycopg.Cursor[Any]):
    """Prepares what it is given, under a name that psycopg derives from the text."""

    def execute(self, query: Any, params: Any = None, **options: Any) -> _PreparedCursor:
        """Execute; parameters travel apart from the text, rows in PostgreSQL's own form."""
        super().execute(query, params, prepare=True, binary=True)
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

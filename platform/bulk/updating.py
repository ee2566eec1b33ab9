"""Fast updates: many changed rows in one statement with one JSON parameter."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from django.db import connection
from django.db.models import Field, Model


def update_rows(model: type[Model], rows: Sequence[Mapping[str, Any]]) -> int:
    """Update the rows whose primary keys are in `rows`, and return how many rows changed.

    Each of `rows` maps column names to JSON values, ids or datetimes, and holds the primary key.
    All rows have the columns of the first. A key that does not exist changes nothing. Raises
    ValueError for a name that is no column, or a missing primary key. Raises what the database
    raises.
    """
    if not rows:
        return 0
    statement = _statement(model, tuple(rows[0]))
    with connection.cursor() as cursor:
        cursor.execute(statement, [json.dumps([dict(row) for row in rows], default=str)])
        return int(cursor.rowcount)


@lru_cache(64)
def _statement(model: type[Model], columns: tuple[str, ...]) -> str:
    meta = model._meta
    fields: dict[str, Field[Any, Any]] = {
        field.column: field for field in meta.concrete_fields if field.column
    }
    assert meta.pk is not None
    key = meta.pk.column
    if unknown := set(columns) - fields.keys():
        raise ValueError(f"{model.__name__} has no column {min(unknown)}")
    if key not in columns:
        raise ValueError(f"every row of {model.__name__} needs its {key}")
    quote = connection.ops.quote_name
    types = ", ".join(f"{quote(name)} {fields[name].rel_db_type(connection)}" for name in columns)
    values = ", ".join(f"{quote(name)} = given.{quote(name)}" for name in columns if name != key)
    # Names and types come from the model, and all values are in the one parameter.
    return (
        f"UPDATE {quote(meta.db_table)} AS old SET {values} "  # noqa: S608
        f"FROM json_to_recordset(%s) AS given ({types}) "
        f"WHERE old.{quote(key)} = given.{quote(key)}"
    )

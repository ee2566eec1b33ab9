"""Pages of lists that are sorted by several columns together."""

from __future__ import annotations

from typing import Any, TypeVar

from django.db.models import Model, Q, QuerySet

from webapi.paging import AskedPage, Page, decode_cursor, encode_cursor

Row = TypeVar("Row", bound=Model)


def page_by_key(asked: AskedPage, rows: QuerySet[Row], *fields: str) -> Page[Row]:
    """Return one page of `rows`, sorted by text `fields` that are unique together.

    Fields of related rows have `__` in their names. These rows must be loaded with
    `select_related`.
    """
    if asked.cursor is not None:
        key = decode_cursor(asked.cursor, parts=len(fields))
        after = Q(pk__in=[])
        equal = Q()
        for field, value in zip(fields, key, strict=True):
            after |= equal & Q(**{f"{field}__gt": value})
            equal &= Q(**{field: value})
        rows = rows.filter(after)
    limit = asked.limit
    found = list(rows.order_by(*fields)[: limit + 1])
    items = found[:limit]
    if len(found) <= limit:
        return Page(items, None)
    return Page(items, encode_cursor([_value(items[-1], field) for field in fields]))


def _value(row: Any, field: str) -> str:
    for step in field.split("__"):
        row = getattr(row, step)
    return str(row)

"""What PostgreSQL's planner knows of a table, where a test counts the rows that a query reads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from django.db import connection

from embedded.postgres import OWNER
from servers import ServerPlan, connect_as

Owner = psycopg.Connection[tuple[object, ...]]

_OF_TABLE_AND_INDEXES = """
SELECT pg_clear_relation_stats('public', relname) FROM pg_class
WHERE oid = %(table)s::regclass
    OR oid IN (SELECT indexrelid FROM pg_index WHERE indrelid = %(table)s::regclass)
"""
_OF_COLUMNS = """
SELECT pg_clear_attribute_stats('public', tablename, attname, false) FROM pg_stats
WHERE schemaname = 'public' AND tablename = %(table)s
"""


@contextmanager
def unknown_to_the_planner(plan: ServerPlan, table: str) -> Iterator[Owner]:
    """The connection of the owner, who may say what the planner knows of `table`. Nothing at first,
    and nothing afterwards, whatever autovacuum left of the tests before; it keeps away meanwhile.
    """
    with connect_as(plan, OWNER, str(connection.settings_dict["NAME"])) as owner:
        owner.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = false)")
        _forget(owner, table)
        yield owner
        _forget(owner, table)
        owner.execute(f"ALTER TABLE {table} RESET (autovacuum_enabled)")


def _forget(owner: Owner, table: str) -> None:
    for what in (_OF_TABLE_AND_INDEXES, _OF_COLUMNS):
        owner.execute(what, {"table": table})


def only_wanted_rows_are_looked_up() -> None:
    """Of a table of a few pages the planner may rather read all rows, where it has been told of
    other tables that they have more; on one of 100,000 jobs that is never cheaper."""
    with connection.cursor() as cursor:
        for way in ("enable_seqscan", "enable_hashjoin", "enable_mergejoin"):
            cursor.execute(f"SET LOCAL {way} = off")

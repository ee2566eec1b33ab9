"""What PostgreSQL's planner knows of tables, where a test counts the rows that a query reads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from django.db import connection
from psycopg.sql import SQL, Identifier

from embedded.postgres import OWNER
from servers import ServerPlan, connect_as

Owner = psycopg.Connection[tuple[object, ...]]

_FORGET = (
    "SELECT pg_clear_relation_stats('public', relname) FROM pg_class "
    "WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'i')",
    "SELECT pg_clear_attribute_stats('public', tablename, attname, inherited) FROM pg_stats "
    "WHERE schemaname = 'public'",
)


@contextmanager
def planner_knowing_nothing(plan: ServerPlan) -> Iterator[Owner]:
    """The connection of the owner, who may say what the planner knows. Nothing at first, and
    nothing afterwards, whatever the tests before and autovacuum left; it keeps away meanwhile.

    Of all tables, because which of two is read first goes by both, and without the space of what
    was undone, from which the planner infers rows. Begins before the test reads any of them.
    """
    with connect_as(plan, OWNER, str(connection.settings_dict["NAME"])) as owner:
        owner.execute("SET lock_timeout = '20s'")
        found = owner.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        tables = [Identifier(str(name)) for (name,) in found]
        for table in tables:
            owner.execute(SQL("ALTER TABLE {} SET (autovacuum_enabled = false)").format(table))
            owner.execute(SQL("VACUUM FULL {}").format(table))
        _forget(owner)
        yield owner
        _forget(owner)
        for table in tables:
            owner.execute(SQL("ALTER TABLE {} RESET (autovacuum_enabled)").format(table))


def _forget(owner: Owner) -> None:
    for statement in _FORGET:
        owner.execute(statement)


def only_wanted_rows_are_looked_up() -> None:
    """Of a table of a few pages the planner may rather read all rows; on one of 100,000 jobs that
    is never cheaper."""
    with connection.cursor() as cursor:
        for way in ("enable_seqscan", "enable_hashjoin", "enable_mergejoin"):
            cursor.execute(f"SET LOCAL {way} = off")

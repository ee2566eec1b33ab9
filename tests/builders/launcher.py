"""Runs the launcher as a person would, on a state folder of its own."""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from embedded import postgres
from embedded.environment import read_env_file
from embedded.layout import REPO, Layout
from embedded.records import ProcessRecord, is_alive, read_record


@dataclass(frozen=True)
class Launcher:
    """`python -m embedded` with its state in `layout`."""

    layout: Layout

    def run(self, *words: str, answer: str = "") -> "subprocess.CompletedProcess[str]":
        """One command to its end; it never waits for more than two minutes."""
        return subprocess.run(
            [sys.executable, "-m", "embedded", *words],
            cwd=REPO,
            env=self.environment(),
            input=answer,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def environment(self) -> dict[str, str]:
        """Ours, without what the test run has set for itself."""
        ours = {name: v for name, v in os.environ.items() if not name.startswith("TIDEGATE_")}
        return ours | {"TIDEGATE_STATE_DIR": str(self.layout.state)}

    def start_servers(self) -> str:
        """PostgreSQL and Valkey with a supervisor that stays; what was printed."""
        done = self.run("up", "--servers-only", "--detach")
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def record(self, name: str) -> ProcessRecord:
        """The record of one service, which must be there."""
        found = read_record(self.layout.run, name)
        assert found is not None, f"no record of {name}"
        return found

    def kill(self, name: str) -> ProcessRecord:
        """kill -9 a service; its record as it was."""
        record = self.record(name)
        os.kill(record.pid, signal.SIGKILL)
        wait_for(lambda: not is_alive(record), f"{name} to be gone")
        return record

    def database_url(self, role: str) -> str:
        """Where `role` (app or owner) connects."""
        name = "TIDEGATE_DATABASE_URL" if role == "app" else "TIDEGATE_OWNER_DATABASE_URL"
        return read_env_file(self.layout.env_file)[name]

    def superuser_url(self) -> str:
        """Where PostgreSQL's superuser connects."""
        port = int(re.search(r":(\d+)/", self.database_url("app"))[1])
        password = self.layout.superuser_file.read_text().strip()
        return postgres.url_of(postgres.SUPERUSER, password, port)


def wait_for(condition: Callable[[], bool], what: str, *, within_s: float = 30) -> None:
    """Poll until `condition` holds. Fails the test after `within_s` seconds."""
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, f"waited {within_s:.0f} s for {what}"
        time.sleep(0.05)


@contextmanager
def a_launcher() -> Iterator[Launcher]:
    """A launcher with an empty state folder that every user may pass through; stopped after."""
    state = Path(tempfile.mkdtemp(prefix="tidegate-launcher-"))
    state.chmod(0o755)
    launcher = Launcher(Layout(state))
    try:
        yield launcher
    finally:
        launcher.run("down")
        postgres.remove_home(launcher.layout.postgres)
        shutil.rmtree(state, ignore_errors=True)

"""The arbiter and the observer as processes that can be killed, frozen and replaced at once.

They are forked from a process that has loaded everything, so that a new one is there in
milliseconds; what they run are the loops of the product.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from django.db import connection

from jobs.models import Leadership

#: A standby may depose a leader that is silent for so long.
TTL_S = 2

_FORK = """
import os, signal, sys
import django
django.setup()
from threading import Event
from jobs.loops.observer import run_observer
from jobs.loops.arbiter import run_arbiter
from primitives.clock import SystemClock
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
print("ready", flush=True)
for line in sys.stdin:
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        try:
            {"arbiter": run_arbiter, "observer": run_observer}[line.strip()](
                Event(), SystemClock()
            )
        finally:
            os._exit(1)
    print(pid, flush=True)
"""


class PortalProcesses:
    """Processes of one portal on the test's database."""

    def __init__(self, log: Path) -> None:
        settings = connection.settings_dict
        url = (
            f"postgresql://{settings['USER']}:{settings['PASSWORD']}@{settings['HOST']}:"
            f"{settings['PORT']}/{settings['NAME']}"
        )
        with log.open("ab") as file:
            self._parent = subprocess.Popen(
                [sys.executable, "-c", _FORK],
                env=os.environ
                | {
                    "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
                    "DJANGO_SETTINGS_MODULE": "portal.settings",
                    "TIDEGATE_DATABASE_URL": url,
                    "TIDEGATE_LEADER_TTL_S": str(TTL_S),
                },
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                text=True,
                start_new_session=True,
            )
        assert self._line() == "ready"
        self.pids: dict[str, list[int]] = {"arbiter": [], "observer": []}

    def start(self, role: str) -> int:
        """One more process in this role; the first leads, the others wait."""
        assert self._parent.stdin is not None
        self._parent.stdin.write(f"{role}\n")
        self._parent.stdin.flush()
        pid = int(self._line())
        self.pids[role].append(pid)
        return pid

    def leader(self, role: str) -> int | None:
        """Pid of the recorded leader, if it is one of ours that was not killed."""
        holder = Leadership.objects.filter(role=role).values_list("holder", flat=True).first()
        pid = int((holder or ":0").rpartition(":")[2] or 0)
        return pid if pid in self.pids[role] else None

    def kill9(self, role: str, pid: int) -> None:
        """Kill without warning."""
        self.pids[role].remove(pid)
        os.kill(pid, signal.SIGKILL)

    def freeze(self, pid: int) -> None:
        """Stop a process where it stands."""
        os.kill(pid, signal.SIGSTOP)

    def thaw(self, pid: int) -> None:
        """Let a frozen process go on."""
        os.kill(pid, signal.SIGCONT)

    def close(self) -> None:
        """Kill them all."""
        with suppress(ProcessLookupError):
            os.killpg(self._parent.pid, signal.SIGKILL)
        self._parent.wait(timeout=10)
        for stream in (self._parent.stdin, self._parent.stdout):
            assert stream is not None
            stream.close()
        deadline = time.monotonic() + 10
        while self._has_sessions() and time.monotonic() < deadline:
            time.sleep(0.05)

    @staticmethod
    def _has_sessions() -> bool:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT count(*) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid() "
                "AND backend_type = 'client backend'"
            )
            row = cursor.fetchone()
        return bool(row and row[0])

    def _line(self) -> str:
        assert self._parent.stdout is not None
        return self._parent.stdout.readline().strip()


@contextmanager
def portal_processes(log: Path) -> Iterator[PortalProcesses]:
    """Processes that are killed at the end of the block."""
    processes = PortalProcesses(log)
    try:
        yield processes
    finally:
        processes.close()

"""The web process for a benchmark, and clients that keep it busy."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path

import psutil
from bed import REPO

_CLIENTS = Path(__file__).with_name("http_clients.py")


@dataclass(frozen=True)
class Load:
    """What the clients saw, in milliseconds per request, and what it cost.

    `cpu_ms` is CPU per request by kind of process. It is the steadier figure: clients, server
    and database share the machine with whatever else runs there.
    """

    times_ms: Sequence[float]
    wall_s: float
    cpu_ms: Mapping[str, float]

    @property
    def rate(self) -> float:
        """Requests answered per second."""
        return len(self.times_ms) / self.wall_s

    def at(self, share: float) -> float:
        """The time that `share` of the requests did not exceed, in milliseconds."""
        return sorted(self.times_ms)[min(len(self.times_ms) - 1, int(share * len(self.times_ms)))]

    def __str__(self) -> str:
        cpu = ", ".join(f"{name} {spent_ms:.1f}" for name, spent_ms in self.cpu_ms.items())
        return (
            f"{self.rate:6.0f} requests/s  p50 {statistics.median(self.times_ms):5.1f}  "
            f"p95 {self.at(0.95):5.1f}  p99 {self.at(0.99):5.1f} ms  CPU ms/request: {cpu}"
        )


@dataclass(frozen=True)
class WebProcess:
    """A running web process, and the PostgreSQL behind it."""

    port: int
    web: psutil.Process
    database: psutil.Process

    def load(self, requests: int, clients: int, head: str, body: str = "") -> Load:
        """`requests` requests from `clients` that each send the next one when the last is answered.

        A closed loop: latencies are those of a server kept busy, not of an arrival rate. `head`
        is the request's first lines without the empty one; `{key}` in it is a new UUID each time.
        """
        wanted = {"port": self.port, "clients": clients, "requests": requests}
        before = (_cpu_s(self.web), _cpu_s(self.database))
        ran = subprocess.run(
            [sys.executable, str(_CLIENTS)],
            input=json.dumps({**wanted, "head": head, "body": body}),
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            timeout=600,
        )
        after = (_cpu_s(self.web), _cpu_s(self.database))
        seen = json.loads(ran.stdout)
        if seen["refused"] is not None:
            raise SystemExit(f"refused: {seen['refused']}")
        spent_s = {
            "web": after[0] - before[0],
            "database": after[1] - before[1],
            "clients": seen["cpu_s"],
        }
        return Load(
            seen["times_ms"],
            seen["wall_s"],
            {name: spent / requests * 1000 for name, spent in spent_s.items()},
        )


def verdict(is_met: bool) -> str:
    """How a target is reported."""
    return "met" if is_met else "NOT MET"


@contextmanager
def a_web_process() -> Iterator[WebProcess]:
    """The web process as `make up` starts it, on the database of the environment."""
    from embedded.ports import a_free_port
    from embedded.services import web_command

    port = a_free_port()
    process = subprocess.Popen(
        [*web_command(port), "--log-level", "warning"],
        cwd=REPO,
        env={**os.environ, "PYTHONPATH": f"{REPO}:{REPO / 'platform'}"},
    )
    try:
        _wait_for(port, process)
        yield WebProcess(port, psutil.Process(process.pid), _the_database())
    finally:
        process.terminate()
        process.wait(timeout=30)


def _the_database() -> psutil.Process:
    """The server process of the connection that Django has; its backends are its children."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        backend = psutil.Process(cursor.fetchone()[0])
    connection.close()
    server = backend.parent()
    assert server is not None
    return server


def _cpu_s(root: psutil.Process) -> float:
    """CPU of a process and its children, those that have ended too."""
    spent = root.cpu_times()
    total = spent.user + spent.system + spent.children_user + spent.children_system
    for child in root.children(recursive=True):
        try:
            times = child.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system
    return total


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while True:
        if process.poll() is not None:
            raise SystemExit(f"the web process ended with {process.returncode}")
        try:
            connection = HTTPConnection("127.0.0.1", port, timeout=5)
            connection.request("GET", "/healthz")
            if connection.getresponse().status == 200:
                return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)

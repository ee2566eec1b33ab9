"""The web process for a benchmark, and clients that keep it busy."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection

from bed import REPO

#: Answers that a client reads.
Answer = tuple[int, bytes]


@dataclass(frozen=True)
class Load:
    """What the clients saw: one figure in milliseconds per request, and how long it all took."""

    times_ms: Sequence[float]
    wall_s: float

    def __str__(self) -> str:
        ordered = sorted(self.times_ms)

        def at(share: float) -> float:
            return ordered[min(len(ordered) - 1, int(share * len(ordered)))]

        return (
            f"{len(ordered) / self.wall_s:6.0f} requests/s  p50 {statistics.median(ordered):5.1f}  "
            f"p95 {at(0.95):5.1f}  p99 {at(0.99):5.1f} ms"
        )


@contextmanager
def a_web_process() -> Iterator[int]:
    """The port of a web process as `make up` starts it, on the database of the environment."""
    from embedded.ports import a_free_port

    port = a_free_port()
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "uvicorn", "portal.asgi:application"),
            *("--host", "127.0.0.1", "--port", str(port)),
            *("--timeout-graceful-shutdown", "5", "--no-access-log", "--log-level", "warning"),
        ],
        cwd=REPO,
        env={**os.environ, "PYTHONPATH": f"{REPO}:{REPO / 'platform'}"},
    )
    try:
        _wait_for(port, process)
        yield port
    finally:
        process.terminate()
        process.wait(timeout=30)


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


def load(
    port: int, requests: int, clients: int, send: Callable[[HTTPConnection, int], Answer]
) -> Load:
    """`requests` requests from `clients` that each send the next one when the last is answered.

    A closed loop: latencies are those of a server kept busy, not of an arrival rate.
    """

    def one_client(number: int) -> list[float]:
        connection = HTTPConnection("127.0.0.1", port, timeout=60)
        times = []
        for index in range(number, requests, clients):
            begin = time.perf_counter()
            status, body = send(connection, index)
            times.append((time.perf_counter() - begin) * 1000)
            if status not in (200, 201):
                raise SystemExit(f"answered {status}: {body[:500]!r}")
        connection.close()
        return times

    begin = time.perf_counter()
    with ThreadPoolExecutor(clients) as pool:
        times = [item for part in pool.map(one_client, range(clients)) for item in part]
    return Load(times, time.perf_counter() - begin)


def read(connection: HTTPConnection) -> Answer:
    """Status and body of the answer to what was just sent."""
    response = connection.getresponse()
    return response.status, response.read()

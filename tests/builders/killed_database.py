"""kill -9 of an installation's PostgreSQL, and how long it takes until all goes on."""

from __future__ import annotations

import json
import os
import signal
import time
from typing import Any

import psycopg

from builders.installation import Tidegate, settle
from embedded.environment import read_env_file

#: A round that takes so long has failed.
ROUND_WITHIN_S = 120.0


def kill_database(tidegate: Tidegate) -> tuple[float, dict[str, float]]:
    """Seconds without a server, and from its return to new epochs and to a look at all clusters."""
    url = read_env_file(tidegate.state / "env")["TIDEGATE_DATABASE_URL"]
    with psycopg.connect(url, autocommit=True) as own:
        before = epochs(own)
    pid = json.loads((tidegate.state / "run" / "postgres.json").read_text())["pid"]
    os.kill(pid, signal.SIGKILL)
    killed_s = time.monotonic()
    own = settle(lambda: connected(url), ROUND_WITHIN_S)
    back_s = time.monotonic()
    with own:
        row = own.execute("SELECT clock_timestamp()").fetchone()
        assert row is not None
        back_at = row[0]
        seconds: dict[str, float] = {}

        def is_done() -> bool:
            passed_s = time.monotonic() - back_s
            for role, epoch in epochs(own).items():
                if epoch > before[role]:
                    seconds.setdefault(role, passed_s)
            if not own.execute(
                "SELECT 1 FROM clusters_cluster WHERE is_enabled AND "
                "(observed_at IS NULL OR observed_at < %s)",
                [back_at],
            ).fetchall():
                seconds.setdefault("looked", passed_s)
            return len(seconds) == 3

        settle(is_done, ROUND_WITHIN_S)
    return back_s - killed_s, seconds


def epochs(own: psycopg.Connection[Any]) -> dict[str, int]:
    """The epoch of each role."""
    return dict(own.execute("SELECT role, epoch FROM jobs_leadership").fetchall())


def connected(url: str) -> psycopg.Connection[Any] | None:
    """A connection, once the server gives any."""
    try:
        return psycopg.connect(url, autocommit=True, connect_timeout=2)
    except psycopg.OperationalError:
        return None

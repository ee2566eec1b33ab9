"""How soon arbiter and observer lead again after PostgreSQL was killed with -9.

    python tests/performance/bench_failover.py [--smoke]

A whole installation; PostgreSQL is killed ten times, and its supervisor starts it again. Target:
from the moment when the server accepts connections, both lead in a new epoch within 5 s, and the
observer has looked at every cluster again.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

import bed  # noqa: F401 - first: it finds our packages

from builders.installation import START_WITHIN_S, STOP_WITHIN_S, Tidegate
from builders.killed_database import kill_database
from embedded.ports import a_free_port

ROUNDS = 10
LEADS_WITHIN_S = 5.0


def main() -> None:
    """Start an installation, kill its database again and again, print figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="one round")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tidegate-failover-") as folder:
        os.chmod(folder, 0o755)
        tidegate = Tidegate(Path(folder), a_free_port())
        try:
            tidegate.embedded("up", "--detach", timeout_s=START_WITHIN_S)
            measure(tidegate, rounds=1 if arguments.smoke else ROUNDS)
        finally:
            tidegate.embedded("reset", "--yes", timeout_s=STOP_WITHIN_S)


def measure(tidegate: Tidegate, *, rounds: int) -> None:
    """Print the seconds of each round, from the moment when the server accepts connections."""
    print(f"{'round':>5} {'away':>6} {'arbiter':>8} {'observer':>9} {'looked':>7}")
    slow = 0
    for number in range(1, rounds + 1):
        away_s, seconds = kill_database(tidegate)
        slow += max(seconds.values()) > LEADS_WITHIN_S
        print(
            f"{number:>5} {away_s:>6.2f} {seconds['arbiter']:>8.2f} {seconds['observer']:>9.2f} "
            f"{seconds['looked']:>7.2f}",
            flush=True,
        )
    print(f"within {LEADS_WITHIN_S:.0f} s: {rounds - slow} of {rounds}")


if __name__ == "__main__":
    main()

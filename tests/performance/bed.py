"""A migrated database of its own for a benchmark, durable like a real one, stopped at the end."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
for _root in (REPO, REPO / "platform", REPO / "tests", REPO / "deploy" / "kube-bed"):
    if str(_root) not in sys.path:
        sys.path.insert(0, str(_root))


@contextmanager
def a_database() -> Iterator[None]:
    """PostgreSQL with our tables, Django set up as the application role."""
    from servers import plan_servers

    plan = plan_servers()
    try:
        plan.start_postgres(durable=True)
        os.environ["DJANGO_SETTINGS_MODULE"] = "portal.settings"
        subprocess.run(
            [sys.executable, str(REPO / "manage.py"), "migrate", "--verbosity", "0"],
            env={**os.environ, "TIDEGATE_RUN_AS": "owner"},
            check=True,
            timeout=300,
        )
        import django

        django.setup()
        yield
    finally:
        plan.stop()


def spread(milliseconds: Sequence[float]) -> str:
    """Minimum, median and maximum, for one line of output."""
    return (
        f"min {min(milliseconds):.0f}  median {statistics.median(milliseconds):.0f}  "
        f"max {max(milliseconds):.0f} ms"
    )

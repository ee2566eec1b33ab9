"""A migrated database of its own for a benchmark, durable like a real one, stopped at the end."""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kube_bed import KubeBed

REPO = Path(__file__).resolve().parents[2]
for _root in (REPO, REPO / "platform", REPO / "tests", REPO / "deploy" / "kube-bed"):
    if str(_root) not in sys.path:
        sys.path.insert(0, str(_root))


@contextmanager
def a_database() -> Iterator[None]:
    """PostgreSQL with our tables, Django set up as the application role.

    The servers are those of `bench-smoke`, where that program runs this benchmark.
    """
    from embedded.postgres import APP, OWNER
    from servers import FOLDER_VARIABLE, connect_as, plan_servers

    are_shared = FOLDER_VARIABLE in os.environ
    plan = plan_servers()
    try:
        plan.start_postgres(durable=True)
        name = f"bench_{os.getpid()}"
        template = plan.migrated_database()
        with connect_as(plan, OWNER, "postgres") as owner:
            owner.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        os.environ["TIDEGATE_DATABASE_URL"] = plan.url(APP, name)
        os.environ["TIDEGATE_OWNER_DATABASE_URL"] = plan.url(OWNER, name)
        os.environ["DJANGO_SETTINGS_MODULE"] = "portal.settings"
        import django

        django.setup()
        yield
    finally:
        if not are_shared:
            plan.stop()


def running_kube_bed() -> KubeBed | None:
    """The Kubernetes of `make kube-bed`; None, and it is said, where none runs."""
    from kube_bed import read_bed, the_folder

    if (the_folder() / "bed.json").is_file():
        return read_bed(the_folder())
    print(f"No figures of Kubernetes: no bed runs in {the_folder()}; `make kube-bed` starts one.")
    return None


def wait_until(is_so: Callable[[], bool], *, within_s: float) -> None:
    """Return when it is so. Raises TimeoutError."""
    until = time.monotonic() + within_s
    while not is_so():
        if time.monotonic() > until:
            raise TimeoutError(f"not within {within_s:.0f} s")
        time.sleep(0.02)


def spread(milliseconds: Sequence[float]) -> str:
    """Minimum, median and maximum, for one line of output."""
    return (
        f"min {min(milliseconds):.0f}  median {statistics.median(milliseconds):.0f}  "
        f"max {max(milliseconds):.0f} ms"
    )

"""One observer watches more clusters than its pool of database connections has for its threads."""

from __future__ import annotations

from pathlib import Path
from threading import Event, Thread

import pytest
from django.db import connection

from builders.connector_builders import eventually
from builders.portal_builders import a_pool
from clusters.models import Cluster
from jobs.loops.observer import run_observer
from primitives.clock import SystemClock

pytestmark = pytest.mark.django_db(transaction=True)


def test_the_threads_of_many_clusters_share_the_connections(tmp_path: Path) -> None:
    """Mutant: each thread kept its connection while it paused. From the third cluster on some were
    never looked at, and nothing was started there."""
    a_pool()
    for number in range(5):
        Cluster.objects.create(
            name=f"cluster-{number}",
            kind="local",
            options={
                "root": str(tmp_path / f"root-{number}"),
                "nodes": [{"count": 1, "gpus": 8, "pool": "h100", "prefix": f"n{number}-"}],
                "use_real_gpus": False,
            },
        )
    stopping = Event()
    observer = Thread(target=_observe, args=(stopping,))
    observer.start()
    try:
        eventually(lambda: not Cluster.objects.filter(seen_at=None).exists(), deadline_s=45)
    finally:
        stopping.set()
        observer.join(timeout=60)
    assert not observer.is_alive()


def _observe(stopping: Event) -> None:
    try:
        run_observer(stopping, SystemClock())
    finally:
        connection.close()

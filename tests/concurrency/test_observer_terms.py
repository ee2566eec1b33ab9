"""The observer leads again while threads of its last term still wait for a cluster."""

from __future__ import annotations

from threading import Event, Thread
from typing import Any

import pytest
from django.db import connection

from builders.connector_builders import eventually
from builders.portal_builders import a_company
from connectors.errors import ClusterUnavailable
from jobs.loops.observer import run_observer
from jobs.models import Leadership
from primitives.clock import SystemClock

pytestmark = pytest.mark.django_db(transaction=True)


class AClusterThatHangs:
    """Answers nobody until it is let go; counts who asks."""

    submits_held = False

    def __init__(self) -> None:
        self.let_go = Event()
        self.asked = 0

    def inventory(self) -> Any:
        self.asked += 1
        self.let_go.wait(300)
        raise ClusterUnavailable("it is away")


def test_the_next_term_waits_for_no_thread_of_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mutant: the observer joined the threads of its term before it campaigned again, and so led
    only after the time-outs of every cluster that did not answer."""
    a_company()
    cluster = AClusterThatHangs()
    monkeypatch.setattr("jobs.loops.cluster_agent.connector_of", lambda _: cluster)
    stopping = Event()
    observer = Thread(target=_observe, args=(stopping,))
    observer.start()
    try:
        eventually(lambda: cluster.asked == 1)
        (epoch,) = Leadership.objects.filter(role="observer").values_list("epoch", flat=True)
        _end_connections_of_the_observer()
        eventually(lambda: cluster.asked == 2, deadline_s=15)
        assert Leadership.objects.get(role="observer").epoch == epoch + 1
    finally:
        stopping.set()
        cluster.let_go.set()
        observer.join(timeout=60)
    assert not observer.is_alive()


def _end_connections_of_the_observer() -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
            "WHERE application_name LIKE 'tidegate-observer-%%' AND datname = current_database()"
        )


def _observe(stopping: Event) -> None:
    try:
        run_observer(stopping, SystemClock())
    finally:
        connection.close()

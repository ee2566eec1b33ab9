"""Whether arbiter and observer do their work, as `/readyz` and every page say it."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from django.test import Client

from builders.api_callers import by_token
from builders.portal_builders import NOW, a_company, a_user
from jobs.api import scheduler as scheduler_views
from jobs.models import Heartbeat
from jobs.reading.heartbeats import LoopHealth, loop_health
from portal import views

pytestmark = pytest.mark.django_db


class At:
    """A clock that stands."""

    def __init__(self, at: datetime) -> None:
        self.at = at

    def now(self) -> datetime:
        return self.at


@pytest.fixture
def worked() -> None:
    """The arbiter's last cycle is 16 s ago, the observer's last look 15 s."""
    for role, ago_s in (("arbiter", 16), ("observer", 15)):
        Heartbeat.objects.update_or_create(
            role=role,
            defaults={"epoch": 1, "at": NOW, "worked_at": NOW - timedelta(seconds=ago_s)},
        )


def test_a_loop_is_late_after_fifteen_seconds(worked: None) -> None:
    """A heartbeat alone proves nothing: a thread of its own sends that."""
    assert loop_health(NOW) == {
        "arbiter": LoopHealth(NOW - timedelta(seconds=16), True),
        "observer": LoopHealth(NOW - timedelta(seconds=15), False),
    }


def test_a_loop_that_never_worked_is_late() -> None:
    Heartbeat.objects.all().delete()
    assert loop_health(NOW)["arbiter"] == LoopHealth(None, True)


def test_readyz_names_the_loop_that_is_late(
    worked: None, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views, "SystemClock", lambda: At(NOW))
    answer = client.get("/readyz")
    assert (answer.status_code, answer.json()) == (
        200,
        {"status": "degraded", "arbiter": "no work since 2026-11-21T11:59:44Z"},
    )
    Heartbeat.objects.update(worked_at=NOW)
    assert client.get("/readyz").json() == {"status": "ok"}
    Heartbeat.objects.filter(role="observer").delete()
    assert client.get("/readyz").json() == {"status": "degraded", "observer": "no work yet"}


def test_everybody_reads_when_the_scheduler_last_decided(
    worked: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    bob = a_user(a_company().organization, "bob")
    monkeypatch.setattr(scheduler_views, "SystemClock", lambda: At(NOW))
    assert by_token(bob).get("scheduler").json() == {
        "last_cycle_at": "2026-11-21T11:59:44Z",
        "is_late": True,
        "last_observation_at": "2026-11-21T11:59:45Z",
        "is_observer_late": False,
        "late_after_s": 15,
    }

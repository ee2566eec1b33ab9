"""The two sides of a reclaim, each as far as the other may see it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from uuid_utils.compat import uuid7

from builders.api_callers import by_token
from builders.job_builders import a_job, an_attempt
from builders.jobs_world import World
from builders.portal_builders import NOW
from jobs.models import Job
from jobs.reading.giving_back import shown_victim
from jobs.reading.queries import VictimRow
from tenants.access import actor_of

pytestmark = pytest.mark.django_db
STARTED = NOW - timedelta(hours=2)
SAVED = NOW - timedelta(minutes=10)


def a_victim(world: World, **changes: Any) -> VictimRow:
    row = VictimRow(
        reclaim__job_id=uuid7(),
        job_id=uuid7(),
        job__name="serve",
        job__user_id=world.alice.pk,
        job__team__path=world.company.inference.path,
        mgpu=8_000,
        notice_at=NOW,
        grace_until=NOW,
        started_at=STARTED,
        checkpoint_at=None,
        job__checkpoint_path=None,
        job__notice_signal="TERM",
    )
    return row._replace(**changes)


@pytest.mark.parametrize(
    ("changes", "at_risk_s", "handling"),
    [
        ({}, 7_200, None),
        ({"checkpoint_at": SAVED}, 600, "reports_checkpoints"),
        ({"job__checkpoint_path": "/ckpt"}, 7_200, "has_checkpoint_path"),
        ({"job__notice_signal": "USR1"}, 7_200, "asks_for_signal"),
        ({"started_at": None}, 0, None),
        # The clocks of clusters run ahead.
        ({"started_at": NOW + timedelta(seconds=3)}, 0, None),
    ],
)
def test_the_work_at_risk_and_what_a_victim_does_at_its_notice(
    world: World, changes: dict[str, Any], at_risk_s: int, handling: str | None
) -> None:
    """Against: what a job saved counts as at risk."""
    shown = shown_victim(a_victim(world, **changes), actor_of(world.alice), NOW)
    assert (shown["at_risk_mgpu_s"], shown["notice_handling"]) == (8_000 * at_risk_s, handling)


def test_a_job_says_how_it_reacts_to_its_notice(world: World) -> None:
    """Against: another word on its page than in lists."""
    kinds: dict[str, tuple[dict[str, Any], datetime | None]] = {
        "reports_checkpoints": ({}, SAVED),
        "has_checkpoint_path": ({"checkpoint_path": "/ckpt"}, None),
        "asks_for_signal": ({"notice_signal": "USR1"}, None),
        "unknown": ({}, None),
    }
    for name, (changes, saved) in kinds.items():
        job = a_job(world.company, world.bob, name=name, state="running", **changes)
        an_attempt(job, cluster=world.company.cluster, started_at=STARTED, checkpoint_at=saved)
        Job.objects.filter(pk=job.pk).update(attempt_number=1)
    bob = by_token(world.bob)
    found = {one["name"]: one["notice_handling"] for one in bob.get("jobs").json()["items"]}
    assert found == {name: None if name == "unknown" else name for name in kinds}
    for job in Job.objects.all():
        assert bob.get(f"jobs/{job.pk}").json()["notice_handling"] == found[job.name]


def test_of_another_organization_only_the_gpus_are_told(world: World) -> None:
    """Against: how long a job of another organization has run is told with its size."""
    victim = a_victim(world, job__checkpoint_path="/ckpt")
    assert shown_victim(victim, actor_of(world.charlie), NOW) == {
        "job": None,
        "name": None,
        "team": None,
        "mgpu": 8_000,
        "notice_at": "2026-11-21T12:00:00Z",
        "grace_until": "2026-11-21T12:00:00Z",
        "at_risk_mgpu_s": None,
        "notice_handling": None,
    }

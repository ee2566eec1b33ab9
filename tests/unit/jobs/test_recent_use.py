"""What the arbiter's leader remembers of recent use is what there is."""

from __future__ import annotations

import random
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from billing.fair_use import carry_on, read_usage
from billing.metering import Observed, record_classed, record_lost, record_observed, record_started
from billing.models import DecayedUntil, LateUse, MeteredAttempt, UsageSegment
from builders.billing_builders import a_metered_attempt, at, record_ended
from builders.portal_builders import Company, a_company
from jobs.arbitration import memory as memory_module
from jobs.arbitration.memory import Memory
from jobs.models import Change

pytestmark = pytest.mark.django_db

HOUR = 3_600


@pytest.fixture(autouse=True)
def _nothing_is_compared(settings: Any) -> None:
    settings.CYCLES_COMPARED_EVERY_S = 86_400


@pytest.fixture
def company() -> Company:
    return a_company()


def noted() -> list[Any]:
    found = list(Change.objects.order_by("job_id").values_list("job_id", flat=True).distinct())
    Change.objects.all().delete()
    return found


@pytest.mark.parametrize("seed", range(4))
def test_what_is_remembered_of_use_is_what_there_is(company: Company, seed: int) -> None:
    """Starts, classes, sizes, ends and losses, heard of in time or hours late, and the sums carried
    on meanwhile. Planted: the old segments of a changed job kept; those of its other attempt
    forgotten; the sums of before kept; what is caught up with not read."""
    draw = random.Random(seed)
    memory, attempts = Memory(), list[MeteredAttempt]()
    catches_up, whole = 0, 0
    carry_on(at(0))
    memory.read(at(0))
    # What was noted of the company's nodes is left to a reading, with all else that was noted.
    Change.objects.all().delete()
    for step in range(1, 50):
        clock, now = step * 600, at(step * 600)
        told = draw.randrange(7)
        then = at(draw.randrange(max(0, clock - 5 * HOUR), clock))
        if told < 2 or not attempts:
            team = draw.choice([company.nlp, company.vision])
            again = draw.choice([None, *attempts])
            attempts.append(
                a_metered_attempt(
                    team if again is None else again.team,
                    None,
                    None,
                    mgpu=4_000,
                    job_id=None if again is None else again.job_id,
                    user=None if again is None else again.user,
                    number=1 if again is None else len(attempts) + 1,
                )
            )
            record_started(attempts[-1].pk, then, now)
        elif told == 2:
            record_ended(draw.choice(attempts).pk, then, now=now)
        elif told == 3:
            record_lost(draw.choice(attempts).pk, then, now)
        elif told == 4:
            record_classed([(one.pk, draw.randrange(4_001)) for one in attempts], now, now)
        elif told == 5:
            size = Observed(draw.choice(attempts).pk, "sized", then, 8_000)
            record_observed([size], now)
        else:
            carry_on(now)
        if draw.randrange(3) == 0:
            memory.catch_up()
            Change.objects.all().delete()
            catches_up += 1
        before = DecayedUntil.objects.get().at
        with CaptureQueriesContext(connection) as captured:
            found = memory.read(now).snapshot.usage
        whole += sum(
            "billing_usagesegment" in one["sql"] and "ANY" not in one["sql"]
            for one in captured.captured_queries
        )
        assert before == DecayedUntil.objects.get().at
        assert found == read_usage(now)
        Change.objects.all().delete()
    assert catches_up > 0
    assert LateUse.objects.exists() or seed
    # Only where the sums were carried on.
    assert 0 < whole <= 10


def test_what_is_remembered_wrongly_of_use_is_told_and_mended(
    company: Company, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: what is remembered kept; never compared."""
    told: list[str] = []
    monkeypatch.setattr(memory_module.log, "error", told.append)
    memory = Memory()
    carry_on(at(0))
    a_metered_attempt(company.nlp, 0, None)
    memory.read(at(0))
    attempt = a_metered_attempt(company.vision, 0, None)
    Change.objects.all().delete()
    assert len(memory.read(at(60)).snapshot.usage) == 1
    assert told == []
    settings.CYCLES_COMPARED_EVERY_S = 0
    assert memory.read(at(60)).snapshot.usage == read_usage(at(60))
    assert told == ["cycle: what was used lately was remembered wrongly"]
    settings.CYCLES_COMPARED_EVERY_S = 86_400
    record_ended(attempt.pk, at(60), now=at(60))
    assert memory.read(at(120)).snapshot.usage == read_usage(at(120))
    assert len(told) == 1


def test_every_change_of_use_is_noted(company: Company) -> None:
    """Planted: each of the triggers left out."""
    Change.objects.all().delete()
    attempt = a_metered_attempt(company.nlp, 0, None)
    assert noted() == [attempt.job_id]
    segment = UsageSegment.objects.get()
    UsageSegment.objects.update(guaranteed_mgpu=1)
    assert noted() == [attempt.job_id]
    LateUse.objects.create(attempt=attempt, start=at(0), end=at(1), mgpu=1)
    assert noted() == [attempt.job_id]
    UsageSegment.objects.filter(pk=segment.pk).delete()
    assert noted() == [attempt.job_id]
    UsageSegment.objects.bulk_create([segment])
    assert noted() == [attempt.job_id]

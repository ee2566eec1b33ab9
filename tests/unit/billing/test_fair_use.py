"""The decayed use that the arbiter reads: equal to the integral, whatever way it was carried on."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext

from arbiter.api.snapshot import Usage
from arbiter.fairshare.decay import Decay
from billing.fair_use import carry_on, read_usage
from billing.metering import record_classed, record_started
from billing.models import DecayedUntil, DecayedUse, LateUse
from builders.billing_builders import (
    a_grant_of,
    a_metered_attempt,
    at,
    record_ended,
    register_attempt,
)
from builders.portal_builders import a_company
from quotas.models import OrganizationPolicy

pytestmark = pytest.mark.django_db

HOUR = 3_600
WEEK = 7 * 86_400


def integral(intervals: list[tuple[int, int, int]], now: datetime, half_life_s: int = WEEK) -> int:
    """The use of (start, end, milli-GPU), in seconds from midnight, worked out at once."""
    zero = int(at(0).timestamp())
    spans = [(zero + start, zero + end, mgpu) for start, end, mgpu in intervals]
    return Decay(half_life_s).used(spans, int(now.timestamp()))


def used(now: datetime) -> list[int]:
    return [row.decayed_mgpu_s for row in read_usage(now)]


def test_before_the_first_look_nothing_is_known() -> None:
    a_metered_attempt(a_company().nlp, 0, HOUR)
    assert read_usage(at(HOUR)) == ()


def test_usage_is_summed_by_team_user_and_pool_and_decayed_to_the_second() -> None:
    company = a_company()
    first = a_metered_attempt(company.nlp, 0, 2 * HOUR)
    carry_on(at(2 * HOUR))
    now = at(2 * HOUR + 77)
    assert read_usage(now) == (
        Usage(
            str(company.nlp.pk),
            str(first.user_id),
            str(first.pool_id),
            integral([(0, 2 * HOUR, 8_000)], now),
            int(now.timestamp()),
        ),
    )


def test_sums_that_are_carried_on_equal_those_worked_out_at_once() -> None:
    """A long job, a short one and one that still runs, looked at every 20 minutes for two days."""
    company = a_company()
    for start, end in ((0, 30 * HOUR), (5 * HOUR + 11, 5 * HOUR + 400), (9 * HOUR, None)):
        a_metered_attempt(company.nlp, start, end)
    for step in range(0, 48 * HOUR, 1_200):
        carry_on(at(step))
    now = at(48 * HOUR)
    exact = sorted(
        integral([span], now)
        for span in (
            (0, 30 * HOUR, 8_000),
            (5 * HOUR + 11, 5 * HOUR + 400, 8_000),
            (9 * HOUR, 48 * HOUR, 8_000),
        )
    )
    assert len(used(now)) == 3
    for carried, right in zip(sorted(used(now)), exact, strict=True):
        assert abs(carried - right) <= 48


def test_what_was_borrowed_counts_as_what_was_guaranteed_does() -> None:
    a_metered_attempt(a_company().nlp, 0, HOUR, guaranteed_mgpu=3_000)
    carry_on(at(HOUR))
    assert used(at(HOUR)) == [pytest.approx(integral([(0, HOUR, 8_000)], at(HOUR)), abs=2)]


def test_use_in_a_class_with_a_factor_counts_at_it() -> None:
    """Also what is corrected late, and after it was carried on (R-115).

    Planted: the factor left out of the segments, and of the late differences.
    """
    grant = replace(a_grant_of(a_company().nlp), use_factor_percent=50)
    attempt = register_attempt(grant, now=at(0))
    record_started(attempt.pk, at(0), at(0))
    for hour in range(1, 13):
        carry_on(at(hour * HOUR))
    now = at(12 * HOUR)
    assert used(now) == [pytest.approx(integral([(0, 12 * HOUR, 4_000)], now), abs=12)]
    record_ended(attempt.pk, at(HOUR), now=now)
    assert used(now) == [pytest.approx(integral([(0, HOUR, 4_000)], now), abs=12)]
    carry_on(at(13 * HOUR))
    assert used(at(13 * HOUR)) == [
        pytest.approx(integral([(0, HOUR, 4_000)], at(13 * HOUR)), abs=14)
    ]


def test_what_the_meter_hears_within_an_hour_is_exact() -> None:
    company = a_company()
    attempt = a_metered_attempt(company.nlp, 0, None)
    carry_on(at(3 * HOUR))
    record_ended(attempt.pk, at(2 * HOUR + 1), now=at(3 * HOUR))
    assert used(at(3 * HOUR)) == [
        pytest.approx(integral([(0, 2 * HOUR + 1, 8_000)], at(3 * HOUR)), abs=2)
    ]


def test_an_end_that_is_heard_of_late_is_exact_at_once_and_carried_on() -> None:
    """It ended after an hour, and for eleven more it was taken to run. Mutant: without the
    difference it keeps eleven times of what it used, for weeks."""
    company = a_company()
    attempt = a_metered_attempt(company.nlp, 0, None)
    for hour in range(1, 13):
        carry_on(at(hour * HOUR))
    assert used(at(12 * HOUR)) == [
        pytest.approx(integral([(0, 12 * HOUR, 8_000)], at(12 * HOUR)), abs=12)
    ]
    record_ended(attempt.pk, at(HOUR), now=at(12 * HOUR))
    assert LateUse.objects.count() == 1
    for hour in (12, 13, 20, 40):
        exact = integral([(0, HOUR, 8_000)], at(hour * HOUR))
        assert used(at(hour * HOUR)) == [pytest.approx(exact, abs=48)]
        carry_on(at(hour * HOUR))
        assert used(at(hour * HOUR)) == [pytest.approx(exact, abs=48)]
    assert not LateUse.objects.exists()


def test_a_run_that_is_heard_of_late_counts_whole() -> None:
    """Ten hours of which nothing was known at twelve. Start and end are told one after the other,
    so the second difference is one to the first. Mutant: what was stored before the first was
    taken for what stood before the second."""
    company = a_company()
    other = a_metered_attempt(company.vision, 0, HOUR)
    for hour in range(1, 13):
        carry_on(at(hour * HOUR))
    run = register_attempt(a_grant_of(company.nlp), now=at(0))
    record_started(run.pk, at(0), now=at(12 * HOUR))
    record_ended(run.pk, at(10 * HOUR), now=at(12 * HOUR))
    for hour in (12, 13, 14, 36):
        now = at(hour * HOUR)
        found = {row.team: row.decayed_mgpu_s for row in read_usage(now)}
        assert found == {
            str(company.nlp.pk): pytest.approx(integral([(0, 10 * HOUR, 8_000)], now), abs=48),
            str(company.vision.pk): pytest.approx(integral([(0, HOUR, 8_000)], now), abs=48),
        }
        carry_on(now)
    assert other.team_id == company.vision.pk


def test_what_never_was_is_taken_back_whole() -> None:
    """An attempt that was taken to run, and had ended before it began."""
    company = a_company()
    attempt = a_metered_attempt(company.nlp, 1, None)
    for hour in range(1, 8):
        carry_on(at(hour * HOUR))
    record_ended(attempt.pk, at(0), now=at(8 * HOUR))
    assert sum(used(at(8 * HOUR))) <= 16
    for hour in (8, 9, 10):
        carry_on(at(hour * HOUR))
    assert sum(used(at(10 * HOUR))) <= 16


def test_news_of_now_and_changes_of_class_leave_no_difference() -> None:
    company = a_company()
    attempt = register_attempt(a_grant_of(company.nlp), now=at(0))
    record_started(attempt.pk, at(0), now=at(1))
    record_classed([(attempt.pk, 0)], at(3 * HOUR), at(3 * HOUR))
    record_classed([(attempt.pk, 8_000)], at(60), at(4 * HOUR))
    record_ended(attempt.pk, at(5 * HOUR), now=at(5 * HOUR + 3_299))
    assert not LateUse.objects.exists()


@pytest.mark.parametrize("values", [{"mgpu": 0}, {"start": at(HOUR), "end": at(HOUR)}])
def test_the_database_keeps_no_difference_that_is_none(values: dict[str, Any]) -> None:
    attempt = a_metered_attempt(a_company().nlp, 0, HOUR)
    with pytest.raises(IntegrityError, match="late_use_is_some"), transaction.atomic():
        LateUse.objects.create(
            **{"attempt": attempt, "start": at(0), "end": at(HOUR), "mgpu": 1, **values}
        )


def test_each_organization_has_its_own_half_life() -> None:
    company = a_company()
    OrganizationPolicy.objects.update_or_create(
        organization=company.organization, defaults={"fair_share_half_life_s": HOUR}
    )
    a_metered_attempt(company.nlp, 0, HOUR)
    carry_on(at(HOUR))
    assert used(at(5 * HOUR)) == [
        pytest.approx(integral([(0, HOUR, 8_000)], at(5 * HOUR), HOUR), abs=2)
    ]


def test_sums_are_begun_on_old_usage_a_day_at_a_time() -> None:
    a_metered_attempt(a_company().nlp, 0, 60 * HOUR)
    now = at(72 * HOUR)
    seen = []
    for _ in range(5):
        carry_on(now)
        seen.append(DecayedUntil.objects.get().at)
    assert seen == [at(24 * HOUR), at(48 * HOUR), *[at(71 * HOUR)] * 3]
    assert used(now) == [pytest.approx(integral([(0, 60 * HOUR, 8_000)], now), abs=5)]


def test_until_the_sums_have_caught_up_they_say_as_of_when_they_are() -> None:
    a_metered_attempt(a_company().nlp, 0, 60 * HOUR)
    carry_on(at(72 * HOUR))
    (row,) = read_usage(at(72 * HOUR))
    assert row.as_of == int(at(24 * HOUR).timestamp())
    assert row.decayed_mgpu_s == integral([(0, 24 * HOUR, 8_000)], at(24 * HOUR))


def test_what_has_decayed_to_nothing_is_forgotten() -> None:
    company = a_company()
    OrganizationPolicy.objects.update_or_create(
        organization=company.organization, defaults={"fair_share_half_life_s": HOUR}
    )
    a_metered_attempt(company.nlp, 0, 1)
    for day in range(4):
        carry_on(at(2 * HOUR) + timedelta(days=day))
    assert not DecayedUse.objects.exists()


def test_reading_takes_the_same_few_queries_whatever_there_is() -> None:
    company = a_company()
    for i in range(5):
        a_metered_attempt(company.nlp, i, HOUR)
    carry_on(at(HOUR))
    with CaptureQueriesContext(connection) as captured:
        read_usage(at(HOUR))
    assert len(captured) == 4
    with CaptureQueriesContext(connection) as captured:
        carry_on(at(HOUR))
    assert len(captured) == 1

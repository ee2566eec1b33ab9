"""The meter: what is told, in whatever order and however often, becomes the same segments."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from uuid_utils.compat import uuid7

from billing.metering import (
    AttemptNotMetered,
    Observed,
    UnpaidSpan,
    attempts_not_folded,
    record_classed,
    record_lost,
    record_observed,
    record_started,
    record_unpaid,
    register_attempts,
)
from billing.models import MeterAnomaly, MeteredAttempt, MeterEvent, UsageSegment
from builders.billing_builders import (
    LATER,
    a_grant_of,
    a_metered_attempt,
    at,
    record_ended,
    record_fault,
    register_attempt,
)
from builders.portal_builders import a_company

pytestmark = pytest.mark.django_db


def segments(attempt: MeteredAttempt) -> list[tuple[datetime, datetime | None, int, int]]:
    return list(
        UsageSegment.objects.filter(attempt=attempt)
        .order_by("start")
        .values_list("start", "end", "guaranteed_mgpu", "borrowed_mgpu")
    )


def anomalies(attempt: MeteredAttempt) -> list[tuple[str, str, datetime]]:
    return list(
        MeterAnomaly.objects.filter(attempt=attempt)
        .order_by("id")
        .values_list("kind", "reason", "at")
    )


def test_a_granted_attempt_has_no_usage_before_it_started() -> None:
    attempt = a_metered_attempt(a_company().nlp, start=None, end=None)
    assert segments(attempt) == []


def test_a_running_attempt_has_an_open_segment() -> None:
    attempt = a_metered_attempt(a_company().nlp, 10, None, guaranteed_mgpu=6_000)
    assert segments(attempt) == [(at(10), None, 6_000, 2_000)]


def test_a_change_of_class_splits_and_the_end_closes() -> None:
    attempt = a_metered_attempt(
        a_company().nlp, 10, 100, guaranteed_mgpu=0, classes=[(40, 8_000), (70, 3_000)]
    )
    assert segments(attempt) == [
        (at(10), at(40), 0, 8_000),
        (at(40), at(70), 8_000, 0),
        (at(70), at(100), 3_000, 5_000),
    ]


def test_registering_again_changes_nothing() -> None:
    company = a_company()
    grant = a_grant_of(company.nlp, guaranteed_mgpu=8_000)
    first = register_attempt(grant, now=LATER)
    record_classed([(first.pk, 1_000)], at(0), LATER)
    register_attempt(grant, now=LATER)
    record_started(first.pk, at(0), LATER)
    assert MeteredAttempt.objects.count() == 1
    assert segments(first) == [(at(0), None, 1_000, 7_000)]


def test_an_identical_repeat_is_ignored() -> None:
    attempt = a_metered_attempt(a_company().nlp, 0, 60)
    before = MeterEvent.objects.count()
    record_started(attempt.pk, at(0), LATER)
    record_ended(attempt.pk, at(60), LATER)
    record_classed([(attempt.pk, 8_000)], at(0), LATER)
    assert MeterEvent.objects.count() == before
    assert anomalies(attempt) == []


def test_another_start_or_end_is_kept_aside_and_the_first_counts() -> None:
    attempt = a_metered_attempt(a_company().nlp, 0, 60)
    record_started(attempt.pk, at(5), LATER)
    record_ended(attempt.pk, at(90), LATER)
    record_ended(attempt.pk, at(90), LATER)
    assert segments(attempt) == [(at(0), at(60), 8_000, 0)]
    assert anomalies(attempt) == [
        ("started", "conflict", at(5)),
        ("ended", "conflict", at(90)),
    ]


def test_a_start_that_was_taken_back_is_not_charged() -> None:
    attempt = a_metered_attempt(a_company().nlp, 10, None)
    record_observed([Observed(attempt.pk, "anew", at(14))], LATER)
    assert segments(attempt) == [(at(14), None, 8_000, 0)]
    anew = Observed(attempt.pk, "anew", at(18))
    record_observed([anew], LATER)
    assert segments(attempt) == [(at(18), None, 8_000, 0)]
    record_observed([anew, Observed(attempt.pk, "ended", at(60))], LATER)
    assert segments(attempt) == [(at(18), at(60), 8_000, 0)]
    assert MeterEvent.objects.filter(attempt=attempt, kind="anew").count() == 2
    assert anomalies(attempt) == []


def test_a_class_that_changes_twice_within_a_second_and_back_keeps_the_last() -> None:
    attempt = a_metered_attempt(
        a_company().nlp, 0, 60, guaranteed_mgpu=8_000, classes=[(30, 0), (30, 4_000), (30, 0)]
    )
    assert segments(attempt) == [(at(0), at(30), 8_000, 0), (at(30), at(60), 0, 8_000)]


def test_a_lost_attempt_is_charged_until_it_was_last_seen() -> None:
    attempt = a_metered_attempt(a_company().nlp, 0, None)
    record_lost(attempt.pk, at(50), LATER)
    assert segments(attempt) == [(at(0), at(50), 8_000, 0)]


def test_the_clusters_own_end_replaces_a_loss() -> None:
    attempt = a_metered_attempt(a_company().nlp, 0, None)
    record_lost(attempt.pk, at(50), LATER)
    record_ended(attempt.pk, at(80), LATER)
    assert segments(attempt) == [(at(0), at(80), 8_000, 0)]
    assert anomalies(attempt) == []


def test_an_end_that_comes_before_the_start_is_told_waits_for_it() -> None:
    attempt = a_metered_attempt(a_company().nlp, None, 60)
    assert segments(attempt) == []
    record_started(attempt.pk, at(20), LATER)
    assert segments(attempt) == [(at(20), at(60), 8_000, 0)]


def test_an_end_before_the_start_is_no_usage_and_is_noted() -> None:
    attempt = a_metered_attempt(a_company().nlp, 60, 59)
    assert segments(attempt) == []
    assert anomalies(attempt) == [("ended", "ends_before_start", at(59))]


def test_an_end_at_the_start_is_no_usage_and_nothing_strange() -> None:
    attempt = a_metered_attempt(a_company().nlp, 60, 60)
    assert segments(attempt) == []
    assert anomalies(attempt) == []


def test_a_clock_far_ahead_is_not_believed() -> None:
    attempt = a_metered_attempt(a_company().nlp, None, None)
    record_started(attempt.pk, at(301), at(0))
    record_started(attempt.pk, at(301), at(1))
    assert segments(attempt) == [(at(0), None, 8_000, 0)]
    assert anomalies(attempt) == [("started", "clock_ahead", at(301))]


def test_a_grant_from_a_clock_far_ahead_counts_from_now_on() -> None:
    """Planted: the account opened with the time as it was told; dies here."""
    company = a_company()
    grant = a_grant_of(company.nlp, granted=301)
    for _ in range(2):
        attempt = register_attempt(grant, now=at(0))
    assert (attempt.classed_at, attempt.guaranteed_mgpu) == (at(0), 8_000)
    assert anomalies(attempt) == [("classed", "clock_ahead", at(301))]
    with pytest.raises(ValueError, match="the time of classed has no zone"):
        register_attempts([replace(grant, at=at(0).replace(tzinfo=None))], now=at(0))


def test_the_first_class_of_an_older_account_is_an_event() -> None:
    attempt = a_metered_attempt(a_company().nlp, None, None)
    attempt.pk, attempt.classed_at, attempt.guaranteed_mgpu = uuid7(), None, None
    attempt.save(force_insert=True)
    MeterEvent.objects.create(
        attempt=attempt, kind="classed", at=at(0), guaranteed_mgpu=5_000, recorded_at=at(0)
    )
    record_classed([(attempt.pk, 5_000)], at(0), LATER)
    assert MeterEvent.objects.count() == 1
    record_started(attempt.pk, at(7), LATER)
    assert segments(attempt) == [(at(7), None, 5_000, 3_000)]


def test_a_clock_five_minutes_ahead_is_believed() -> None:
    attempt = a_metered_attempt(a_company().nlp, None, None)
    record_started(attempt.pk, at(300), at(0))
    assert segments(attempt) == [(at(300), None, 8_000, 0)]


def test_times_are_utc_whole_seconds() -> None:
    attempt = a_metered_attempt(a_company().nlp, None, None)
    east = timezone(timedelta(hours=2))
    record_started(attempt.pk, (at(10) + timedelta(microseconds=999_999)).astimezone(east), LATER)
    record_started(attempt.pk, at(10), LATER)
    assert segments(attempt) == [(at(10), None, 8_000, 0)]
    assert anomalies(attempt) == []


def test_a_time_without_a_zone_is_refused() -> None:
    attempt = a_metered_attempt(a_company().nlp, None, None)
    with pytest.raises(ValueError, match="no zone"):
        record_started(attempt.pk, at(0).replace(tzinfo=None), LATER)
    assert segments(attempt) == []


def test_an_attempt_that_nobody_registered_is_refused() -> None:
    attempt = a_metered_attempt(a_company().nlp, 0, None)
    stranger = uuid7()
    with pytest.raises(AttemptNotMetered, match=str(stranger)):
        record_classed([(attempt.pk, 0), (stranger, 0)], at(30), LATER)
    assert segments(attempt) == [(at(0), None, 8_000, 0)]


def test_a_thousand_attempts_take_as_many_statements_as_one() -> None:
    template = a_grant_of(a_company().nlp)
    statements = []
    for count in (1, 1_000):
        grants = [replace(template, attempt_id=uuid7(), job_id=uuid7()) for _ in range(count)]
        with CaptureQueriesContext(connection) as registering:
            register_attempts(grants, now=LATER)
        record_started(grants[0].attempt_id, at(0), LATER)
        with CaptureQueriesContext(connection) as classing:
            record_classed([(grant.attempt_id, 0) for grant in grants], at(30), LATER)
        statements.append((len(registering), len(classing)))
    assert statements[0] == statements[1]
    assert UsageSegment.objects.filter(start=at(30), borrowed_mgpu=8_000).count() == 2


def test_use_that_is_free_or_unpaid_is_the_fold_of_its_events_too() -> None:
    """Only the attempt whose segment was changed by hand is named.

    Planted: the fold without unpaid use, and segments without their fault, so that reconciliation
    called a changed account a difference of the meter.
    """
    team = a_company().nlp
    free, unpaid, changed = (a_metered_attempt(team, guaranteed_mgpu=4_000) for _ in range(3))
    record_fault(free.pk, at(1_800), LATER, "node_failed")
    record_unpaid(
        [UnpaidSpan(unpaid.pk, at(0), at(900), 4_000)],
        organization_id=team.organization_id,
        pool_id=unpaid.pool_id,
        start=at(0),
        end=at(900),
        now=LATER,
    )
    UsageSegment.objects.filter(attempt=changed).update(fault="lost")
    assert UsageSegment.objects.count() == 5
    assert attempts_not_folded({free.pk, unpaid.pk, changed.pk}) == {changed.pk}

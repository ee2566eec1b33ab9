"""Stored charges of past days are exact at every moment, whatever changes (R-98, R-99)."""

from __future__ import annotations

from datetime import datetime, timedelta
from unittest.mock import patch
from uuid import UUID

import pytest
from django.db import IntegrityError, transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from billing import daily_charges
from billing.charge_grouping import Charging
from billing.daily_charges import Charged, ChargedUse, charges_in
from billing.metering import (
    Observed,
    UnpaidSpan,
    record_classed,
    record_observed,
    record_unpaid,
)
from billing.models import MeteredAttempt, RateLine
from billing.stored_charge_models import ChangedCharges, StoredCharge, StoredDay
from billing.stored_charges import forget_changed_days, store_day, stored_days
from builders.billing_builders import (
    DAY,
    LATER,
    a_metered_attempt,
    a_rate_card,
    at,
    record_ended,
    terms_of,
)
from builders.portal_builders import Company, a_company, a_pool
from quotas.models import Quota
from tenants.models import Node

pytestmark = pytest.mark.django_db

DAYS = 6
DAY_S = 86_400
SPANS = [(at(n * DAY_S), at((n + 1) * DAY_S)) for n in range(DAYS)]

Found = list[dict[ChargedUse, Charged]]


class Undo(Exception):
    """Takes an example's rows back."""


def charges(organization: Node) -> Found:
    return [found for _, found in charges_in(SPANS, organization.pk)]


def rated(organization: Node) -> Found:
    """The charges by the segments alone."""
    with patch.object(daily_charges, "stored_charges", return_value=None):
        return charges(organization)


def store(organization: Node) -> int:
    """Store all days anew that are not stored or changed, and return how many are stored then."""
    forget_changed_days(organization.pk)
    charging = Charging.of(organization.pk)
    return sum(store_day(charging, *span, now=LATER) for span in SPANS)


def readable(organization: Node) -> list[int]:
    """The days that are read without rating."""
    seen: list[datetime] = []
    original = daily_charges._rated

    def spy(statement: str, charging: Charging, start: datetime, end: datetime) -> object:
        if statement == daily_charges._CHARGES:
            seen.append(start)
        return original(statement, charging, start, end)

    with patch.object(daily_charges, "_rated", spy):
        charges(organization)
    return [number for number, (start, _) in enumerate(SPANS) if start not in seen]


def test_a_stored_day_is_read_with_the_same_charges() -> None:
    """Against: the amounts of stored rows in another order."""
    company = a_company()
    a_rate_card(company.organization)
    a_metered_attempt(
        company.nlp, 3_600, 3 * DAY_S + 7, guaranteed_mgpu=3_001, multiplier_ppm=1_333_333
    )
    before = rated(company.organization)
    assert store(company.organization) == DAYS
    assert readable(company.organization) == [0, 1, 2, 3, 4, 5]
    assert charges(company.organization) == before
    assert before[4] == {}


def test_a_late_end_leaves_the_days_before_it_stored() -> None:
    """The attempt still runs when its days are stored, and turns out to have ended on the third.

    Planted: the note of an update with the start of the segment.
    """
    company = a_company()
    a_rate_card(company.organization)
    attempt = a_metered_attempt(company.nlp, 0, None)
    store(company.organization)
    record_ended(attempt.pk, at(2 * DAY_S + 60), LATER)
    assert readable(company.organization) == [0, 1]
    assert charges(company.organization) == rated(company.organization)
    forget_changed_days(company.organization.pk)
    assert stored_days(company.organization.pk) == set(SPANS[:2])
    assert ChangedCharges.objects.count() == 0
    assert store(company.organization) == DAYS
    assert readable(company.organization) == [0, 1, 2, 3, 4, 5]


def test_an_end_at_midnight_changes_the_day_before() -> None:
    """The top-up of a day goes away when the attempt goes on after midnight.

    Against: a note that begins at the change itself.
    """
    company = a_company()
    terms_of(a_rate_card(company.organization), "pay_per_use", minimum_s=DAY_S)
    attempt = a_metered_attempt(company.nlp, 3_600, None)
    record_observed([Observed(attempt.pk, "lost", at(DAY_S))], LATER)
    store(company.organization)
    record_ended(attempt.pk, at(DAY_S + 60), LATER)
    assert readable(company.organization) == []
    assert charges(company.organization) == rated(company.organization)


def test_prices_and_terms_leave_a_note_from_their_start_on() -> None:
    """Planted: no trigger on prices. Against: none on terms."""
    company = a_company()
    card = a_rate_card(company.organization, {"guaranteed": 2_000_000_000})
    a_metered_attempt(company.nlp, 0, 5 * DAY_S, guaranteed_mgpu=0)
    store(company.organization)
    a_rate_card(company.organization, {"borrowed": 1_000_000_000}, start=4 * DAY_S)
    assert readable(company.organization) == [0, 1, 2]
    assert charges(company.organization) == rated(company.organization)
    terms_of(card, "pay_per_use", start=2 * DAY_S, borrowed_ppm=500_000)
    assert readable(company.organization) == [0]
    assert charges(company.organization) == rated(company.organization)


def test_commitments_are_rated_fresh() -> None:
    """Planted: no commitments beside stored charges."""
    company = a_company()
    terms_of(a_rate_card(company.organization), "commitment")
    a_metered_attempt(company.nlp, 0, DAY_S)
    store(company.organization)
    before = charges(company.organization)
    assert before == rated(company.organization)
    Quota.objects.filter(node=company.nlp).update(guaranteed_mgpu=1_000)
    assert readable(company.organization) == [0, 1, 2, 3, 4, 5]
    after = charges(company.organization)
    assert after == rated(company.organization)
    assert after != before


def test_what_happens_now_leaves_no_note() -> None:
    """Planted: notes of all changes."""
    company = a_company()
    now = datetime.now(tz=DAY.tzinfo).replace(microsecond=0)
    second = int((now - DAY).total_seconds())
    a_metered_attempt(company.nlp, second - 60, second, now=now)
    assert ChangedCharges.objects.count() == 0


def test_a_day_is_not_stored_before_72_hours_have_passed() -> None:
    company = a_company()
    charging = Charging.of(company.organization.pk)
    start, end = SPANS[0]
    assert not store_day(charging, start, end, now=end + timedelta(hours=72, seconds=-1))
    assert store_day(charging, start, end, now=end + timedelta(hours=72))


def test_the_database_keeps_stored_days_apart() -> None:
    organization = a_company().organization
    StoredDay.objects.create(organization=organization, start=at(0), end=at(DAY_S))
    for start, end, constraint in (
        (at(60), at(2 * DAY_S), "a_moment_is_stored_once"),
        (at(2 * DAY_S), at(2 * DAY_S), "stored_day_has_a_length"),
    ):
        with pytest.raises(IntegrityError, match=constraint), transaction.atomic():
            StoredDay.objects.create(organization=organization, start=start, end=end)


@pytest.mark.parametrize(
    ("amounts", "constraint"),
    [
        ((0, 0, 0), "stored_charge_is_some"),
        ((1, 1, 0), "stored_charge_is_some"),
        ((1, 0, -1), "stored_charge_is_not_negative"),
    ],
)
def test_the_database_refuses_impossible_amounts(
    amounts: tuple[int, int, int], constraint: str
) -> None:
    company = a_company()
    day = StoredDay.objects.create(organization=company.organization, start=at(0), end=at(DAY_S))
    some_id = company.nlp.pk
    mgpu_s, extra_mgpu_s, cost_nano = amounts
    with pytest.raises(IntegrityError, match=constraint), transaction.atomic():
        StoredCharge.objects.create(
            day=day,
            team_id=some_id,
            pool_id=some_id,
            user_id=some_id,
            cluster_id=some_id,
            usage_class=1,
            priority_class="normal",
            multiplier_ppm=1,
            mode="pay_per_use",
            mgpu_s=mgpu_s,
            extra_mgpu_s=extra_mgpu_s,
            cost_nano=cost_nano,
        )


moments = st.integers(0, 4 * DAYS).map(lambda quarter: quarter * DAY_S // 4 + 1)
news = st.one_of(
    st.tuples(st.just("ended"), moments),
    st.tuples(st.just("lost"), moments),
    st.tuples(st.just("fault"), moments),
    st.tuples(st.just("classed"), moments),
    st.tuples(st.just("unpaid"), moments),
    st.tuples(st.just("price"), moments),
    st.tuples(st.just("store"), st.just(0)),
)


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(moments, st.none() | moments), min_size=1, max_size=3), st.lists(news))
def test_whatever_changes_stored_days_equal_the_segments(
    attempts: list[tuple[int, int | None]], changes: list[tuple[str, int]]
) -> None:
    """Planted: no trigger on deleted segments. Against: none on new ones; none on updated ones."""
    try:
        with transaction.atomic():
            company = a_company()
            a_rate_card(company.organization, {"guaranteed": 1_800_007})
            for start, length in attempts:
                a_metered_attempt(
                    company.nlp,
                    start,
                    None if length is None else start + length,
                    mgpu=5,
                    guaranteed_mgpu=2,
                    multiplier_ppm=1_333_333,
                )
            store(company.organization)
            for number, (kind, second) in enumerate(changes):
                change(company, kind, second, number)
                assert charges(company.organization) == rated(company.organization)
            raise Undo
    except Undo:
        pass


def change(company: Company, kind: str, second: int, number: int) -> None:
    """News of an attempt, a price where none stood, or the timer."""
    ids: list[UUID] = list(MeteredAttempt.objects.order_by("pk").values_list("pk", flat=True))
    attempt = ids[number % len(ids)]
    if kind == "store":
        store(company.organization)
    elif kind == "price":
        if not RateLine.objects.filter(usage_class="borrowed").exists():
            a_rate_card(company.organization, {"borrowed": 34_920_000}, start=second)
    elif kind == "classed":
        record_classed([(attempt, number % 6)], at(second), LATER)
    elif kind == "unpaid":
        record_unpaid(
            [UnpaidSpan(attempt, at(second), at(second + DAY_S), 1)],
            organization_id=company.organization.pk,
            pool_id=a_pool().pk,
            start=at(0),
            end=at(DAYS * DAY_S * 2),
            now=LATER,
        )
    elif kind == "fault":
        record_observed([Observed(attempt, "fault", at(second), reason="node_failed")], LATER)
    elif kind == "ended":
        record_observed([Observed(attempt, "ended", at(second))], LATER)
    else:
        record_observed([Observed(attempt, "lost", at(second))], LATER)

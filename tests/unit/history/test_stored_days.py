"""Stored days of history equal what the segments say, whatever changes (R-98)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from unittest.mock import patch

import pytest
from django.db import IntegrityError, transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from builders.billing_builders import LATER, a_metered_attempt, at, record_ended
from builders.portal_builders import (
    Company,
    a_company,
    a_quota,
    a_team,
    an_actor,
    an_organization,
)
from chargeback.reports import Asked
from clusters.models import CapacitySegment
from history import stored_days, storing
from history.integrals import Level
from history.models import ChangedHistory, StoredDay, StoredNode
from history.steps import Step
from history.stored_days import forget_changed_days, store_day
from history.storing import store_past_days
from history.use import History, history_of
from quotas.models import OrganizationPolicy, Quota
from tenants.moving import move_node
from tenants.roles import Role

pytestmark = pytest.mark.django_db

HOUR_S, DAY_S, DAYS = 3_600, 86_400, 5
PATHS = ("ai-company", "ai-company/research", "ai-company/research/nlp")


class Undo(Exception):
    """Takes an example's rows back."""


@pytest.fixture
def company() -> Company:
    """32 GPUs: research 16 (nlp 8, vision 8), production 16 (inference 16)."""
    company = a_company()
    CapacitySegment.objects.create(
        cluster=company.cluster, pool=company.pool, capacity_mgpu=32_000, start=at(0)
    )
    return company


def days(count: int = DAYS) -> list[tuple[datetime, datetime]]:
    return [(at(n * DAY_S), at((n + 1) * DAY_S)) for n in range(count)]


def store(company: Company) -> int:
    """Store all days that are not stored or changed, and return how many are new."""
    forget_changed_days()
    return sum(store_day(company.organization, company.pool, *day, now=LATER) for day in days())


def seen(company: Company, path: str, start_s: int = 0, end_s: int = DAYS * DAY_S) -> History:
    return history_of(
        path,
        company.pool,
        actor=an_actor(company.organization, Role.FINANCE),
        asked=Asked(at(start_s), at(end_s)),
        step=Step.HOUR,
        now=LATER,
    )


def integrated(company: Company, path: str, *period: int) -> History:
    """The history by the segments alone."""
    with patch.object(stored_days, "_stored_days", return_value=iter(())):
        return seen(company, path, *period)


def unread(company: Company, path: str = PATHS[0]) -> list[datetime]:
    """The starts of the parts that are integrated."""
    found: list[datetime] = []
    original = stored_days.changes_between

    def spy(tree: object, pool: object, start: datetime, end: datetime) -> object:
        found.append(start)
        return original(tree, pool, start, end)  # type: ignore[arg-type]

    with patch.object(stored_days, "changes_between", spy):
        seen(company, path)
    return found


def assert_exact(company: Company) -> None:
    for path in PATHS:
        assert seen(company, path) == integrated(company, path)
        # A period that begins and ends within a day.
        inner = (HOUR_S // 2, 3 * DAY_S + 5 * HOUR_S)
        assert seen(company, path, *inner) == integrated(company, path, *inner)


def test_stored_days_are_read_and_equal_the_segments(company: Company) -> None:
    """nlp borrows of vision, then of production, over midnights; inference runs on.

    Planted: levels stored hour after hour; pairs of the wrong node; capacity of the first hour.
    """
    a_metered_attempt(company.nlp, 20 * HOUR_S, 30 * HOUR_S, mgpu=12_000, guaranteed_mgpu=8_000)
    a_metered_attempt(company.nlp, 50 * HOUR_S, 80 * HOUR_S, mgpu=20_000, guaranteed_mgpu=8_000)
    a_metered_attempt(company.inference, HOUR_S, None, mgpu=4_000, guaranteed_mgpu=4_000)
    CapacitySegment.objects.update(end=at(60 * HOUR_S))
    CapacitySegment.objects.create(
        cluster=company.cluster, pool=company.pool, capacity_mgpu=24_000, start=at(60 * HOUR_S)
    )
    before = [integrated(company, path) for path in PATHS]
    assert store(company) == DAYS
    assert [seen(company, path) for path in PATHS] == before
    assert unread(company) == []
    assert before[1].pairs[0].mgpu_s == (4 * 10 + 8 * 30) * 1_000 * HOUR_S
    assert_exact(company)


def test_a_late_end_is_read_at_once_and_stored_anew(company: Company) -> None:
    """The end of the second day changes: that day and all later ones are integrated.

    Planted: notes that no reader looks at.
    """
    attempt = a_metered_attempt(company.nlp, DAY_S, None, mgpu=4_000, guaranteed_mgpu=4_000)
    assert store(company) == DAYS
    record_ended(attempt.pk, at(40 * HOUR_S), LATER)
    assert ChangedHistory.objects.exists()
    assert unread(company) == [at(DAY_S)]
    assert_exact(company)
    assert store(company) == DAYS - 1
    assert not ChangedHistory.objects.exists()
    assert unread(company) == []
    assert_exact(company)


def test_the_use_of_another_organization_changes_what_is_lent(company: Company) -> None:
    """Against: notes of the own organization alone."""
    other = an_organization("other")
    a_quota(other, company.pool, 0)
    team = a_team(other, "blue")
    assert store(company) == DAYS
    a_metered_attempt(team, 30 * HOUR_S, 50 * HOUR_S, mgpu=8_000, guaranteed_mgpu=0)
    assert unread(company) == [at(DAY_S)]
    assert_exact(company)
    assert seen(company, "ai-company").series.sums[Level.LENT] > 0


def test_a_day_of_a_move_is_never_stored_and_earlier_days_keep_their_place(
    company: Company,
) -> None:
    """Planted: rows by the present place of a node."""
    a_metered_attempt(company.vision, 0, 5 * DAY_S, mgpu=4_000, guaranteed_mgpu=4_000)
    actor = an_actor(company.organization, Role.ORGANIZATION_ADMIN)
    now = at(2 * DAY_S + HOUR_S)
    Quota.objects.filter(node=company.vision).update(guaranteed_mgpu=0)
    move_node(actor=actor, node=company.vision, parent=company.production, now=now)
    assert store(company) == DAYS - 1
    assert unread(company) == [at(2 * DAY_S)]
    assert_exact(company)


def test_days_younger_than_72_hours_and_of_other_zones_are_left(company: Company) -> None:
    """Against: a stored day of UTC read as one of Berlin."""
    a_metered_attempt(company.nlp, 0, 5 * DAY_S, mgpu=4_000, guaranteed_mgpu=4_000)
    start, end = days(1)[0]
    early = end + timedelta(hours=72) - timedelta(seconds=1)
    assert not store_day(company.organization, company.pool, start, end, now=early)
    assert store(company) == DAYS
    assert not store_day(company.organization, company.pool, start, end, now=LATER)
    OrganizationPolicy.objects.update(time_zone="Europe/Berlin")
    assert_exact(company)


def test_days_of_two_time_zones_overlap_and_count_once(company: Company) -> None:
    """Planted: both of them added."""
    a_metered_attempt(company.nlp, 0, 5 * DAY_S, mgpu=12_000, guaranteed_mgpu=8_000)
    assert store(company) == DAYS
    OrganizationPolicy.objects.update(time_zone="Europe/Berlin")
    for start, end in days(DAYS):
        day = start - timedelta(hours=1), end - timedelta(hours=1)
        assert store_day(company.organization, company.pool, *day, now=LATER)
    assert_exact(company)


def test_the_timer_stores_the_latest_days_first(company: Company) -> None:
    """A failing organization does not stop the others. Planted: the earliest days first."""
    other = an_organization("aaa")
    a_quota(other, company.pool, 0)
    original = storing.store_days_of

    def failing(organization: object, *arguments: object) -> int:
        if organization == other:
            raise RuntimeError("planted")
        return original(organization, *arguments)  # type: ignore[arg-type]

    now = at(8 * DAY_S)
    with patch.object(storing, "DAYS_MAX", 2), patch.object(storing, "store_days_of", failing):
        store_past_days(now)
        assert sorted(StoredDay.objects.values_list("start", flat=True)) == [
            at(3 * DAY_S),
            at(4 * DAY_S),
        ]
        store_past_days(now)
        store_past_days(now)
        store_past_days(now)
    assert StoredDay.objects.count() == 5
    assert set(StoredDay.objects.values_list("organization", flat=True)) == {
        company.organization.pk
    }


def test_the_database_keeps_stored_days_whole(company: Company) -> None:
    """A day is stored once, has a length, and a node has one row in it."""
    assert store(company) == DAYS
    day = StoredDay.objects.order_by("start").first()
    assert day is not None
    values = {"organization": company.organization, "pool": company.pool, "nodes": []}
    for start, end in ((day.start, day.end), (day.start, day.start)):
        with pytest.raises(IntegrityError), transaction.atomic():
            StoredDay.objects.create(**values, start=start, end=end, capacity_mgpu_s=[])
    row = StoredNode.objects.filter(day=day).first()
    assert row is not None
    with pytest.raises(IntegrityError), transaction.atomic():
        StoredNode.objects.create(day=day, node_id=row.node_id, levels=[], mgpu_s=[], pairs=[])


@dataclass(frozen=True)
class Use:
    """An attempt of a team, in hours, with an end that may be told late."""

    team: int
    start_h: int
    length_h: int
    mgpu: int
    told_late: bool


uses = st.lists(
    st.builds(
        Use,
        team=st.integers(0, 2),
        start_h=st.integers(0, 110),
        length_h=st.integers(1, 60),
        mgpu=st.integers(1, 20).map(lambda gpus: gpus * 1_000),
        told_late=st.booleans(),
    ),
    min_size=1,
    max_size=4,
)


@given(drawn=uses, late=uses)
@settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_every_history_is_exact(
    company: Company, drawn: Sequence[Use], late: Sequence[Use]
) -> None:
    """Days are stored, more use becomes known, and days are stored again."""
    teams = (company.nlp, company.vision, company.inference)

    def add(use: Use) -> None:
        end = (use.start_h + use.length_h) * HOUR_S
        attempt = a_metered_attempt(
            teams[use.team],
            use.start_h * HOUR_S,
            None if use.told_late else end,
            mgpu=use.mgpu,
            guaranteed_mgpu=min(use.mgpu, 8_000),
        )
        if use.told_late:
            record_ended(attempt.pk, at(end), LATER)

    try:
        with transaction.atomic():
            for use in drawn:
                add(use)
            store(company)
            assert_exact(company)
            for use in late:
                add(use)
            assert_exact(company)
            store(company)
            assert_exact(company)
            raise Undo
    except Undo:
        pass

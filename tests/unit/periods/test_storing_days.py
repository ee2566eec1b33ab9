"""The timer that stores the charges of past days, in the organization's time zone."""

from __future__ import annotations

from datetime import UTC, datetime
from unittest.mock import patch
from uuid import UUID

import pytest
from django.db import IntegrityError

from billing.stored_charge_models import StoredCharge
from billing.stored_charges import stored_days
from builders.billing_builders import LATER, a_metered_attempt, a_rate_card
from builders.portal_builders import a_company
from periods import storing
from periods.storing import store_days_of, store_past_days
from quotas.models import OrganizationPolicy
from tenants.models import Node

pytestmark = pytest.mark.django_db


def test_the_latest_days_that_are_over_for_72_hours_come_first() -> None:
    """Berlin is an hour ahead in November. Planted: the earliest days first."""
    company = a_company()
    OrganizationPolicy.objects.update(time_zone="Europe/Berlin")
    a_rate_card(company.organization)
    a_metered_attempt(company.nlp, 0, 3_600)
    with patch.object(storing, "DAYS_MAX", 2):
        assert store_days_of(company.organization.pk, LATER) == 2
        assert sorted(stored_days(company.organization.pk)) == [
            (datetime(2026, 11, day, 23, tzinfo=UTC), datetime(2026, 11, day + 1, 23, tzinfo=UTC))
            for day in (15, 16)
        ]
        assert store_days_of(company.organization.pk, LATER) == 2
        assert len(stored_days(company.organization.pk)) == 4


def test_a_repeat_changes_nothing_and_organizations_without_use_have_no_days() -> None:
    """Against: days of everybody."""
    company, other = a_company(), a_company("other")
    a_metered_attempt(company.nlp, 0, 3_600)
    with patch.object(storing, "DAYS_MAX", 30):
        store_past_days(LATER)
        rows = list(StoredCharge.objects.order_by("pk").values_list("pk", "day", "mgpu_s"))
        assert [mgpu_s for _, _, mgpu_s in rows] == [28_800_000]
        known = stored_days(company.organization.pk)
        store_past_days(LATER)
    assert list(StoredCharge.objects.order_by("pk").values_list("pk", "day", "mgpu_s")) == rows
    assert known < stored_days(company.organization.pk)
    assert stored_days(other.organization.pk) == set()


def test_days_of_an_earlier_time_zone_are_stored_anew() -> None:
    """Days of Berlin overlap those of UTC. The day of the use begins an hour before it.

    Planted: the stored days of UTC left, which the new ones may not overlap.
    """
    company = a_company()
    a_rate_card(company.organization)
    a_metered_attempt(company.nlp, 0, 3_600)
    with patch.object(storing, "DAYS_MAX", 30):
        assert store_days_of(company.organization.pk, LATER) == 30
        OrganizationPolicy.objects.update(time_zone="Europe/Berlin")
        assert store_days_of(company.organization.pk, LATER) == 30
    days = sorted(stored_days(company.organization.pk))
    assert {start.hour for start, _ in days} == {22, 23}
    assert len(days) == 30
    assert [(row.day.start, row.mgpu_s) for row in StoredCharge.objects.select_related("day")] == [
        (datetime(2026, 10, 31, 23, tzinfo=UTC), 28_800_000)
    ]


def test_an_organization_that_fails_does_not_stop_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Planted: the error ends the task."""
    for slug in ("a-first", "b-next"):
        a_metered_attempt(a_company(slug).nlp, 0, 3_600)
    first, following = Node.objects.filter(kind="organization").order_by("path")
    stored: list[UUID] = []

    def store(organization_id: UUID, now: datetime) -> int:
        if organization_id == first.pk:
            raise IntegrityError("overlap")
        stored.append(organization_id)
        return 0

    with patch.object(storing, "store_days_of", store):
        store_past_days(LATER)
    assert stored == [following.pk]
    assert [
        record.getMessage() for record in caplog.records if record.name == storing.__name__
    ] == ["the past days of a-first cannot be stored"]

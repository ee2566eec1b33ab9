"""The timer that stores the charges of past days, in the organization's time zone."""

from __future__ import annotations

from datetime import UTC, datetime
from unittest.mock import patch

import pytest

from billing.stored_charge_models import StoredCharge
from billing.stored_charges import stored_days
from builders.billing_builders import LATER, a_metered_attempt, a_rate_card
from builders.portal_builders import a_company
from periods import storing
from periods.storing import store_days_of, store_past_days
from quotas.models import OrganizationPolicy

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

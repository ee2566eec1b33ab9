"""Notices of roles that expire soon."""

from __future__ import annotations

from datetime import timedelta

import pytest

from builders.cast import Cast, a_cast
from builders.notice_builders import told
from builders.portal_builders import NOW
from notices.expiring_roles import give_role_notices
from tenants.models import RoleGrant

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)
EXPIRY = NOW + 30 * DAY
WORDS = (
    "Your role researcher in ai-company/research/nlp expires within {}. "
    "Ask an administrator there to extend it."
)


@pytest.fixture
def cast() -> Cast:
    return a_cast()


def test_the_holder_is_told_seven_days_and_one_day_before(cast: Cast) -> None:
    """Each notice once. Against: a minute too early."""
    RoleGrant.objects.filter(user=cast.bob).update(expires_at=EXPIRY)
    before = (7 * DAY + timedelta(seconds=1), 7 * DAY, 6 * DAY, DAY, timedelta(0))
    assert [give_role_notices(EXPIRY - each) for each in before] == [0, 1, 0, 1, 0]
    assert told(cast.bob) == [
        ("role_expiring", WORDS.format("7 days")),
        ("role_expiring", WORDS.format("1 day")),
    ]


def test_a_role_that_was_extended_gives_its_notices_again(cast: Cast) -> None:
    """Against: a key without the expiry."""
    RoleGrant.objects.filter(user=cast.bob).update(expires_at=EXPIRY)
    assert give_role_notices(EXPIRY - DAY) == 1
    RoleGrant.objects.filter(user=cast.bob).update(expires_at=EXPIRY + 30 * DAY)
    assert give_role_notices(EXPIRY + 29 * DAY) == 1


def test_service_accounts_are_not_told(cast: Cast) -> None:
    """Against: they are, and nobody reads it."""
    RoleGrant.objects.filter(user=cast.service).update(expires_at=EXPIRY)
    assert give_role_notices(EXPIRY - DAY) == 0

"""Notices of access tokens that expire soon."""

from __future__ import annotations

from datetime import timedelta

import pytest

from builders.api_callers import a_token
from builders.cast import Cast, a_cast
from builders.notice_builders import told
from builders.portal_builders import NOW
from notices.expiring_tokens import give_token_notices
from notices.models import Notice
from tenants.models import AccessToken

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)
EXPIRY = NOW + 30 * DAY


@pytest.fixture
def cast() -> Cast:
    return a_cast()


def test_the_owner_is_told_seven_days_and_one_day_before(cast: Cast) -> None:
    """Each notice once. Planted: a minute too early. Against: with each call."""
    a_token(cast.bob, created_at=NOW, expires_at=EXPIRY)
    given = [
        give_token_notices(EXPIRY - before)
        for before in (
            7 * DAY + timedelta(seconds=1),
            7 * DAY,
            6 * DAY,
            DAY,
            timedelta(seconds=1),
            timedelta(0),
        )
    ]
    assert given == [0, 1, 0, 1, 0, 0]
    words = "The access token a token expires within {}. Replace it before then."
    assert told(cast.bob) == [
        ("token_expiring", words.format("7 days")),
        ("token_expiring", words.format("1 day")),
    ]
    assert set(Notice.objects.values_list("link", "deadline")) == {("/access", EXPIRY)}


def test_short_and_revoked_tokens_give_no_notice(cast: Cast) -> None:
    """A token of less than 14 days is one of a day's work. Planted: neither is left out."""
    a_token(cast.bob, created_at=EXPIRY - 14 * DAY + timedelta(seconds=1), expires_at=EXPIRY)
    a_token(cast.bob, created_at=NOW, expires_at=EXPIRY, revoked_at=NOW)
    assert give_token_notices(EXPIRY - DAY) == 0


def test_a_service_accounts_token_is_a_matter_of_its_maker(cast: Cast) -> None:
    """Planted: the service account is told, which nobody reads."""
    token, _ = a_token(cast.service, created_at=NOW, expires_at=EXPIRY)
    assert give_token_notices(EXPIRY - DAY) == 0
    AccessToken.objects.filter(pk=token.pk).update(made_by=cast.nlp_lead)
    assert give_token_notices(EXPIRY - DAY) == 1
    assert told(cast.nlp_lead) == [
        (
            "token_expiring",
            f"The access token a token of {cast.service.login} expires within 1 day. "
            "Replace it before then.",
        )
    ]

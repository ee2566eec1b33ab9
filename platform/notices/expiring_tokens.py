"""Notices of access tokens that expire soon: 7 days and 1 day before, once each."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import F

from notices.giving import NewNotice, give_notices
from notices.models import NoticeEvent
from tenants.models import AccessToken, UserKind

#: Days before the expiry, the last one first.
DAYS_AHEAD = (1, 7)
#: A token with a shorter life gives no notices: its owner knows its end.
LIFETIME_MIN = timedelta(days=14)
#: The most tokens of one call.
TOKENS_MAX = 1_000


@transaction.atomic
def give_token_notices(now: datetime) -> int:
    """Give the notices that are due by `now`; return how many.

    The owner is told, or of a service account the person who made the token.
    """
    horizon = now + timedelta(days=max(DAYS_AHEAD))
    tokens = AccessToken.objects.filter(
        revoked_at=None,
        expires_at__gt=now,
        expires_at__lte=horizon,
        created_at__lte=F("expires_at") - LIFETIME_MIN,
    ).select_related("user", "made_by")
    due = tokens.order_by("expires_at", "pk")[:TOKENS_MAX]
    return give_notices(notice for token in due if (notice := _notice(token, now)) is not None)


def _notice(token: AccessToken, now: datetime) -> NewNotice | None:
    is_service = token.user.kind == UserKind.SERVICE
    person = token.made_by if is_service else token.user
    if person is None or not person.is_active:
        return None
    days = min(d for d in DAYS_AHEAD if token.expires_at <= now + timedelta(days=d))
    whose = f" of {token.user.login}" if is_service else ""
    return NewNotice(
        user_id=person.pk,
        event=NoticeEvent.TOKEN_EXPIRING,
        key=f"token:{token.pk}:{days}",
        subject_kind="access_token",
        subject_id=token.pk,
        sentence=f"The access token {token.name}{whose} expires within "
        f"{days} {'day' if days == 1 else 'days'}. Replace it before then.",
        link="/access",
        at=now,
        deadline=token.expires_at,
    )

"""Notices of roles that expire soon: 7 days and 1 day before, once each."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import transaction

from notices.expiring_tokens import DAYS_AHEAD
from notices.giving import NewNotice, give_notices
from notices.models import NoticeEvent
from tenants.models import RoleGrant, UserKind

#: The most roles of one call.
_ROLES_MAX = 1_000


@transaction.atomic
def give_role_notices(now: datetime) -> int:
    """Give the notices that are due by `now`; return how many. The holder of the role is told."""
    horizon = now + timedelta(days=max(DAYS_AHEAD))
    grants = RoleGrant.objects.filter(
        expires_at__gt=now,
        expires_at__lte=horizon,
        user__is_active=True,
        user__kind=UserKind.PERSON,
    ).select_related("user", "node")
    due = grants.order_by("expires_at", "pk")[:_ROLES_MAX]
    return give_notices(_notice(grant, now) for grant in due)


def _notice(grant: RoleGrant, now: datetime) -> NewNotice:
    assert grant.expires_at is not None
    until = grant.expires_at
    days = min(d for d in DAYS_AHEAD if until <= now + timedelta(days=d))
    where = "the platform" if grant.node is None else grant.node.display_path
    return NewNotice(
        user_id=grant.user_id,
        event=NoticeEvent.ROLE_EXPIRING,
        # A role whose expiry was put off gives its notices again.
        key=f"role:{grant.pk}:{until:%Y%m%d%H%M%S}:{days}",
        subject_kind="role_grant",
        subject_id=grant.pk,
        sentence=f"Your role {grant.role.replace('_', ' ')} in {where} expires within "
        f"{days} {'day' if days == 1 else 'days'}. Ask an administrator there to extend it.",
        link="/access",
        at=now,
        deadline=until,
    )

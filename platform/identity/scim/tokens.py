"""Tokens for SCIM: made, replaced and ended by administrators, and checked at each request."""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID

from django.db import transaction
from django.db.models import Q, QuerySet

from identity.models import ScimSettings, ScimToken
from identity.providers import managed_organization
from primitives.errors import Conflict, FieldError, InvalidRequest, NotFound, Unauthenticated
from tenants.access import Actor
from tenants.audit_trail import Author, record_act
from tenants.models import Node
from tenants.names import clean_name
from tenants.tokens import (
    LAST_USED_PRECISION,
    LIFETIME_DAYS_MAX,
    OVERLAP_S_MAX,
    PREFIX_LENGTH,
    digest_of,
    is_well_formed,
    new_secret,
)

MARK = "tds_"
NAME_LENGTH_MAX = 60
#: Live tokens of one organization: two identity providers that replace theirs, and one more.
LIVE_TOKENS_MAX = 5


def scim_tokens_of(actor: Actor, organization_id: UUID) -> QuerySet[ScimToken]:
    """Return the organization's tokens, also ended ones. Raises NotFound and Forbidden."""
    organization = managed_organization(actor, organization_id)
    return ScimToken.objects.select_related("created_by").filter(organization=organization)


@transaction.atomic
def make_scim_token(
    *, actor: Actor, organization_id: UUID, name: str, expires_in_days: int, now: datetime
) -> tuple[ScimToken, str]:
    """Create a token for the organization. Also return its secret, which cannot be read again.

    The actor needs every right of an administrator of the organization. Raises NotFound, Forbidden,
    InvalidRequest for a bad name or lifetime, and Conflict for more than 5 live tokens.
    """
    organization = managed_organization(actor, organization_id)
    if not 1 <= expires_in_days <= LIFETIME_DAYS_MAX:
        raise InvalidRequest(
            f"expires_in_days must be from 1 to {LIFETIME_DAYS_MAX}.",
            errors=[FieldError("/expires_in_days", f"must be from 1 to {LIFETIME_DAYS_MAX}")],
        )
    return _issue(actor, organization, name, timedelta(days=expires_in_days), now)


@transaction.atomic
def replace_scim_token(
    *, actor: Actor, token_id: UUID, overlap_s: int, now: datetime
) -> tuple[ScimToken, str]:
    """Replace a live token by one with the same name and lifetime. Also return its secret.

    The old one ends in `overlap_s` seconds, at most 7 days. Raises NotFound, Forbidden,
    InvalidRequest, and Conflict for a token that has ended.
    """
    if not 0 <= overlap_s <= OVERLAP_S_MAX:
        raise InvalidRequest(
            f"overlap_s must be from 0 to {OVERLAP_S_MAX} (7 days).",
            errors=[FieldError("/overlap_s", f"must be from 0 to {OVERLAP_S_MAX}")],
        )
    old = _managed_token(actor, token_id)
    if old.revoked_at is not None or old.expires_at <= now:
        raise Conflict(f"The token {old.name} has ended. Create a new one.")
    lifetime = old.expires_at - old.created_at
    if overlap_s:
        old.expires_at = min(old.expires_at, now + timedelta(seconds=overlap_s))
        old.save(update_fields=["expires_at"])
    else:
        old.revoked_at = now
        old.save(update_fields=["revoked_at"])
    _record(actor, "scim_token_replaced", old, now)
    return _issue(actor, old.organization, old.name, lifetime, now)


@transaction.atomic
def end_scim_token(*, actor: Actor, token_id: UUID, now: datetime) -> None:
    """End a token at once. Ending an ended token changes nothing. Raises NotFound and Forbidden."""
    token = _managed_token(actor, token_id)
    if token.revoked_at is None:
        token.revoked_at = now
        token.save(update_fields=["revoked_at"])
        _record(actor, "scim_token_ended", token, now)


def scim_token_by_secret(secret: str, *, now: datetime) -> ScimToken:
    """Return the live token with this secret, with its organization.

    `last_used_at` is written at most once a minute. Raises Unauthenticated with the reason.
    """
    if not is_well_formed(secret, MARK):
        raise Unauthenticated(
            "SCIM needs a token for SCIM, which begins with tds_. Create one on the page Sign-in."
        )
    tokens = ScimToken.objects.select_related("organization")
    token = tokens.filter(digest=digest_of(secret)).first()
    if token is None:
        raise Unauthenticated("No such token for SCIM exists. Create one on the page Sign-in.")
    if token.revoked_at is not None:
        raise Unauthenticated("This token for SCIM was ended. Create one on the page Sign-in.")
    if token.expires_at <= now:
        raise Unauthenticated("This token for SCIM has expired. Create one on the page Sign-in.")
    if token.last_used_at is None or token.last_used_at <= now - LAST_USED_PRECISION:
        ScimToken.objects.filter(
            Q(last_used_at=None) | Q(last_used_at__lte=now - LAST_USED_PRECISION), pk=token.pk
        ).update(last_used_at=now)
        token.last_used_at = now
    return token


def author_of(token: ScimToken) -> Author:
    """Return the token as the author of acts in the audit log."""
    return Author(token.pk, f"SCIM token {token.name} ({token.prefix}…)")


def _issue(
    actor: Actor, organization: Node, name: str, lifetime: timedelta, now: datetime
) -> tuple[ScimToken, str]:
    ScimSettings.objects.get_or_create(organization=organization, defaults={"changed_at": now})
    # The lock makes the limit hold.
    ScimSettings.objects.select_for_update().get(pk=organization.pk)
    live = ScimToken.objects.filter(
        organization=organization, revoked_at=None, expires_at__gt=now
    ).count()
    if live >= LIVE_TOKENS_MAX:
        raise Conflict(f"There are {live} live tokens for SCIM already. End one first.")
    secret = new_secret(MARK)
    token = ScimToken.objects.create(
        organization=organization,
        name=clean_name(name, length_max=NAME_LENGTH_MAX),
        prefix=secret[:PREFIX_LENGTH],
        digest=digest_of(secret),
        created_by=actor.user,
        created_at=now,
        expires_at=now + lifetime,
    )
    _record(actor, "scim_token_created", token, now)
    return token, secret


def _managed_token(actor: Actor, token_id: UUID) -> ScimToken:
    """Return the token, locked. Raises NotFound and Forbidden."""
    tokens = ScimToken.objects.select_for_update(of=("self",)).select_related("organization")
    token = tokens.filter(pk=token_id).first()
    if token is None:
        raise NotFound("It does not exist, or you may not see it.")
    managed_organization(actor, token.organization_id)
    return token


def _record(actor: Actor, action: str, token: ScimToken, now: datetime) -> None:
    record_act(
        actor=actor,
        action=action,
        subject_kind="scim_token",
        subject_id=token.pk,
        node=token.organization,
        now=now,
        detail={
            "name": token.name,
            "prefix": token.prefix,
            "expires_at": token.expires_at.isoformat(),
        },
    )

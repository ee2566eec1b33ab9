"""People as their identity provider describes them: found, created, and given roles by groups."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import transaction
from django.db.models import Q, QuerySet

from identity.group_roles import lock_groups, renew_roles_at_sign_in
from identity.models import (
    GROUP_LENGTH_MAX,
    SUBJECT_LENGTH_MAX,
    ExternalIdClaim,
    ExternalIdentity,
    IdentityProvider,
    ProvisionedPerson,
    ScimSettings,
)
from identity.sign_in_refusals import SignInRefusal
from tenants.access import actor_of
from tenants.audit_trail import record_act, record_attempt
from tenants.models import User, UserKind
from tenants.vouched_people import create_vouched_person, end_earlier_access

log = logging.getLogger(__name__)

#: The most groups of one person. With more of them, the roles by groups stay as they were.
GROUPS_MAX = 1_000
_EMAIL_LENGTH_MAX = 254


@dataclass(frozen=True, slots=True)
class Claims:
    """The proved statements of a provider on a person. `email` is empty unless it is verified.

    `groups` is None where the provider does not name all of them. `external_ids` are the claims
    that may be a person's `externalId` at SCIM.
    """

    subject: str
    username: str
    name: str
    email: str
    groups: frozenset[str] | None
    external_ids: Mapping[str, str]


class SignInRefused(Exception):
    """The person may not sign in. `code` says why."""

    def __init__(self, code: SignInRefusal) -> None:
        super().__init__(code.value)
        self.code = code


def read_claims(claims: Mapping[str, Any], *, groups_claim: str) -> Claims:
    """Return the claims that count. Raises SignInRefused for a subject that is no text."""
    subject = claims.get("sub")
    if not isinstance(subject, str) or not 0 < len(subject) <= SUBJECT_LENGTH_MAX:
        raise SignInRefused(SignInRefusal.NOT_PROVED)
    email = _verified_email(claims)
    return Claims(
        subject=subject,
        username=_text(claims, "preferred_username") or email or _text(claims, "name"),
        name=_text(claims, "name"),
        email=email,
        groups=_groups(claims, groups_claim) if groups_claim else frozenset(),
        external_ids={claim: _text(claims, claim) for claim in ExternalIdClaim.values}
        | {ExternalIdClaim.SUBJECT.value: subject},
    )


def _text(claims: Mapping[str, Any], name: str) -> str:
    value = claims.get(name)
    return value[:GROUP_LENGTH_MAX] if isinstance(value, str) else ""


def _verified_email(claims: Mapping[str, Any]) -> str:
    email = claims.get("email")
    if claims.get("email_verified") is not True or not isinstance(email, str):
        return ""
    return usable_email(email)


def usable_email(email: str) -> str:
    """Return the address, or "" where it is no email address of at most 254 characters."""
    try:
        validate_email(email)
    except ValidationError:
        return ""
    return email if len(email) <= _EMAIL_LENGTH_MAX else ""


def _groups(claims: Mapping[str, Any], name: str) -> frozenset[str] | None:
    elsewhere, value = claims.get("_claim_names"), claims.get(name)
    if name not in claims and isinstance(elsewhere, Mapping) and name in elsewhere:
        log.warning("the provider sends no groups of %r: they are elsewhere", claims.get("sub"))
        return None
    named = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    if len(named) > GROUPS_MAX:
        log.warning("the provider names %d groups of %r: too many", len(named), claims.get("sub"))
        return None
    return frozenset(
        group for group in named if isinstance(group, str) and 0 < len(group) <= GROUP_LENGTH_MAX
    )


@transaction.atomic
def sign_in_person(provider: IdentityProvider, claims: Claims, *, now: datetime) -> User:
    """Return the person of these claims, with the roles that their groups give now.

    Where the groups are not known, the roles by groups stay as the last sign-in left them.
    The person is known by issuer and subject. At the first sign-in, the account that SCIM pushed
    with this external id is linked. Otherwise the account with the same verified email address is
    linked, or a new one is created, if the provider's row says so. Raises SignInRefused for a
    person without an account, and for a deactivated one.
    """
    # Two first sign-ins of one person wait for each other.
    lock_groups(provider.organization_id)
    known = (
        ExternalIdentity.objects.select_related("user__organization")
        .filter(provider=provider, issuer=provider.issuer, subject=claims.subject)
        .first()
    )
    user = known.user if known is not None else _first_sign_in(provider, claims, now)
    if not user.is_active:
        raise SignInRefused(SignInRefusal.DEACTIVATED)
    if known is not None:
        known.used_at = now
        known.save(update_fields=["used_at"])
    if claims.groups is not None:
        renew_roles_at_sign_in(user, claims.groups, now=now)
    return user


def _first_sign_in(provider: IdentityProvider, claims: Claims, now: datetime) -> User:
    if claims.email and _people_with(provider, claims.email).filter(is_active=False).exists():
        raise SignInRefused(SignInRefusal.DEACTIVATED)
    user = _pushed_person(provider, claims)
    if user is None and provider.links_by_email:
        user = _by_email(provider, claims.email)
    if user is not None:
        end_earlier_access(user, now=now)
    elif provider.creates_people:
        _refuse_second_account(provider, claims)
        user = create_vouched_person(
            organization=provider.organization,
            username=claims.username,
            name=claims.name,
            email=claims.email,
            by="first sign-in",
            author=None,
            now=now,
        )
    if user is None:
        raise SignInRefused(SignInRefusal.NO_ACCOUNT)
    identity = ExternalIdentity.objects.create(
        provider=provider,
        issuer=provider.issuer,
        subject=claims.subject,
        user=user,
        created_at=now,
        used_at=now,
    )
    record_act(
        actor=actor_of(user),
        action="identity_linked",
        subject_kind="user",
        subject_id=user.pk,
        node=provider.organization,
        now=now,
        detail={"login": user.login, "issuer": identity.issuer, "subject": identity.subject},
    )
    return user


def _pushed_person(provider: IdentityProvider, claims: Claims) -> User | None:
    """Return the person whom SCIM pushed with the external id that the claims prove.

    Raises SignInRefused for a deactivated person. None where the account has a subject already.
    """
    settings = ScimSettings.objects.filter(pk=provider.organization_id).first()
    external_id = "" if settings is None else claims.external_ids[settings.external_id_claim]
    person = (
        ProvisionedPerson.objects.select_related("user__organization")
        .filter(organization=provider.organization_id, external_id=external_id)
        .exclude(external_id="")
        .exclude(user__in=_linked(provider))
        .first()
    )
    if person is not None and not person.user.is_active:
        raise SignInRefused(SignInRefusal.DEACTIVATED)
    return None if person is None else person.user


def _refuse_second_account(provider: IdentityProvider, claims: Claims) -> None:
    """Raise SignInRefused where SCIM pushed a person with this name, under another external id."""
    names = Q()
    for name in filter(None, (claims.username, claims.email)):
        names |= Q(user_name__iexact=name)
    pushed = ProvisionedPerson.objects.filter(organization=provider.organization_id)
    if names and pushed.filter(names).exists():
        raise SignInRefused(SignInRefusal.NO_ACCOUNT)


def _linked(provider: IdentityProvider) -> QuerySet[ExternalIdentity, Any]:
    return ExternalIdentity.objects.filter(provider=provider, issuer=provider.issuer).values("user")


def _by_email(provider: IdentityProvider, email: str) -> User | None:
    """Return the only person with this address who is not linked yet. None where several are."""
    found = list(_people_with(provider, email).exclude(pk__in=_linked(provider))[:2])
    return found[0] if email and len(found) == 1 else None


def _people_with(provider: IdentityProvider, email: str) -> QuerySet[User]:
    return User.objects.select_related("organization").filter(
        organization=provider.organization_id, kind=UserKind.PERSON, email__iexact=email
    )


def record_refusal(
    provider: IdentityProvider, code: SignInRefusal, *, why: str, now: datetime
) -> None:
    """Store a refused sign-in in the audit log of the organization."""
    record_attempt(
        action="sign_in_failed",
        user=None,
        now=now,
        organization_id=provider.organization_id,
        node_path=provider.organization.path,
        detail={"provider": provider.name, "reason": code.value, "why": why[:200]},
    )

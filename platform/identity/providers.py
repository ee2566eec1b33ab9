"""The identity provider of an organization: read, set and tested by its administrators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import requests
from django.db import transaction

from identity.addresses import check_address
from identity.discovery import discover
from identity.models import ISSUER_LENGTH_MAX, ExternalIdentity, IdentityProvider
from primitives.errors import Conflict, FieldError, InvalidRequest, NotFound, PreconditionRequired
from tenants.access import Actor, get_visible, require
from tenants.audit_trail import record_act
from tenants.granting import require_may_hand_out
from tenants.models import Node, NodeKind, RoleGrant, UserKind
from tenants.names import clean_name
from tenants.roles import Permission, Role
from tenants.sealing import seal, unseal
from tenants.signing_in import set_password_policy
from webapi.preconditions import refuse_stale

SCOPES_MAX = 20


@dataclass(frozen=True, slots=True)
class ProviderChange:
    """The wanted state of a provider. Without `client_secret`, the stored one stays.

    A new issuer needs it.
    """

    name: str
    issuer: str
    client_id: str
    client_secret: str | None
    scopes: Sequence[str]
    groups_claim: str
    creates_people: bool
    links_by_email: bool
    is_enabled: bool
    is_listed: bool
    allows_passwords: bool


@dataclass(frozen=True, slots=True)
class ProviderCheck:
    """The outcome of a check: sentences on what is wrong, and the addresses that were found."""

    problems: tuple[str, ...]
    authorization_endpoint: str | None
    token_endpoint: str | None
    userinfo_endpoint: str | None


def managed_organization(actor: Actor, organization_id: UUID) -> Node:
    """Return the organization. Raises NotFound, and Forbidden without every right of its admins.

    An administrator who chooses the provider could sign in as anybody of the organization.
    """
    organization = get_visible(
        actor,
        Node.objects.filter(kind=NodeKind.ORGANIZATION),
        Permission.VIEW_TREE,
        path_field="path",
        pk=organization_id,
    )
    require(actor, Permission.MANAGE_MEMBERS, organization)
    require_may_hand_out(actor, Role.ORGANIZATION_ADMIN, organization)
    return organization


def provider_of(actor: Actor, organization_id: UUID) -> IdentityProvider:
    """Return the organization's provider. Raises NotFound and Forbidden."""
    organization = managed_organization(actor, organization_id)
    provider = (
        IdentityProvider.objects.select_related("organization")
        .filter(organization=organization)
        .first()
    )
    if provider is None:
        raise NotFound(
            f"{organization.display_path} has no identity provider yet. Set one on the page "
            "Sign-in, or with `tidegate identity set`."
        )
    return provider


@transaction.atomic
def set_provider(
    *,
    actor: Actor,
    organization_id: UUID,
    change: ProviderChange,
    version: int | None,
    now: datetime,
) -> IdentityProvider:
    """Create or change the provider of an organization, and whether passwords work.

    `version` is the one that the change is based on; None for a new provider. Raises NotFound,
    Forbidden, InvalidRequest, PreconditionRequired, and PreconditionFailed for another version.
    Raises Conflict when nobody could administer the organization any more without a password.
    """
    organization = managed_organization(actor, organization_id)
    # A lock that two first settings share.
    Node.objects.select_for_update().get(pk=organization.pk)
    provider = IdentityProvider.objects.filter(organization=organization).first()
    if provider is not None and version is None:
        raise PreconditionRequired(
            "There is an identity provider already. Read it, and send If-Match with its ETag."
        )
    refuse_stale(version or 0, provider.version if provider else 0, body=None)
    _check(change)
    if provider is None:
        if change.client_secret is None:
            raise _refusal("client_secret", "is required for a new identity provider")
        provider = IdentityProvider(organization=organization, version=0)
    elif change.issuer != provider.issuer and change.client_secret is None:
        # The stored secret would go to whoever is behind the new address.
        raise _refusal("client_secret", "is required with a new issuer")
    if not change.allows_passwords:
        _require_way_in(organization, change)
    before = _shown(provider) if provider.version else {}
    provider.name = clean_name(change.name, length_max=60)
    provider.issuer = change.issuer
    provider.client_id = change.client_id
    if change.client_secret is not None:
        provider.sealed_secret = seal(change.client_secret)
    provider.scopes = list(dict.fromkeys(change.scopes))
    provider.groups_claim = change.groups_claim
    provider.creates_people = change.creates_people
    provider.links_by_email = change.links_by_email
    provider.is_enabled = change.is_enabled
    provider.is_listed = change.is_listed
    provider.version += 1
    provider.changed_at = now
    provider.save()
    after = _shown(provider)
    detail: dict[str, object] = {
        name: {"before": before.get(name), "after": value}
        for name, value in after.items()
        if before.get(name) != value
    }
    if change.client_secret is not None:
        detail["client_secret_changed"] = True
    if set_password_policy(organization, allows_passwords=change.allows_passwords):
        detail["allows_passwords"] = change.allows_passwords
    record_act(
        actor=actor,
        action="identity_provider_set",
        subject_kind="identity_provider",
        subject_id=provider.pk,
        node=organization,
        now=now,
        detail=detail,
    )
    return provider


def unseal_client_secret(provider: IdentityProvider) -> str:
    """Return the client secret. Raises Conflict when its key is gone."""
    return unseal(
        bytes(provider.sealed_secret),
        called="The client secret of the identity provider",
        remedy="Enter the client secret again.",
    )


def check_provider(provider: IdentityProvider) -> ProviderCheck:
    """Fetch the discovery document, and return what is wrong with it. Changes nothing."""
    try:
        found = discover(provider.issuer)
    except requests.RequestException as error:
        return ProviderCheck((_sentence(error),), None, None, None)
    missing = sorted(set(provider.scopes) - set(found.scopes)) if found.scopes else []
    problems = [f"The provider does not offer the scope {scope}." for scope in missing]
    return ProviderCheck(
        tuple(problems),
        found.authorization_endpoint,
        found.token_endpoint,
        found.userinfo_endpoint,
    )


def _sentence(error: requests.RequestException) -> str:
    """Return the failure of a call, without what an inner server answered."""
    if isinstance(error, requests.exceptions.SSLError):
        return "The provider's certificate is not trusted by this machine."
    if isinstance(error, requests.Timeout):
        return "The provider did not answer in time. Check its address and the network."
    if isinstance(error, requests.ConnectionError):
        return "The provider cannot be reached. Check its address and the network."
    return str(error)[:500]


def _check(change: ProviderChange) -> None:
    if len(change.issuer) > ISSUER_LENGTH_MAX:
        raise _refusal("issuer", f"must have at most {ISSUER_LENGTH_MAX} characters")
    try:
        check_address(change.issuer)
    except InvalidRequest as refused:
        raise InvalidRequest(
            refused.detail, errors=[FieldError("/issuer", refused.detail)]
        ) from refused
    if "?" in change.issuer:
        raise _refusal("issuer", "must not have a question mark")
    if "openid" not in change.scopes:
        raise _refusal("scopes", "must contain openid")
    if any(not scope.isascii() or " " in scope or not scope for scope in change.scopes):
        raise _refusal("scopes", "must be words without spaces")


def _require_way_in(organization: Node, change: ProviderChange) -> None:
    """Raise Conflict unless an administrator signed in with this provider before."""
    administrators = RoleGrant.objects.filter(
        role=Role.ORGANIZATION_ADMIN,
        node=organization,
        expires_at=None,
        user__is_active=True,
        user__kind=UserKind.PERSON,
    )
    ways = ExternalIdentity.objects.filter(
        provider__organization=organization,
        issuer=change.issuer,
        provider__client_id=change.client_id,
        user__in=administrators.values("user"),
    )
    if not (change.is_enabled and ways.exists()):
        raise Conflict(
            "Passwords stay on until an administrator of the organization has signed in with the "
            "enabled identity provider. Sign in with it once, then switch passwords off.",
            errors=[FieldError("/allows_passwords", "nobody could administer the organization")],
        )


def _shown(provider: IdentityProvider) -> dict[str, object]:
    return {
        "name": provider.name,
        "issuer": provider.issuer,
        "client_id": provider.client_id,
        "scopes": list(provider.scopes),
        "groups_claim": provider.groups_claim,
        "creates_people": provider.creates_people,
        "links_by_email": provider.links_by_email,
        "is_enabled": provider.is_enabled,
        "is_listed": provider.is_listed,
    }


def _refusal(field: str, detail: str) -> InvalidRequest:
    return InvalidRequest(f"{field} {detail}.", errors=[FieldError(f"/{field}", detail)])

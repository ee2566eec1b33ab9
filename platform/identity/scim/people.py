"""People whom the identity provider pushes: created, changed, deactivated, deleted.

Each is a person of the organization of the token. A deleted person's account stays, deactivated.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import F, Q, QuerySet
from scim2_models import PatchOp

from identity.group_roles import lock_groups, renew_roles_of_members
from identity.models import (
    ExternalIdClaim,
    ExternalIdentity,
    GroupMembership,
    ProvisionedPerson,
    ScimSettings,
    ScimToken,
)
from identity.people import usable_email
from identity.scim.patching import patched
from identity.scim.refusals import refuse_stale_etag, taken
from identity.scim.resources import User as ScimUser
from identity.scim.resources import person_resource
from identity.scim.tokens import author_of
from primitives.errors import Conflict, NotFound
from tenants.audit_trail import record_act
from tenants.membership import on_activity_change
from tenants.models import User, UserKind
from tenants.vouched_people import (
    Vouched,
    change_vouched_person,
    create_vouched_person,
    manages_members_by_hand,
    plain_username,
)

#: Pushed people of one organization.
PEOPLE_MAX = 50_000
#: Attributes that are no columns.
_ATTRIBUTES = ("name", "displayName", "emails", "active")
_CHANGED = "provisioned_person_changed"


def people_of(token: ScimToken) -> QuerySet[ProvisionedPerson]:
    """Return the pushed people of the token's organization, without deleted ones."""
    return ProvisionedPerson.objects.select_related("user").filter(
        organization=token.organization, deleted_at=None
    )


def person_of(token: ScimToken, person_id: UUID) -> ProvisionedPerson:
    """Return a pushed person. Raises NotFound."""
    person = people_of(token).filter(pk=person_id).first()
    if person is None:
        raise NotFound("There is no such user. List /Users, or create the user.")
    return person


@transaction.atomic
def create_person(token: ScimToken, pushed: ScimUser, *, now: datetime) -> ProvisionedPerson:
    """Create a person, or bring the deleted person with this external id back.

    The account is new, unless its owner signed in with the external id before, or SCIM adopts
    accounts and its username is free. Raises Conflict for a taken name or external id, and for more
    than 50,000 people.
    """
    organization = token.organization
    lock_groups(organization.pk)
    _refuse_taken(token, pushed, besides=None)
    if people_of(token).count() >= PEOPLE_MAX:
        raise Conflict(f"There are {PEOPLE_MAX:,} users already. Delete those who have left.")
    person = (
        ProvisionedPerson.objects.filter(organization=organization)
        .filter(external_id=pushed.external_id or "")
        .exclude(external_id="")
        .exclude(deleted_at=None)
        .first()
    )
    if person is None:
        user = _account(token, pushed, now)
        person = ProvisionedPerson(
            user=user, organization=organization, version=0, created_at=now, changed_at=now
        )
    person.deleted_at = None
    if pushed.active is None:
        pushed.active = True
    _store(token, person, pushed, action="provisioned_person_created", now=now)
    return person


@transaction.atomic
def replace_person(
    token: ScimToken, person_id: UUID, pushed: ScimUser, *, etag: str | None, now: datetime
) -> ProvisionedPerson:
    """Replace all attributes of a person. Without `active`, the account stays as it is.

    Raises NotFound, PreconditionFailed, and Conflict for a taken name and the last administrator.
    """
    lock_groups(token.organization_id)
    person = person_of(token, person_id)
    refuse_stale_etag(etag, person.version)
    _change(token, person, pushed, now)
    return person


@transaction.atomic
def patch_person(
    token: ScimToken, person_id: UUID, patch: PatchOp[ScimUser], *, etag: str | None, now: datetime
) -> ProvisionedPerson:
    """Change some attributes of a person. Raises as `replace_person`, and SCIMException."""
    lock_groups(token.organization_id)
    person = person_of(token, person_id)
    refuse_stale_etag(etag, person.version)
    _change(token, person, patched(person_resource(person, ""), patch), now)
    return person


@transaction.atomic
def delete_person(token: ScimToken, person_id: UUID, *, etag: str | None, now: datetime) -> None:
    """Deactivate the account of a person, and take its groups. History and account stay.

    Raises NotFound, PreconditionFailed, and Conflict for the last administrator.
    """
    lock_groups(token.organization_id)
    person = person_of(token, person_id)
    refuse_stale_etag(etag, person.version)
    _change_account(token, person, name="", email="", is_active=False, now=now)
    GroupMembership.objects.filter(person=person).delete()
    renew_roles_of_members(token.organization, [person.pk], author=author_of(token), now=now)
    person.deleted_at = person.changed_at = now
    person.version += 1
    person.save(update_fields=["deleted_at", "is_deactivated_by_scim", "changed_at", "version"])
    _record(token, "provisioned_person_deleted", person, now, [])


def _change(token: ScimToken, person: ProvisionedPerson, pushed: ScimUser, now: datetime) -> None:
    _refuse_taken(token, pushed, besides=person.pk)
    _store(token, person, pushed, action=_CHANGED, now=now)


def _store(
    token: ScimToken, person: ProvisionedPerson, pushed: ScimUser, *, action: str, now: datetime
) -> None:
    """Make account and row those that were pushed. A push without a change stores nothing."""
    was_deactivated_by_scim = person.is_deactivated_by_scim
    _change_account(
        token,
        person,
        name=pushed.shown_name(),
        email=usable_email(pushed.email()),
        is_active=pushed.active,
        now=now,
    )
    dumped: dict[str, Any] = pushed.model_dump()
    wanted = {
        "user_name": pushed.user_name,
        "external_id": pushed.external_id or "",
        "attributes": {name: dumped[name] for name in _ATTRIBUTES if name in dumped},
    }
    changed = [name for name, value in wanted.items() if getattr(person, name) != value]
    if person.is_deactivated_by_scim != was_deactivated_by_scim:
        changed.append("active")
    if not changed and action == _CHANGED:
        return
    for name, value in wanted.items():
        setattr(person, name, value)
    person.version += 1
    person.changed_at = now
    person.save()
    _record(token, action, person, now, changed)


def _change_account(
    token: ScimToken,
    person: ProvisionedPerson,
    *,
    name: str,
    email: str,
    is_active: bool | None,
    now: datetime,
) -> None:
    """Change the account of a person, which the caller saves.

    An account that an administrator deactivated stays so.
    """
    was_active = User.objects.get(pk=person.user_id).is_active
    if is_active and not person.is_deactivated_by_scim:
        is_active = None
    person.user = change_vouched_person(
        organization=token.organization,
        user_id=person.user_id,
        vouched=Vouched(name=name, email=email, is_active=is_active),
        author=author_of(token),
        now=now,
    )
    if was_active and not person.user.is_active:
        person.is_deactivated_by_scim = True
    elif person.user.is_active:
        person.is_deactivated_by_scim = False


def _forget_deactivation(user_id: UUID) -> None:
    """Forget that SCIM deactivated an account, because an administrator decided since."""
    rows = ProvisionedPerson.objects.filter(user=user_id, is_deactivated_by_scim=True)
    rows.update(is_deactivated_by_scim=False)


def register() -> None:
    """Let the acts of administrators on accounts win over those of SCIM."""
    on_activity_change(_forget_deactivation)


def _refuse_taken(token: ScimToken, pushed: ScimUser, *, besides: UUID | None) -> None:
    others = people_of(token).exclude(pk=besides)
    if others.filter(user_name__iexact=pushed.user_name).exists():
        raise taken("userName", f"There is a user {pushed.user_name} already.")
    if pushed.external_id:
        # A deleted person keeps the external id: another person never gets it.
        known = ProvisionedPerson.objects.filter(
            organization=token.organization, external_id=pushed.external_id
        ).exclude(pk=besides)
        if besides is None:
            known = known.filter(deleted_at=None)
        if known.exists():
            raise taken("externalId", f"There is a user with externalId {pushed.external_id}.")


def _account(token: ScimToken, pushed: ScimUser, now: datetime) -> User:
    """Return the account of a person who is pushed for the first time."""
    settings = ScimSettings.objects.get(pk=token.organization_id)
    if settings.external_id_claim == ExternalIdClaim.SUBJECT and pushed.external_id:
        identity = (
            ExternalIdentity.objects.select_related("user")
            .filter(
                provider__organization=token.organization_id,
                issuer=F("provider__issuer"),
                subject=pushed.external_id,
            )
            .exclude(user__in=ProvisionedPerson.objects.values("user"))
            .first()
        )
        if identity is not None:
            return identity.user
    username = plain_username(pushed.user_name or "")
    namesake = User.objects.filter(
        Q(organization=token.organization_id, kind=UserKind.PERSON, username=username)
    ).exclude(pk__in=ProvisionedPerson.objects.values("user"))
    account = namesake.first()
    if account is not None and not settings.adopts_accounts:
        raise taken(
            "userName",
            f"There is an account {account.login} that SCIM did not create. If it is the same "
            "person, switch on that SCIM takes over accounts (page Sign-in), and push again.",
        )
    if account is not None and not _is_owned(account, pushed):
        raise taken(
            "userName",
            f"The account {account.login} has another email address, or manages members without "
            "one, so it may be another person's. Give it the address of the pushed user first.",
        )
    return account or create_vouched_person(
        organization=token.organization,
        username=username,
        name=pushed.shown_name() or pushed.user_name or "",
        email=usable_email(pushed.email()),
        by="SCIM",
        author=author_of(token),
        now=now,
    )


def _is_owned(account: User, pushed: ScimUser) -> bool:
    """Return whether an account of the same username is the pushed person's, as far as we know."""
    if account.email:
        named = {(pushed.email() or "").casefold(), (pushed.user_name or "").casefold()}
        return account.email.casefold() in named
    return not manages_members_by_hand(account)


def _record(
    token: ScimToken, action: str, person: ProvisionedPerson, now: datetime, changed: list[str]
) -> None:
    record_act(
        actor=author_of(token),
        action=action,
        subject_kind="user",
        subject_id=person.pk,
        node=token.organization,
        now=now,
        detail={
            "login": person.user.login,
            "user_name": person.user_name,
            "external_id": person.external_id,
            "changed": changed,
        },
    )

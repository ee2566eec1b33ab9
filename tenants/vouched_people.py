"""People whom an identity provider vouches for: created without a role, changed, deactivated."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db import IntegrityError, transaction

from live.publishing import publish_rights
from live.waking import wake
from primitives.errors import Conflict, InvalidRequest, NotFound
from tenants.audit_trail import Author, record_act
from tenants.factor_codes import delete_factors
from tenants.membership import deactivate, left_alone_by, login_of
from tenants.models import AccessToken, Node, PasswordLink, RoleGrant, Session, User, UserKind
from tenants.names import clean_name
from tenants.roles import PERMISSIONS, Permission, Role

#: Tried names of a new person: maria, maria-2 ... maria-20.
_NAMES_TRIED = 20
#: Leaves room for a number.
_USERNAME_LENGTH_KEPT = 58


@dataclass(frozen=True, slots=True)
class Vouched:
    """The statements of an identity provider about a person. An empty name or email says nothing.

    `is_active` None leaves the account as it is.
    """

    name: str
    email: str
    is_active: bool | None


def create_vouched_person(
    *,
    organization: Node,
    username: str,
    name: str,
    email: str,
    by: str,
    author: Author | None,
    now: datetime,
) -> User:
    """Create a person whom the organization's identity provider vouches for, without any role.

    Characters that a username cannot have become dashes, and a taken name gets a number. `by` is
    the occasion, for the audit log; `author` None is the person. Must run in a transaction. Raises
    Conflict when all numbers are taken.
    """
    wanted = plain_username(username)
    for number in range(1, _NAMES_TRIED + 1):
        given = wanted if number == 1 else f"{wanted}-{number}"
        user = User(
            organization=organization,
            username=given,
            login=login_of(given, organization),
            name=_shown_name(name) or given,
            kind=UserKind.PERSON,
            email=email,
            created_at=now,
        )
        user.set_unusable_password()
        try:
            with transaction.atomic():
                user.save(force_insert=True)
        except IntegrityError:
            continue
        detail = {"login": user.login, "name": user.name, "kind": user.kind, "by": by}
        _record(author or Author.of_user(user), "user_created", user, now, detail)
        return user
    raise Conflict(f"There are {_NAMES_TRIED} accounts like {wanted} already.")


def change_vouched_person(
    *, organization: Node, user_id: UUID, vouched: Vouched, author: Author, now: datetime
) -> User:
    """Make name, email address and activity of a person those that are vouched for.

    A deactivation ends every session and revokes every token at once. The address of a person who
    manages members by a role granted by hand stays, because a password link goes to it. Must run in
    a transaction. Raises NotFound for anybody but a person of the organization. Raises Conflict for
    the deactivation of its last administrator.
    """
    # All code takes these locks in this order: admins' grants, then the user.
    left_alone = left_alone_by(user_id) if vouched.is_active is False else None
    people = User.objects.select_for_update(of=("self",)).select_related("organization")
    user = people.filter(pk=user_id, organization=organization, kind=UserKind.PERSON).first()
    if user is None:
        raise NotFound(f"There is no such person of {organization.display_path}.")
    name = _shown_name(vouched.name)
    if name and name != user.name:
        detail = {"login": user.login, "name": {"before": user.name, "after": name}}
        user.name = name
        user.save(update_fields=["name"])
        _record(author, "user_renamed", user, now, detail)
    if vouched.email and vouched.email != user.email and not manages_members_by_hand(user):
        user.email = vouched.email
        user.save(update_fields=["email"])
        _record(author, "user_email_changed", user, now, {"login": user.login})
    if vouched.is_active is False and user.is_active:
        if left_alone is not None:
            raise Conflict(
                f"This is the last administrator of {left_alone}; make another one first."
            )
        deactivate(user, now)
        _record(author, "user_deactivated", user, now, {"login": user.login})
    elif vouched.is_active is True and not user.is_active:
        user.is_active = True
        user.save(update_fields=["is_active"])
        _record(author, "user_reactivated", user, now, {"login": user.login})
        # The user's waiting jobs may start now.
        wake("arbiter")
    return user


def manages_members_by_hand(user: User) -> bool:
    """Return whether a role that a person granted lets the user manage members."""
    roles = RoleGrant.objects.filter(user=user, group="").values_list("role", flat=True)
    return any(
        Permission.MANAGE_MEMBERS in PERMISSIONS[Role(role)] for role in roles if role in set(Role)
    )


def end_earlier_access(user: User, *, now: datetime) -> None:
    """End sessions, tokens, password, link and second factors of an account, with an audit event.

    Others may know those that were made before its owner first signs in with the identity
    provider. Must run in a transaction.
    """
    user.set_unusable_password()
    user.must_change_password = False
    user.session_generation += 1
    user.save(update_fields=["password", "must_change_password", "session_generation"])
    Session.objects.filter(user=user).delete()
    tokens = AccessToken.objects.filter(user=user, revoked_at=None).update(revoked_at=now)
    links, _ = PasswordLink.objects.filter(user=user).delete()
    delete_factors(user)
    publish_rights(user.pk)
    _record(
        Author.of_user(user),
        "earlier_access_ended",
        user,
        now,
        {"login": user.login, "tokens": tokens, "password_links": links},
    )


def _shown_name(name: str) -> str:
    """Return the name as `clean_name` has it, or "" where it refuses the name."""
    try:
        return clean_name(name)
    except InvalidRequest:
        return ""


def plain_username(wanted: str) -> str:
    """Return the username for "Maria.Lopez@example.org": "maria.lopez"."""
    ascii_only = unicodedata.normalize("NFKD", wanted.partition("@")[0]).encode("ascii", "ignore")
    plain = re.sub(r"[^a-z0-9._-]+", "-", ascii_only.decode().lower()).strip("._-")
    return plain[:_USERNAME_LENGTH_KEPT].strip("._-") or "person"


def _record(
    author: Author, action: str, user: User, now: datetime, detail: Mapping[str, object]
) -> None:
    record_act(
        actor=author,
        action=action,
        subject_kind="user",
        subject_id=user.pk,
        node=user.organization,
        now=now,
        detail=detail,
    )

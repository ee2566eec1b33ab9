"""Changes passwords: by their owner, or with a link that an administrator creates."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Mapping
from datetime import datetime, timedelta
from uuid import UUID

from django.db import transaction

from live.publishing import publish_rights
from primitives.errors import (
    Conflict,
    FieldError,
    InvalidRequest,
    NotFound,
    PortalError,
    Unauthenticated,
)
from tenants.access import Actor, actor_of, require_session_or_admin_scope
from tenants.audit_trail import record_act
from tenants.managing import require_managed
from tenants.membership import set_password, visible_users
from tenants.models import PasswordLink, Session, User, UserKind
from tenants.signing_in import allows_passwords, authenticated_user

LINK_LIFETIME = timedelta(hours=1)
#: A pattern for secret scanners.
LINK_PATTERN = r"tdl_[0-9A-Za-z_-]{43}"
LINK_LENGTH_MAX = 100
_LINK = re.compile(LINK_PATTERN, re.ASCII)


class PasswordChangeRequired(PortalError):
    """Another user chose the password, and the caller must change it before anything else."""

    code = "password_change_required"
    http_status = 403
    title = "Choose a password of your own first"


def refuse_foreign_password(user: User) -> None:
    """Raise PasswordChangeRequired for a user whose password another user chose."""
    if user.must_change_password:
        raise PasswordChangeRequired(
            "Your password was chosen by an administrator. Choose one of your own first: on the "
            "page that opens after signing in, or with POST /api/v1/password."
        )


def change_password(
    *,
    actor: Actor,
    old_password: str,
    new_password: str,
    address: str,
    cookies: Mapping[str, str],
    now: datetime,
) -> User:
    """Give the actor a new password, end all sessions of the actor and remove the password link.

    A wrong old password counts as a failure to sign in from `address`, or from the browser that the
    cookies identify. Raises Conflict for accounts without a password, and Forbidden for a token
    without the scope admin. Raises InvalidRequest for a wrong old password, and for a new one that
    is weak or the same. Raises TooManyRequests.
    """
    if actor.user.kind != UserKind.PERSON or not actor.user.has_usable_password():
        raise Conflict(
            "This account has no password. An administrator can create a link to set one. Service "
            "accounts work with access tokens only."
        )
    require_session_or_admin_scope(actor, "Changing a password")
    try:
        seen, _ = authenticated_user(
            login=actor.user.login,
            password=old_password,
            address=address,
            cookies=cookies,
            now=now,
        )
    except Unauthenticated as error:
        raise InvalidRequest(
            "The old password is wrong.", errors=[FieldError("/old_password", "is wrong")]
        ) from error
    if new_password == old_password:
        raise InvalidRequest(
            "The new password is the same as the old one. Choose another.",
            errors=[FieldError("/new_password", "is the old password")],
        )
    with transaction.atomic():
        user = _locked(actor.user.pk)
        if user.password != seen.password:
            raise Conflict("The password was changed meanwhile. Sign in with the new one.")
        _store(user, new_password, field="new_password")
        _record(actor, "password_changed", user, now)
    return user


@transaction.atomic
def make_password_link(*, actor: Actor, user_id: UUID, now: datetime) -> tuple[PasswordLink, str]:
    """Create a link with which the user's password is set, once, within an hour.

    Also return its secret. The secret cannot be read again. An earlier link stops working. Raises
    NotFound for invisible users, and Forbidden for a user that the actor does not manage. Raises
    Conflict for service accounts, deactivated users, the actor's own account, and where passwords
    are switched off.
    """
    if not visible_users(actor).filter(pk=user_id).exists():
        raise NotFound("It does not exist, or you may not see it.")
    user = _locked(user_id)
    if user.pk == actor.user.pk:
        raise Conflict(
            "You cannot create a link for yourself. Change your password with the old one, or ask "
            "another administrator."
        )
    require_managed(actor, user)
    if user.kind != UserKind.PERSON:
        raise Conflict(f"{user.login} is a service account. Create an access token for it.")
    if not user.is_active:
        raise Conflict(f"{user.login} is deactivated. Reactivate the account first.")
    if not allows_passwords(user.organization_id):
        raise Conflict(
            f"The organization of {user.login} has switched passwords off. People sign in with its "
            "identity provider."
        )
    secret = "tdl_" + secrets.token_urlsafe(32)
    link, _ = PasswordLink.objects.update_or_create(
        user=user,
        defaults={
            "digest": _digest_of(secret),
            "created_at": now,
            "expires_at": now + LINK_LIFETIME,
        },
    )
    _record(actor, "password_link_made", user, now)
    return link, secret


def use_password_link(*, secret: str, password: str, now: datetime) -> User:
    """Set the password of the link's user, and end the user's sessions and the link.

    A refused password leaves the link valid. Raises NotFound for a link that was used, has expired
    or was replaced. Raises InvalidRequest for a weak password.
    """
    digest = _digest_of(secret) if _LINK.fullmatch(secret) else b""
    with transaction.atomic():
        seen = PasswordLink.objects.filter(digest=digest).first()
        if seen is None:
            raise _no_such_link()
        # All code locks the user first.
        user = _locked(seen.user_id)
        link = PasswordLink.objects.filter(digest=digest).first()
        if link is None or link.expires_at <= now or not user.is_active:
            raise _no_such_link()
        _store(user, password, field="password")
        _record(actor_of(user), "password_link_used", user, now)
    return user


def _no_such_link() -> NotFound:
    return NotFound(
        "This link does not work: it was used, has expired, or was replaced. Ask an administrator "
        "for a new one."
    )


def _digest_of(secret: str) -> bytes:
    # The secret has 256 random bits, so no salt is needed.
    return hashlib.sha256(secret.encode("ascii")).digest()


def _locked(user_id: UUID) -> User:
    users = User.objects.select_for_update(of=("self",)).select_related("organization")
    return users.get(pk=user_id)


def _store(user: User, password: str, *, field: str) -> None:
    set_password(user, password, field=field)
    user.must_change_password = False
    user.session_generation += 1
    user.save(update_fields=["password", "must_change_password", "session_generation"])
    Session.objects.filter(user=user).delete()
    publish_rights(user.pk)
    PasswordLink.objects.filter(user=user).delete()


def _record(actor: Actor, action: str, user: User, now: datetime) -> None:
    record_act(
        actor=actor,
        action=action,
        subject_kind="user",
        subject_id=user.pk,
        node=user.organization,
        now=now,
        detail={"login": user.login},
    )

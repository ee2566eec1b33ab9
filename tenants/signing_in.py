"""Signs users in to a browser session with login and password."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from math import ceil
from typing import Any
from uuid import UUID

from django.contrib.auth import login as django_login
from django.contrib.auth.backends import BaseBackend
from django.contrib.auth.hashers import make_password
from django.db import transaction
from django.http import HttpRequest

from primitives.errors import TooManyRequests, Unauthenticated
from tenants.access import Actor
from tenants.audit_trail import record_act, record_attempt
from tenants.devices import device_of, new_device
from tenants.models import Node, Session, SignInPolicy, User, UserKind
from tenants.session_store import SignInWay, store_of
from tenants.throttling import Attempt, count_attempt, forgive_attempt

#: Sessions of one person at a time.
SESSIONS_MAX = 50
_REFUSED = "Login or password is wrong, or the account cannot sign in."


class SessionBackend(BaseBackend):
    """Loads the user of a session. Only `begin_session` starts sessions."""

    def get_user(self, user_id: UUID) -> User | None:
        """Return the active user, the organization and its policy, in one query."""
        return (
            User.objects.select_related("organization__sign_in_policy")
            .filter(pk=user_id, is_active=True)
            .first()
        )


def authenticated_user(
    *, login: str, password: str, address: str, cookies: Mapping[str, str], now: datetime
) -> tuple[User, str]:
    """Return the person with this login and password, and the browser as in `tenants.devices`.

    An unknown login takes as long as a wrong password, and gets the same answer. Raises
    Unauthenticated, and TooManyRequests while `tenants.throttling` makes the caller wait. Failures
    are audited, and so is the first attempt that a wait refuses.
    """
    user = User.objects.select_related("organization").filter(login=login).first()
    device = device_of(user, cookies, now=now) if user is not None else None
    attempt = (
        Attempt.from_source(login, address)
        if device is None
        else Attempt.from_device(login, device)
    )
    known = {"address": address[:64], "is_known_device": device is not None}
    require_sign_in_attempt(attempt, user, known, now=now)
    if user is None:
        make_password(password)
    elif user.check_password(password) and user.is_active and user.kind == UserKind.PERSON:
        forgive_attempt(attempt)
        if not allows_passwords(user.organization_id):
            audit_failure("sign_in_failed", user, now, {**known, "reason": "no passwords"})
            raise Unauthenticated(
                "Your organization has switched passwords off. Sign in with its identity provider."
            )
        return user, device or new_device()
    audit_failure("sign_in_failed", user, now, known)
    raise Unauthenticated(_REFUSED)


def allows_passwords(organization_id: UUID | None) -> bool:
    """Return whether people of the organization may sign in with a password.

    People without an organization, such as platform administrators, always may.
    """
    return not SignInPolicy.objects.filter(
        organization=organization_id, allows_passwords=False
    ).exists()


def set_password_policy(organization: Node, *, allows_passwords: bool) -> bool:
    """Switch passwords of an organization on or off, and return whether that changed something.

    The caller checks the rights, and that people can still sign in.
    """
    policy, _ = SignInPolicy.objects.select_for_update().get_or_create(organization=organization)
    changed = policy.allows_passwords != allows_passwords
    policy.allows_passwords = allows_passwords
    policy.save(update_fields=["allows_passwords"])
    return changed


@transaction.atomic
def begin_session(request: HttpRequest, user: User, *, way: SignInWay, now: datetime) -> None:
    """Start a session for a user who proved who they are, under a new session key.

    Above SESSIONS_MAX sessions of the user, the least recently used ones end.
    Raises Unauthenticated if the user was deleted or deactivated meanwhile.
    """
    # Waits for a deletion or deactivation that is under way.
    still = User.objects.select_for_update(no_key=True).filter(pk=user.pk, is_active=True)
    if not list(still.values_list("pk")):
        raise Unauthenticated(_REFUSED)
    live = Session.objects.filter(user=user).order_by("-last_used_at", "-pk")
    surplus = live.values_list("pk", flat=True)[SESSIONS_MAX - 1 :]
    Session.objects.filter(pk__in=list(surplus)).delete()
    request.session.flush()
    django_login(request, user)
    store_of(request).start(
        address=request.META.get("REMOTE_ADDR", ""),
        user_agent=request.headers.get("User-Agent", ""),
        way=way,
        now=now,
    )


def record_session(
    *, actor: Actor, action: str, now: datetime, detail: Mapping[str, Any] | None = None
) -> None:
    """Record an act on the actor's session, such as "signed_in", in the audit log."""
    record_act(
        actor=actor,
        action=action,
        subject_kind="user",
        subject_id=actor.user.pk,
        node=actor.user.organization,
        now=now,
        detail=detail,
    )


def require_sign_in_attempt(
    attempt: Attempt, user: User | None, known: Mapping[str, Any], *, now: datetime
) -> None:
    """Count `attempt` as failed. Raise TooManyRequests while it must wait.

    The first attempt that a wait refuses is audited, with the details `known`.
    """
    wait = count_attempt(attempt, now=now)
    if wait is None:
        return
    retry_after_s = max(1, ceil((wait.until - now).total_seconds()))
    if wait.is_first:
        audit_failure("sign_in_throttled", user, now, {**known, "wait_s": retry_after_s})
    raise TooManyRequests(
        f"Signing in failed too often. Wait {retry_after_s} s, then try again.",
        retry_after_s=retry_after_s,
    )


def audit_failure(action: str, user: User | None, now: datetime, detail: Mapping[str, Any]) -> None:
    """Store a refused sign-in in the audit log of the user's organization."""
    # The typed login is stored only if it is a user's. Other text may be a password.
    organization = user.organization if user is not None else None
    record_attempt(
        action=action,
        user=user,
        now=now,
        organization_id=organization.pk if organization is not None else None,
        node_path=organization.path if organization is not None else "",
        detail={"login": user.login if user is not None else None, **detail},
    )

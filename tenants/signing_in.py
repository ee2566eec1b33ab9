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
from tenants.models import User, UserKind
from tenants.throttling import Attempt, count_attempt, forgive_attempt

_REFUSED = "Login or password is wrong, or the account cannot sign in."


class SessionBackend(BaseBackend):
    """Loads the user of a session. Only `begin_session` starts sessions."""

    def get_user(self, user_id: UUID) -> User | None:
        """Return the active user with this id and their organization, in one query."""
        return (
            User.objects.select_related("organization").filter(pk=user_id, is_active=True).first()
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
    wait = count_attempt(attempt, now=now)
    known = {"address": address[:64], "is_known_device": device is not None}
    if wait is not None:
        retry_after_s = max(1, ceil((wait.until - now).total_seconds()))
        if wait.is_first:
            _audit_failure("sign_in_throttled", user, now, {**known, "wait_s": retry_after_s})
        raise TooManyRequests(
            f"Signing in failed too often. Wait {retry_after_s} s, then try again.",
            retry_after_s=retry_after_s,
        )
    if user is None:
        make_password(password)
    elif user.check_password(password) and user.is_active and user.kind == UserKind.PERSON:
        forgive_attempt(attempt)
        return user, device or new_device()
    _audit_failure("sign_in_failed", user, now, known)
    raise Unauthenticated(_REFUSED)


@transaction.atomic
def begin_session(request: HttpRequest, user: User) -> None:
    """Start a session for the user of `authenticated_user`, under a new session key.

    Raises Unauthenticated if the user was deleted or deactivated meanwhile.
    """
    # Waits for a deletion or deactivation that is under way.
    still = User.objects.select_for_update(no_key=True).filter(pk=user.pk, is_active=True)
    if not list(still.values_list("pk")):
        raise Unauthenticated(_REFUSED)
    django_login(request, user)


def record_session(*, actor: Actor, action: str, now: datetime) -> None:
    """Record the start ("signed_in") or end ("signed_out") of a session in the audit log."""
    record_act(
        actor=actor,
        action=action,
        subject_kind="user",
        subject_id=actor.user.pk,
        node=actor.user.organization,
        now=now,
    )


def _audit_failure(
    action: str, user: User | None, now: datetime, detail: Mapping[str, Any]
) -> None:
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

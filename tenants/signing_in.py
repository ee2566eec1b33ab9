"""Signing in to a browser session with login and password."""

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
    """Loads the user of a session; a session is begun by `begin_session` only."""

    def get_user(self, user_id: UUID) -> User | None:
        """The active user with this id and their organization, in one query."""
        return (
            User.objects.select_related("organization").filter(pk=user_id, is_active=True).first()
        )


def authenticated_user(
    *, login: str, password: str, address: str, cookies: Mapping[str, str], now: datetime
) -> tuple[User, str]:
    """The person with this login and password, and the browser as `tenants.devices` names it.

    Takes as long for an unknown login as for a wrong password, and says the same. Raises
    Unauthenticated, and TooManyRequests while `tenants.throttling` has the caller wait. Failures
    are audited, and the first attempt that a wait refuses.
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
    """Begin the session of the user of `authenticated_user`, under a new session key. Raises
    Unauthenticated for one who was deleted or deactivated since."""
    # Waits for whoever does so at this moment.
    still = User.objects.select_for_update(no_key=True).filter(pk=user.pk, is_active=True)
    if not list(still.values_list("pk")):
        raise Unauthenticated(_REFUSED)
    django_login(request, user)


def record_session(*, actor: Actor, action: str, now: datetime) -> None:
    """Audit that a session began ("signed_in") or ended ("signed_out")."""
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
    # The login typed is stored only if it is a user's: what is not may be a password.
    organization = user.organization if user is not None else None
    record_attempt(
        action=action,
        user=user,
        now=now,
        organization_id=organization.pk if organization is not None else None,
        node_path=organization.path if organization is not None else "",
        detail={"login": user.login if user is not None else None, **detail},
    )

"""Signing in to a browser session with login and password, and how often one may try.

Failures are counted in PostgreSQL per login and per address, in windows of 5 minutes, so that
the limits hold over all web processes and without Valkey.
"""

from __future__ import annotations

import hashlib
import ipaddress
from datetime import datetime, timedelta
from uuid import UUID

from django.contrib.auth.backends import BaseBackend
from django.contrib.auth.hashers import make_password
from django.db import connection
from django.db.models import F

from primitives.errors import TooManyRequests, Unauthenticated
from tenants.access import Actor
from tenants.audit_trail import record_act, record_attempt
from tenants.models import SignInAttempts, User, UserKind

WINDOW = timedelta(minutes=5)
LOGIN_ATTEMPTS_MAX = 10
ADDRESS_ATTEMPTS_MAX = 100
#: Old counts that each attempt clears away, so that the table stays small by itself.
_CLEARED_PER_ATTEMPT = 100


class SessionBackend(BaseBackend):
    """Loads the user of a session; a session is begun by `authenticated_user` only."""

    def get_user(self, user_id: UUID) -> User | None:
        """The active user with this id and their organization, in one query."""
        return (
            User.objects.select_related("organization").filter(pk=user_id, is_active=True).first()
        )


def authenticated_user(*, login: str, password: str, address: str, now: datetime) -> User:
    """The person with this login and password.

    Takes as long for an unknown login as for a wrong password, and says the same. Raises
    Unauthenticated, and TooManyRequests after 10 failures for one login or 100 from one
    address (an IPv6 network of 64 bits counts as one) in 5 minutes. Failures are audited.
    """
    keys = _keys(login, address)
    user = User.objects.select_related("organization").filter(login=login).first()
    for key, attempts_max in keys:
        attempts, started_at = _count_attempt(key, now)
        if attempts > attempts_max:
            if attempts == attempts_max + 1:
                _audit_failure("sign_in_throttled", user, address, now)
            raise TooManyRequests(
                "Signing in failed too often. Wait, then try again.",
                retry_after_s=max(1, int((started_at + WINDOW - now).total_seconds())),
            )
    if user is None:
        make_password(password)
    elif user.check_password(password) and user.is_active and user.kind == UserKind.PERSON:
        for key, _ in keys:
            _forgive_attempt(key)
        return user
    _audit_failure("sign_in_failed", user, address, now)
    raise Unauthenticated("Login or password is wrong, or the account cannot sign in.")


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


def _keys(login: str, address: str) -> list[tuple[bytes, int]]:
    named = [
        ("login", login, LOGIN_ATTEMPTS_MAX),
        ("address", network_of(address), ADDRESS_ATTEMPTS_MAX),
    ]
    return [
        (hashlib.sha256(f"{kind}/{value}".encode()).digest(), attempts_max)
        for kind, value, attempts_max in named
    ]


def network_of(address: str) -> str:
    """What counts as one place: an IPv4 address, the /64 of an IPv6 one, or the text itself."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address[:64]
    if parsed.version == 4:
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((parsed, 64), strict=False))


def _count_attempt(key: bytes, now: datetime) -> tuple[int, datetime]:
    # Counted before the password is looked at: parallel guesses cannot slip past the limit.
    with connection.cursor() as cursor:
        cursor.execute(
            """
            DELETE FROM tenants_signinattempts WHERE key IN (
                SELECT key FROM tenants_signinattempts
                WHERE window_started_at <= %s LIMIT %s FOR UPDATE SKIP LOCKED)
            """,
            [now - WINDOW, _CLEARED_PER_ATTEMPT],
        )
        cursor.execute(
            """
            INSERT INTO tenants_signinattempts AS known (key, window_started_at, attempts)
            VALUES (%(key)s, %(now)s, 1)
            ON CONFLICT (key) DO UPDATE SET
                attempts = CASE WHEN known.window_started_at <= %(over)s
                    THEN 1 ELSE LEAST(known.attempts + 1, 1000000) END,
                window_started_at = CASE WHEN known.window_started_at <= %(over)s
                    THEN %(now)s ELSE known.window_started_at END
            RETURNING attempts, window_started_at
            """,
            {"key": key, "now": now, "over": now - WINDOW},
        )
        attempts, started_at = cursor.fetchone()
    return attempts, started_at


def _forgive_attempt(key: bytes) -> None:
    SignInAttempts.objects.filter(key=key, attempts__gt=0).update(attempts=F("attempts") - 1)


def _audit_failure(action: str, user: User | None, address: str, now: datetime) -> None:
    # The login typed is stored only if it is a user's: what is not may be a password.
    organization = user.organization if user is not None else None
    record_attempt(
        action=action,
        user=user,
        now=now,
        organization_id=organization.pk if organization is not None else None,
        node_path=organization.path if organization is not None else "",
        detail={"login": user.login if user is not None else None, "address": address[:64]},
    )

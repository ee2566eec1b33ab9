"""Browsers that signed in before: a signed cookie for each user, which outlives sessions.

It gives no right. It only says that failures of others do not hinder this browser
(`tenants.throttling`), and who steals it has the same few guesses as anybody.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from django.core.signing import BadSignature, Signer

from tenants.models import User

LIFETIME = timedelta(days=180)
#: The only path that reads it.
COOKIE_PATH = "/api/v1/session"
_SALT = "tenants.devices"


def cookie_name(user: User) -> str:
    """Return the name of the user's cookie: of several people at one browser each has one."""
    return f"device-{hashlib.sha256(user.pk.bytes).hexdigest()[:16]}"


def new_device() -> str:
    """Return the name of a browser that is seen for the first time."""
    return secrets.token_urlsafe(12)


def cookie_value(user: User, device: str, *, now: datetime) -> str:
    """Return what the browser `device` shows when `user` signs in again within 180 days."""
    return Signer(salt=_SALT).sign(f"{user.pk}/{device}/{int((now + LIFETIME).timestamp())}")


def device_of(user: User, cookies: Mapping[str, str], *, now: datetime) -> str | None:
    """Return the browser on which `user` signed in before; None where no cookie proves one."""
    try:
        pk, device, until = Signer(salt=_SALT).unsign(cookies.get(cookie_name(user), "")).split("/")
    except (BadSignature, ValueError):
        return None
    is_over = datetime.fromtimestamp(int(until), UTC) <= now
    return None if is_over or pk != str(user.pk) else device

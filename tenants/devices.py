"""Browsers that signed in before: a signed cookie per user, which outlives sessions.

It gives no right. It only means that failures of others do not slow down this browser
(`tenants.throttling`). A thief of the cookie has the same few guesses as anyone.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from django.core.signing import BadSignature, Signer

from tenants.models import User

LIFETIME = timedelta(days=180)
#: Sign-ins read the cookie, and proofs of passwords and second factors.
COOKIE_PATH = "/api/v1/"
_SALT = "tenants.devices"


def cookie_name(user: User) -> str:
    """Return the name of the user's cookie.

    Several people with one browser have one cookie each.
    """
    return f"device-{hashlib.sha256(user.pk.bytes).hexdigest()[:16]}"


def new_device() -> str:
    """Return a name for a browser without a cookie."""
    return secrets.token_urlsafe(12)


def cookie_value(user: User, device: str, *, now: datetime) -> str:
    """Return the cookie for the next time that `user` signs in on `device`, within 180 days."""
    return Signer(salt=_SALT).sign(f"{user.pk}/{device}/{int((now + LIFETIME).timestamp())}")


def device_of(user: User, cookies: Mapping[str, str], *, now: datetime) -> str | None:
    """Return the browser on which `user` signed in before, or None without a valid cookie."""
    try:
        pk, device, until = Signer(salt=_SALT).unsign(cookies.get(cookie_name(user), "")).split("/")
    except (BadSignature, ValueError):
        return None
    is_over = datetime.fromtimestamp(int(until), UTC) <= now
    return None if is_over or pk != str(user.pk) else device

"""Codes of a second factor: those of an authenticator app, and recovery codes."""

from __future__ import annotations

import base64
import hashlib
import secrets
from datetime import datetime
from enum import StrEnum
from typing import Any

from allauth.core.internal.cryptokit import compare_user_code
from allauth.mfa import app_settings
from allauth.mfa.adapter import DefaultMFAAdapter
from allauth.mfa.totp.internal.auth import format_hotp_value, hotp_value

from tenants.models import AuthenticatorApp, RecoveryCode, SecurityKey, User
from tenants.sealing import unseal

RECOVERY_CODES = 10
CODE_LENGTH_MAX = 64
_RECOVERY_BYTES = 10
_RECOVERY_LENGTH = 16
_GROUP = 4


class Factor(StrEnum):
    """The second factor with which a person signed in."""

    APP = "authenticator_app"
    KEY = "security_key"
    RECOVERY_CODE = "recovery_code"


class _Adapter(DefaultMFAAdapter):  # type: ignore[misc]
    """Names the login in the authenticator app, since several accounts can share one address."""

    def get_totp_label(self, user: Any) -> str:
        return str(user.login)


def key_address(user: User, key: str) -> str:
    """Return the `otpauth://` address of a key, for authenticator apps."""
    address: str = _Adapter().build_totp_url(user, key)
    return address


def key_picture(address: str) -> str:
    """Return the QR code of an address as the `data:` address of an SVG picture."""
    picture: str = _Adapter().build_totp_svg(address)
    return "data:image/svg+xml;base64," + base64.b64encode(picture.encode()).decode()


def step_of(key: str, code: str, *, after: int, now: datetime) -> int | None:
    """Return the step whose code this is: the present one, or the one before or after.

    None for a wrong code, and for a step that is not later than `after`.
    """
    present: int = int(now.timestamp()) // app_settings.TOTP_PERIOD
    for step in (present - 1, present, present + 1):
        expected = format_hotp_value(hotp_value(key, step))
        if step > after and compare_user_code(actual=code, expected=expected):
            return step
    return None


def use_code(user: User, code: str, *, now: datetime) -> Factor | None:
    """Return the kind of this code of the user, which is used up. None for a wrong code."""
    plain = _plain(code)
    if len(plain) == _RECOVERY_LENGTH:
        return Factor.RECOVERY_CODE if _use_recovery_code(user, plain) else None
    return Factor.APP if use_app_code(user, plain, now=now) else None


def use_app_code(user: User, code: str, *, now: datetime) -> bool:
    """Return whether the user's authenticator app shows this code, and use it up.

    Raises Conflict where the key cannot be read any more.
    """
    app = AuthenticatorApp.objects.filter(user=user).first()
    if app is None:
        return False
    key = unseal(
        bytes(app.sealed_key),
        called="The key of the authenticator app",
        remedy="Sign in with a recovery code, or ask an administrator for a reset.",
    )
    step = step_of(key, _plain(code), after=app.last_step, now=now)
    if step is None:
        return False
    # Of two requests with one code, only one finds an earlier step here.
    unused = AuthenticatorApp.objects.filter(pk=app.pk, last_step__lt=step)
    return unused.update(last_step=step, last_used_at=now) == 1


def new_recovery_codes(user: User) -> list[str]:
    """Replace the recovery codes of the user, and return the new ones. They are shown once."""
    RecoveryCode.objects.filter(user=user).delete()
    codes = [_new_recovery_code() for _ in range(RECOVERY_CODES)]
    RecoveryCode.objects.bulk_create(
        RecoveryCode(user=user, digest=_digest_of(_plain(code))) for code in codes
    )
    return codes


def delete_factors(user: User) -> int:
    """Delete the second factors of the user and the recovery codes. Return the factors' number."""
    RecoveryCode.objects.filter(user=user).delete()
    apps, _ = AuthenticatorApp.objects.filter(user=user).delete()
    keys, _ = SecurityKey.objects.filter(user=user).delete()
    return apps + keys


def _use_recovery_code(user: User, plain: str) -> bool:
    deleted, _ = RecoveryCode.objects.filter(user=user, digest=_digest_of(plain)).delete()
    return deleted == 1


def _new_recovery_code() -> str:
    text = base64.b32encode(secrets.token_bytes(_RECOVERY_BYTES)).decode().lower()
    return "-".join(text[at : at + _GROUP] for at in range(0, len(text), _GROUP))


def _plain(code: str) -> str:
    return "".join(each for each in code.lower() if each not in " -")


def _digest_of(plain: str) -> bytes:
    # A code has 80 random bits, so no salt is needed.
    return hashlib.sha256(plain.encode()).digest()

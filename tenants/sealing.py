"""Encrypts secrets that are stored, with keys that are derived from TIDEGATE_SECRET_KEY."""

from __future__ import annotations

import base64
import hashlib
import hmac

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings

from primitives.errors import Conflict

# Part of every key, so it stays although this module was once another package's.
_PURPOSE = b"identity.sealing"


def seal(secret: str) -> bytes:
    """Return the encrypted form of `secret`, made with the present key."""
    return _box().encrypt(secret.encode())


def unseal(sealed: bytes, *, called: str, remedy: str) -> str:
    """Return the secret of `seal`, also from one of TIDEGATE_SECRET_KEY_FALLBACKS.

    Raises Conflict when its key is gone. The sentence names the secret as `called`, and ends with
    the sentence `remedy`.
    """
    try:
        return _box().decrypt(sealed).decode()
    except InvalidToken as error:
        raise Conflict(
            f"{called} cannot be read, because its key is no longer among "
            f"TIDEGATE_SECRET_KEY_FALLBACKS. {remedy}"
        ) from error


def _box() -> MultiFernet:
    keys = (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)
    return MultiFernet([Fernet(_derived(key)) for key in keys])


def _derived(key: str) -> bytes:
    return base64.urlsafe_b64encode(hmac.digest(key.encode(), _PURPOSE, hashlib.sha256))

"""Personal access tokens: their form, how one is checked, made and revoked.

The form is GitHub's (a typed prefix for secret scanners and a checksum, so that a mistyped or
made-up token never reaches the database): `tdg_`, 30 random base62 characters (178 bits), and
the CRC-32 of all that in 6 base62 characters.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import zlib
from datetime import datetime, timedelta

from django.db.models import Q

from primitives.errors import Unauthenticated
from tenants.models import AccessToken

MARK = "tdg_"
_RANDOM_LENGTH = 30
_CHECKSUM_LENGTH = 6
PREFIX_LENGTH = 12
_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
#: What secret scanners should look for.
TOKEN_PATTERN = r"tdg_[0-9A-Za-z]{36}"  # noqa: S105 - a pattern, not a secret
_FORM = re.compile(TOKEN_PATTERN, re.ASCII)
LAST_USED_PRECISION = timedelta(minutes=1)


def new_secret() -> str:
    """A fresh token; only its owner ever sees it."""
    body = MARK + "".join(secrets.choice(_ALPHABET) for _ in range(_RANDOM_LENGTH))
    return body + checksum_of(body)


def checksum_of(body: str) -> str:
    """CRC-32 of the mark and the random part, as 6 base62 characters, most significant first."""
    number = zlib.crc32(body.encode("ascii"))
    digits = []
    for _ in range(_CHECKSUM_LENGTH):
        number, digit = divmod(number, len(_ALPHABET))
        digits.append(_ALPHABET[digit])
    return "".join(reversed(digits))


def is_well_formed(secret: str) -> bool:
    """Whether `secret` has a token's form and checksum; says nothing about its existence."""
    return (
        _FORM.fullmatch(secret) is not None
        and checksum_of(secret[:-_CHECKSUM_LENGTH]) == secret[-_CHECKSUM_LENGTH:]
    )


def digest_of(secret: str) -> bytes:
    """What is stored of a token: SHA-256. The secret has 178 random bits, so no salt is needed."""
    return hashlib.sha256(secret.encode("ascii")).digest()


def token_of(secret: str, *, now: datetime) -> AccessToken:
    """The live token with this secret, its user and their organization loaded.

    One query, and at most one write a minute for `last_used_at`. Raises Unauthenticated for a
    token that is not ours, revoked, expired, or whose owner is deactivated.
    """
    if not is_well_formed(secret):
        raise Unauthenticated(
            "The access token is malformed or mistyped (its checksum does not match). Copy it "
            "again, or create a new one."
        )
    token = (
        AccessToken.objects.select_related("user__organization")
        .filter(digest=digest_of(secret))
        .first()
    )
    if token is None:
        raise Unauthenticated("No such access token exists. Create a new one.")
    if token.revoked_at is not None:
        raise Unauthenticated("This access token was revoked. Create a new one.")
    if token.expires_at <= now:
        raise Unauthenticated("This access token has expired. Create a new one.")
    if not token.user.is_active:
        raise Unauthenticated("The owner of this access token is deactivated.")
    if token.last_used_at is None or token.last_used_at <= now - LAST_USED_PRECISION:
        AccessToken.objects.filter(
            Q(last_used_at=None) | Q(last_used_at__lte=now - LAST_USED_PRECISION), pk=token.pk
        ).update(last_used_at=now)
        token.last_used_at = now
    return token

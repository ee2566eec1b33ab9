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
from collections.abc import Iterable
from datetime import datetime, timedelta
from uuid import UUID

from django.db import transaction
from django.db.models import Q, QuerySet

from primitives.errors import (
    Conflict,
    FieldError,
    Forbidden,
    InvalidRequest,
    NotFound,
    Unauthenticated,
)
from tenants.access import Actor, actor_with
from tenants.audit_trail import record_act
from tenants.models import AccessToken, Node, User
from tenants.names import clean_name
from tenants.roles import SCOPE_PERMISSIONS, Permission, Scope
from webapi.statements import columns, prepared_cursor, taken

MARK = "tdg_"
_RANDOM_LENGTH = 30
_CHECKSUM_LENGTH = 6
PREFIX_LENGTH = 12
_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
#: What secret scanners should look for.
TOKEN_PATTERN = r"tdg_[0-9A-Za-z]{36}"  # noqa: S105 - a pattern, not a secret
_FORM = re.compile(TOKEN_PATTERN, re.ASCII)
LAST_USED_PRECISION = timedelta(minutes=1)
NAME_LENGTH_MAX = 100
LIFETIME_DAYS_MAX = 365
LIVE_TOKENS_MAX = 50


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


def actor_by_token(secret: str, *, now: datetime) -> Actor:
    """The owner of the live token with this secret, with the token's scopes.

    One statement for token, owner, organization and grants, and at most one write a minute for
    `last_used_at`. Raises Unauthenticated for a token that is not ours, revoked, expired, or
    whose owner is deactivated.
    """
    if not is_well_formed(secret):
        raise Unauthenticated(
            "The access token is malformed or mistyped (its checksum does not match). Copy it "
            "again, or create a new one."
        )
    found = _read_token(secret)
    if found is None:
        raise Unauthenticated("No such access token exists. Create a new one.")
    token, grants = found
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
    return actor_with(token.user, grants, token.scopes, token=token)


def _read_token(secret: str) -> tuple[AccessToken, list[tuple[str, str | None]]] | None:
    """The token with its user and their organization loaded, and the user's (role, path)."""
    with prepared_cursor() as cursor:
        cursor.execute(_TOKEN, [digest_of(secret)])
        values = cursor.fetchone()
    if values is None:
        return None
    token, values = taken(AccessToken, values)
    user, values = taken(User, values)
    organization, values = taken(Node, values)
    user.organization = organization if user.organization_id is not None else None
    token.user = user
    return token, values[0] or []


_TOKEN = f"""
SELECT {columns(AccessToken, "t")}, {columns(User, "u")}, {columns(Node, "o")},
       (SELECT json_agg(json_build_array(g.role, n.path))
        FROM tenants_rolegrant g LEFT JOIN tenants_node n ON n.id = g.node_id
        WHERE g.user_id = u.id)
FROM tenants_accesstoken t
JOIN tenants_user u ON u.id = t.user_id
LEFT JOIN tenants_node o ON o.id = u.organization_id
WHERE t.digest = %s::bytea
"""  # noqa: S608 - the columns are our models'


def own_tokens(actor: Actor) -> QuerySet[AccessToken]:
    """The actor's own tokens, revoked and expired ones too; nobody sees those of others."""
    return AccessToken.objects.filter(user=actor.user)


@transaction.atomic
def create_token(
    *, actor: Actor, name: str, scopes: Iterable[Scope], expires_in_days: int, now: datetime
) -> tuple[AccessToken, str]:
    """A new token of the actor's own, and its secret, which is never to be had again.

    A token may make tokens too, but none that may more or live longer than itself, and they
    are revoked with it. Raises InvalidRequest for a bad name, no scope or a bad lifetime,
    Forbidden for more scopes than the token used has, and Conflict beyond 50 live tokens.
    """
    wanted = frozenset(scopes)
    if not wanted:
        raise InvalidRequest(
            "A token needs at least one scope: " + ", ".join(Scope) + ".",
            errors=[FieldError("/scopes", "must not be empty")],
        )
    if not 1 <= expires_in_days <= LIFETIME_DAYS_MAX:
        raise InvalidRequest(
            f"expires_in_days must be from 1 to {LIFETIME_DAYS_MAX}.",
            errors=[FieldError("/expires_in_days", f"must be from 1 to {LIFETIME_DAYS_MAX}")],
        )
    expires_at = now + timedelta(days=expires_in_days)
    if actor.scopes is not None and not permissions_of(wanted) <= permissions_of(actor.scopes):
        raise Forbidden(
            "A token cannot make one that may do more than itself; sign in, or use a token "
            f"with the scopes {', '.join(sorted(wanted))}."
        )
    if actor.token is not None:
        expires_at = min(expires_at, actor.token.expires_at)
    return issue_token(
        actor=actor, name=name, scopes=wanted, expires_at=expires_at, minted_by=actor.token, now=now
    )


@transaction.atomic
def issue_token(
    *,
    actor: Actor,
    name: str,
    scopes: Iterable[Scope],
    expires_at: datetime,
    now: datetime,
    minted_by: AccessToken | None = None,
) -> tuple[AccessToken, str]:
    """Store a token of the actor's and audit it; whether they may have it is asked before.

    Raises InvalidRequest for a bad name and Conflict for a deactivated user or too many tokens.
    """
    user = _lock_owner(actor)
    if not user.is_active:
        raise Conflict(f"{user.login} is deactivated.")
    if minted_by is not None and own_tokens(actor).get(pk=minted_by.pk).revoked_at is not None:
        raise Unauthenticated("This access token was revoked. Create a new one.")
    if own_tokens(actor).filter(revoked_at=None, expires_at__gt=now).count() >= LIVE_TOKENS_MAX:
        raise Conflict(f"You have {LIVE_TOKENS_MAX} live tokens already; revoke one first.")
    secret = new_secret()
    token = AccessToken.objects.create(
        user=user,
        name=clean_name(name, length_max=NAME_LENGTH_MAX),
        prefix=secret[:PREFIX_LENGTH],
        digest=digest_of(secret),
        scopes=sorted(scope.value for scope in scopes),
        minted_by=minted_by,
        created_at=now,
        expires_at=expires_at,
    )
    _record(actor, "token_created", token, now)
    return token, secret


@transaction.atomic
def revoke_token(*, actor: Actor, token_id: UUID, now: datetime) -> None:
    """End one of the actor's own tokens and all that were made with it, now and for good.

    Revoking a revoked one changes nothing. A token may revoke itself, and others that may do
    no more than itself (Forbidden otherwise). Raises NotFound for tokens of others.
    """
    _lock_owner(actor)
    token = own_tokens(actor).filter(pk=token_id).first()
    if token is None:
        raise NotFound("It does not exist, or you may not see it.")
    if (
        actor.scopes is not None
        and not (actor.token is not None and actor.token.pk == token.pk)
        and not permissions_of(known_scopes(token)) <= permissions_of(actor.scopes)
    ):
        raise Forbidden("A token cannot revoke one that may do more than itself; sign in for it.")
    generation = [token]
    while generation:
        for each in generation:
            if each.revoked_at is None:
                each.revoked_at = now
                each.save(update_fields=["revoked_at"])
                _record(actor, "token_revoked", each, now)
        # A token is made by an earlier one, so this ends.
        generation = list(own_tokens(actor).filter(minted_by__in=[each.pk for each in generation]))


def _lock_owner(actor: Actor) -> User:
    # One at a time per user: the limit holds, and no token is made by one that is being revoked.
    return User.objects.select_for_update().get(pk=actor.user.pk)


def known_scopes(token: AccessToken) -> frozenset[Scope]:
    """The token's scopes that this version knows."""
    return frozenset(scope for scope in Scope if scope.value in token.scopes)


def permissions_of(scopes: Iterable[Scope]) -> frozenset[Permission]:
    """Every permission that one of `scopes` lets through."""
    return frozenset().union(*(SCOPE_PERMISSIONS[scope] for scope in scopes))


def _record(actor: Actor, action: str, token: AccessToken, now: datetime) -> None:
    record_act(
        actor=actor,
        action=action,
        subject_kind="token",
        subject_id=token.pk,
        node=actor.user.organization,
        now=now,
        detail={"name": token.name, "prefix": token.prefix, "scopes": token.scopes},
    )

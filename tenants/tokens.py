"""Personal access tokens: their format, and how they are checked, created and revoked.

The format is GitHub's: `tdg_`, 30 random base62 characters (178 bits), and the CRC-32 of all that
in 6 base62 characters. The prefix is for secret scanners. The checksum keeps mistyped or invented
tokens away from the database.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import zlib
from collections.abc import Iterable, Iterator
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
from tenants.access import Actor, actor_of, actor_with, visible_node
from tenants.audit_trail import record_act
from tenants.managing import manages, require_managed
from tenants.membership import visible_user
from tenants.models import AccessToken, Node, User, UserKind
from tenants.names import check_slug, clean_name
from tenants.roles import SCOPE_PERMISSIONS, Permission, Scope
from webapi.statements import columns, prepared_cursor, taken

MARK = "tdg_"
_RANDOM_LENGTH = 30
_CHECKSUM_LENGTH = 6
PREFIX_LENGTH = 12
_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
#: A pattern for secret scanners.
TOKEN_PATTERN = r"tdg_[0-9A-Za-z]{36}"  # noqa: S105 - a pattern, not a secret
_FORM = re.compile(r"[0-9A-Za-z]{36}", re.ASCII)
LAST_USED_PRECISION = timedelta(minutes=1)
NAME_LENGTH_MAX = 100
LIFETIME_DAYS_MAX = 365
LIVE_TOKENS_MAX = 50
#: The longest time that a replaced token may stay valid, in seconds.
OVERLAP_S_MAX = 7 * 86_400


def new_secret(mark: str = MARK) -> str:
    """Return a new token that begins with `mark`. Only its owner ever sees it."""
    body = mark + "".join(secrets.choice(_ALPHABET) for _ in range(_RANDOM_LENGTH))
    return body + checksum_of(body)


def checksum_of(body: str) -> str:
    """Return the CRC-32 of `body` as 6 base62 characters, most significant first."""
    number = zlib.crc32(body.encode("ascii"))
    digits = []
    for _ in range(_CHECKSUM_LENGTH):
        number, digit = divmod(number, len(_ALPHABET))
        digits.append(_ALPHABET[digit])
    return "".join(reversed(digits))


def is_well_formed(secret: str, mark: str = MARK) -> bool:
    """Return whether `secret` has a token's format and checksum. The token need not exist."""
    return (
        secret.startswith(mark)
        and _FORM.fullmatch(secret.removeprefix(mark)) is not None
        and checksum_of(secret[:-_CHECKSUM_LENGTH]) == secret[-_CHECKSUM_LENGTH:]
    )


def digest_of(secret: str) -> bytes:
    """Return the stored form of a token: SHA-256. With 178 random bits it needs no salt."""
    return hashlib.sha256(secret.encode("ascii")).digest()


def actor_by_token(secret: str, *, now: datetime) -> Actor:
    """Return the owner of the live token with this secret, with the token's scopes.

    This takes one statement for token, owner, organization and grants. `last_used_at` is written at
    most once a minute. Raises Unauthenticated for a token that is unknown, revoked or expired, or
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
    """Return the token with its user and organization loaded, and the user's (role, path)."""
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
        WHERE g.user_id = u.id
          AND (g.expires_at IS NULL OR g.expires_at > statement_timestamp()))
FROM tenants_accesstoken t
JOIN tenants_user u ON u.id = t.user_id
LEFT JOIN tenants_node o ON o.id = u.organization_id
WHERE t.digest = %s::bytea
"""  # noqa: S608 - the columns are our models'


def own_tokens(actor: Actor) -> QuerySet[AccessToken]:
    """Return the actor's own tokens, including revoked and expired ones."""
    return tokens_of(actor.user)


def tokens_of(user: User) -> QuerySet[AccessToken]:
    """Return the user's tokens with owner and creator, including revoked and expired ones."""
    return AccessToken.objects.select_related("user", "made_by").filter(user=user)


def managed_tokens(actor: Actor, login: str) -> QuerySet[AccessToken]:
    """Return the tokens of the user with this login.

    Raises NotFound for a user that the actor may not see. Raises Forbidden for a user that the
    actor does not manage.
    """
    user = visible_user(actor, login)
    require_managed(actor, user)
    return tokens_of(user)


def tokens_below(actor: Actor, organization_slug: str) -> QuerySet[AccessToken]:
    """Return the tokens of all users of an organization.

    Raises NotFound for an invisible organization, and Forbidden without manage_members on it.
    """
    path = check_slug(organization_slug, field="organization")
    organization = visible_node(actor, path, Permission.MANAGE_MEMBERS)
    return AccessToken.objects.select_related("user", "made_by").filter(
        user__organization=organization
    )


@transaction.atomic
def create_token(
    *,
    actor: Actor,
    name: str,
    scopes: Iterable[Scope],
    expires_in_days: int,
    now: datetime,
    login: str | None = None,
) -> tuple[AccessToken, str]:
    """Create a token for the actor, or for the service account `login`. Also return its secret.

    The secret cannot be read again. A token may create tokens, but none with more rights or a
    longer life. They are revoked with it.

    Raises InvalidRequest for an invalid name, no scope or an invalid lifetime. Raises NotFound for
    a login that the actor may not see. Raises Forbidden for a user that the actor does not manage,
    and for more scopes than the token in use has. Raises Conflict for another person, and for more
    than 50 live tokens.
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
    owner = actor.user
    if login is not None and login != actor.user.login:
        owner = visible_user(actor, login)
        require_managed(actor, owner)
        if owner.kind != UserKind.SERVICE:
            raise Conflict(
                f"{owner.login} is a person, and people create their own tokens. You can create "
                "tokens of service accounts only."
            )
    return _issue(
        actor=actor,
        owner=owner,
        name=name,
        scopes=wanted,
        expires_at=now + timedelta(days=expires_in_days),
        now=now,
    )


@transaction.atomic
def rotate_token(
    *, actor: Actor, token_id: UUID, overlap_s: int, now: datetime
) -> tuple[AccessToken, str]:
    """Replace a live token by one with the same name, scopes and lifetime. Also return its secret.

    The old token, and all tokens created with it, end in `overlap_s` seconds. Raises NotFound and
    Forbidden as `revoke_token` does, and InvalidRequest for an overlap of more than 7 days. Raises
    Conflict for a token of another person, for one that has ended, and for the token in use.
    """
    if not 0 <= overlap_s <= OVERLAP_S_MAX:
        raise InvalidRequest(
            f"overlap_s must be from 0 to {OVERLAP_S_MAX} (7 days).",
            errors=[FieldError("/overlap_s", f"must be from 0 to {OVERLAP_S_MAX}")],
        )
    old = _found(actor, token_id)
    if actor.token is not None and actor.token.pk == old.pk:
        raise Conflict("A token cannot replace itself. Sign in, or use another token.")
    if old.user_id != actor.user.pk and old.user.kind != UserKind.SERVICE:
        # The holder of the new secret acts as the owner.
        raise Conflict(f"This is {old.user.login}'s own token. You can revoke it, not replace it.")
    if old.revoked_at is not None or old.expires_at <= now:
        raise Conflict(f"The token {old.name} has ended. Create a new one.")
    lifetime = old.expires_at - old.created_at
    if overlap_s:
        ends_at = now + timedelta(seconds=overlap_s)
        for each in _with_minted(old):
            if each.revoked_at is None and each.expires_at > ends_at:
                each.expires_at = ends_at
                each.save(update_fields=["expires_at"])
    else:
        _revoke(actor, old, now)
    _record(actor, "token_rotated", old, now)
    return _issue(
        actor=actor,
        owner=old.user,
        name=old.name,
        scopes=known_scopes(old),
        expires_at=now + lifetime,
        now=now,
    )


@transaction.atomic
def revoke_token(*, actor: Actor, token_id: UUID, now: datetime) -> None:
    """Revoke a token and all tokens created with it, now and for ever.

    It must be the actor's own, or that of a user that the actor manages. Revoking a revoked token
    changes nothing. A token may revoke itself, and tokens without more rights than itself
    (Forbidden otherwise). Raises NotFound for all other tokens.
    """
    _revoke(actor, _found(actor, token_id), now)


def revoke_unmanaged(*, actor: Actor, user: User, now: datetime) -> None:
    """Revoke the tokens of a service account whose creators no longer manage it.

    Called after `actor` gave it a role. A lead who created a token for it must not gain rights that
    only others could give. Must run in a transaction.
    """
    made = tokens_of(user).filter(revoked_at=None, expires_at__gt=now).exclude(made_by=None)
    for token in made.select_for_update(of=("self",)):
        if token.made_by is not None and not manages(actor_of(token.made_by), user):
            _revoke(actor, token, now)


def _issue(
    *,
    actor: Actor,
    owner: User,
    name: str,
    scopes: frozenset[Scope],
    expires_at: datetime,
    now: datetime,
) -> tuple[AccessToken, str]:
    """Store a token of `owner` and audit it.

    The caller checks the actor's rights. This function checks the limits of the token in use.
    """
    if actor.scopes is not None and not permissions_of(scopes) <= permissions_of(actor.scopes):
        raise Forbidden(
            "A token cannot create one with more rights than itself. Sign in, or use a token "
            f"with the scopes {', '.join(sorted(scopes))}."
        )
    owner = _lock_users(actor, owner)
    if not owner.is_active:
        raise Conflict(f"{owner.login} is deactivated.")
    if actor.token is not None:
        expires_at = min(expires_at, actor.token.expires_at)
        if own_tokens(actor).get(pk=actor.token.pk).revoked_at is not None:
            raise Unauthenticated("This access token was revoked. Create a new one.")
    live = tokens_of(owner).filter(revoked_at=None, expires_at__gt=now)
    if live.count() >= LIVE_TOKENS_MAX:
        whose = "You have" if owner.pk == actor.user.pk else f"{owner.login} has"
        raise Conflict(f"{whose} {LIVE_TOKENS_MAX} live tokens already. Revoke one first.")
    secret = new_secret()
    token = AccessToken.objects.create(
        user=owner,
        name=clean_name(name, length_max=NAME_LENGTH_MAX),
        prefix=secret[:PREFIX_LENGTH],
        digest=digest_of(secret),
        scopes=sorted(scope.value for scope in scopes),
        minted_by=actor.token,
        made_by=None if owner.pk == actor.user.pk else actor.user,
        created_at=now,
        expires_at=expires_at,
    )
    _record(actor, "token_created", token, now)
    return token, secret


def _found(actor: Actor, token_id: UUID) -> AccessToken:
    """Return the token, locked against other acts on its owner. Raises NotFound and Forbidden."""
    token = AccessToken.objects.select_related("user__organization").filter(pk=token_id).first()
    is_own = token is not None and token.user_id == actor.user.pk
    if token is None or not (is_own or manages(actor, token.user)):
        raise NotFound("It does not exist, or you may not see it.")
    _lock_users(actor, token.user)
    if (
        actor.scopes is not None
        and not (actor.token is not None and actor.token.pk == token.pk)
        and not permissions_of(known_scopes(token)) <= permissions_of(actor.scopes)
    ):
        raise Forbidden("A token cannot revoke one with more rights than itself. Sign in for that.")
    return tokens_of(token.user).get(pk=token_id)


def _revoke(actor: Actor, token: AccessToken, now: datetime) -> None:
    for each in _with_minted(token):
        if each.revoked_at is None:
            each.revoked_at = now
            each.save(update_fields=["revoked_at"])
            _record(actor, "token_revoked", each, now)


def _with_minted(token: AccessToken) -> Iterator[AccessToken]:
    """Yield the token and all tokens created with it, whoever owns them."""
    generation = [token]
    while generation:
        yield from generation
        # A token is created by an earlier one, so this loop ends.
        minted = AccessToken.objects.select_related("user__organization")
        generation = list(minted.filter(minted_by__in=[each.pk for each in generation]))


def _lock_users(actor: Actor, owner: User) -> User:
    """Lock owner and actor in a fixed order, and return the owner as it is now.

    So the limit of tokens holds, and no token is created by one that is being revoked.
    """
    users = User.objects.select_for_update(of=("self",)).select_related("organization")
    locked = {
        user.pk: user for user in users.filter(pk__in={actor.user.pk, owner.pk}).order_by("pk")
    }
    if owner.pk not in locked:
        raise NotFound(f"{owner.login} was deleted meanwhile.")
    return locked[owner.pk]


def known_scopes(token: AccessToken) -> frozenset[Scope]:
    """Return the token's scopes that this version knows."""
    return frozenset(scope for scope in Scope if scope.value in token.scopes)


def permissions_of(scopes: Iterable[Scope]) -> frozenset[Permission]:
    """Return every permission that one of `scopes` allows."""
    return frozenset().union(*(SCOPE_PERMISSIONS[scope] for scope in scopes))


def _record(actor: Actor, action: str, token: AccessToken, now: datetime) -> None:
    detail = {"name": token.name, "prefix": token.prefix, "scopes": token.scopes}
    record_act(
        actor=actor,
        action=action,
        subject_kind="token",
        subject_id=token.pk,
        node=token.user.organization,
        now=now,
        detail=detail if token.user_id == actor.user.pk else {"user": token.user.login, **detail},
    )

"""Security keys and passkeys (WebAuthn): their registration and their answers to challenges."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Q
from fido2.server import Fido2Server
from fido2.webauthn import (
    AttestedCredentialData,
    AuthenticationResponse,
    PublicKeyCredentialRpEntity,
    PublicKeyCredentialUserEntity,
    UserVerificationRequirement,
)

from tenants.models import SecurityKey, User

#: Security keys of one person.
KEYS_MAX = 10


@dataclass(frozen=True, slots=True)
class Challenge:
    """A challenge: the options for the browser, and the state that the session keeps."""

    options: Mapping[str, Any]
    state: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class NewCredential:
    """The proved credential of a new security key."""

    credential_id: bytes
    credential: bytes
    sign_count: int


def registration_challenge(user: User, host: str) -> Challenge:
    """Return a challenge for a new security key of the user, for the pages on `host`."""
    options, state = _server(host).register_begin(
        PublicKeyCredentialUserEntity(id=user.pk.bytes, name=user.login, display_name=user.name),
        credentials=_credentials(user),
        user_verification=UserVerificationRequirement.PREFERRED,
    )
    return Challenge(dict(options)["publicKey"], state)


def proved_registration(
    state: Mapping[str, Any], answer: Mapping[str, Any], host: str
) -> NewCredential | None:
    """Return the credential with which a new key answered the challenge; None for a wrong one."""
    try:
        proved = _server(host).register_complete(state, answer)
    except Exception:
        # The parsers of what the browser sends raise many kinds of errors.
        return None
    data = proved.credential_data
    if data is None:
        return None
    return NewCredential(data.credential_id, bytes(data), proved.counter)


def sign_in_challenge(user: User, host: str) -> Challenge:
    """Return a challenge for any security key of the user."""
    options, state = _server(host).authenticate_begin(
        credentials=_credentials(user), user_verification=UserVerificationRequirement.PREFERRED
    )
    return Challenge(dict(options)["publicKey"], state)


def use_key(
    user: User, state: Mapping[str, Any], answer: Mapping[str, Any], host: str, *, now: datetime
) -> bool:
    """Return whether a security key of the user answered the challenge, and note its use.

    An answer whose counter did not grow is refused: it is repeated, or comes from a copied key.
    """
    try:
        used = _server(host).authenticate_complete(state, _credentials(user), answer)
        count = AuthenticationResponse.from_dict(answer).response.authenticator_data.counter
    except Exception:
        # The parsers of what the browser sends raise many kinds of errors.
        return False
    key = SecurityKey.objects.filter(user=user, credential_id=used.credential_id)
    newer = Q(sign_count__lt=count) if count else Q(sign_count=0)
    return key.filter(newer).update(sign_count=count, last_used_at=now) == 1


def _server(host: str) -> Fido2Server:
    name = host.partition(":")[0]
    return Fido2Server(PublicKeyCredentialRpEntity(id=name, name="Tidegate"))


def _credentials(user: User) -> list[AttestedCredentialData]:
    stored = (
        SecurityKey.objects.filter(user=user).order_by("pk").values_list("credential", flat=True)
    )
    return [AttestedCredentialData(bytes(each)) for each in stored]

"""The discovery document of an identity provider: where it signs people in and proves it."""

from __future__ import annotations

from dataclasses import dataclass

import requests

from identity.addresses import check_address
from identity.provider_calls import ProviderSession
from primitives.errors import InvalidRequest

_PATH = "/.well-known/openid-configuration"


class DiscoveryFailed(requests.RequestException):
    """The provider does not answer with a discovery document that can be used."""


@dataclass(frozen=True, slots=True)
class Discovery:
    """The addresses of a provider. `userinfo_endpoint` is None where there is none."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    userinfo_endpoint: str | None
    token_auth_methods: tuple[str, ...]
    scopes: tuple[str, ...]


def discover(issuer: str) -> Discovery:
    """Fetch and check the discovery document of `issuer`.

    Raises requests.RequestException when the provider cannot be reached, and DiscoveryFailed for a
    document that names another issuer, misses an address, or has one that may not be called.
    """
    url = issuer.rstrip("/") + _PATH
    with ProviderSession() as session:
        response = session.get(url)
    if response.status_code != 200:
        raise DiscoveryFailed(f"{url} answers {response.status_code}.")
    try:
        document = response.json()
    except ValueError as error:
        raise DiscoveryFailed(f"{url} does not answer with JSON.") from error
    if not isinstance(document, dict):
        raise DiscoveryFailed(f"{url} does not answer with a JSON object.")
    if document.get("issuer") != issuer:
        raise DiscoveryFailed(
            f"The provider calls itself {str(document.get('issuer'))[:200]!r}, not {issuer!r}. "
            "Enter the issuer exactly as the provider has it."
        )
    return Discovery(
        issuer=issuer,
        authorization_endpoint=_address(document, "authorization_endpoint"),
        token_endpoint=_address(document, "token_endpoint"),
        jwks_uri=_address(document, "jwks_uri"),
        userinfo_endpoint=_address(document, "userinfo_endpoint")
        if "userinfo_endpoint" in document
        else None,
        token_auth_methods=_words(document, "token_endpoint_auth_methods_supported"),
        scopes=_words(document, "scopes_supported"),
    )


def _address(document: dict[str, object], name: str) -> str:
    value = document.get(name)
    if not isinstance(value, str):
        raise DiscoveryFailed(f"The discovery document has no {name}.")
    try:
        check_address(value)
    except InvalidRequest as refused:
        raise DiscoveryFailed(f"{name}: {refused.detail}") from refused
    return value


def _words(document: dict[str, object], name: str) -> tuple[str, ...]:
    value = document.get(name)
    return tuple(map(str, value)) if isinstance(value, list) else ()

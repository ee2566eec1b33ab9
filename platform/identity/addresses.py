"""Addresses that identity providers may have: the portal calls no inner server for anybody."""

from __future__ import annotations

import socket
from urllib.parse import SplitResult, urlsplit

from django.conf import settings

from primitives.errors import InvalidRequest
from webapi.outgoing import is_public

_SETTING = "TIDEGATE_IDENTITY_ORIGINS"


def check_address(url: str) -> None:
    """Raise InvalidRequest unless the portal may call `url`.

    Origins of TIDEGATE_IDENTITY_ORIGINS are allowed. All others need https, and a host whose
    addresses are all public. Certificates are checked, so that a host that changes its address
    after this check must still prove its name.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise InvalidRequest(f"{url[:100]!r} is not an address like https://host/path.") from error
    if parts.username is not None or parts.fragment or not parts.hostname:
        raise InvalidRequest(f"{url[:100]!r} is not an address like https://host/path.")
    if origin_of(parts) in settings.IDENTITY_ORIGINS:
        return
    if parts.scheme != "https":
        raise InvalidRequest(
            f"{url[:100]} must begin with https://. The operator can allow another origin with "
            f"{_SETTING}."
        )
    try:
        found = socket.getaddrinfo(parts.hostname, port or 443, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise InvalidRequest(
            f"The host {parts.hostname[:100]} is not known. Check the address."
        ) from error
    if not all(is_public(str(each[4][0])) for each in found):
        raise InvalidRequest(
            f"The host {parts.hostname[:100]} has an address inside the network. The operator can "
            f"allow its origin with {_SETTING}."
        )


def origin_of(parts: SplitResult) -> str:
    """Return scheme, host and port as TIDEGATE_IDENTITY_ORIGINS has them."""
    host = parts.hostname or ""
    shown = f"[{host}]" if ":" in host else host
    default = 443 if parts.scheme == "https" else 80
    return f"{parts.scheme}://{shown}:{parts.port or default}"

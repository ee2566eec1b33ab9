"""The client's address: the peer's, or what a trusted proxy says in X-Forwarded-For.

Of the addresses in the header the last one counts that is no trusted proxy's: what stands before
it the client wrote itself.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from ipaddress import ip_address, ip_network
from typing import Any

from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

log = logging.getLogger(__name__)

Application = Callable[[dict[str, Any], Any, Any], Awaitable[None]]


class ClientAddresses:
    """ASGI middleware that puts the client's address into the scope."""

    def __init__(self, application: Any, trusted: Sequence[str]) -> None:
        self._application = application
        self._believing = ProxyHeadersMiddleware(application, list(trusted))
        self._networks = [ip_network(one) for one in trusted]
        self._is_warned = False

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass the request on, with the address that counts."""
        if is_in(self._networks, scope.get("client")):
            await self._believing(scope, receive, send)
            return
        if not self._is_warned and any(
            name == b"x-forwarded-for" for name, _ in scope.get("headers", ())
        ):
            self._is_warned = True
            log.warning(
                "X-Forwarded-For from %s is ignored: if that is your proxy, put it into "
                "TIDEGATE_TRUSTED_PROXIES.",
                (scope.get("client") or ("an unknown address",))[0],
            )
        await self._application(scope, receive, send)


def is_in(networks: Sequence[Any], client: Any) -> bool:
    """Return whether `client`, as (host, port), is in one of `networks`; a socket's path is not."""
    try:
        address = ip_address(client[0])
    except (TypeError, ValueError):
        return False
    return any(address in network for network in networks)

"""The client's address: the peer's, or the one that a trusted proxy reports in X-Forwarded-For.

The last address in the header that is not a trusted proxy's counts. The client may have invented
all addresses before it.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from primitives.addresses import is_in

log = logging.getLogger(__name__)

Application = Callable[[dict[str, Any], Any, Any], Awaitable[None]]


class ClientAddresses:
    """ASGI middleware that puts the client's address into the scope."""

    def __init__(self, application: Any, trusted: Sequence[str]) -> None:
        self._application = application
        self._believing = ProxyHeadersMiddleware(application, list(trusted))
        self._trusted = trusted
        self._is_warned = False

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass the request on, with the client's address."""
        peer = (scope.get("client") or ("",))[0]
        if is_in(self._trusted, peer):
            await self._believing(scope, receive, send)
            return
        if not self._is_warned and any(
            name == b"x-forwarded-for" for name, _ in scope.get("headers", ())
        ):
            self._is_warned = True
            log.warning(
                "X-Forwarded-For from %s is ignored: if that is your proxy, put it into "
                "TIDEGATE_TRUSTED_PROXIES.",
                peer or "an unknown address",
            )
        await self._application(scope, receive, send)

"""HTTP and WebSocket entry point."""

from __future__ import annotations

import os

from channels.routing import ProtocolTypeRouter, URLRouter
from django.core.asgi import get_asgi_application
from django.urls import path


def build_application() -> ProtocolTypeRouter:
    """The application, or an exit with the reason why it must not serve."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
    http = get_asgi_application()
    # These read settings and models, so Django has to be set up first.
    from channels.auth import AuthMiddlewareStack
    from channels.security.websocket import AllowedHostsOriginValidator

    from live.consumers import ChangesConsumer
    from portal.startup import refuse_or_exit

    refuse_or_exit()
    # `path` is annotated for views; Channels routes consumers with it all the same.
    changes = path("ws/changes", ChangesConsumer.as_asgi())  # type: ignore[arg-type]
    sockets = URLRouter([changes])  # type: ignore[list-item]
    return ProtocolTypeRouter(
        {
            "http": http,
            "websocket": AllowedHostsOriginValidator(AuthMiddlewareStack(sockets)),
        }
    )


application = build_application()

"""Where HTTP and WebSocket requests go."""

from __future__ import annotations

from channels.routing import ProtocolTypeRouter, URLRouter
from django.core.asgi import get_asgi_application
from django.urls import path


def build_application() -> ProtocolTypeRouter:
    """The whole application; sets Django up."""
    http = get_asgi_application()
    # These read settings and models, so Django has to be set up first.
    from channels.auth import AuthMiddlewareStack
    from channels.security.websocket import AllowedHostsOriginValidator

    from live.consumers import ChangesConsumer

    # `path` is annotated for views; Channels routes consumers with it all the same.
    changes = path("ws/changes", ChangesConsumer.as_asgi())  # type: ignore[arg-type]
    sockets = URLRouter([changes])  # type: ignore[list-item]
    return ProtocolTypeRouter(
        {
            "http": http,
            "websocket": AllowedHostsOriginValidator(AuthMiddlewareStack(sockets)),
        }
    )

"""Routes HTTP and WebSocket requests, and the beginning and end of a worker."""

from __future__ import annotations

from typing import Any

import django
from channels.routing import ProtocolTypeRouter, URLRouter
from django.urls import path

from portal.client_addresses import ClientAddresses


def build_application() -> ClientAddresses:
    """Set up Django and return the whole application."""
    django.setup(set_prefix=False)
    # These modules read settings and models, so Django must be set up first.
    from channels.security.websocket import AllowedHostsOriginValidator
    from channels.sessions import SessionMiddlewareStack
    from django.conf import settings

    from live.consumers import ChangesConsumer
    from portal.hint_audiences import audiences_of, may_listen
    from portal.lifespan import lifespan
    from portal.serving import ThreadedHandler

    # `path` is annotated for views, but Channels also routes consumers with it.
    consumer: Any = ChangesConsumer.as_asgi(audiences_of=audiences_of, may_listen=may_listen)
    changes = path("ws/changes", consumer)
    sockets = URLRouter([changes])
    protocols = ProtocolTypeRouter(
        {
            "lifespan": lifespan,
            "http": ThreadedHandler(),
            "websocket": AllowedHostsOriginValidator(SessionMiddlewareStack(sockets)),
        }
    )
    return ClientAddresses(protocols, settings.TRUSTED_PROXIES)

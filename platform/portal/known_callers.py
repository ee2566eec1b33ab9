"""Identifies the sender of a request from its headers alone, before the body is read."""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from typing import Any

from django.contrib.auth import get_user
from django.contrib.sessions.middleware import SessionMiddleware
from django.core.handlers.asgi import ASGIRequest
from django.db import close_old_connections
from django.http import HttpResponse

from identity.api.scim_protocol import PATH as SCIM_PATH
from identity.scim.tokens import scim_token_by_secret
from primitives.clock import SystemClock
from primitives.errors import PortalError
from tenants.models import User
from tenants.tokens import actor_by_token


def is_known(scope: Mapping[str, Any]) -> bool:
    """Return whether the request has a live token, or the session of an active user.

    The views check both again. This only decides how much of the body is read.
    """
    request = ASGIRequest(dict(scope), BytesIO())
    scheme, _, secret = request.headers.get("Authorization", "").partition(" ")
    try:
        if scheme.lower() == "bearer":
            if request.path.startswith(f"{SCIM_PATH}/"):
                scim_token_by_secret(secret.strip(), now=SystemClock().now())
                return True
            return actor_by_token(secret.strip(), now=SystemClock().now()).user.is_active
        SessionMiddleware(lambda _: HttpResponse()).process_request(request)
        return isinstance(get_user(request), User)
    except PortalError:
        return False
    finally:
        close_old_connections()


def person_of(request: Any) -> str | None:
    """Return the id of the request's user, or None where no view looked for the user."""
    user = getattr(request, "user", None)
    # `isinstance` would make Django's lazy user read the session now.
    return str(user.pk) if type(user) is User else None

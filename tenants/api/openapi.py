"""The two ways to authenticate, for OpenAPI. Loaded when the application starts.

They are a separate module, because drf-spectacular imports DRF's views, and these import the
authentication classes.
"""

from __future__ import annotations

from typing import Any

from django.conf import settings
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.openapi import AutoSchema


class TokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """The access token in OpenAPI."""

    target_class = "tenants.api.authentication.TokenAuthentication"
    name = "accessToken"
    priority = 1

    def get_security_definition(self, auto_schema: AutoSchema) -> dict[str, Any]:
        """Return HTTP bearer authentication."""
        return {
            "type": "http",
            "scheme": "bearer",
            "bearerFormat": "tdg_ and 36 characters",
            "description": "A personal access token, from POST /api/v1/tokens.",
        }


class BrowserSessionScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """The browser session in OpenAPI."""

    target_class = "tenants.api.authentication.BrowserSessionAuthentication"
    name = "browserSession"
    priority = 1

    def get_security_definition(self, auto_schema: AutoSchema) -> dict[str, Any]:
        """Return the session cookie. Unsafe methods also need `X-CSRFToken`."""
        return {
            "type": "apiKey",
            "in": "cookie",
            "name": settings.SESSION_COOKIE_NAME,
            "description": "From POST /api/v1/session; changes also need X-CSRFToken.",
        }

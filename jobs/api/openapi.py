"""The authentication of attempts in OpenAPI.

The application loads it at its start, like `tenants.api.openapi`.
"""

from __future__ import annotations

from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.openapi import AutoSchema


class AttemptScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """The checkpoint token of an attempt in OpenAPI."""

    target_class = "jobs.api.checkpoints.AttemptAuthentication"
    name = "attemptToken"
    priority = 1

    def get_security_definition(self, auto_schema: AutoSchema) -> dict[str, Any]:
        """Return the definition of HTTP bearer authentication."""
        return {
            "type": "http",
            "scheme": "bearer",
            "bearerFormat": "tgc_, the attempt's number and a signature",
            "description": "The token of a running attempt, in its TIDEGATE_CHECKPOINT_TOKEN.",
        }

"""How an attempt authenticates, as OpenAPI says it; loaded when the application starts, like
`tenants.api.openapi`."""

from __future__ import annotations

from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.openapi import AutoSchema


class AttemptScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """The token of an attempt in OpenAPI."""

    target_class = "jobs.api.checkpoints.AttemptAuthentication"
    name = "attemptToken"
    priority = 1

    def get_security_definition(self, auto_schema: AutoSchema) -> dict[str, Any]:
        """HTTP bearer authentication."""
        return {
            "type": "http",
            "scheme": "bearer",
            "bearerFormat": "tgc_, the attempt's number and a signature",
            "description": "What a running attempt finds in TIDEGATE_CHECKPOINT_TOKEN.",
        }

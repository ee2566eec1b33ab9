"""Generates the API's description from the code."""

from __future__ import annotations

from typing import Any

from drf_spectacular.generators import SchemaGenerator


def openapi_document() -> dict[str, Any]:
    """Return the OpenAPI 3.1 document of `/api/v1/`, independent of the caller's rights."""
    # drf-spectacular is not annotated.
    generator: Any = SchemaGenerator()  # type: ignore[no-untyped-call]
    document: dict[str, Any] = generator.get_schema(request=None, public=True)
    return document

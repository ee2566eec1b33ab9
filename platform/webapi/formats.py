"""Renders an answer as JSON, or as a download in CSV or YAML."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request

from primitives.errors import FieldError, InvalidRequest


class CsvRenderer(BaseRenderer):
    """Renders text that is CSV already. An error stays a problem document."""

    media_type = "text/csv"
    format = "csv"
    charset = "utf-8"

    def render(
        self,
        data: Any,
        accepted_media_type: str | None = None,
        renderer_context: Mapping[str, Any] | None = None,
    ) -> bytes:
        """Return the bytes of the answer."""
        return (data if isinstance(data, str) else json.dumps(data)).encode()


class YamlRenderer(CsvRenderer):
    """Renders text that is YAML already. An error stays a problem document."""

    media_type = "application/yaml"
    format = "yaml"


class NamedFormats(DefaultContentNegotiation):
    """Lets `?format=` name one of the view's formats, and refuses an unknown one."""

    def select_renderer(
        self,
        request: Request,
        renderers: Iterable[BaseRenderer],
        format_suffix: str | None = None,
    ) -> tuple[BaseRenderer, str]:
        """Return the renderer for the `format` parameter or, without it, for the Accept header."""
        chosen: tuple[BaseRenderer, str] = super().select_renderer(
            request, renderers, request.query_params.get("format", format_suffix)
        )
        return chosen

    def filter_renderers(
        self, renderers: Iterable[BaseRenderer], format: str
    ) -> list[BaseRenderer]:
        """Return the renderers of that format. Raises InvalidRequest when there is none."""
        known = {str(renderer.format): renderer for renderer in renderers}
        if format not in known:
            names = " or ".join(known)
            raise InvalidRequest(
                f"format must be {names}.", errors=[FieldError("/format", f"must be {names}")]
            )
        return [known[format]]

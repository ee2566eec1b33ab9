"""Requests compared with `frontend/openapi.json`: fake servers refuse what the real one would."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import httpx

_OPENAPI = Path(__file__).parents[2] / "frontend" / "openapi.json"


def require_declared(request: httpx.Request) -> None:
    """Raise AssertionError for an endpoint, a query parameter or a member that is not declared."""
    found = _operation(request.method.lower(), request.url.path)
    assert found is not None, f"{request.method} {request.url.path} is no endpoint"
    parameters, members = found
    unknown = set(request.url.params) - parameters
    assert not unknown, f"{request.method} {request.url.path} has no parameters {unknown}"
    if members is not None and request.headers.get("content-type") == "application/json":
        body = json.loads(request.content or b"{}")
        assert set(body) <= members, f"{request.url.path} has no members {set(body) - members}"


@cache
def _document() -> dict[str, Any]:
    return dict(json.loads(_OPENAPI.read_text()))


@cache
def _paths() -> list[tuple[re.Pattern[str], dict[str, Any]]]:
    """Return the endpoints, those without identifiers first."""
    paths = sorted(_document()["paths"].items(), key=lambda each: each[0].count("{"))
    return [(re.compile(re.sub(r"\{\w+\}", "[^/]+", path)), methods) for path, methods in paths]


def _operation(method: str, path: str) -> tuple[set[str], set[str] | None] | None:
    """Return the query parameters, and the members of the body where they are declared."""
    for pattern, methods in _paths():
        if pattern.fullmatch(path) and method in methods:
            operation = methods[method]
            named = (one for one in operation.get("parameters", []) if one["in"] == "query")
            return {one["name"] for one in named}, _members(operation)
    return None


def _members(operation: dict[str, Any]) -> set[str] | None:
    content = operation.get("requestBody", {}).get("content", {})
    schema = content.get("application/json", {}).get("schema", {})
    if reference := schema.get("$ref"):
        schema = _document()["components"]["schemas"][reference.rsplit("/", 1)[1]]
    return set(schema["properties"]) if "properties" in schema else None

"""Notices of deprecated operations: exact headers, OpenAPI, and a successor that exists."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.urls import resolve

from webapi.deprecation import Deprecation, deprecated, deprecation_of

REPO = Path(__file__).parents[3]
A_UUID = "01a1fd00-0000-7000-8000-000000000001"
FIRST = date(2026, 12, 1)


def test_headers_are_those_of_the_standards() -> None:
    """Planted: a time of the machine's zone; braces left in the link."""
    notice = Deprecation(FIRST, date(2027, 6, 1), "/api/v1/jobs/{job_id}/reasons")
    assert notice.headers({"job_id": A_UUID}) == {
        "Deprecation": "@1796083200",
        "Sunset": "Tue, 01 Jun 2027 00:00:00 GMT",
        "Link": f'</api/v1/jobs/{A_UUID}/reasons>; rel="successor-version"',
    }


def test_a_notice_is_180_days_at_least_and_names_a_path_of_the_api() -> None:
    """Planted: a notice of 179 days."""
    Deprecation(FIRST, FIRST + timedelta(days=180), "/api/v1/jobs")
    with pytest.raises(ValueError, match="180 days"):
        Deprecation(FIRST, FIRST + timedelta(days=179), "/api/v1/jobs")
    with pytest.raises(ValueError, match="below /api/v1/"):
        Deprecation(FIRST, FIRST + timedelta(days=180), "https://elsewhere.example/api/v1/jobs")


def test_only_the_marked_method_is_deprecated() -> None:
    class View:
        @deprecated(since=FIRST, sunset=date(2027, 6, 1), successor="/api/v1/jobs")
        def get(self) -> None:
            """Answer."""

        def post(self) -> None:
            """Answer."""

    assert deprecation_of(View, "GET") == Deprecation(FIRST, date(2027, 6, 1), "/api/v1/jobs")
    assert (deprecation_of(View, "POST"), deprecation_of(None, "GET")) == (None, None)


def _deprecated_operations() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """The deprecated operations of the written OpenAPI document: method, path, and what it says."""
    document = json.loads((REPO / "frontend/openapi.json").read_text())
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            if operation.get("deprecated"):
                yield method, path, operation


def test_every_deprecated_operation_names_its_end_and_a_successor_that_exists() -> None:
    """Planted: a successor at an address without a route; an operation without its mark."""
    marked = set()
    for method, path, operation in _deprecated_operations():
        view = resolve(re.sub(r"\{[^}]+\}", A_UUID, path)).func
        notice = deprecation_of(getattr(view, "cls", None), method)
        assert notice is not None, (method, path)
        marked.add(f"{method.upper()} {path}")
        assert operation["description"].endswith(notice.sentence)
        resolve(re.sub(r"\{[^}]+\}", A_UUID, notice.successor).partition("?")[0])
    assert marked == {"GET /api/v1/jobs/export"}

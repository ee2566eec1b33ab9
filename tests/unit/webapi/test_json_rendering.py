"""Answers are the same JSON that DRF's own renderer writes."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import orjson
import pytest
from rest_framework.renderers import JSONRenderer

from jobs.models import JobState
from webapi.renderers import FastJsonRenderer


@pytest.mark.parametrize(
    "value",
    [
        {"text": 'é "quoted" \\ / \u2028 \x7f', "none": None, "yes": True, "list": [1, -2, []]},
        {"id": UUID(int=7), "at": datetime(2026, 11, 21, 12, 0, 0, 123456, UTC)},
        {"day": date(2026, 11, 21), "span": timedelta(seconds=90), "price": Decimal("1.50")},
        {"state": JobState.QUEUED, "tuple": (1, 2), "set": {3}, "bytes": b"text"},
        {"float": 1.5, "most": 2**63 - 1, "least": -(2**63)},
        {"beyond 64 bits": 2**64, "and": -(2**70)},
        {1: "a key that is no text"},
        [],
        "",
        0,
    ],
)
def test_it_is_what_drf_writes(value: Any) -> None:
    ours = FastJsonRenderer().render(value)
    assert json.loads(ours) == json.loads(JSONRenderer().render(value))
    assert b": " not in ours


def test_nothing_is_no_bytes() -> None:
    assert FastJsonRenderer().render(None) == b""


def test_an_indent_may_be_asked_for() -> None:
    assert FastJsonRenderer().render({"a": 1}, "application/json; indent=2") == b'{\n  "a": 1\n}'


def test_what_is_written_already_goes_out_as_it_is() -> None:
    body = {"job": orjson.Fragment(b'{"a":[1]}')}
    assert FastJsonRenderer().render(body) == b'{"job":{"a":[1]}}'
    indented = FastJsonRenderer().render(body, "application/json; indent=2")
    assert json.loads(indented) == {"job": {"a": [1]}}

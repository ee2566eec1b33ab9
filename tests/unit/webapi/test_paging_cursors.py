"""Cursors, pages, and ids and times in texts."""

import base64
import json
from datetime import UTC, datetime
from uuid import UUID

import pytest
from django.test import RequestFactory
from rest_framework.request import Request

from primitives.errors import InvalidRequest
from webapi.paging import (
    Page,
    decode_cursor,
    encode_cursor,
    page_body,
    time_or_refuse,
    uuid_or_refuse,
)


def a_request(query: str = "") -> Request:
    return Request(RequestFactory().get("/api/v1/things" + query))


def encoded(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


@pytest.mark.parametrize("key", [["a"], [""], ["a/b/"], ["é", "=1+1"], ["x" * 1000]])
def test_a_cursor_is_read_back(key: list[str]) -> None:
    assert decode_cursor(encode_cursor(key), parts=len(key)) == key


@pytest.mark.parametrize(
    "cursor",
    [
        "",
        "x",
        "!!!!",
        "é",
        "a" * 2049,
        encoded("a"),
        encoded(["a", "b"]),
        encoded([]),
        encoded([1]),
        encoded([None]),
        encoded({"a": 1}),
        encoded(["a\x00"]),
        encoded(["\ud800"]),
        base64.urlsafe_b64encode(b"[" * 1500).decode(),
        base64.urlsafe_b64encode(b"9" * 1500).decode(),
        base64.urlsafe_b64encode(b"\xff\xfe").decode(),
        base64.b64encode(b'["\xc3\xbf\xc3\xbf\xc3\xbe>>>???"]').decode() + "\n",
    ],
)
def test_what_is_no_cursor_of_ours_is_refused(cursor: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        decode_cursor(cursor, parts=1)
    assert refusal.value.errors[0].pointer == "/cursor"


def test_the_address_of_the_next_page_keeps_the_filters() -> None:
    request = a_request("?name=a%26b&limit=2&cursor=old")
    body = page_body(request, Page([1, 2], "new"), lambda item: item * 10)
    assert body == {
        "items": [10, 20],
        "next": "/api/v1/things?name=a%26b&limit=2&cursor=new",
    }
    assert page_body(request, Page([1], None), str) == {"items": ["1"], "next": None}


def test_ids() -> None:
    text = "0193508e-2f4c-7000-8000-000000000001"
    assert uuid_or_refuse(text, "job") == UUID(text)
    assert uuid_or_refuse(text.upper(), "job") == UUID(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "abc",
        "0193508e2f4c70008000000000000001",
        "{0193508e-2f4c-7000-8000-000000000001}",
        "urn:uuid:0193508e-2f4c-7000-8000-000000000001",
        "0193508e-2f4c-7000-8000-00000000000１",
        "0193508e-2f4c-7000-8000-000000000001\n",
        "0193508e-2f4c-7000-8000-0000000000_1",
    ],
)
def test_other_ids_are_refused(text: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        uuid_or_refuse(text, "job")
    assert refusal.value.errors[0].pointer == "/job"


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("2026-11-21T12:00:00Z", datetime(2026, 11, 21, 12, tzinfo=UTC)),
        ("2026-11-21T13:00:00+01:00", datetime(2026, 11, 21, 12, tzinfo=UTC)),
        ("2026-11-21T12:00Z", datetime(2026, 11, 21, 12, tzinfo=UTC)),
        ("2026-11-21T12:00:00.500Z", datetime(2026, 11, 21, 12, 0, 0, 500_000, tzinfo=UTC)),
        ("0001-01-01T00:00:00Z", datetime(1, 1, 1, tzinfo=UTC)),
    ],
)
def test_times(text: str, time: datetime) -> None:
    assert time_or_refuse(text, "since") == time


@pytest.mark.parametrize(
    "text",
    [
        "",
        "now",
        "2026-11-21",
        "2026-11-21T12:00:00",
        "2026-11-21 12:00:00Z",
        "2026-13-01T00:00:00Z",
        "2026-11-21T25:00:00Z",
        "0001-01-01T00:00:00+14:00",
        "9999-12-31T23:59:59-14:00",
        "2026-11-21T12:00:00Z\n",
        "２026-11-21T12:00:00Z",
        "2026-11-21T12:00:00+99:99",
        "20261121T120000Z",
    ],
)
def test_other_times_are_refused(text: str) -> None:
    with pytest.raises(InvalidRequest):
        time_or_refuse(text, "since")

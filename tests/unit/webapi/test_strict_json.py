"""Bodies that a database, a log or a cluster would choke on are refused by sentence."""

from typing import Any

import pytest

from webapi.parsers import DEPTH_MAX, parse_json


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (b'{"a": 1}', {"a": 1}),
        (b'"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["', "[" * 30),
        (rb'"\"[{\\"', '"[{\\'),
        (rb'"\ud83d\ude00"', "😀"),
        (b"-0", 0),
        (b"9" * 30, int("9" * 30)),
        ("\ufeff".encode() + b"x", None),
        (b"[" * DEPTH_MAX + b"]" * DEPTH_MAX, ...),
    ],
)
def test_plain_json_is_read(body: bytes, value: Any) -> None:
    if value is None:
        with pytest.raises(ValueError, match="not JSON"):
            parse_json(body)
    elif value is ...:
        assert parse_json(body)
    else:
        assert parse_json(body) == value


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b'{"a": 1} x', "not JSON"),
        (b"\xff\xfe{\x00}\x00", "not UTF-8"),
        (b'{"a": "\xff"}', "not UTF-8"),
        (b'{"a": "\xed\xa0\x80"}', "not UTF-8"),
        ('{"a": 1}'.encode("utf-16"), "not UTF-8"),
        (rb'{"a": "\u0000"}', "NUL"),
        (rb'{"\u0000": 1}', "NUL"),
        (b'{"a": "\x00"}', "not JSON"),
        (rb'{"a": "\ud800"}', "surrogate"),
        (rb'{"a": ["\udfff x"]}', "surrogate"),
        (rb'{"\ud800": 1}', "surrogate"),
        (b"[" * 21 + b"]" * 21, "nested deeper than 20"),
        (b"[" * 100_000, "nested deeper than 20"),
        (b'{"a":' * 900 + b"1" + b"}" * 900, "nested deeper than 20"),
        (b'"a' + b"[" * 100, "not JSON"),
        (b"1" * 31, "more than 30 digits"),
        (b"-" + b"1" * 5000, "more than 30 digits"),
        (b"NaN", "NaN is not JSON"),
        (b"[Infinity]", "Infinity is not JSON"),
        (b"-Infinity", "-Infinity is not JSON"),
        (b'{"a": 1, "a": 2}', "appears twice"),
        (rb'{"a": 1, "\u0061": 2}', "appears twice"),
    ],
)
def test_everything_else_is_refused(body: bytes, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        parse_json(body)


def test_unclosed_quotes_are_scanned_once() -> None:
    """Quadratic scanning of this would take minutes; the time limit of a test is the judge."""
    with pytest.raises(ValueError, match="not JSON"):
        parse_json(b'{"a": ' + b'"\\"' * 1_000_000)
    with pytest.raises(ValueError, match="not JSON"):
        parse_json(b'"' + b"\\" * 2_000_001)


def test_a_float_too_large_is_infinite_and_left_to_the_fields() -> None:
    assert parse_json(b"1e400") == float("inf")

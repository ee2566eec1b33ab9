"""Strict JSON bodies. Values that the database or a cluster could not store are refused here."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import IO, Any, NoReturn

from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from django.http import HttpRequest
from rest_framework.exceptions import ParseError
from rest_framework.parsers import BaseParser

DEPTH_MAX = 20
INTEGER_DIGITS_MAX = 30
#: Matches a string literal, closed or not (so that no text is scanned twice), or one bracket.
_STRING_OR_BRACKET = re.compile(r'"(?:[^"\\]++|\\.?)*+(?:"|\Z)|[\[\]{}]', re.DOTALL)


def parse_json(body: bytes) -> Any:
    """Return the value of a JSON `body` in UTF-8.

    Raises ValueError with a sentence for the caller in these cases:

    - bad UTF-8 or bad JSON, NaN or an infinity,
    - an integer of more than 30 digits,
    - a key that appears twice in one object,
    - a NUL or a lone surrogate in any text,
    - nesting deeper than 20.
    """
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError("The body is not UTF-8.") from error
    _refuse_depth(text)
    try:
        value = json.loads(
            text,
            parse_int=_integer,
            parse_constant=_no_constant,
            object_pairs_hook=_object_without_duplicates,
        )
    except RecursionError as error:
        raise ValueError(f"The body is nested deeper than {DEPTH_MAX}.") from error
    except json.JSONDecodeError as error:
        raise ValueError(
            f"The body is not JSON: {error.msg} at line {error.lineno} column {error.colno}."
        ) from error
    _refuse_bad_text(value)
    return value


def _refuse_depth(text: str) -> None:
    depth = 0
    for match in _STRING_OR_BRACKET.finditer(text):
        if match[0] in "[{":
            depth += 1
            if depth > DEPTH_MAX:
                raise ValueError(f"The body is nested deeper than {DEPTH_MAX}.")
        elif match[0] in "]}":
            depth -= 1


def _integer(text: str) -> int:
    if len(text) > INTEGER_DIGITS_MAX:
        raise ValueError(f"A number has more than {INTEGER_DIGITS_MAX} digits.")
    return int(text)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON.")


def _object_without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result:
            raise ValueError(f"The key {key[:60]!r} appears twice in one object.")
        result[key] = value
    return result


def refuse_bad_text(text: str) -> None:
    """Raise ValueError when `text` holds a NUL or a lone surrogate, which cannot be stored."""
    if "\x00" in text:
        raise ValueError("A text contains a NUL character.")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("A text contains half of a surrogate pair.") from None


def _refuse_bad_text(value: Any) -> None:
    if isinstance(value, str):
        refuse_bad_text(value)
    elif isinstance(value, list):
        for item in value:
            _refuse_bad_text(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            refuse_bad_text(key)
            _refuse_bad_text(item)


def _whole_body(stream: IO[Any]) -> bytes:
    # Django keeps the bytes that `HttpRequest.body` has read, so that the fingerprint of an
    # Idempotency-Key can still be computed after parsing. `read` would consume them.
    limit = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
    body = stream.body if isinstance(stream, HttpRequest) else stream.read(limit + 1)
    if len(body) > limit:
        raise RequestDataTooBig(f"The body is larger than {limit} bytes.")
    return bytes(body)


class StrictJsonParser(BaseParser):
    """Parses `application/json` with an object at the top, up to the configured size."""

    media_type = "application/json"

    def parse(
        self,
        stream: IO[Any],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Return the body's object. Raises ParseError with the reason."""
        body = _whole_body(stream)
        try:
            value = parse_json(body)
        except ValueError as error:
            raise ParseError(str(error)) from error
        if not isinstance(value, dict):
            raise ParseError("The body must be a JSON object.")
        return value

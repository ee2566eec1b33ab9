"""Lists by opaque cursor. A page starts after a sort key, never at an offset."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, Generic, Protocol, TypeVar
from urllib.parse import urlencode
from uuid import UUID

from django.db.models import Model, QuerySet, UUIDField
from rest_framework.request import Request

from primitives.errors import FieldError, InvalidRequest
from webapi.parsers import refuse_bad_text

LIMIT_DEFAULT = 50
LIMIT_MAX = 500
#: Fits a path of 13 slugs, and more.
CURSOR_LENGTH_MAX = 2048
#: Enough for any 64-bit id.
_NUMBER_DIGITS_MAX = 18
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIME = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?(Z|[+-][0-9]{2}:[0-9]{2})"
)


class AskedPage(Protocol):
    """The part of `webapi.parameters.PageParameters` that a page needs."""

    @property
    def limit(self) -> int: ...
    @property
    def cursor(self) -> str | None: ...


Item = TypeVar("Item")
Row = TypeVar("Row", bound=Model)


@dataclass(frozen=True, slots=True)
class Page(Generic[Item]):
    """Some items in order, and the cursor of the next page (None at the end)."""

    items: Sequence[Item]
    next_cursor: str | None


def encode_cursor(key: Sequence[str]) -> str:
    """Return a sort key as an opaque cursor."""
    return base64.urlsafe_b64encode(json.dumps(list(key)).encode()).decode().rstrip("=")


def decode_cursor(cursor: str, *, parts: int) -> list[str]:
    """Return the sort key of `parts` texts in `cursor`. Raises InvalidRequest if there is none."""
    try:
        return _sort_key(cursor, parts)
    except (ValueError, RecursionError):
        raise _foreign_cursor() from None


def _foreign_cursor() -> InvalidRequest:
    return InvalidRequest(
        "The cursor is not valid for this list. Start again without it.",
        errors=[FieldError("/cursor", "is not a cursor of this list")],
    )


def _sort_key(cursor: str, parts: int) -> list[str]:
    if len(cursor) > CURSOR_LENGTH_MAX:
        raise ValueError("too long")
    padded = cursor + "=" * (-len(cursor) % 4)
    key = json.loads(base64.b64decode(padded.encode("ascii"), altchars=b"-_", validate=True))
    if not isinstance(key, list) or len(key) != parts:
        raise ValueError("not a key")
    for part in key:
        if not isinstance(part, str):
            raise ValueError("not a text")
        refuse_bad_text(part)
    return key


def page_by_id(asked: AskedPage, rows: QuerySet[Row], *, newest_first: bool = False) -> Page[Row]:
    """Return one page of `rows`, ordered by id (UUIDv7, or numbers), which is by creation."""
    limit = asked.limit
    if asked.cursor is not None:
        (text,) = decode_cursor(asked.cursor, parts=1)
        after = _id_or_refuse(rows.model, text)
        rows = rows.filter(pk__lt=after) if newest_first else rows.filter(pk__gt=after)
    found = list(rows.order_by("-pk" if newest_first else "pk")[: limit + 1])
    more = len(found) > limit
    items = found[:limit]
    return Page(items, encode_cursor([str(items[-1].pk)]) if more else None)


def page_by_text(asked: AskedPage, rows: QuerySet[Row], field: str) -> Page[Row]:
    """Return one page of `rows`, ordered by a unique text `field`.

    The field may cross relations ("node__path"). Use `select_related` for these, or each page costs
    one more query for its last row.
    """
    limit = asked.limit
    if asked.cursor is not None:
        (after,) = decode_cursor(asked.cursor, parts=1)
        rows = rows.filter(**{f"{field}__gt": after})
    found = list(rows.order_by(field)[: limit + 1])
    more = len(found) > limit
    items = found[:limit]
    last: Any = items[-1] if items else None
    for part in field.split("__"):
        last = getattr(last, part) if last is not None else None
    return Page(items, encode_cursor([last]) if more else None)


def page_body(request: Request, page: Page[Item], render: Callable[[Item], Any]) -> dict[str, Any]:
    """Return the answer for one page: its items and the address of the next page.

    Pass the `to_representation` of one serializer: a new one for each item copies all its fields,
    which takes most of the time of a page.
    """
    following = None
    if page.next_cursor is not None:
        query: Mapping[str, Any] = {
            **{key: request.query_params.getlist(key) for key in request.query_params},
            "cursor": [page.next_cursor],
        }
        following = f"{request.path}?{urlencode(query, doseq=True)}"
    return {"items": [render(item) for item in page.items], "next": following}


def _id_or_refuse(model: type[Model], text: str) -> Any:
    """Return the id of a row of `model` from a cursor's `text`. Raises InvalidRequest."""
    if isinstance(model._meta.pk, UUIDField):
        return uuid_or_refuse(text, "cursor")
    if text.isascii() and text.isdigit() and len(text) <= _NUMBER_DIGITS_MAX:
        return int(text)
    raise _foreign_cursor()


def uuid_or_refuse(text: str, name: str) -> UUID:
    """Return the UUID in `text`. Raises InvalidRequest with the parameter's name."""
    if not _UUID.fullmatch(text):
        raise InvalidRequest(
            f"{name} must be an id (UUID), not {text[:60]!r}.",
            errors=[FieldError(f"/{name}", "is not an id")],
        )
    return UUID(text)


def time_or_refuse(text: str, name: str) -> datetime:
    """Return the time in `text`, in UTC. Raises InvalidRequest with the parameter's name.

    The format is ISO 8601 with an offset ("2026-11-21T12:00:00Z"). A time without an offset is
    refused, because it is ambiguous. In a query, `+` must be written %2B.
    """
    try:
        if not _TIME.fullmatch(text):
            raise ValueError("not in the one accepted form")
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        raise InvalidRequest(
            f"{name} must be a time such as 2026-11-21T12:00:00Z, not {text[:60]!r}.",
            errors=[FieldError(f"/{name}", "is not a time")],
        ) from None


def day_or_refuse(text: str, name: str) -> date:
    """Return the day in `text`, "2026-11-21". Raises InvalidRequest with the parameter's name."""
    try:
        if not _DAY.fullmatch(text):
            raise ValueError("not in the one accepted form")
        return date.fromisoformat(text)
    except ValueError:
        raise InvalidRequest(
            f"{name} must be a day such as 2026-11-21, not {text[:60]!r}.",
            errors=[FieldError(f"/{name}", "is not a day")],
        ) from None


def refuse_body(request: Request) -> None:
    """Raise InvalidRequest where a request that takes no body has one."""
    if request.data:
        raise InvalidRequest("This request takes no body. Send none, or an empty object.")


def refuse_unknown_parameters(request: Request, known: set[str]) -> None:
    """Raise InvalidRequest for query parameters that are unknown, repeated or contain a NUL.

    A misspelt filter must not silently show everything.
    """
    errors = [
        FieldError(f"/{name[:60]}", "is not a parameter here")
        for name in request.query_params
        if name not in known
    ]
    errors += [
        FieldError(f"/{name}", "is given twice or contains a NUL")
        for name in request.query_params
        if name in known
        and (
            len(request.query_params.getlist(name)) > 1
            or "\x00" in request.query_params.get(name, "")
        )
    ]
    if errors:
        raise InvalidRequest(
            "Unknown or repeated query parameters. Known here: "
            + (", ".join(sorted(known)) or "none")
            + ".",
            errors=errors,
        )

"""Deprecated operations: declared once, told in headers, in OpenAPI and in the reference.

    @deprecated(since=date(2026, 12, 1), sunset=date(2027, 6, 1), successor="/api/v1/tides")
    @extend_schema(...)
    def get(self, request: Request) -> Response:

Every answer of the operation, a refusal too, has `Deprecation` (RFC 9745), `Sunset` (RFC 8594) and
a link to its successor (RFC 5829).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, TypeVar

from django.http import HttpRequest, HttpResponse
from django.utils.http import http_date

#: The shortest time between the notice and the end of an operation.
NOTICE_MIN = timedelta(days=180)

_MARK = "deprecation"
_Handler = TypeVar("_Handler", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Deprecation:
    """The notice of an operation: its days are UTC, and it answers until `sunset` begins.

    `successor` is the path to use instead, with the names of its own path in braces. Raises
    ValueError for a notice of less than 180 days, and for a successor outside of the API.
    """

    since: date
    sunset: date
    successor: str

    def __post_init__(self) -> None:
        if self.sunset - self.since < NOTICE_MIN:
            raise ValueError(f"A deprecated operation stays for {NOTICE_MIN.days} days at least.")
        if not self.successor.startswith("/api/v1/"):
            raise ValueError("The successor of a deprecated operation is a path below /api/v1/.")

    @property
    def sentence(self) -> str:
        """Return the notice as a sentence, for the description of the operation."""
        return f"Deprecated: it ends on {self.sunset}. Use {self.successor} instead."

    def headers(self, steps: Mapping[str, object]) -> dict[str, str]:
        """Return the headers of an answer. `steps` are the values in its own path."""
        return {
            "Deprecation": f"@{_epoch_s(self.since)}",
            "Sunset": http_date(_epoch_s(self.sunset)),
            "Link": f'<{self.successor.format(**steps)}>; rel="successor-version"',
        }


def deprecated(*, since: date, sunset: date, successor: str) -> Callable[[_Handler], _Handler]:
    """Mark a view's method as deprecated. Raises ValueError as `Deprecation`."""
    notice = Deprecation(since, sunset, successor)

    def mark(handler: _Handler) -> _Handler:
        setattr(handler, _MARK, notice)
        return handler

    return mark


def deprecation_of(view: object, method: str) -> Deprecation | None:
    """Return the notice of a view's method, such as GET, or None."""
    found: Deprecation | None = getattr(getattr(view, method.lower(), None), _MARK, None)
    return found


class DeprecationMiddleware:
    """Adds the headers of a notice to every answer of a deprecated operation."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        match = request.resolver_match
        if match is not None:
            notice = deprecation_of(getattr(match.func, "cls", None), request.method or "")
            if notice is not None:
                for name, value in notice.headers(match.kwargs).items():
                    response[name] = value
        return response


def _epoch_s(day: date) -> int:
    return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp())

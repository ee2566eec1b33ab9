"""Gives every request an id, and ends its limits of rows with it."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextvars import ContextVar

from django.http import HttpRequest, HttpResponse
from uuid_utils.compat import uuid7

from webapi.row_access import all_rows

_PLAIN_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_current: ContextVar[str] = ContextVar("request_id", default="")


def current_request_id() -> str:
    """Return the id of the current request, or "" outside of a request."""
    return _current.get()


class RequestIdMiddleware:
    """Takes a valid `X-Request-ID` from the caller or creates one, and returns it in the answer."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        given = request.headers.get("X-Request-ID", "")
        request_id = given if _PLAIN_ID.fullmatch(given) else str(uuid7())
        token = _current.set(request_id)
        try:
            response = self.get_response(request)
        finally:
            _current.reset(token)
        response["X-Request-ID"] = request_id
        return response


class RowAccessMiddleware:
    """Begins each request with all rows, since its sender is not known yet.

    Authentication then limits it to the sender's organizations, until the end of the request.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        with all_rows():
            return self.get_response(request)

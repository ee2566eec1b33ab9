"""ETag and If-Match: no caller overwrites a change that it has not seen."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from primitives.errors import PreconditionFailed, PreconditionRequired

_ETAG = re.compile(r'"v([0-9]{1,9})"')


def etag_of(version: int) -> str:
    """Return the strong ETag of a row's version."""
    return f'"v{version}"'


def required_etag(request: Request) -> str:
    """Return the ETag in `If-Match`. Raises PreconditionRequired when the header is absent."""
    header = request.headers.get("If-Match")
    if header is None:
        raise PreconditionRequired(
            "Send If-Match with the ETag that you got when you read this, so that you do not "
            "overwrite a change that you have not seen."
        )
    return header.strip()


def required_version(request: Request) -> int:
    """Return the version in `If-Match`.

    Raises PreconditionRequired when the header is absent. Raises PreconditionFailed when it is not
    one of our ETags. "*" and lists are refused, because a change must name the version it is based
    on.
    """
    header = required_etag(request)
    match = _ETAG.fullmatch(header)
    if match is None:
        raise PreconditionFailed(
            'If-Match must be one ETag as we sent it, for example "v3".', given=header[:60]
        )
    return int(match[1])


def tagged(response: Response) -> Response:
    """Return the response with the ETag of its body's `version`."""
    response.headers["ETag"] = etag_of(response.data["version"])
    return response


@contextmanager
def showing_current(show: Callable[[], Any]) -> Iterator[None]:
    """Give a PreconditionFailed of the block the `current` state, as `show` returns it."""
    try:
        yield
    except PreconditionFailed as stale:
        raise PreconditionFailed(stale.detail, current=show()) from stale


def refuse_stale(given: int, current: int, *, body: Any) -> None:
    """Raise PreconditionFailed, with the current state, unless the versions are equal."""
    if given != current:
        raise PreconditionFailed(
            f"This is now version {current}; your change was based on version {given}. "
            "Look at the current values and send your change again.",
            current=body,
        )

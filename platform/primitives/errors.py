"""Expected errors. Each carries a stable code, an HTTP status, and data fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class FieldError:
    """An error in one field of a request; `pointer` is an RFC 6901 JSON pointer."""

    pointer: str
    detail: str
    code: str = "invalid"


class PortalError(Exception):
    """Base of all expected errors. `detail` says what is wrong and what to do about it.

    Subclasses set `code` (stable, for programs), `http_status` and `title`. `data` holds the
    numbers that the sentence mentions, so that clients need not parse text.
    """

    code = "error"
    http_status = 400
    title = "The request was refused"

    def __init__(self, detail: str, *, errors: Sequence[FieldError] = (), **data: Any) -> None:
        super().__init__(detail)
        self.detail = detail
        self.errors = tuple(errors)
        self.data: Mapping[str, Any] = data


class InvalidRequest(PortalError):
    """The request is malformed or meaningless. Nothing was changed."""

    code = "invalid_request"
    http_status = 400
    title = "The request is not valid"


class Unauthenticated(PortalError):
    """The request has no valid session or token."""

    code = "unauthenticated"
    http_status = 401
    title = "Sign in first"


class Forbidden(PortalError):
    """The caller may see the object, but lacks the right to do this to it."""

    code = "forbidden"
    http_status = 403
    title = "You lack the right to do this"


class NotFound(PortalError):
    """The object does not exist, or the caller may not see it. Both look the same on purpose."""

    code = "not_found"
    http_status = 404
    title = "Not found"


class Conflict(PortalError):
    """The object's current state does not allow the request."""

    code = "conflict"
    http_status = 409
    title = "Not possible in this state"


class PreconditionFailed(PortalError):
    """`If-Match` names a version that is no longer the current one."""

    code = "stale_version"
    http_status = 412
    title = "Somebody else changed this first"


class PreconditionRequired(PortalError):
    """The request changes an object and lacks the required `If-Match`."""

    code = "precondition_required"
    http_status = 428
    title = "If-Match is required"


class IdempotencyKeyReused(PortalError):
    """The same `Idempotency-Key` came with a different body before."""

    code = "idempotency_key_reused"
    http_status = 422
    title = "This Idempotency-Key was used for another request"


class TooManyRequests(PortalError):
    """The caller sent too many requests; it may try again after `retry_after_s` seconds."""

    code = "too_many_requests"
    http_status = 429
    title = "Too many requests"

    def __init__(self, detail: str, *, retry_after_s: int) -> None:
        super().__init__(detail, retry_after_s=retry_after_s)

"""Renders every error as RFC 9457 `application/problem+json`, in one place."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from datetime import datetime
from http import HTTPStatus
from typing import Any

from django.core.exceptions import ObjectDoesNotExist, PermissionDenied, RequestDataTooBig
from django.db import (
    DatabaseError,
    DataError,
    IntegrityError,
    InterfaceError,
    OperationalError,
    ProgrammingError,
)
from django.http import Http404, HttpRequest, JsonResponse
from psycopg.errors import InsufficientPrivilege
from rest_framework import exceptions
from rest_framework.response import Response

from primitives.clock import SystemClock
from primitives.errors import FieldError, PortalError
from webapi.middleware import current_request_id

log = logging.getLogger(__name__)

CONTENT_TYPE = "application/problem+json"
DETAIL_LENGTH_MAX = 2_000
FIELD_DETAIL_LENGTH_MAX = 300
POINTER_LENGTH_MAX = 200
ERRORS_MAX = 50
#: Messages for a constraint that only a concurrent change can break. The key is the constraint's
#: name or, for a reference to a deleted row, the column that it refers to.
LAWS = {
    "job_is_of_a_team_that_is_not_archived": "The team was archived or deleted meanwhile and takes "
    "no jobs. Name another team.",
    "job_is_of_a_user_who_is_active": "The account was deactivated or deleted meanwhile and "
    "submits no jobs. Ask an administrator.",
    "job_is_for_a_cluster_that_is_not_archived": "The cluster was archived meanwhile and takes no "
    "jobs. Name another cluster, or none.",
    "job_is_for_pools_that_are_not_archived": "A pool was archived meanwhile and takes no jobs. "
    "Name another pool.",
    "tree_node_is_archived_with_its_parent": "Its parent was archived meanwhile. Restore the "
    "parent first.",
    "tenants_node_id": "The organization, department or team was deleted meanwhile. Name another "
    "one.",
    "tenants_user_id": "The user was deleted meanwhile. Name another one.",
    "clusters_cluster_id": "The cluster was deleted meanwhile. Name another one.",
}


class Deferred(PortalError, ABC):
    """A request that is not refused: it waits for a decision. Its transaction is rolled back."""

    @abstractmethod
    def store(self, now: datetime) -> dict[str, Any]:
        """Store the request, and return the body of a 202. Raises PortalError."""


def problem(
    status: int,
    *,
    code: str,
    title: str,
    detail: str,
    errors: tuple[FieldError, ...] = (),
    data: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the body of a problem document. `data` adds members, but never replaces standard ones.

    Long texts are cut, because an error may quote megabytes of what was sent.
    """
    body: dict[str, Any] = dict(data or {})
    body |= {
        "type": f"urn:tidegate:problem:{code}",
        "title": title,
        "status": status,
        "detail": _cut(detail, DETAIL_LENGTH_MAX),
        "code": code,
        "request_id": current_request_id(),
    }
    if errors:
        body["errors"] = [
            {
                "pointer": _cut(error.pointer, POINTER_LENGTH_MAX),
                "detail": _cut(error.detail, FIELD_DETAIL_LENGTH_MAX),
                "code": error.code,
            }
            for error in errors[:ERRORS_MAX]
        ]
    return body


def _cut(text: str, length_max: int) -> str:
    return text if len(text) <= length_max else text[: length_max - 1] + "…"


def render_problem(error: Exception, context: Mapping[str, Any]) -> Response | None:
    """Turn an expected error into a problem document. DRF's exception handler.

    An unreachable database is a 503, which the caller may retry. For any other unexpected error the
    result is None: DRF raises it again, and `server_error` answers with a logged 500. A
    deferred request is stored here, because the transaction of the view has ended.
    """
    if isinstance(error, Deferred):
        try:
            return Response(error.store(SystemClock().now()), status=202)
        except PortalError as refusal:
            error = refusal
    body, headers = _describe(error)
    if body is None:
        return None
    response = Response(body, status=body["status"], headers=headers)
    response.content_type = CONTENT_TYPE
    return response


def _describe(error: Exception) -> tuple[dict[str, Any] | None, dict[str, str]]:
    headers: dict[str, str] = {}
    if isinstance(error, PortalError):
        if error.http_status == 401:
            headers["WWW-Authenticate"] = "Bearer"
        if "retry_after_s" in error.data:
            headers["Retry-After"] = str(error.data["retry_after_s"])
        return (
            problem(
                error.http_status,
                code=error.code,
                title=error.title,
                detail=error.detail,
                errors=error.errors,
                data=error.data,
            ),
            headers,
        )
    if isinstance(error, Http404):
        return (
            problem(
                404,
                code="not_found",
                title="Not found",
                detail="It does not exist, or you may not see it.",
            ),
            headers,
        )
    if isinstance(error, ObjectDoesNotExist):
        # The row existed when the request began.
        log.warning("a row that a request needs is gone", exc_info=error)
        return (
            problem(
                404,
                code="not_found",
                title="Not found",
                detail="It was deleted meanwhile.",
            ),
            headers,
        )
    if (
        isinstance(error, ProgrammingError)
        and isinstance(error.__cause__, InsufficientPrivilege)
        and "row-level security" in str(error)
    ):
        log.error("row-level security refused what our own check let through", exc_info=error)
        return (
            problem(
                403,
                code="forbidden",
                title="You lack the right to do this",
                detail="It belongs to another organization.",
            ),
            headers,
        )
    if isinstance(error, PermissionDenied):
        error = exceptions.PermissionDenied()
    if isinstance(error, exceptions.ValidationError):
        found = tuple(_field_errors(error.detail, ""))
        return (
            problem(
                400,
                code="invalid_request",
                title="The request is not valid",
                detail="; ".join(
                    _cut(_sentence(item), FIELD_DETAIL_LENGTH_MAX) for item in found[:5]
                ),
                errors=found,
            ),
            headers,
        )
    if isinstance(error, exceptions.APIException):
        if isinstance(error, exceptions.NotAuthenticated | exceptions.AuthenticationFailed):
            error.status_code = 401
            headers["WWW-Authenticate"] = "Bearer"
        wait_s = getattr(error, "wait", None)
        if isinstance(error, exceptions.Throttled) and wait_s is not None:
            headers["Retry-After"] = str(int(wait_s) + 1)
        code = {401: "unauthenticated", 403: "forbidden", 400: "invalid_request"}.get(
            error.status_code, str(error.default_code)
        )
        return (
            problem(
                error.status_code,
                code=code,
                title=HTTPStatus(error.status_code).phrase,
                detail=str(error.detail),
            ),
            headers,
        )
    if isinstance(error, RequestDataTooBig):
        return (
            problem(
                413,
                code="too_large",
                title="The request is too large",
                detail="The body is larger than this server accepts.",
            ),
            headers,
        )
    if isinstance(error, DataError):
        return (
            problem(
                400,
                code="invalid_request",
                title="The request is not valid",
                detail="A value is out of the range that can be stored.",
            ),
            headers,
        )
    if isinstance(error, IntegrityError):
        constraint = _constraint_of(error)
        known = LAWS.get((constraint or "").rpartition("_fk_")[2])
        if known is None:
            log.warning("constraint refused a request", exc_info=error)
        return (
            problem(
                409,
                code="conflict",
                title="Not possible in this state",
                detail=known
                or "This change would break a rule of the database. Reload the current state "
                "and try again.",
                data={"constraint": constraint},
            ),
            headers,
        )
    if isinstance(error, OperationalError | InterfaceError):
        log.warning("database unavailable", exc_info=error)
        headers["Retry-After"] = "2"
        return (
            problem(
                503,
                code="unavailable",
                title="Try again in a moment",
                detail="The database does not answer; nothing was changed.",
            ),
            headers,
        )
    if isinstance(error, DatabaseError):
        log.error("unexpected database error", exc_info=error)
    return None, headers


def _constraint_of(error: IntegrityError) -> str | None:
    diagnostics = getattr(error.__cause__, "diag", None)
    name = getattr(diagnostics, "constraint_name", None)
    return str(name) if name else None


def _field_errors(detail: Any, pointer: str) -> Iterator[FieldError]:
    if isinstance(detail, Mapping):
        for key, value in detail.items():
            step = "" if key == "non_field_errors" else "/" + _escape(str(key))
            yield from _field_errors(value, pointer + step)
    elif isinstance(detail, list | tuple):
        for index, value in enumerate(detail):
            if isinstance(value, Mapping | list | tuple):
                yield from _field_errors(value, f"{pointer}/{index}")
            else:
                yield from _field_errors(value, pointer)
    else:
        yield FieldError(pointer, str(detail), getattr(detail, "code", "invalid"))


def _escape(step: str) -> str:
    return step.replace("~", "~0").replace("/", "~1")


def _sentence(error: FieldError) -> str:
    name = error.pointer.removeprefix("/")
    return f"{name}: {error.detail}" if name else error.detail


def server_error(request: HttpRequest) -> JsonResponse:
    """Answer a crash, without a trace, but with the id of its log lines. Django's handler500."""
    return JsonResponse(
        problem(
            500,
            code="internal_error",
            title="Internal error",
            detail="The error was logged under this request id.",
        ),
        status=500,
        content_type=CONTENT_TYPE,
    )


def not_found(request: HttpRequest, exception: Exception | None = None) -> JsonResponse:
    """Answer a request to a path that no route serves. Django's handler404."""
    return JsonResponse(
        problem(
            404,
            code="not_found",
            title="Not found",
            detail="No route serves this path; the API is described at /api/v1/openapi.json.",
        ),
        status=404,
        content_type=CONTENT_TYPE,
    )

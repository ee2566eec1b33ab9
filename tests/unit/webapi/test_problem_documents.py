"""Every refusal is one document, whatever raised it."""

import re
from typing import Any

import psycopg
import pytest
from django.core.exceptions import ObjectDoesNotExist, PermissionDenied, RequestDataTooBig
from django.db import (
    DataError,
    IntegrityError,
    InterfaceError,
    OperationalError,
    ProgrammingError,
    connection,
    transaction,
)
from django.http import Http404
from django.test import RequestFactory
from rest_framework import exceptions

from builders.portal_builders import a_company, an_actor
from primitives.errors import (
    Conflict,
    FieldError,
    Forbidden,
    IdempotencyKeyReused,
    InvalidRequest,
    NotFound,
    PreconditionFailed,
    PreconditionRequired,
    TooManyRequests,
    Unauthenticated,
)
from tenants.roles import Role
from webapi.middleware import RequestIdMiddleware, current_request_id
from webapi.problems import LAWS, not_found, render_problem, server_error


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (InvalidRequest("x"), 400, "invalid_request"),
        (Unauthenticated("x"), 401, "unauthenticated"),
        (Forbidden("x"), 403, "forbidden"),
        (NotFound("x"), 404, "not_found"),
        (Conflict("x"), 409, "conflict"),
        (PreconditionFailed("x"), 412, "stale_version"),
        (IdempotencyKeyReused("x"), 422, "idempotency_key_reused"),
        (PreconditionRequired("x"), 428, "precondition_required"),
        (TooManyRequests("x", retry_after_s=7), 429, "too_many_requests"),
        (Http404("x"), 404, "not_found"),
        (PermissionDenied("x"), 403, "forbidden"),
        (exceptions.ParseError("x"), 400, "invalid_request"),
        (exceptions.NotAuthenticated(), 401, "unauthenticated"),
        (exceptions.AuthenticationFailed(), 401, "unauthenticated"),
        (exceptions.MethodNotAllowed("PUT"), 405, "method_not_allowed"),
        (exceptions.NotAcceptable(), 406, "not_acceptable"),
        (exceptions.UnsupportedMediaType("text/plain"), 415, "unsupported_media_type"),
        (exceptions.Throttled(3), 429, "throttled"),
        (RequestDataTooBig(), 413, "too_large"),
        (DataError("x"), 400, "invalid_request"),
        (IntegrityError("x"), 409, "conflict"),
        (OperationalError("x"), 503, "unavailable"),
        (InterfaceError("x"), 503, "unavailable"),
    ],
)
def test_status_and_code(error: Exception, status: int, code: str) -> None:
    response = render_problem(error, {})
    assert response is not None
    assert response.status_code == status
    assert response.content_type == "application/problem+json"
    body = response.data
    assert body["status"] == status
    assert body["code"] == code
    assert body["type"] == f"urn:tidegate:problem:{code}"
    assert set(body) >= {"type", "title", "status", "detail", "code", "request_id"}
    assert body["title"]
    assert "{" not in body["title"]
    assert body["detail"]


@pytest.mark.parametrize("error", [ValueError("x"), ProgrammingError("x"), KeyError("x")])
def test_what_nobody_expected_is_no_problem_document(error: Exception) -> None:
    assert render_problem(error, {}) is None


@pytest.mark.parametrize(
    ("error", "header", "value"),
    [
        (Unauthenticated("x"), "WWW-Authenticate", "Bearer"),
        (exceptions.NotAuthenticated(), "WWW-Authenticate", "Bearer"),
        (TooManyRequests("x", retry_after_s=7), "Retry-After", "7"),
        (exceptions.Throttled(3), "Retry-After", "4"),
        (OperationalError("x"), "Retry-After", "2"),
    ],
)
def test_headers(error: Exception, header: str, value: str) -> None:
    response = render_problem(error, {})
    assert response is not None
    assert response.headers[header] == value


def test_data_is_added_and_replaces_nothing() -> None:
    response = render_problem(Conflict("no", status=1, code="x", title="y", current=3), {})
    assert response is not None
    assert response.data["status"] == 409
    assert response.data["code"] == "conflict"
    assert response.data["current"] == 3


def test_field_errors_are_pointers() -> None:
    error = exceptions.ValidationError(
        {
            "name": ["is long", "is bad"],
            "a/b~c": ["odd"],
            "scopes": {0: ["is none"]},
            "list": [{}, {"deep": ["is deep"]}],
            "non_field_errors": ["does not fit together"],
        }
    )
    response = render_problem(error, {})
    assert response is not None
    assert [(item["pointer"], item["detail"]) for item in response.data["errors"]] == [
        ("/name", "is long"),
        ("/name", "is bad"),
        ("/a~1b~0c", "odd"),
        ("/scopes/0", "is none"),
        ("/list/1/deep", "is deep"),
        ("", "does not fit together"),
    ]
    assert response.data["detail"].startswith("name: is long; name: is bad; a~1b~0c: odd")


def test_errors_of_ours_keep_their_pointers() -> None:
    response = render_problem(InvalidRequest("no", errors=[FieldError("/a", "b", "c")]), {})
    assert response is not None
    assert response.data["errors"] == [{"pointer": "/a", "detail": "b", "code": "c"}]


def test_what_is_quoted_is_cut() -> None:
    error = exceptions.ValidationError({f"{'k' * 300}{n}": ["x" * 10_000] for n in range(100)})
    for refusal in (error, InvalidRequest("y" * 10_000, errors=[FieldError("/a", "x" * 999)] * 99)):
        response = render_problem(refusal, {})
        assert response is not None
        assert len(response.data["detail"]) <= 2000
        assert len(response.data["errors"]) == 50
        assert {len(item["detail"]) for item in response.data["errors"]} == {300}
        assert all(item["detail"].endswith("x…") for item in response.data["errors"])
        assert all(len(item["pointer"]) <= 200 for item in response.data["errors"])


def test_the_name_of_a_broken_constraint_is_given() -> None:
    error = IntegrityError("x")
    error.__cause__ = psycopg.errors.UniqueViolation("x")
    response = render_problem(error, {})
    assert response is not None
    assert response.data["constraint"] is None


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("table", "detail"),
    [
        ("clusters_cluster", "The cluster was deleted meanwhile. Name another one."),
        ("tenants_user", "The user was deleted meanwhile. Name another one."),
    ],
)
def test_a_reference_to_what_is_gone_is_told_in_words(
    table: str, detail: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Planted: the whole name of the constraint looked up."""
    an_actor(a_company().organization, Role.ORGANIZATION_ADMIN)
    delete = f"DELETE FROM {table}; SET CONSTRAINTS ALL IMMEDIATE"
    with (
        pytest.raises(IntegrityError) as refusal,
        transaction.atomic(),
        connection.cursor() as cursor,
    ):
        cursor.execute(delete)
    response = render_problem(refusal.value, {})
    assert response is not None
    assert (response.status_code, response.data["detail"]) == (409, detail)
    assert response.data["constraint"].endswith(f"_fk_{table}_id")
    assert not caplog.records


@pytest.mark.django_db
def test_every_law_about_new_jobs_has_a_sentence() -> None:
    """Whoever submits while something is archived reads what to do. Planted: no sentence for
    pools."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT prosrc FROM pg_proc WHERE prosrc LIKE '%job_is_%'")
        sources = " ".join(source for (source,) in cursor.fetchall())
    laws = set(re.findall(r"CONSTRAINT = '(job_is_(?:of|for)_[a-z_]+)'", sources))
    assert laws == {
        "job_is_for_a_cluster_that_is_not_archived",
        "job_is_for_pools_that_are_not_archived",
        "job_is_of_a_team_that_is_not_archived",
        "job_is_of_a_user_who_is_active",
    }
    assert laws <= LAWS.keys()


def test_a_row_that_is_gone_is_told_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Planted: no answer to it."""
    response = render_problem(ObjectDoesNotExist("x"), {})
    assert response is not None
    assert (response.status_code, response.data["detail"]) == (404, "It was deleted meanwhile.")
    assert [record.getMessage() for record in caplog.records] == [
        "a row that a request needs is gone"
    ]


def test_pages_outside_of_the_api_framework() -> None:
    request = RequestFactory().get("/")
    for response, status in ((server_error(request), 500), (not_found(request), 404)):
        assert response.status_code == status
        assert response["Content-Type"] == "application/problem+json"


@pytest.mark.parametrize(
    ("given", "is_kept"),
    [
        ("abc-1.2_3", True),
        ("x" * 64, True),
        ("x" * 65, False),
        ("", False),
        ("a b", False),
        ("a\n", False),
        ("é", False),
    ],
)
def test_the_request_id_is_shared_and_plain(given: str, is_kept: bool) -> None:
    seen: list[str] = []

    def answer(request: Any) -> Any:
        seen.append(current_request_id())
        return not_found(request)

    request = RequestFactory().get("/", headers={"X-Request-ID": given})
    response = RequestIdMiddleware(answer)(request)
    assert response["X-Request-ID"] == seen[0]
    assert (seen[0] == given) is is_kept
    assert current_request_id() == ""

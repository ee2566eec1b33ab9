"""Who a request is from: a token or a session, never both, in at most three queries."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from builders.api_callers import (
    LONG_AGO,
    Caller,
    a_token,
    as_nobody,
    by_session,
    by_token,
    with_secret,
)
from builders.portal_builders import NOW, a_grant, a_user, an_organization
from primitives.errors import Unauthenticated
from tenants.models import AccessToken, User
from tenants.roles import Role
from tenants.tokens import actor_by_token, checksum_of, digest_of, new_secret

pytestmark = pytest.mark.django_db


def alice() -> User:
    organization = an_organization("ai-company")
    user = a_user(organization, "alice")
    a_grant(user, Role.ORGANIZATION_ADMIN, organization)
    return user


def refused(answer: Any, *, saying: str) -> None:
    assert answer.status_code == 401
    assert answer["Content-Type"] == "application/problem+json"
    assert answer["WWW-Authenticate"] == "Bearer"
    body = answer.json()
    assert body["code"] == "unauthenticated"
    assert saying in body["detail"]


def test_a_good_token_is_its_owner() -> None:
    answer = by_token(alice()).get("session")
    assert answer.status_code == 200
    assert answer.json()["user"]["login"] == "alice@ai-company"


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_the_scheme_has_no_case(scheme: str) -> None:
    _, secret = a_token(alice())
    assert Caller({"Authorization": f"{scheme} {secret}"}).get("tokens").status_code == 200


def test_nobody_is_refused() -> None:
    refused(as_nobody().get("tokens"), saying="")


@pytest.mark.parametrize(
    "header", ["Bearer", "Bearer ", "Bearer x", "Bearer tdg_", "Bearer a b c", "Bearer \u00ff" * 3]
)
def test_a_malformed_token_never_reaches_the_database(header: str) -> None:
    with CaptureQueriesContext(
        connection,
    ) as queries:
        answer = Caller({"Authorization": header}).get("tokens")
    refused(answer, saying="malformed or mistyped")
    assert len(queries) == 0


def test_a_bad_checksum_never_reaches_the_database() -> None:
    _, secret = a_token(alice())
    forged = secret[:-1] + ("0" if secret[-1] != "0" else "1")
    with CaptureQueriesContext(connection) as queries:
        refused(with_secret(forged).get("tokens"), saying="malformed or mistyped")
    assert len(queries) == 0


def test_an_unknown_token_with_a_good_checksum_is_refused() -> None:
    refused(with_secret(new_secret()).get("tokens"), saying="No such access token")


def test_another_secret_with_the_same_prefix_is_refused() -> None:
    _, secret = a_token(alice())
    body = secret[:12] + "0" * 22
    refused(with_secret(body + checksum_of(body)).get("tokens"), saying="No such access token")


def test_an_expired_token_is_refused() -> None:
    _, secret = a_token(alice(), expires_at=LONG_AGO + timedelta(days=1))
    refused(with_secret(secret).get("tokens"), saying="has expired")


def test_a_token_ends_at_its_expiry_and_not_before() -> None:
    token, secret = a_token(alice(), expires_at=NOW)
    assert actor_by_token(secret, now=NOW - timedelta(seconds=1)).token == token
    with pytest.raises(Unauthenticated):
        actor_by_token(secret, now=NOW)


def test_a_revoked_token_is_refused() -> None:
    _, secret = a_token(alice(), revoked_at=LONG_AGO)
    refused(with_secret(secret).get("tokens"), saying="was revoked")


def test_the_token_of_a_deactivated_user_is_refused() -> None:
    user = alice()
    _, secret = a_token(user)
    User.objects.filter(pk=user.pk).update(is_active=False)
    refused(with_secret(secret).get("tokens"), saying="is deactivated")


def test_a_bad_token_is_refused_even_beside_a_good_session() -> None:
    caller = by_session(alice())
    refused(
        caller.get("tokens", Authorization="Bearer " + new_secret()), saying="No such access token"
    )


def test_a_token_beside_a_session_is_used_alone_and_needs_no_csrf_token() -> None:
    owner = alice()
    bob = a_user(owner.organization, "bob")
    session = by_session(owner)
    _, secret = a_token(bob, ["read"])
    both = Caller({"Authorization": f"Bearer {secret}"}, session.client)
    assert both.get("session").json()["user"]["login"] == "bob@ai-company"
    made = both.post("tokens", {"name": "x", "scopes": ["read"], "expires_in_days": 1})
    assert made.status_code == 201
    assert AccessToken.objects.get(pk=made.json()["id"]).user == bob
    refusal = both.post("tokens", {"name": "x", "scopes": ["admin"], "expires_in_days": 1})
    assert refusal.status_code == 403


def test_a_session_changes_nothing_without_its_csrf_token() -> None:
    caller = by_session(alice())
    body = {"name": "x", "scopes": ["read"], "expires_in_days": 1}
    for csrf in ("", "x", "0" * 32):
        answer = caller.post("tokens", body, X_CSRFToken=csrf)
        assert answer.status_code == 403
        assert answer.json()["detail"].startswith("The CSRF check failed: CSRF token")
    assert AccessToken.objects.count() == 0
    assert caller.post("tokens", body).status_code == 201


def test_a_session_changes_nothing_from_a_foreign_origin() -> None:
    caller = by_session(alice())
    answer = caller.post(
        "tokens",
        {"name": "x", "scopes": ["read"], "expires_in_days": 1},
        Origin="https://evil.example",
    )
    assert answer.status_code == 403
    assert AccessToken.objects.count() == 0


def test_another_authorization_scheme_is_no_token() -> None:
    caller = by_session(alice())
    assert caller.get("tokens", Authorization="Basic YTpi").status_code == 200
    refused(Caller({"Authorization": "Basic YTpi"}).get("tokens"), saying="")


def test_a_token_costs_one_query_and_one_write_a_minute() -> None:
    token, secret = a_token(alice())
    caller = with_secret(secret)
    with CaptureQueriesContext(connection) as first:
        caller.get("session")
    with CaptureQueriesContext(connection) as second:
        caller.get("session")
    assert [query["sql"].split()[0] for query in first] == ["SELECT", "UPDATE"]
    assert [query["sql"].split()[0] for query in second] == ["SELECT"]
    token.refresh_from_db()
    assert token.last_used_at is not None
    assert abs(datetime.now(UTC) - token.last_used_at) < timedelta(minutes=1)


def test_last_use_is_written_when_a_minute_has_passed() -> None:
    token, secret = a_token(alice())
    for seconds, written in ((0, 0), (59, 0), (60, 60), (61, 60), (119, 60), (120, 120)):
        actor_by_token(secret, now=NOW + timedelta(seconds=seconds))
        token.refresh_from_db()
        assert token.last_used_at == NOW + timedelta(seconds=written)


def test_a_session_costs_three_queries() -> None:
    caller = by_session(alice())
    with CaptureQueriesContext(connection) as queries:
        assert caller.get("session").status_code == 200
    assert [query["sql"].split()[0] for query in queries] == ["SELECT"] * 3


def test_only_the_digest_is_stored() -> None:
    token, secret = a_token(alice())
    assert bytes(AccessToken.objects.get(pk=token.pk).digest) == digest_of(secret)
    stored = str(AccessToken.objects.filter(pk=token.pk).values())
    assert secret[12:] not in stored

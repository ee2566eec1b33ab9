"""Callers of the REST API for tests: by access token, by browser session, or nobody."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from django.test import Client

from tenants.models import AccessToken, User
from tenants.tokens import PREFIX_LENGTH, digest_of, new_secret

LONG_AGO = datetime(2001, 1, 1, tzinfo=UTC)
FAR_AHEAD = datetime(2199, 1, 1, tzinfo=UTC)


def a_token(
    user: User,
    scopes: Iterable[str] = ("admin",),
    *,
    created_at: datetime = LONG_AGO,
    expires_at: datetime = FAR_AHEAD,
    revoked_at: datetime | None = None,
) -> tuple[AccessToken, str]:
    """A stored token and its secret."""
    secret = new_secret()
    token = AccessToken.objects.create(
        user=user,
        name="a token",
        prefix=secret[:PREFIX_LENGTH],
        digest=digest_of(secret),
        scopes=list(scopes),
        created_at=created_at,
        expires_at=expires_at,
        revoked_at=revoked_at,
    )
    return token, secret


@dataclass(frozen=True)
class Caller:
    """Sends JSON with the same headers each time; answers have `.status_code` and `.json()`."""

    headers: dict[str, str]
    client: Client = field(default_factory=lambda: Client(enforce_csrf_checks=True))

    def get(self, path: str, **headers: str) -> Any:
        return self.send("GET", path, **headers)

    def post(self, path: str, body: Any, **headers: str) -> Any:
        return self.send("POST", path, body, **headers)

    def patch(self, path: str, body: Any, **headers: str) -> Any:
        return self.send("PATCH", path, body, **headers)

    def put(self, path: str, body: Any, **headers: str) -> Any:
        return self.send("PUT", path, body, **headers)

    def delete(self, path: str, **headers: str) -> Any:
        return self.send("DELETE", path, **headers)

    def send(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """`path` is below /api/v1/; `body` is JSON unless it is bytes already."""
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body)
        return self.client.generic(
            method,
            f"/api/v1/{path}",
            data,
            content_type="application/json",
            headers={**self.headers, **given},
        )


def by_token(user: User, scopes: Iterable[str] = ("admin",)) -> Caller:
    """Calls as `user` with a fresh token of these scopes."""
    return Caller({"Authorization": f"Bearer {a_token(user, scopes)[1]}"})


def with_secret(secret: str) -> Caller:
    """Calls with this token, good or bad."""
    return Caller({"Authorization": f"Bearer {secret}"})


def by_session(user: User) -> Caller:
    """Calls as `user` from a browser that sends its CSRF token."""
    caller = Caller({})
    caller.client.force_login(User.objects.get(pk=user.pk))
    csrf = caller.get("session").json()["csrf_token"]
    return Caller({"X-CSRFToken": csrf}, caller.client)


def as_nobody() -> Caller:
    """Calls without any credentials."""
    return Caller({})

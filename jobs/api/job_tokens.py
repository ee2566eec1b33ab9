"""Authentication by the token of a running job."""

from __future__ import annotations

from rest_framework.authentication import BaseAuthentication
from rest_framework.request import Request

from jobs.actions.job_tokens import TOKEN_PREFIX, actor_by_job_token
from primitives.errors import Unauthenticated
from tenants.access import Actor
from tenants.api.authentication import (
    BrowserSessionAuthentication,
    TokenAuthentication,
    limit_rows,
)
from tenants.models import User


class JobTokenAuthentication(BaseAuthentication):
    """`Authorization: Bearer tgj_...`, the token in the environment of a job.

    It is tried first. No other authentication is tried for a request with such a token.
    """

    def authenticate(self, request: Request) -> tuple[User, Actor] | None:
        """Return the job's owner, or None if the request has no such token.

        Raises Unauthenticated for an invalid token and for that of a job that has ended.
        """
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token.startswith(TOKEN_PREFIX):
            return None
        actor = actor_by_job_token(token.strip())
        if actor is None:
            raise Unauthenticated("This is not the token of a running job.")
        limit_rows(request, actor)
        return actor.user, actor

    def authenticate_header(self, request: Request) -> str:
        """Return a scheme, so that an anonymous request gets 401 instead of 403."""
        return "Bearer"


#: For views that serve jobs, too.
WITH_JOBS = (JobTokenAuthentication, TokenAuthentication, BrowserSessionAuthentication)

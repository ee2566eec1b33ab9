"""Identifies the sender of a request by an access token or a browser session, never by both."""

from __future__ import annotations

from typing import cast

from django.contrib.auth import get_user
from django.http import HttpRequest, HttpResponse
from rest_framework.authentication import BaseAuthentication, CSRFCheck
from rest_framework.permissions import AllowAny
from rest_framework.request import Request

from primitives.clock import SystemClock
from primitives.errors import Forbidden, Unauthenticated
from tenants.access import Actor, actor_of
from tenants.factor_policy import refuse_missing_factor
from tenants.models import User
from tenants.passwords import refuse_foreign_password
from tenants.session_store import store_of
from tenants.tokens import actor_by_token


class TokenAuthentication(BaseAuthentication):
    """`Authorization: Bearer tdg_...`. Only this header counts for a request that has it.

    It is checked first. So an invalid token is refused even with a valid session cookie. A valid
    token needs no CSRF token, because no browser adds it by itself.
    """

    def authenticate(self, request: Request) -> tuple[User, Actor] | None:
        """Return the token's owner, with the token's scopes.

        Raises Unauthenticated if it is invalid.
        """
        scheme, _, secret = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            return None
        actor = actor_by_token(secret.strip(), now=SystemClock().now())
        limit_rows(request, actor)
        return actor.user, actor

    def authenticate_header(self, request: Request) -> str:
        """Return the header that makes the status of an anonymous request 401 instead of 403."""
        return "Bearer"


class BrowserSessionAuthentication(BaseAuthentication):
    """The session cookie, with `X-CSRFToken` on every request that changes something."""

    def authenticate(self, request: Request) -> tuple[User, Actor] | None:
        """Return the session's user.

        Raises Forbidden when the CSRF token is missing or wrong. Raises PasswordChangeRequired
        where the view does not serve users who must change their password, and EnrolmentRequired
        where it does not serve those who must add a second factor.
        """
        user = get_user(request._request)
        if not isinstance(user, User):
            return None
        require_csrf_token(request._request)
        view, session = request.parser_context.get("view"), store_of(request._request)
        if not getattr(view, "serves_before_password_change", False):
            refuse_foreign_password(user)
        if not getattr(view, "serves_before_enrolment", False):
            refuse_missing_factor(user, session)
        session.note_use(address=request.META.get("REMOTE_ADDR", ""), now=SystemClock().now())
        actor = actor_of(user)
        limit_rows(request, actor)
        return user, actor


def limit_rows(request: Request, actor: Actor) -> None:
    """Limit the request to the rows of the actor's organization.

    A view for strangers is not limited: it looks for people and identity providers of any
    organization, whoever is signed in.
    """
    view = request.parser_context.get("view")
    if AllowAny not in getattr(view, "permission_classes", ()):
        actor.limit_rows()


def _no_response(request: HttpRequest) -> HttpResponse:
    return HttpResponse()


def require_csrf_token(request: HttpRequest) -> None:
    """Raise Forbidden for an unsafe request without a CSRF token or from another origin."""
    check = CSRFCheck(_no_response)
    check.process_request(request)
    reason = check.process_view(request, _no_response, (), {})
    if reason:
        raise Forbidden(
            f"The CSRF check failed: {reason} Load GET /api/v1/session and send the cookie "
            "csrftoken back as X-CSRFToken.",
        )


def actor_from(request: Request) -> Actor:
    """Return the actor of an authenticated request. Raises Unauthenticated when there is none."""
    actor = request.auth
    if not isinstance(actor, Actor):
        raise Unauthenticated("Send an access token, or sign in.")
    return actor


def actor_again(request: Request) -> Actor:
    """Return the actor of an authenticated request, with the rights of now.

    It is for answers that take minutes. Raises Unauthenticated once the token or the session of the
    request is over.
    """
    session = request._request.session
    # The session that was loaded for the request would hide its end.
    request._request.session = type(session)(session.session_key)
    for authenticator in request.authenticators or ():
        found = authenticator.authenticate(request)
        if found is not None:
            return cast("Actor", found[1])
    raise Unauthenticated("You were signed out.")

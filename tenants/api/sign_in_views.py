"""The browser session in use over HTTP: its start in one step or two, and its end."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from importlib.metadata import version
from typing import Any

from django.conf import settings
from django.contrib.auth import logout as end_session
from django.middleware.csrf import get_token
from drf_spectacular.utils import extend_schema
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from primitives.clock import SystemClock
from primitives.errors import Conflict
from tenants.access import Actor, actor_of
from tenants.api import factor_serializers as shapes
from tenants.api.authentication import actor_from, require_csrf_token
from tenants.api.serializers import SessionSerializer, SigningInSerializer
from tenants.devices import COOKIE_PATH, LIFETIME, cookie_name, cookie_value
from tenants.factor_codes import Factor, use_code
from tenants.factor_policy import has_second_factor, must_enrol
from tenants.models import User
from tenants.rights_summary import permissions_by_path
from tenants.second_step import (
    SECOND_STEP,
    SecondFactorRequired,
    begin_key_step,
    begin_second_step,
    key_proof,
    pass_second_step,
    record_second_step,
)
from tenants.session_store import SignInWay, store_of
from tenants.signing_in import authenticated_user, begin_session, record_session
from webapi.paging import refuse_body, refuse_unknown_parameters
from webapi.serializers import answers


def _session_body(request: Request, actor: Actor) -> dict[str, Any]:
    user = actor.user
    organization = user.organization
    body: dict[str, Any] = SessionSerializer(
        {
            "user": {
                "id": user.pk,
                "login": user.login,
                "username": user.username,
                "name": user.name,
                "organization": organization,
                "kind": user.kind,
                "must_change_password": user.must_change_password,
                "must_add_second_factor": actor.scopes is None
                and must_enrol(user, store_of(request._request)),
            },
            "grants": [
                {"role": role.value, "node_path": path.rstrip("/") or None}
                for role, path in actor.grants
            ],
            "permissions": permissions_by_path(actor),
            "csrf_token": get_token(request._request) if actor.scopes is None else "",
            "features": {"version": version("tidegate")},
        }
    ).data
    return body


class SessionView(APIView):
    """The browser session."""

    permission_classes = [AllowAny]
    serves_before_password_change = True
    serves_before_enrolment = True

    @extend_schema(
        operation_id="get_session",
        summary="Get the signed-in user",
        description="Sets the cookie csrftoken, which signing in needs, even with the answer 401.",
        responses=answers({200: SessionSerializer}),
    )
    def get(self, request: Request) -> Response:
        """Return the signed-in user."""
        get_token(request._request)
        refuse_unknown_parameters(request, set())
        return Response(_session_body(request, actor_from(request)))

    @extend_schema(
        operation_id="sign_in",
        summary="Sign in",
        description="A person with a second factor gets 401 with the code `second_factor_required` "
        "for a right password. POST /session/second-factor then signs in.",
        request=SigningInSerializer,
        responses=answers({200: SessionSerializer}, 403, 409),
        auth=[],
    )
    def post(self, request: Request) -> Response:
        """Sign in, under a new session key."""
        refuse_unknown_parameters(request, set())
        if request.auth is not None and actor_from(request).scopes is not None:
            raise Conflict("Send no access token when signing in.")
        require_csrf_token(request._request)
        body = SigningInSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        now = SystemClock().now()
        user, device = authenticated_user(
            login=body.validated_data["login"],
            password=body.validated_data["password"],
            address=request.META.get("REMOTE_ADDR", ""),
            cookies=request.COOKIES,
            now=now,
        )
        if has_second_factor(user):
            begin_second_step(request._request, user, device, now=now)
            raise SecondFactorRequired(SECOND_STEP)
        begin_session(request._request, user, way=SignInWay.PASSWORD, now=now)
        actor = actor_of(user)
        record_session(actor=actor, action="signed_in", now=now)
        return _signed_in(request, actor, device, now)

    @extend_schema(
        operation_id="sign_out", summary="Sign out", responses=answers({204: None}, 403, 409)
    )
    def delete(self, request: Request) -> Response:
        """Sign out."""
        refuse_unknown_parameters(request, set())
        actor = actor_from(request)
        if actor.scopes is not None:
            raise Conflict("An access token is not a session. Revoke it with DELETE /tokens/{id}.")
        record_session(actor=actor, action="signed_out", now=SystemClock().now())
        end_session(request._request)
        return Response(status=204)


class SecondStepView(APIView):
    """The second step of a sign-in with a password."""

    permission_classes = [AllowAny]
    authentication_classes = []

    @extend_schema(
        operation_id="sign_in_with_second_factor",
        summary="Sign in with a code, after the password",
        description="Needs the cookies of POST /session, within 10 minutes. Each code works once.",
        request=shapes.CodeSerializer,
        responses=answers({200: SessionSerializer}, 403, 409),
        auth=[],
    )
    def post(self, request: Request) -> Response:
        """Sign in, under a new session key."""
        refuse_unknown_parameters(request, set())
        require_csrf_token(request._request)
        body = shapes.CodeSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        now = SystemClock().now()
        code = body.validated_data["code"]
        return _second_step(request, lambda user: use_code(user, code, now=now), now)


class KeyChallengeView(APIView):
    """A challenge for a security key in the second step of a sign-in."""

    permission_classes = [AllowAny]
    authentication_classes = []

    @extend_schema(
        operation_id="begin_security_key_sign_in",
        summary="Get a challenge for a security key, after the password",
        description="Needs the cookies of POST /session, within 10 minutes.",
        request=None,
        responses=answers({200: shapes.KeyChallengeSerializer}, 403),
        auth=[],
    )
    def post(self, request: Request) -> Response:
        """Return the challenge."""
        refuse_unknown_parameters(request, set())
        require_csrf_token(request._request)
        refuse_body(request)
        options = begin_key_step(request._request, host=request.get_host(), now=SystemClock().now())
        return Response(shapes.KeyChallengeSerializer({"options": options}).data)


class KeyStepView(APIView):
    """The second step of a sign-in with a security key."""

    permission_classes = [AllowAny]
    authentication_classes = []

    @extend_schema(
        operation_id="sign_in_with_security_key",
        summary="Sign in with the answer of a security key, after the password",
        request=shapes.KeyAnswerSerializer,
        responses=answers({200: SessionSerializer}, 403),
        auth=[],
    )
    def post(self, request: Request) -> Response:
        """Sign in, under a new session key."""
        refuse_unknown_parameters(request, set())
        require_csrf_token(request._request)
        body = shapes.KeyAnswerSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        now = SystemClock().now()
        prove = key_proof(
            request._request,
            body.validated_data["credential"],
            host=request.get_host(),
            now=now,
        )
        return _second_step(request, prove, now)


def _second_step(
    request: Request, prove: Callable[[User], Factor | None], now: datetime
) -> Response:
    passed = pass_second_step(
        request._request,
        prove,
        address=request.META.get("REMOTE_ADDR", ""),
        cookies=request.COOKIES,
        now=now,
    )
    begin_session(request._request, passed.user, way=SignInWay.SECOND_FACTOR, now=now)
    actor = actor_of(passed.user)
    record_second_step(actor, passed, now=now)
    return _signed_in(request, actor, passed.device, now)


def _signed_in(request: Request, actor: Actor, device: str, now: datetime) -> Response:
    """Return the session, with the cookie that lets this browser sign in again unhindered."""
    response = Response(_session_body(request, actor))
    response.set_cookie(
        cookie_name(actor.user),
        cookie_value(actor.user, device, now=now),
        max_age=LIFETIME,
        path=COOKIE_PATH,
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="Strict",
    )
    return response

"""Device logins over HTTP: started and polled by a command, decided by a person."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from drf_spectacular.utils import extend_schema
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from identity.api import serializers as shapes
from identity.device_logins import (
    decide_device_login,
    poll_device_login,
    shown_code,
    start_device_login,
    waiting_login,
)
from identity.models import DeviceLogin
from primitives.clock import SystemClock
from primitives.errors import Conflict
from tenants.api.authentication import actor_from
from tenants.api.serializers import AccessTokenSerializer, NewAccessTokenSerializer
from tenants.roles import Scope
from tenants.session_store import store_of
from webapi.paging import refuse_body, refuse_unknown_parameters
from webapi.serializers import answers


class DeviceLoginList(APIView):
    """The start of a device login."""

    permission_classes = [AllowAny]

    @extend_schema(
        operation_id="start_device_login",
        summary="Start a login of a machine without a browser (RFC 8628)",
        description="The person opens `verification_uri` and enters `user_code`. Meanwhile the "
        "machine polls with `device_code`.",
        request=shapes.DeviceLoginStartSerializer,
        responses=answers({201: shapes.StartedDeviceLoginSerializer}, 409, 429),
        auth=[],
    )
    def post(self, request: Request) -> Response:
        """Start the login."""
        _refuse_token(request)
        body = shapes.DeviceLoginStartSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        now = SystemClock().now()
        started = start_device_login(
            host=body.validated_data["host"],
            scopes=[Scope(scope) for scope in body.validated_data["scopes"]],
            token_days=body.validated_data["token_days"],
            address=request.META.get("REMOTE_ADDR", ""),
            now=now,
        )
        code = shown_code(started.login.user_code)
        page = request.build_absolute_uri("/device")
        shown = shapes.StartedDeviceLoginSerializer(
            {
                "device_code": started.device_code,
                "user_code": code,
                "verification_uri": page,
                "verification_uri_complete": f"{page}?{urlencode({'code': code})}",
                "expires_in": int((started.login.expires_at - now).total_seconds()),
                "interval": started.login.interval_s,
            }
        ).data
        return Response(shown, status=201, headers={"Cache-Control": "no-store"})


class DeviceLoginToken(APIView):
    """The poll of a device login."""

    permission_classes = [AllowAny]

    @extend_schema(
        operation_id="poll_device_login",
        summary="Get the access token of an approved device login, once",
        description="Answers 400 with the code `authorization_pending` or `slow_down` before the "
        "decision, and `access_denied` or `expired_token` at the end of the login.",
        request=shapes.DeviceLoginPollSerializer,
        responses=answers({200: NewAccessTokenSerializer}, 403, 409),
        auth=[],
    )
    def post(self, request: Request) -> Response:
        """Return the token."""
        _refuse_token(request)
        body = shapes.DeviceLoginPollSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        token, secret = poll_device_login(
            device_code=body.validated_data["device_code"], now=SystemClock().now()
        )
        return Response(
            {**AccessTokenSerializer(token).data, "secret": secret},
            headers={"Cache-Control": "no-store"},
        )


class DeviceLoginDetail(APIView):
    """A device login that waits for a decision."""

    @extend_schema(
        operation_id="get_device_login",
        summary="Get the machine and the wanted rights behind a code",
        description="For browser sessions only. Several wrong codes make the caller wait.",
        responses=answers({200: shapes.DeviceLoginSerializer}, 403, 404, 429),
    )
    def get(self, request: Request, user_code: str) -> Response:
        """Get the login."""
        refuse_unknown_parameters(request, set())
        login = waiting_login(
            actor=actor_from(request), user_code=user_code, now=SystemClock().now()
        )
        return Response(_shown(request, login))


class DeviceLoginDecision(APIView):
    """A decision about a device login; `is_approved` is set in the route."""

    is_approved = False

    def _decide(self, request: Request, user_code: str) -> Response:
        refuse_unknown_parameters(request, set())
        refuse_body(request)
        login = decide_device_login(
            actor=actor_from(request),
            session_id=store_of(request._request).row_id,
            user_code=user_code,
            is_approved=self.is_approved,
            now=SystemClock().now(),
        )
        return Response(_shown(request, login))


class DeviceLoginApproval(DeviceLoginDecision):
    """The approval of a device login."""

    is_approved = True

    @extend_schema(
        operation_id="approve_device_login",
        summary="Let a machine act as you, with an access token",
        request=None,
        responses=answers({200: shapes.DeviceLoginSerializer}, 403, 404, 429),
    )
    def post(self, request: Request, user_code: str) -> Response:
        """Approve the login."""
        return self._decide(request, user_code)


class DeviceLoginRefusal(DeviceLoginDecision):
    """The refusal of a device login."""

    @extend_schema(
        operation_id="refuse_device_login",
        summary="Refuse a device login",
        request=None,
        responses=answers({200: shapes.DeviceLoginSerializer}, 403, 404, 429),
    )
    def post(self, request: Request, user_code: str) -> Response:
        """Refuse the login."""
        return self._decide(request, user_code)


def _refuse_token(request: Request) -> None:
    refuse_unknown_parameters(request, set())
    if request.auth is not None and actor_from(request).scopes is not None:
        raise Conflict("Send no access token when logging in.")


def _shown(request: Request, login: DeviceLogin) -> dict[str, Any]:
    address = request.META.get("REMOTE_ADDR", "")
    shown: dict[str, Any] = shapes.DeviceLoginSerializer(
        {
            "user_code": shown_code(login.user_code),
            "host": login.host,
            "address": login.address,
            "is_own_address": login.address == address != "",
            "scopes": login.scopes,
            "token_days": login.token_days,
            "created_at": login.created_at,
            "expires_at": login.expires_at,
        }
    ).data
    return shown

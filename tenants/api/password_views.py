"""Passwords over HTTP: they stand in bodies only, never in an address."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib.auth import update_session_auth_hash
from drf_spectacular.utils import extend_schema
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from primitives.clock import SystemClock
from tenants.api import serializers as shapes
from tenants.api.authentication import actor_from
from tenants.models import PasswordLink
from tenants.password_mail import link_of, mail_link
from tenants.passwords import change_password, make_password_link, use_password_link
from webapi.idempotency import respond_once
from webapi.paging import refuse_body, refuse_unknown_parameters
from webapi.serializers import IDEMPOTENCY_KEY, answers


class PasswordView(APIView):
    """One's own password."""

    serves_before_password_change = True

    @extend_schema(
        operation_id="change_password",
        summary="Change one's own password; all other sessions end",
        request=shapes.PasswordChangeSerializer,
        responses=answers({200: shapes.LoginSerializer}, 403, 409, 429),
    )
    def post(self, request: Request) -> Response:
        """Another password; this session goes on under a new key."""
        refuse_unknown_parameters(request, set())
        actor = actor_from(request)
        body = shapes.PasswordChangeSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        user = change_password(
            actor=actor,
            old_password=body.validated_data["old_password"],
            new_password=body.validated_data["new_password"],
            address=request.META.get("REMOTE_ADDR", ""),
            cookies=request.COOKIES,
            now=SystemClock().now(),
        )
        if actor.scopes is None:
            update_session_auth_hash(request._request, user)
        return Response(shapes.LoginSerializer(user).data)


class UserPasswordLink(APIView):
    """A link for somebody else's next password."""

    @extend_schema(
        operation_id="make_password_link",
        summary="Make a link with which a person sets their password, once, within an hour",
        description="Mailed where mail is configured and the person has an address; else shown "
        "this once. An earlier link stops working.",
        parameters=[IDEMPOTENCY_KEY],
        request=None,
        responses=answers({201: shapes.PasswordLinkSerializer}, 403, 404, 409, 422),
    )
    def post(self, request: Request, user_id: UUID) -> Response:
        """A new link."""
        refuse_unknown_parameters(request, set())
        actor, now = actor_from(request), SystemClock().now()
        refuse_body(request)
        made: list[tuple[PasswordLink, str]] = []

        def act() -> tuple[int, dict[str, Any]]:
            link, secret = make_password_link(actor=actor, user_id=user_id, now=now)
            made.append((link, secret))
            return 201, password_link_body(link)

        response = respond_once(request, principal_id=actor.user.pk, now=now, act=act)
        for link, secret in made:
            response.data = delivered_link_body(link, secret)
        response["Cache-Control"] = "no-store"
        return response


class PasswordLinkUse(APIView):
    """The holder of a link sets the password; the link is all that is known of them."""

    authentication_classes = []
    permission_classes = [AllowAny]

    @extend_schema(
        operation_id="use_password_link",
        summary="Set a password with a link",
        request=shapes.PasswordLinkUseSerializer,
        responses=answers({200: shapes.LoginSerializer}, 404),
        auth=[],
    )
    def post(self, request: Request) -> Response:
        """Set it and say who can sign in now."""
        refuse_unknown_parameters(request, set())
        body = shapes.PasswordLinkUseSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        user = use_password_link(
            secret=body.validated_data["secret"],
            password=body.validated_data["password"],
            now=SystemClock().now(),
        )
        return Response(shapes.LoginSerializer(user).data)


def password_link_body(
    made: PasswordLink, *, sent_to: str | None = None, link: str | None = None
) -> dict[str, Any]:
    """The link as it is shown; no stored answer has its secret."""
    body: dict[str, Any] = shapes.PasswordLinkSerializer(
        {"user": made.user, "expires_at": made.expires_at, "sent_to": sent_to, "link": link}
    ).data
    return body


def delivered_link_body(link: PasswordLink, secret: str) -> dict[str, Any]:
    """Mail the link, or show it: to be called once, after the transaction that made it."""
    if mail_link(link.user, secret, expires_at=link.expires_at):
        return password_link_body(link, sent_to=link.user.email)
    return password_link_body(link, link=link_of(secret))

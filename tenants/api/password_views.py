"""Passwords over HTTP. They are in bodies only, never in an address."""

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
from tenants.invitations import accept, is_invitation
from tenants.models import PasswordLink
from tenants.password_mail import link_of, mail_link
from tenants.passwords import change_password, make_password_link, use_password_link
from webapi.idempotency import respond_once
from webapi.paging import refuse_body, refuse_unknown_parameters
from webapi.serializers import IDEMPOTENCY_KEY, answers


class PasswordView(APIView):
    """The caller's own password."""

    serves_before_password_change = True
    # A password that an administrator chose is changed before the second factor is added.
    serves_before_enrolment = True

    @extend_schema(
        operation_id="change_password",
        summary="Change your own password; all other sessions end",
        request=shapes.PasswordChangeSerializer,
        responses=answers({200: shapes.LoginSerializer}, 403, 409),
    )
    def post(self, request: Request) -> Response:
        """Change the password. This session continues under a new key."""
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
    """A password link for another user."""

    @extend_schema(
        operation_id="make_password_link",
        summary="Create a link with which a person sets a password, once, within an hour",
        description="The link is mailed if mail is configured and the person has an address. "
        "Otherwise the answer contains it, once. An earlier link stops working.",
        parameters=[IDEMPOTENCY_KEY],
        request=None,
        responses=answers({201: shapes.PasswordLinkSerializer}, 403, 404, 409, 422),
    )
    def post(self, request: Request, user_id: UUID) -> Response:
        """Create a link."""
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
    """Sets a password with a link, which is the caller's only identification."""

    authentication_classes = []
    permission_classes = [AllowAny]

    @extend_schema(
        operation_id="use_password_link",
        summary="Set a password with a link, or accept an invitation",
        request=shapes.PasswordLinkUseSerializer,
        responses=answers({200: shapes.LoginSerializer}, 404, 409),
        auth=[],
    )
    def post(self, request: Request) -> Response:
        """Set the password, and return the login."""
        refuse_unknown_parameters(request, set())
        body = shapes.PasswordLinkUseSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        secret = body.validated_data["secret"]
        use = accept if is_invitation(secret) else use_password_link
        user = use(
            secret=secret,
            password=body.validated_data["password"],
            now=SystemClock().now(),
        )
        return Response(shapes.LoginSerializer(user).data)


def password_link_body(
    made: PasswordLink, *, sent_to: str | None = None, link: str | None = None
) -> dict[str, Any]:
    """Return the link's answer. It has no secret, as stored answers must not have one."""
    body: dict[str, Any] = shapes.PasswordLinkSerializer(
        {"user": made.user, "expires_at": made.expires_at, "sent_to": sent_to, "link": link}
    ).data
    return body


def delivered_link_body(link: PasswordLink, secret: str) -> dict[str, Any]:
    """Mail the link, or return it in the answer.

    Call it once, after the transaction that created the link.
    """
    if mail_link(link.user, secret, expires_at=link.expires_at):
        return password_link_body(link, sent_to=link.user.email)
    return password_link_body(link, link=link_of(secret))

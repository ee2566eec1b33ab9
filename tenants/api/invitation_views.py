"""Invitations over HTTP."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any
from uuid import UUID

from django.core.validators import EmailValidator
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from primitives.clock import SystemClock
from tenants.access import get_visible, require
from tenants.api.authentication import actor_from
from tenants.invitations import Invited, invite, open_invitations, send_again, withdraw
from tenants.models import Invitation, Node
from tenants.names import NAME_LENGTH_MAX, SLUG_LENGTH_MAX, USERNAME_PATTERN
from tenants.password_mail import link_of, mail_invitation
from tenants.roles import Permission, Role
from webapi.idempotency import respond_once
from webapi.paging import page_body, page_by_id, refuse_body, refuse_unknown_parameters
from webapi.parameters import PageParameters
from webapi.serializers import (
    IDEMPOTENCY_KEY,
    StrictSerializer,
    TextField,
    UtcTimeField,
    answers,
    page_of,
)


class InvitationSerializer(serializers.Serializer[Any]):
    """An open invitation."""

    id = serializers.UUIDField()
    node = serializers.CharField(source="node.display_path")
    email = serializers.CharField()
    username = serializers.CharField(help_text="Of the account that accepting it creates")
    name = serializers.CharField()
    role = serializers.ChoiceField(choices=[role.value for role in Role])
    role_expires_at = serializers.DateTimeField(
        allow_null=True, help_text="End of the role; null: it does not expire"
    )
    invited_by = serializers.CharField(source="invited_by.login")
    created_at = serializers.DateTimeField()
    expires_at = serializers.DateTimeField(help_text="From then on its link does not work")


class SentInvitationSerializer(InvitationSerializer):
    """An invitation that was just sent."""

    is_mailed = serializers.BooleanField()
    link = serializers.CharField(
        allow_null=True,
        help_text="Path and fragment of the page, shown once. null if it was mailed, and in the "
        "repeated answer to an Idempotency-Key",
    )


class InvitationCreationSerializer(StrictSerializer):
    """A person to invite."""

    email = TextField(
        max_length=254, validators=[EmailValidator("must be an address such as ana@example.org")]
    )
    role = serializers.ChoiceField(choices=[role.value for role in Role])
    name = TextField(
        max_length=NAME_LENGTH_MAX,
        required=False,
        allow_null=True,
        default=None,
        help_text="Default: the username",
    )
    username = TextField(
        max_length=SLUG_LENGTH_MAX,
        required=False,
        allow_null=True,
        default=None,
        help_text=f"`{USERNAME_PATTERN}`. Default: made from the address",
    )
    role_expires_at = UtcTimeField(
        required=False,
        allow_null=True,
        default=None,
        help_text="End of the role. Default: it does not expire",
    )

    def to_invited(self) -> Invited:
        """Return the person to invite."""
        given = self.validated_data
        return Invited(
            email=given["email"],
            role=Role(given["role"]),
            name=given["name"],
            username=given["username"],
            role_expires_at=given["role_expires_at"],
        )


class InvitationList(APIView):
    """Open invitations to a node."""

    @extend_schema(
        operation_id="list_invitations",
        summary="List the open invitations to a node, oldest first",
        parameters=PageParameters.in_openapi(),
        responses=answers({200: page_of(InvitationSerializer)}, 403, 404),
    )
    def get(self, request: Request, tree_node_id: UUID) -> Response:
        """List invitations."""
        asked, actor = PageParameters.read(request), actor_from(request)
        node = get_visible(
            actor, Node.objects.all(), Permission.VIEW_TREE, path_field="path", pk=tree_node_id
        )
        require(actor, Permission.MANAGE_MEMBERS, node)
        page = page_by_id(asked, open_invitations(actor).filter(node=node))
        return Response(page_body(request, page, InvitationSerializer().to_representation))

    @extend_schema(
        operation_id="invite_member",
        summary="Invite a person without an account to a node",
        description="The link is mailed if mail is configured. Otherwise the answer contains it, "
        "once. It works for 7 days, creates the account, and sets its password.",
        parameters=[IDEMPOTENCY_KEY],
        request=InvitationCreationSerializer,
        responses=answers({201: SentInvitationSerializer}, 403, 404, 409, 422),
    )
    def post(self, request: Request, tree_node_id: UUID) -> Response:
        """Invite a person."""
        refuse_unknown_parameters(request, set())
        actor = actor_from(request)
        body = InvitationCreationSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        return _sent(
            request,
            201,
            lambda now: invite(
                actor=actor, node_id=tree_node_id, invited=body.to_invited(), now=now
            ),
        )


class InvitationResend(APIView):
    """A new link for an invitation."""

    @extend_schema(
        operation_id="resend_invitation",
        summary="Send an invitation again, with a new link for 7 days",
        parameters=[IDEMPOTENCY_KEY],
        request=None,
        responses=answers({200: SentInvitationSerializer}, 403, 404, 422),
    )
    def post(self, request: Request, invitation_id: UUID) -> Response:
        """Send it again."""
        refuse_unknown_parameters(request, set())
        refuse_body(request)
        actor = actor_from(request)
        return _sent(
            request,
            200,
            lambda now: send_again(actor=actor, invitation_id=invitation_id, now=now),
        )


class InvitationDetail(APIView):
    """An open invitation."""

    @extend_schema(
        operation_id="withdraw_invitation",
        summary="Withdraw an invitation",
        responses=answers({204: None}, 404),
    )
    def delete(self, request: Request, invitation_id: UUID) -> Response:
        """Withdraw it."""
        refuse_unknown_parameters(request, set())
        withdraw(actor=actor_from(request), invitation_id=invitation_id, now=SystemClock().now())
        return Response(status=204)


def _sent(
    request: Request, status: int, make: Callable[[datetime], tuple[Invitation, str]]
) -> Response:
    """Return the invitation, mailed or with its link. No stored answer has the link."""
    now = SystemClock().now()
    made: list[tuple[Invitation, str]] = []

    def act() -> tuple[int, dict[str, Any]]:
        made.append(make(now))
        return status, invitation_body(made[0][0])

    response = respond_once(request, principal_id=actor_from(request).user.pk, now=now, act=act)
    for invitation, secret in made:
        response.data = delivered_invitation_body(invitation, secret)
    response["Cache-Control"] = "no-store"
    return response


def invitation_body(invitation: Invitation) -> dict[str, Any]:
    """Return the answer's body for an invitation whose link is not sent yet."""
    return _body(invitation, is_mailed=False, link=None)


def delivered_invitation_body(invitation: Invitation, secret: str) -> dict[str, Any]:
    """Mail an invitation where mail is configured. Return the answer's body, else with its link."""
    is_mailed = mail_invitation(invitation, secret)
    return _body(invitation, is_mailed=is_mailed, link=None if is_mailed else link_of(secret))


def _body(invitation: Invitation, *, is_mailed: bool, link: str | None) -> dict[str, Any]:
    shown = InvitationSerializer(invitation).data
    return {**shown, "is_mailed": is_mailed, "link": link}

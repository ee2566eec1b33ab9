"""Grants of roles over HTTP."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from primitives.clock import SystemClock
from primitives.errors import InvalidRequest, NotFound
from tenants.access import Actor
from tenants.api.authentication import actor_from
from tenants.api.serializers import LOGIN_LENGTH_MAX, PATH_LENGTH_MAX
from tenants.granting import GrantChange, change_grant, grant_role, revoke_role, visible_grants
from tenants.roles import PERMISSIONS, SENTENCES, Permission, Role
from webapi.idempotency import respond_once
from webapi.paging import page_body, page_by_id, refuse_unknown_parameters
from webapi.parameters import PageParameters, choice, text
from webapi.preconditions import required_version, showing_current, tagged
from webapi.serializers import (
    IDEMPOTENCY_KEY,
    StrictSerializer,
    TextField,
    UtcTimeField,
    answers,
    etag_header,
    if_match_header,
    page_of,
)

_IF_MATCH = if_match_header("The ETag of the version on which the change is based")
_ETAG = etag_header("Version")


class RoleGrantParameters(PageParameters):
    """The filters of the list of role grants."""

    user: str | None = text("Login")
    node: str | None = text("Path of the node itself")
    role: str | None = choice(Role)


class RoleGrantSerializer(serializers.Serializer[Any]):
    """A user's role on a node and everything below it."""

    id = serializers.UUIDField()
    user = serializers.CharField(source="user.login")
    role = serializers.ChoiceField(choices=[role.value for role in Role])
    node = serializers.CharField(
        source="node.display_path", allow_null=True, default=None, help_text="null: the platform"
    )
    granted_by = serializers.CharField(
        source="granted_by.login",
        allow_null=True,
        default=None,
        help_text="null: granted during setup, or by a group",
    )
    group = serializers.CharField(
        help_text="The group of the identity provider that gives it; empty: a person granted it"
    )
    created_at = serializers.DateTimeField()
    expires_at = serializers.DateTimeField(
        allow_null=True, help_text="From then on it gives no rights; null: it does not expire"
    )
    version = serializers.IntegerField(help_text='The ETag is "v" and this number, quoted')


class RoleGrantCreationSerializer(StrictSerializer):
    """A role to grant."""

    user = TextField(max_length=LOGIN_LENGTH_MAX, help_text="Login")
    role = serializers.ChoiceField(choices=[role.value for role in Role])
    node = TextField(
        max_length=PATH_LENGTH_MAX,
        allow_null=True,
        required=False,
        default=None,
        help_text="Path of the node; null for platform_admin only",
    )
    expires_at = UtcTimeField(
        required=False,
        allow_null=True,
        default=None,
        help_text="From then on the role gives no rights. Default: it does not expire",
    )


class RoleGrantChangeSerializer(StrictSerializer):
    """The changeable fields of a grant."""

    role = serializers.ChoiceField(choices=[role.value for role in Role], required=False)
    expires_at = UtcTimeField(required=False, allow_null=True, help_text="null lifts the expiry")

    def to_change(self) -> GrantChange:
        """Return the change. Raises InvalidRequest without any field."""
        given = self.validated_data
        if not given:
            raise InvalidRequest("Nothing to change: send role or expires_at.")
        return GrantChange(
            role=Role(given["role"]) if "role" in given else None,
            sets_expiry="expires_at" in given,
            expires_at=given.get("expires_at"),
        )


class RoleSerializer(serializers.Serializer[Any]):
    """A role, with its rights."""

    role = serializers.ChoiceField(choices=[role.value for role in Role])
    sentence = serializers.CharField(help_text="The rights, in one sentence")
    permissions = serializers.ListField(
        child=serializers.ChoiceField(choices=[p.value for p in Permission])
    )


class RoleList(APIView):
    """All roles."""

    @extend_schema(
        operation_id="list_roles",
        summary="List all roles, with the rights of each",
        responses=answers({200: page_of(RoleSerializer)}),
    )
    def get(self, request: Request) -> Response:
        """List all roles."""
        refuse_unknown_parameters(request, set())
        roles = [
            {"role": role, "sentence": SENTENCES[role], "permissions": sorted(PERMISSIONS[role])}
            for role in Role
        ]
        return Response({"items": RoleSerializer(roles, many=True).data, "next": None})


class RoleGrantList(APIView):
    """Grants of roles to users on nodes."""

    @extend_schema(
        operation_id="list_role_grants",
        summary="List role grants, oldest first",
        parameters=RoleGrantParameters.in_openapi(),
        responses=answers({200: page_of(RoleGrantSerializer)}),
    )
    def get(self, request: Request) -> Response:
        """List grants, oldest first."""
        asked = RoleGrantParameters.read(request)
        grants = visible_grants(actor_from(request))
        if asked.user is not None:
            grants = grants.filter(user__login=asked.user)
        if asked.node is not None:
            grants = grants.filter(node__path=asked.node.rstrip("/") + "/")
        if asked.role is not None:
            grants = grants.filter(role=asked.role)
        page = page_by_id(asked, grants)
        return Response(page_body(request, page, RoleGrantSerializer().to_representation))

    @extend_schema(
        operation_id="grant_role",
        summary="Grant a role",
        description="The caller, and the token in use, must have every permission of the role on "
        "the node.",
        parameters=[IDEMPOTENCY_KEY],
        request=RoleGrantCreationSerializer,
        responses=answers({201: RoleGrantSerializer}, 403, 404, 409, 422),
    )
    def post(self, request: Request) -> Response:
        """Grant a role."""
        refuse_unknown_parameters(request, set())
        actor, now = actor_from(request), SystemClock().now()
        body = RoleGrantCreationSerializer(data=request.data)
        body.is_valid(raise_exception=True)

        def act() -> tuple[int, dict[str, Any]]:
            grant = grant_role(
                actor=actor,
                login=body.validated_data["user"],
                role=Role(body.validated_data["role"]),
                node_path=body.validated_data["node"],
                expires_at=body.validated_data["expires_at"],
                now=now,
            )
            return 201, RoleGrantSerializer(grant).data

        return respond_once(request, principal_id=actor.user.pk, now=now, act=act)


class RoleGrantDetail(APIView):
    """A grant, by its id."""

    @extend_schema(
        operation_id="get_role_grant",
        summary="Get a role grant",
        parameters=[_ETAG],
        responses=answers({200: RoleGrantSerializer}, 404),
    )
    def get(self, request: Request, grant_id: UUID) -> Response:
        """Get the grant."""
        refuse_unknown_parameters(request, set())
        return tagged(Response(_shown(actor_from(request), grant_id)))

    @extend_schema(
        operation_id="change_role_grant",
        summary="Change the role of a grant, or set or lift its expiry",
        description="By the rules for granting a role.",
        parameters=[_IF_MATCH, _ETAG],
        request=RoleGrantChangeSerializer,
        responses=answers({200: RoleGrantSerializer}, 403, 404, 409, 412, 428),
    )
    def patch(self, request: Request, grant_id: UUID) -> Response:
        """Change the grant. A 412 has the `current` one."""
        refuse_unknown_parameters(request, set())
        actor = actor_from(request)
        body = RoleGrantChangeSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        with showing_current(lambda: _shown(actor, grant_id)):
            grant = change_grant(
                actor=actor,
                grant_id=grant_id,
                change=body.to_change(),
                if_version=required_version(request),
                now=SystemClock().now(),
            )
        return tagged(Response(RoleGrantSerializer(grant).data))

    @extend_schema(
        operation_id="revoke_role",
        summary="Revoke a role",
        responses=answers({204: None}, 403, 404, 409),
    )
    def delete(self, request: Request, grant_id: UUID) -> Response:
        """Revoke a role."""
        refuse_unknown_parameters(request, set())
        revoke_role(actor=actor_from(request), grant_id=grant_id, now=SystemClock().now())
        return Response(status=204)


def _shown(actor: Actor, grant_id: UUID) -> dict[str, Any]:
    grant = visible_grants(actor).filter(pk=grant_id).first()
    if grant is None:
        raise NotFound("It does not exist, or you may not see it.")
    return dict(RoleGrantSerializer(grant).data)

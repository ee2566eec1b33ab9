"""The tree, its people and their rights over HTTP."""

from __future__ import annotations

from typing import Any, ClassVar
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from primitives.clock import SystemClock
from primitives.errors import InvalidRequest, NotFound
from tenants.access import get_visible, visible, visible_node
from tenants.administrators import has_administrator
from tenants.api import serializers as shapes
from tenants.api.authentication import actor_from
from tenants.membership import change_user, create_user, delete_user, visible_users
from tenants.models import Node, NodeKind, UserKind
from tenants.roles import Permission
from tenants.structure import create_below, rename_node
from webapi.idempotency import respond_once
from webapi.paging import (
    page_body,
    page_by_text,
    refuse_unknown_parameters,
)
from webapi.parameters import PageParameters, text
from webapi.serializers import IDEMPOTENCY_KEY, answers, page_of


class OrganizationParameters(PageParameters):
    """The filter of the list of organizations."""

    path: str | None = text(
        "Only the node with this path, or the only one whose path ends with it. 404 where no node, "
        "or a node of another kind, matches"
    )


class NodeParameters(OrganizationParameters):
    """The filters of the lists of departments and teams."""

    organization: str | None = text("Slug of an organization")
    parent: str | None = text("Only children of the node with this path")


class UserParameters(PageParameters):
    """The filter of the list of users."""

    organization: str | None = text("Slug of an organization")


class InstallationView(APIView):
    """Public information about the installation, for callers who are not signed in."""

    permission_classes = [AllowAny]

    @extend_schema(
        operation_id="get_installation",
        summary="Get whether the installation has an administrator",
        responses=answers({200: shapes.InstallationSerializer}),
        auth=[],
    )
    def get(self, request: Request) -> Response:
        """Return whether the installation has an administrator."""
        refuse_unknown_parameters(request, set())
        body = {"has_administrator": has_administrator()}
        return Response(shapes.InstallationSerializer(body).data)


class _NodeList(APIView):
    kind: ClassVar[NodeKind]

    def _list(self, request: Request, asked: OrganizationParameters) -> Response:
        nodes = visible(
            actor_from(request),
            Node.objects.filter(kind=self.kind),
            Permission.VIEW_TREE,
            path_field="path",
        )
        if isinstance(asked, NodeParameters) and asked.organization is not None:
            nodes = nodes.filter(organization__slug=asked.organization)
        if isinstance(asked, NodeParameters) and asked.parent is not None:
            nodes = nodes.filter(parent__path=asked.parent.rstrip("/") + "/")
        if asked.path is not None:
            nodes = nodes.filter(pk=visible_node(actor_from(request), asked.path).pk)
        page = page_by_text(asked, nodes, "path")
        return Response(page_body(request, page, shapes.TreeNodeSerializer().to_representation))

    def _create_below(self, request: Request) -> Response:
        refuse_unknown_parameters(request, set())
        actor, now = actor_from(request), SystemClock().now()
        body = shapes.NodeCreationSerializer(data=request.data)
        body.is_valid(raise_exception=True)

        def act() -> tuple[int, dict[str, Any]]:
            node = create_below(
                actor=actor,
                kind=self.kind,
                parent_path=body.validated_data["parent"],
                slug=body.validated_data["slug"],
                name=body.validated_data["name"],
                now=now,
            )
            return 201, node_body(node)

        return respond_once(request, principal_id=actor.user.pk, now=now, act=act)


class _NodeDetail(APIView):
    kind: ClassVar[NodeKind]

    def _get(self, request: Request, node_id: UUID) -> Response:
        refuse_unknown_parameters(request, set())
        node = get_visible(
            actor_from(request),
            Node.objects.filter(kind=self.kind),
            Permission.VIEW_TREE,
            path_field="path",
            pk=node_id,
        )
        return Response(node_body(node))

    def _patch(self, request: Request, node_id: UUID) -> Response:
        refuse_unknown_parameters(request, set())
        body = shapes.RenamingSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        node = rename_node(
            actor=actor_from(request),
            node_id=node_id,
            kind=self.kind,
            name=body.validated_data["name"],
            now=SystemClock().now(),
        )
        return Response(node_body(node))


def node_body(node: Node) -> dict[str, Any]:
    """Return the answer's body for a node."""
    body: dict[str, Any] = shapes.TreeNodeSerializer(node).data
    return body


class OrganizationList(_NodeList):
    """The caller's own organization, or all for platform admins. The portal's view creates them."""

    kind = NodeKind.ORGANIZATION

    @extend_schema(
        operation_id="list_organizations",
        summary="List organizations, by path",
        parameters=OrganizationParameters.in_openapi(),
        responses=answers({200: page_of(shapes.TreeNodeSerializer)}, 404),
    )
    def get(self, request: Request) -> Response:
        """List organizations, by path."""
        return self._list(request, OrganizationParameters.read(request))


class OrganizationDetail(_NodeDetail):
    """One organization."""

    kind = NodeKind.ORGANIZATION

    @extend_schema(
        operation_id="get_organization",
        summary="Get an organization",
        responses=answers({200: shapes.TreeNodeSerializer}, 404),
    )
    def get(self, request: Request, node_id: UUID) -> Response:
        """Get an organization."""
        return self._get(request, node_id)

    @extend_schema(
        operation_id="rename_organization",
        summary="Rename an organization (platform admins)",
        request=shapes.RenamingSerializer,
        responses=answers({200: shapes.TreeNodeSerializer}, 403, 404),
    )
    def patch(self, request: Request, node_id: UUID) -> Response:
        """Rename an organization."""
        return self._patch(request, node_id)


class DepartmentList(_NodeList):
    """Departments of the caller's organization."""

    kind = NodeKind.DEPARTMENT

    @extend_schema(
        operation_id="list_departments",
        summary="List departments, by path",
        parameters=NodeParameters.in_openapi(),
        responses=answers({200: page_of(shapes.TreeNodeSerializer)}, 404),
    )
    def get(self, request: Request) -> Response:
        """List departments, by path."""
        return self._list(request, NodeParameters.read(request))

    @extend_schema(
        operation_id="create_department",
        summary="Create a department",
        parameters=[IDEMPOTENCY_KEY],
        request=shapes.NodeCreationSerializer,
        responses=answers({201: shapes.TreeNodeSerializer}, 403, 404, 409, 422),
    )
    def post(self, request: Request) -> Response:
        """Create a department."""
        return self._create_below(request)


class DepartmentDetail(_NodeDetail):
    """One department."""

    kind = NodeKind.DEPARTMENT

    @extend_schema(
        operation_id="get_department",
        summary="Get a department",
        responses=answers({200: shapes.TreeNodeSerializer}, 404),
    )
    def get(self, request: Request, node_id: UUID) -> Response:
        """Get a department."""
        return self._get(request, node_id)

    @extend_schema(
        operation_id="rename_department",
        summary="Rename a department",
        request=shapes.RenamingSerializer,
        responses=answers({200: shapes.TreeNodeSerializer}, 403, 404),
    )
    def patch(self, request: Request, node_id: UUID) -> Response:
        """Rename a department."""
        return self._patch(request, node_id)


class TeamList(_NodeList):
    """Teams of the caller's organization."""

    kind = NodeKind.TEAM

    @extend_schema(
        operation_id="list_teams",
        summary="List teams, by path",
        parameters=NodeParameters.in_openapi(),
        responses=answers({200: page_of(shapes.TreeNodeSerializer)}, 404),
    )
    def get(self, request: Request) -> Response:
        """List teams, by path."""
        return self._list(request, NodeParameters.read(request))

    @extend_schema(
        operation_id="create_team",
        summary="Create a team",
        parameters=[IDEMPOTENCY_KEY],
        request=shapes.NodeCreationSerializer,
        responses=answers({201: shapes.TreeNodeSerializer}, 403, 404, 409, 422),
    )
    def post(self, request: Request) -> Response:
        """Create a team."""
        return self._create_below(request)


class TeamDetail(_NodeDetail):
    """One team."""

    kind = NodeKind.TEAM

    @extend_schema(
        operation_id="get_team",
        summary="Get a team",
        responses=answers({200: shapes.TreeNodeSerializer}, 404),
    )
    def get(self, request: Request, node_id: UUID) -> Response:
        """Get a team."""
        return self._get(request, node_id)

    @extend_schema(
        operation_id="rename_team",
        summary="Rename a team",
        request=shapes.RenamingSerializer,
        responses=answers({200: shapes.TreeNodeSerializer}, 403, 404),
    )
    def patch(self, request: Request, node_id: UUID) -> Response:
        """Rename a team."""
        return self._patch(request, node_id)


class UserList(APIView):
    """People and service accounts."""

    @extend_schema(
        operation_id="list_users",
        summary="List people and service accounts, by login",
        description="All of the organization, for users who manage members or read the audit log "
        "somewhere in it. Other users see only themselves.",
        parameters=UserParameters.in_openapi(),
        responses=answers({200: page_of(shapes.UserSerializer)}),
    )
    def get(self, request: Request) -> Response:
        """List users, by login."""
        asked = UserParameters.read(request)
        users = visible_users(actor_from(request))
        if asked.organization is not None:
            users = users.filter(organization__slug=asked.organization)
        page = page_by_text(asked, users, "login")
        return Response(page_body(request, page, shapes.UserSerializer().to_representation))

    @extend_schema(
        operation_id="create_user",
        summary="Create a person or service account",
        parameters=[IDEMPOTENCY_KEY],
        request=shapes.UserCreationSerializer,
        responses=answers({201: shapes.UserSerializer}, 403, 404, 409, 422),
    )
    def post(self, request: Request) -> Response:
        """Create a user."""
        refuse_unknown_parameters(request, set())
        actor, now = actor_from(request), SystemClock().now()
        body = shapes.UserCreationSerializer(data=request.data)
        body.is_valid(raise_exception=True)

        def act() -> tuple[int, dict[str, Any]]:
            user = create_user(
                actor=actor,
                organization_slug=body.validated_data["organization"],
                username=body.validated_data["username"],
                name=body.validated_data["name"],
                kind=UserKind(body.validated_data["kind"]),
                password=body.validated_data["password"],
                email=body.validated_data["email"],
                must_change_password=body.validated_data["must_change_password"],
                now=now,
            )
            return 201, shapes.UserSerializer(user).data

        return respond_once(request, principal_id=actor.user.pk, now=now, act=act)


class UserDetail(APIView):
    """One person or service account."""

    @extend_schema(
        operation_id="get_user",
        summary="Get a person or service account",
        responses=answers({200: shapes.UserSerializer}, 404),
    )
    def get(self, request: Request, user_id: UUID) -> Response:
        """Get a user."""
        refuse_unknown_parameters(request, set())
        user = visible_users(actor_from(request)).filter(pk=user_id).first()
        if user is None:
            raise NotFound("It does not exist, or you may not see it.")
        return Response(shapes.UserSerializer(user).data)

    @extend_schema(
        operation_id="change_user",
        summary="Rename, deactivate or reactivate a user, or change the email address",
        request=shapes.UserChangeSerializer,
        responses=answers({200: shapes.UserSerializer}, 403, 404, 409),
    )
    def patch(self, request: Request, user_id: UUID) -> Response:
        """Change a user."""
        refuse_unknown_parameters(request, set())
        body = shapes.UserChangeSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        if not body.validated_data:
            raise InvalidRequest("Nothing to change: send name, email or is_active.")
        user = change_user(
            actor=actor_from(request),
            user_id=user_id,
            name=body.validated_data.get("name"),
            is_active=body.validated_data.get("is_active"),
            email=body.validated_data.get("email"),
            now=SystemClock().now(),
        )
        return Response(shapes.UserSerializer(user).data)

    @extend_schema(
        operation_id="delete_user",
        summary="Delete an account that was never used",
        description="Deletes its roles and its password link too. 409 lists what refers to it.",
        responses=answers({204: None}, 403, 404, 409),
    )
    def delete(self, request: Request, user_id: UUID) -> Response:
        """Delete a user."""
        refuse_unknown_parameters(request, set())
        delete_user(actor=actor_from(request), user_id=user_id, now=SystemClock().now())
        return Response(status=204)

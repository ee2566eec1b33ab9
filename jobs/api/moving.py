"""Moving teams and departments."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from jobs.actions.archiving import NAMED_MAX
from jobs.actions.moving import MovePreview, clusters_to_push, move, preview_move
from jobs.api.archiving import RunningJobSerializer
from primitives.clock import SystemClock
from primitives.errors import FieldError, InvalidRequest
from primitives.units import DeviceKind
from quotas.administration import percent_text
from quotas.moving import MovedGuarantee
from tenants.api.authentication import actor_from
from tenants.api.serializers import TreeNodeSerializer
from tenants.models import Node
from webapi.paging import refuse_unknown_parameters
from webapi.serializers import StrictSerializer, answers

#: So many people who gain or lose a role are named.
ROLES_MAX = 200


class ParentsShareSerializer(serializers.Serializer[Any]):
    """A parent's guarantee, and its reserve, which no child is guaranteed."""

    guaranteed_mgpu = serializers.IntegerField()
    reserve_before_mgpu = serializers.IntegerField()
    reserve_after_mgpu = serializers.IntegerField()


class MovedGuaranteeSerializer(serializers.Serializer[Any]):
    """The guarantee that a node takes along in one pool."""

    pool = serializers.CharField(source="quota.pool.name")
    device = serializers.ChoiceField(
        source="quota.pool.device", choices=[kind.value for kind in DeviceKind]
    )
    guaranteed_mgpu = serializers.IntegerField(source="quota.guaranteed_mgpu")
    guaranteed_percent = serializers.SerializerMethodField(
        help_text="Of the parent that it leaves; it becomes the devices that it is now"
    )
    leaves = ParentsShareSerializer(allow_null=True)
    joins = ParentsShareSerializer(allow_null=True, help_text="null: no quota there yet")
    problem = serializers.CharField(help_text='Why it does not fit, or ""')

    def get_guaranteed_percent(self, moved: MovedGuarantee) -> str | None:
        """The percentage that the guarantee is written as."""
        return percent_text(moved.quota.guaranteed_bp)


class InheritedRoleSerializer(serializers.Serializer[Any]):
    """A role on the moved node that comes from a node above it."""

    user = serializers.CharField(source="user.login")
    name = serializers.CharField(source="user.name")
    role = serializers.CharField()
    given_on = serializers.CharField(source="given_on.display_path")


class MovePreviewSerializer(serializers.Serializer[Any]):
    """The changes that a move would make."""

    node = TreeNodeSerializer(source="work.node")
    parent = serializers.CharField(  # type: ignore[assignment]
        source="parent.display_path"
    )
    path = serializers.CharField(help_text="Its path afterwards")
    waiting = serializers.IntegerField(
        source="work.waiting", help_text="Jobs that are held or queued; they wait on"
    )
    running = serializers.IntegerField(
        source="work.running", help_text="Jobs that start, run or are being stopped; they run on"
    )
    running_jobs = RunningJobSerializer(
        source="work.running_jobs", many=True, help_text=f"The first {NAMED_MAX}"
    )
    guarantees = MovedGuaranteeSerializer(many=True)
    gained_count = serializers.IntegerField(
        source="roles.gained_count",
        help_text="With those that you may not see",
    )
    gained = serializers.SerializerMethodField(
        help_text=f"Roles on it that come from above it only afterwards; the first {ROLES_MAX}"
    )
    lost_count = serializers.IntegerField(
        source="roles.lost_count",
        help_text="With those that you may not see",
    )
    lost = serializers.SerializerMethodField(
        help_text=f"Roles on it that come from above it only before; the first {ROLES_MAX}"
    )
    clusters_to_push = serializers.ListField(
        source="clusters",
        child=serializers.CharField(),
        help_text="Clusters with limits of their own: push quotas to them after the move",
    )
    problem = serializers.CharField(help_text='Why the move is refused as things stand, or ""')

    @extend_schema_field(InheritedRoleSerializer(many=True))
    def get_gained(self, preview: MovePreview) -> Any:
        """The roles that are gained."""
        return InheritedRoleSerializer(preview.roles.gained[:ROLES_MAX], many=True).data

    @extend_schema_field(InheritedRoleSerializer(many=True))
    def get_lost(self, preview: MovePreview) -> Any:
        """The roles that are lost."""
        return InheritedRoleSerializer(preview.roles.lost[:ROLES_MAX], many=True).data


class MoveSerializer(StrictSerializer):
    """Where a node is moved to."""

    parent = serializers.CharField(  # type: ignore[assignment]
        max_length=1_000, help_text="Path of its new parent"
    )


class MovedNodeSerializer(TreeNodeSerializer):
    """A node that was moved, and what is left to be done."""

    clusters_to_push = serializers.SerializerMethodField(
        help_text="Clusters with limits of their own: they refuse its jobs until quotas are pushed"
    )

    def get_clusters_to_push(self, _: Node) -> list[str]:
        """Their names."""
        return clusters_to_push()


class NodeMove(APIView):
    """The move of a node of the tree."""

    @extend_schema(
        operation_id="preview_move",
        summary="What moving a team or department to another parent changes",
        parameters=[
            OpenApiParameter(
                "parent", OpenApiTypes.STR, required=True, description="Path of its new parent"
            )
        ],
        responses=answers({200: MovePreviewSerializer}, 403, 404, 409),
    )
    def get(self, request: Request, tree_node_id: UUID) -> Response:
        """Jobs, guarantees and roles."""
        refuse_unknown_parameters(request, {"parent"})
        parent = request.query_params.get("parent")
        if not parent:
            raise InvalidRequest(
                "Name the new parent by its path.", errors=[FieldError("parent", "is missing")]
            )
        preview = preview_move(tree_node_id, parent, actor=actor_from(request))
        return Response(MovePreviewSerializer(preview).data)

    @extend_schema(
        operation_id="move_node",
        summary="Move a team, or a department with all below it, to another parent",
        description="From now on it counts there for quotas, fair-share, rights and bills. What "
        "was used before stays with the former parent. Its jobs run and wait on; on the clusters "
        "of `clusters_to_push` none starts before quotas are pushed there. 409 where its "
        "guarantees do not fit below the new parent.",
        request=MoveSerializer,
        responses=answers({200: MovedNodeSerializer}, 403, 404, 409),
    )
    def post(self, request: Request, tree_node_id: UUID) -> Response:
        """The node, at its new place."""
        refuse_unknown_parameters(request, set())
        actor = actor_from(request)
        body = MoveSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        parent = body.validated_data["parent"]
        node = move(tree_node_id, parent, actor=actor, clock=SystemClock())
        return Response(MovedNodeSerializer(node).data)

"""Moving teams and departments."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from jobs.actions.archiving import NAMED_MAX
from jobs.actions.moving import MovePreview, clusters_to_push, move, preview_move
from jobs.api.archiving import RunningJobSerializer
from primitives.clock import SystemClock
from primitives.units import DeviceKind
from quotas.moving import MovedGuarantee
from quotas.quota_store import percent_text
from tenants.api.authentication import actor_from
from tenants.api.serializers import TreeNodeSerializer
from tenants.models import Node
from webapi.paging import refuse_unknown_parameters
from webapi.parameters import Parameters, text
from webapi.serializers import StrictSerializer, WaitingWriteSerializer, answers

#: Maximum number of named users who gain or lose a role, each.
ROLES_MAX = 200


class ParentsShareSerializer(serializers.Serializer[Any]):
    """A parent's guarantee, and its reserve: the part that no child is guaranteed."""

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
        help_text="Of the old parent; the move turns it into a number of devices"
    )
    leaves = ParentsShareSerializer(allow_null=True)
    joins = ParentsShareSerializer(
        allow_null=True, help_text="null: the new parent has no quota yet"
    )
    problem = serializers.CharField(help_text='Why the guarantee does not fit, or ""')

    def get_guaranteed_percent(self, moved: MovedGuarantee) -> str | None:
        """Return the percentage as which the guarantee was entered, or None."""
        return percent_text(moved.quota.guaranteed_bp)


class InheritedRoleSerializer(serializers.Serializer[Any]):
    """A role on the moved node that is inherited from a node above it."""

    user = serializers.CharField(source="user.login")
    name = serializers.CharField(source="user.name")
    role = serializers.CharField()
    given_on = serializers.CharField(source="given_on.display_path")


class MovePreviewSerializer(serializers.Serializer[Any]):
    """The changes by a move."""

    node = TreeNodeSerializer(source="work.node")
    parent = serializers.CharField(  # type: ignore[assignment]
        source="parent.display_path"
    )
    path = serializers.CharField(help_text="The path after the move")
    waiting = serializers.IntegerField(
        source="work.waiting", help_text="Held and queued jobs; they keep waiting"
    )
    running = serializers.IntegerField(
        source="work.running",
        help_text="Jobs that start, run or are being stopped; they keep running",
    )
    running_jobs = RunningJobSerializer(
        source="work.running_jobs", many=True, help_text=f"The first {NAMED_MAX}"
    )
    guarantees = MovedGuaranteeSerializer(many=True)
    gained_count = serializers.IntegerField(
        source="roles.gained_count",
        help_text="Including users that you may not see",
    )
    gained = serializers.SerializerMethodField(
        help_text=f"Roles inherited only after the move; the first {ROLES_MAX}"
    )
    lost_count = serializers.IntegerField(
        source="roles.lost_count",
        help_text="Including users that you may not see",
    )
    lost = serializers.SerializerMethodField(
        help_text=f"Roles inherited only before the move; the first {ROLES_MAX}"
    )
    clusters_to_push = serializers.ListField(
        source="clusters",
        child=serializers.CharField(),
        help_text="Clusters with limits of their own: push quotas to them after the move",
    )
    problem = serializers.CharField(help_text='Why the move would be refused now, or ""')

    @extend_schema_field(InheritedRoleSerializer(many=True))
    def get_gained(self, preview: MovePreview) -> Any:
        """Return the gained roles."""
        return InheritedRoleSerializer(preview.roles.gained[:ROLES_MAX], many=True).data

    @extend_schema_field(InheritedRoleSerializer(many=True))
    def get_lost(self, preview: MovePreview) -> Any:
        """Return the lost roles."""
        return InheritedRoleSerializer(preview.roles.lost[:ROLES_MAX], many=True).data


class MoveSerializer(StrictSerializer):
    """The new parent of a node."""

    parent = serializers.CharField(  # type: ignore[assignment]
        max_length=1_000, help_text="Path of its new parent"
    )


class MovedNodeSerializer(TreeNodeSerializer):
    """A moved node, and the clusters that still need a push of quotas."""

    clusters_to_push = serializers.SerializerMethodField(
        help_text="Clusters with limits of their own: they refuse its jobs until quotas are pushed"
    )

    def get_clusters_to_push(self, _: Node) -> list[str]:
        """Return the names of the clusters."""
        return clusters_to_push()


class MoveParameters(Parameters):
    """The parameter of the preview of a move."""

    parent: str = text("Path of its new parent", required="give the path of the new parent")


class NodeMove(APIView):
    """The move of a node of the tree."""

    @extend_schema(
        operation_id="preview_move",
        summary="Preview the move of a team or department to another parent",
        parameters=MoveParameters.in_openapi(),
        responses=answers({200: MovePreviewSerializer}, 403, 404, 409),
    )
    def get(self, request: Request, tree_node_id: UUID) -> Response:
        """Return the changes to jobs, guarantees and roles."""
        asked = MoveParameters.read(request)
        preview = preview_move(tree_node_id, asked.parent, actor=actor_from(request))
        return Response(MovePreviewSerializer(preview).data)

    @extend_schema(
        operation_id="move_node",
        summary="Move a team, or a department with all below it, to another parent",
        description="From then on it counts at the new parent for quotas, fair-share, rights and "
        "bills. Earlier usage stays with the former parent. Its jobs keep running and waiting. On "
        "the clusters of `clusters_to_push` no job of it starts before quotas are pushed. 409 if "
        "its guarantees do not fit below the new parent.",
        request=MoveSerializer,
        responses=answers({200: MovedNodeSerializer, 202: WaitingWriteSerializer}, 403, 404, 409),
    )
    def post(self, request: Request, tree_node_id: UUID) -> Response:
        """Move the node and return it."""
        refuse_unknown_parameters(request, set())
        actor = actor_from(request)
        body = MoveSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        parent = body.validated_data["parent"]
        node = move(tree_node_id, parent, actor=actor, clock=SystemClock())
        return Response(MovedNodeSerializer(node).data)

"""Archiving, restoring and deleting organizations, departments and teams."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from jobs.archiving import NAMED_MAX, RunningWork, WaitingWork, archive, work_to_archive
from jobs.deleting import delete_node
from primitives.clock import SystemClock
from tenants.api.authentication import actor_from
from tenants.api.serializers import TreeNodeSerializer
from tenants.structure import restore_node
from webapi.paging import refuse_body, refuse_unknown_parameters
from webapi.serializers import StrictSerializer, answers


class RunningJobSerializer(serializers.Serializer[Any]):
    """A job that runs where archiving is asked for."""

    id = serializers.UUIDField()
    name = serializers.CharField()
    team = serializers.CharField(source="team.display_path")
    user = serializers.CharField(source="user.username")
    state = serializers.CharField()


class OpenWorkSerializer(serializers.Serializer[Any]):
    """Work below a node that has not ended."""

    node = TreeNodeSerializer()
    waiting = serializers.IntegerField(help_text="Jobs that are held or queued")
    running = serializers.IntegerField(help_text="Jobs that start, run or are being stopped")
    running_jobs = RunningJobSerializer(many=True, help_text=f"The first {NAMED_MAX}")


class ArchivingSerializer(StrictSerializer):
    """What becomes of the work; asked for only where there is some."""

    waiting = serializers.ChoiceField(
        choices=[each.value for each in WaitingWork],
        required=False,
        help_text="wait: until the restore; cancel: now",
    )
    running = serializers.ChoiceField(
        choices=[each.value for each in RunningWork],
        required=False,
        help_text="end: they run to their end; cancel: now, with their grace",
    )


class NodeDetail(APIView):
    """A node of the tree, of any kind."""

    @extend_schema(
        operation_id="delete_node",
        summary="Delete an organization, department or team that was never used",
        description="With its quotas. 409, with `used_by`, where it has or had jobs, bills, "
        "prices or members: archive it instead.",
        responses=answers({204: None}, 403, 404, 409),
    )
    def delete(self, request: Request, tree_node_id: UUID) -> Response:
        """Nothing."""
        refuse_unknown_parameters(request, set())
        actor = actor_from(request)
        refuse_body(request)
        delete_node(tree_node_id, actor=actor, now=SystemClock().now())
        return Response(status=204)


class NodeArchive(APIView):
    """The archiving of a node of the tree."""

    @extend_schema(
        operation_id="get_work_to_archive",
        summary="Work that archiving a node has to decide about",
        responses=answers({200: OpenWorkSerializer}, 403, 404),
    )
    def get(self, request: Request, tree_node_id: UUID) -> Response:
        """Counts, and the running jobs."""
        refuse_unknown_parameters(request, set())
        return Response(
            OpenWorkSerializer(work_to_archive(tree_node_id, actor=actor_from(request))).data
        )

    @extend_schema(
        operation_id="archive_node",
        summary="Archive an organization, department or team with all below it",
        description="Nothing new is submitted or started there; history and bills stay readable. "
        "409 where work is there and nothing is said of it.",
        request=ArchivingSerializer,
        responses=answers({200: TreeNodeSerializer}, 403, 404, 409),
    )
    def post(self, request: Request, tree_node_id: UUID) -> Response:
        """The archived node."""
        refuse_unknown_parameters(request, set())
        actor = actor_from(request)
        body = ArchivingSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        waiting, running = (body.validated_data.get(name) for name in ("waiting", "running"))
        node = archive(
            tree_node_id,
            waiting=None if waiting is None else WaitingWork(waiting),
            running=None if running is None else RunningWork(running),
            actor=actor,
            now=SystemClock().now(),
        )
        return Response(TreeNodeSerializer(node).data)


class NodeRestore(APIView):
    """The end of an archiving."""

    @extend_schema(
        operation_id="restore_node",
        summary="Restore a node with all that was archived together with it",
        request=None,
        responses=answers({200: TreeNodeSerializer}, 403, 404, 409),
    )
    def post(self, request: Request, tree_node_id: UUID) -> Response:
        """The node, in use again."""
        refuse_unknown_parameters(request, set())
        actor = actor_from(request)
        refuse_body(request)
        node = restore_node(actor=actor, node_id=tree_node_id, now=SystemClock().now())
        return Response(TreeNodeSerializer(node).data)

"""Archiving and restoring organizations, departments, teams, clusters and pools; deactivating
users; deleting nodes of the tree."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from clusters.models import Cluster
from clusters.queries import cluster_by_id, pool_by_id, shares_of
from clusters.registration import restore_cluster, restore_pool
from jobs.actions.archiving import (
    NAMED_MAX,
    RunningWork,
    WaitingWork,
    archive,
    archive_cluster,
    archive_pool,
    deactivate,
    work_in_pool,
    work_on_cluster,
    work_to_archive,
    work_to_deactivate,
)
from jobs.actions.deleting import delete_node
from outbox.quarantine import open_quarantine
from primitives.clock import SystemClock
from quotas.api.fleet_serializers import (
    ClusterSerializer,
    PoolSerializer,
    shown_cluster,
    shown_pool,
)
from quotas.fleet import administrator
from tenants.access import Actor
from tenants.api.authentication import actor_from
from tenants.api.serializers import TreeNodeSerializer, UserSerializer
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


class WorkSerializer(serializers.Serializer[Any]):
    """Work of a user, on a cluster or in a pool that has not ended."""

    waiting = serializers.IntegerField(help_text="Jobs that are held or queued")
    running = serializers.IntegerField(help_text="Jobs that start, run or are being stopped")
    running_jobs = RunningJobSerializer(many=True, help_text=f"The first {NAMED_MAX}")


class OpenWorkSerializer(WorkSerializer):
    """Work below a node that has not ended."""

    node = TreeNodeSerializer()


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


def _decisions(request: Request) -> tuple[WaitingWork | None, RunningWork | None]:
    body = ArchivingSerializer(data=request.data)
    body.is_valid(raise_exception=True)
    waiting, running = (body.validated_data.get(name) for name in ("waiting", "running"))
    return (
        None if waiting is None else WaitingWork(waiting),
        None if running is None else RunningWork(running),
    )


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
        waiting, running = _decisions(request)
        node = archive(
            tree_node_id, waiting=waiting, running=running, actor=actor, now=SystemClock().now()
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


class UserDeactivate(APIView):
    """The deactivation of a user."""

    @extend_schema(
        operation_id="get_work_to_deactivate",
        summary="Work that deactivating a user has to decide about",
        responses=answers({200: WorkSerializer}, 403, 404),
    )
    def get(self, request: Request, user_id: UUID) -> Response:
        """Counts, and the running jobs."""
        refuse_unknown_parameters(request, set())
        work = work_to_deactivate(user_id, actor=actor_from(request))
        return Response(WorkSerializer(work).data)

    @extend_schema(
        operation_id="deactivate_user",
        summary="Deactivate a person or service account",
        description="Sessions end, tokens are revoked, and nothing of theirs that waits starts "
        "until they are reactivated. 409 where work is there and nothing is said of it.",
        request=ArchivingSerializer,
        responses=answers({200: UserSerializer}, 403, 404, 409),
    )
    def post(self, request: Request, user_id: UUID) -> Response:
        """The deactivated user."""
        refuse_unknown_parameters(request, set())
        actor = actor_from(request)
        waiting, running = _decisions(request)
        user = deactivate(
            user_id, waiting=waiting, running=running, actor=actor, now=SystemClock().now()
        )
        return Response(UserSerializer(user).data)


class ClusterArchive(APIView):
    """The archiving of a cluster."""

    @extend_schema(
        operation_id="get_work_on_cluster",
        summary="Work that archiving a cluster has to decide about",
        description="Jobs that hold GPUs there, and jobs that wait and are pinned to it. For "
        "platform administrators.",
        responses=answers({200: WorkSerializer}, 403, 404),
    )
    def get(self, request: Request, cluster_id: UUID) -> Response:
        """Counts, and the running jobs."""
        refuse_unknown_parameters(request, set())
        work = work_on_cluster(cluster_id, actor=actor_from(request))
        return Response(WorkSerializer(work).data)

    @extend_schema(
        operation_id="archive_cluster",
        summary="Archive a cluster",
        description="Nothing new starts there, and its capacity counts no more. What runs on is "
        "metered until it has ended; history and bills stay. 409 where work is there and nothing "
        "is said of it. For platform administrators.",
        request=ArchivingSerializer,
        responses=answers({200: ClusterSerializer}, 403, 404, 409),
    )
    def post(self, request: Request, cluster_id: UUID) -> Response:
        """The archived cluster."""
        refuse_unknown_parameters(request, set())
        actor = actor_from(request)
        waiting, running = _decisions(request)
        cluster = archive_cluster(
            cluster_id, waiting=waiting, running=running, actor=actor, now=SystemClock().now()
        )
        return Response(_shown(cluster, actor))


class ClusterRestore(APIView):
    """The end of an archiving."""

    @extend_schema(
        operation_id="restore_cluster",
        summary="Restore a cluster",
        description="Jobs may start there once it answers. For platform administrators.",
        request=None,
        responses=answers({200: ClusterSerializer}, 403, 404, 409),
    )
    def post(self, request: Request, cluster_id: UUID) -> Response:
        """The cluster, in use again."""
        refuse_unknown_parameters(request, set())
        actor = actor_from(request)
        by = administrator(actor)
        refuse_body(request)
        cluster = restore_cluster(cluster_by_id(cluster_id), by=by, now=SystemClock().now())
        return Response(_shown(cluster, actor))


class PoolArchive(APIView):
    """The archiving of a pool."""

    @extend_schema(
        operation_id="get_work_in_pool",
        summary="Work that archiving a pool has to decide about",
        description="Jobs that run in it, and jobs that wait and accept no other pool that is in "
        "use. For platform administrators.",
        responses=answers({200: WorkSerializer}, 403, 404),
    )
    def get(self, request: Request, pool_id: UUID) -> Response:
        """Counts, and the running jobs."""
        refuse_unknown_parameters(request, set())
        work = work_in_pool(pool_id, actor=actor_from(request))
        return Response(WorkSerializer(work).data)

    @extend_schema(
        operation_id="archive_pool",
        summary="Archive a pool",
        description="Nothing new starts in it, its capacity counts no more, and its quotas may not "
        "be raised. What runs on is metered until it has ended; history and bills stay. 409 where "
        "work is there and nothing is said of it. For platform administrators.",
        request=ArchivingSerializer,
        responses=answers({200: PoolSerializer}, 403, 404, 409),
    )
    def post(self, request: Request, pool_id: UUID) -> Response:
        """The archived pool."""
        refuse_unknown_parameters(request, set())
        actor = actor_from(request)
        waiting, running = _decisions(request)
        pool = archive_pool(
            pool_id, waiting=waiting, running=running, actor=actor, now=SystemClock().now()
        )
        return Response(shown_pool(pool, actor=actor))


class PoolRestore(APIView):
    """The end of an archiving."""

    @extend_schema(
        operation_id="restore_pool",
        summary="Restore a pool",
        description="Its nodes count once their clusters answer. For platform administrators.",
        request=None,
        responses=answers({200: PoolSerializer}, 403, 404),
    )
    def post(self, request: Request, pool_id: UUID) -> Response:
        """The pool, in use again."""
        refuse_unknown_parameters(request, set())
        actor = actor_from(request)
        by = administrator(actor)
        refuse_body(request)
        pool = restore_pool(pool_by_id(pool_id), by=by, now=SystemClock().now())
        return Response(shown_pool(pool, actor=actor))


def _shown(cluster: Cluster, actor: Actor) -> dict[str, Any]:
    return shown_cluster(
        cluster,
        shares_of([cluster]).get(cluster.pk, []),
        actor=actor,
        now=SystemClock().now(),
        quarantine=open_quarantine(),
    )

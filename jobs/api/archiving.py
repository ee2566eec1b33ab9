"""Archiving and restoring of tree nodes, clusters and pools.

Also the deactivation of users and the deletion of tree nodes.
"""

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
from webapi.serializers import StrictSerializer, WaitingWriteSerializer, answers


class RunningJobSerializer(serializers.Serializer[Any]):
    """A job that runs in the thing to be archived."""

    id = serializers.UUIDField()
    name = serializers.CharField()
    team = serializers.CharField(source="team.display_path")
    user = serializers.CharField(source="user.username")
    state = serializers.CharField()


class WorkSerializer(serializers.Serializer[Any]):
    """Unfinished jobs of a user, on a cluster or in a pool."""

    waiting = serializers.IntegerField(help_text="Jobs that are held or queued")
    running = serializers.IntegerField(help_text="Jobs that start, run or are being stopped")
    running_jobs = RunningJobSerializer(many=True, help_text=f"The first {NAMED_MAX}")


class OpenWorkSerializer(WorkSerializer):
    """Unfinished jobs below a node of the tree."""

    node = TreeNodeSerializer()


class ArchivingSerializer(StrictSerializer):
    """The fate of unfinished jobs. Each member is required only where there are such jobs."""

    waiting = serializers.ChoiceField(
        choices=[each.value for each in WaitingWork],
        required=False,
        help_text="Waiting jobs. wait: until the restore; cancel: now",
    )
    running = serializers.ChoiceField(
        choices=[each.value for each in RunningWork],
        required=False,
        help_text="Running jobs. end: they run to their end; cancel: now, with their grace",
    )


class NodeDetail(APIView):
    """A node of the tree, of any kind."""

    @extend_schema(
        operation_id="delete_node",
        summary="Delete an organization, department or team that was never used",
        description="Its quotas are deleted too. 409 with `used_by` if it has or had jobs, bills, "
        "prices or members: archive it instead.",
        responses=answers({204: None, 202: WaitingWriteSerializer}, 403, 404, 409),
    )
    def delete(self, request: Request, tree_node_id: UUID) -> Response:
        """Delete the node. The answer has no body."""
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
        summary="Unfinished jobs below a node to be archived",
        responses=answers({200: OpenWorkSerializer}, 403, 404),
    )
    def get(self, request: Request, tree_node_id: UUID) -> Response:
        """Return counts and the first running jobs."""
        refuse_unknown_parameters(request, set())
        return Response(
            OpenWorkSerializer(work_to_archive(tree_node_id, actor=actor_from(request))).data
        )

    @extend_schema(
        operation_id="archive_node",
        summary="Archive an organization, department or team with all below it",
        description="Nothing new is submitted or started there; history and bills stay readable. "
        "409 if there are unfinished jobs and the request does not decide about them.",
        request=ArchivingSerializer,
        responses=answers({200: TreeNodeSerializer}, 403, 404, 409),
    )
    def post(self, request: Request, tree_node_id: UUID) -> Response:
        """Archive the node and return it."""
        refuse_unknown_parameters(request, set())
        actor = actor_from(request)
        waiting, running = _decisions(request)
        node = archive(
            tree_node_id, waiting=waiting, running=running, actor=actor, now=SystemClock().now()
        )
        return Response(TreeNodeSerializer(node).data)


class NodeRestore(APIView):
    """The restoring of a node of the tree."""

    @extend_schema(
        operation_id="restore_node",
        summary="Restore a node with all that was archived together with it",
        request=None,
        responses=answers({200: TreeNodeSerializer}, 403, 404, 409),
    )
    def post(self, request: Request, tree_node_id: UUID) -> Response:
        """Restore the node and return it."""
        refuse_unknown_parameters(request, set())
        actor = actor_from(request)
        refuse_body(request)
        node = restore_node(actor=actor, node_id=tree_node_id, now=SystemClock().now())
        return Response(TreeNodeSerializer(node).data)


class UserDeactivate(APIView):
    """The deactivation of a user."""

    @extend_schema(
        operation_id="get_work_to_deactivate",
        summary="Unfinished jobs of a user to be deactivated",
        responses=answers({200: WorkSerializer}, 403, 404),
    )
    def get(self, request: Request, user_id: UUID) -> Response:
        """Return counts and the first running jobs."""
        refuse_unknown_parameters(request, set())
        work = work_to_deactivate(user_id, actor=actor_from(request))
        return Response(WorkSerializer(work).data)

    @extend_schema(
        operation_id="deactivate_user",
        summary="Deactivate a person or service account",
        description="Sessions end, tokens are revoked, and waiting jobs do not start until the "
        "user is reactivated. 409 if there are unfinished jobs and the request does not decide "
        "about them.",
        request=ArchivingSerializer,
        responses=answers({200: UserSerializer}, 403, 404, 409),
    )
    def post(self, request: Request, user_id: UUID) -> Response:
        """Deactivate the user and return it."""
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
        summary="Unfinished jobs on a cluster to be archived",
        description="Jobs that hold GPUs there, and waiting jobs that are pinned to it. For "
        "platform administrators.",
        responses=answers({200: WorkSerializer}, 403, 404),
    )
    def get(self, request: Request, cluster_id: UUID) -> Response:
        """Return counts and the first running jobs."""
        refuse_unknown_parameters(request, set())
        work = work_on_cluster(cluster_id, actor=actor_from(request))
        return Response(WorkSerializer(work).data)

    @extend_schema(
        operation_id="archive_cluster",
        summary="Archive a cluster",
        description="Nothing new starts there, and its capacity no longer counts. Running jobs are "
        "metered until they have ended; history and bills stay. 409 if there are unfinished jobs "
        "and the request does not decide about them. For platform administrators.",
        request=ArchivingSerializer,
        responses=answers({200: ClusterSerializer}, 403, 404, 409),
    )
    def post(self, request: Request, cluster_id: UUID) -> Response:
        """Archive the cluster and return it."""
        refuse_unknown_parameters(request, set())
        actor = actor_from(request)
        waiting, running = _decisions(request)
        cluster = archive_cluster(
            cluster_id, waiting=waiting, running=running, actor=actor, now=SystemClock().now()
        )
        return Response(_shown(cluster, actor))


class ClusterRestore(APIView):
    """The restoring of a cluster."""

    @extend_schema(
        operation_id="restore_cluster",
        summary="Restore a cluster",
        description="Jobs may start there once it answers. For platform administrators.",
        request=None,
        responses=answers({200: ClusterSerializer}, 403, 404, 409),
    )
    def post(self, request: Request, cluster_id: UUID) -> Response:
        """Restore the cluster and return it."""
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
        summary="Unfinished jobs in a pool to be archived",
        description="Jobs that run in it, and waiting jobs that accept no other pool in use. For "
        "platform administrators.",
        responses=answers({200: WorkSerializer}, 403, 404),
    )
    def get(self, request: Request, pool_id: UUID) -> Response:
        """Return counts and the first running jobs."""
        refuse_unknown_parameters(request, set())
        work = work_in_pool(pool_id, actor=actor_from(request))
        return Response(WorkSerializer(work).data)

    @extend_schema(
        operation_id="archive_pool",
        summary="Archive a pool",
        description="Nothing new starts in it, its capacity no longer counts, and its quotas may "
        "not be raised. Running jobs are metered until they have ended; history and bills stay. "
        "409 if there are unfinished jobs and the request does not decide about them. For "
        "platform administrators.",
        request=ArchivingSerializer,
        responses=answers({200: PoolSerializer}, 403, 404, 409),
    )
    def post(self, request: Request, pool_id: UUID) -> Response:
        """Archive the pool and return it."""
        refuse_unknown_parameters(request, set())
        actor = actor_from(request)
        waiting, running = _decisions(request)
        pool = archive_pool(
            pool_id, waiting=waiting, running=running, actor=actor, now=SystemClock().now()
        )
        return Response(shown_pool(pool, actor=actor))


class PoolRestore(APIView):
    """The restoring of a pool."""

    @extend_schema(
        operation_id="restore_pool",
        summary="Restore a pool",
        description="Its nodes count once their clusters answer. For platform administrators.",
        request=None,
        responses=answers({200: PoolSerializer}, 403, 404),
    )
    def post(self, request: Request, pool_id: UUID) -> Response:
        """Restore the pool and return it."""
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

"""The nodes of the clusters. All users may see them, and platform administrators may drain them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from clusters.models import Cluster, ClusterNode, NodeAction, NodeRequest, NodeRequestState
from clusters.node_requests import (
    EVICT_GRACE_S_DEFAULT,
    EVICT_GRACE_S_MAX,
    REASON_LENGTH_MAX,
    latest_requests,
    request_node_change,
)
from clusters.queries import last_seen
from primitives.clock import SystemClock
from primitives.errors import FieldError, InvalidRequest, NotFound
from quotas.administration import named_pool
from quotas.api.paging_by_key import page_by_key
from quotas.fleet import administrator, may_manage_clusters
from tenants.access import Actor
from tenants.api.authentication import actor_from
from webapi.idempotency import respond_once
from webapi.paging import Page, page_body, refuse_unknown_parameters
from webapi.parameters import PageParameters, text
from webapi.serializers import (
    DEVICE_HELP,
    DEVICES,
    IDEMPOTENCY_KEY,
    StrictSerializer,
    TextField,
    answers,
    page_of,
)


class NodeRequestSerializer(serializers.Serializer[Any]):
    """The last request to a cluster about a node, and its result."""

    action = serializers.ChoiceField(choices=NodeAction.values)
    reason = serializers.CharField()
    evict_grace_s = serializers.IntegerField(
        allow_null=True, help_text="As requested for the drain; null: nothing is evicted"
    )
    requested_by = serializers.CharField()
    requested_at = serializers.DateTimeField()
    state = serializers.ChoiceField(
        choices=NodeRequestState.values,
        help_text="pending until the cluster answered and, for a drain with eviction, the node is "
        "empty; given_up without an answer for 15 minutes, or if not empty after 2 hours",
    )
    answered_at = serializers.DateTimeField(allow_null=True)
    message = serializers.CharField(
        help_text="Why it was refused or given up, or which workloads remain; else empty"
    )


class ClusterNodeSerializer(serializers.Serializer[Any]):
    """A node of a cluster, as last seen.

    Its state is "gone" once its cluster no longer lists it.
    """

    id = serializers.UUIDField()
    cluster = serializers.CharField()
    name = serializers.CharField()
    pool = serializers.CharField()
    device = serializers.ChoiceField(choices=DEVICES, help_text=DEVICE_HELP)
    capacity_mgpu = serializers.IntegerField()
    is_schedulable = serializers.BooleanField(help_text="Whether new jobs may start on it")
    state = serializers.CharField(help_text="State as the cluster calls it")
    reason = serializers.CharField(
        help_text="Note of the cluster's administrators on the state; empty unless you manage "
        "clusters"
    )
    features = serializers.ListField(child=serializers.CharField())
    domains = serializers.DictField(
        child=serializers.CharField(),
        help_text="Its topology domain by level (block, rack, nvlink), as reported by the cluster",
    )
    seen_at = serializers.DateTimeField(help_text="Time of the cluster's last answer with it")
    request = NodeRequestSerializer(
        allow_null=True, help_text="null: none, or you do not manage clusters"
    )


class NodeDrainSerializer(StrictSerializer):
    """The reason and options of a drain."""

    reason = TextField(max_length=REASON_LENGTH_MAX, help_text="One line")
    evict_grace_s = serializers.IntegerField(
        required=False,
        allow_null=True,
        min_value=1,
        max_value=EVICT_GRACE_S_MAX,
        help_text="Also evict running workloads. Jobs get their notice and the grace period of "
        "their class, are stopped as a whole and requeued. Other workloads get their own grace "
        f"period, at most these seconds (suggested: {EVICT_GRACE_S_DEFAULT}). Default: no eviction",
    )


class NodeResumeSerializer(StrictSerializer):
    """An empty body."""


class ClusterNodeParameters(PageParameters):
    """The filters of the list of nodes of clusters."""

    cluster: str | None = text("Only this cluster")
    pool: str | None = text("Only this pool")


class ClusterNodeList(APIView):
    """The nodes of the clusters."""

    @extend_schema(
        operation_id="list_cluster_nodes",
        summary="List the nodes of clusters",
        parameters=ClusterNodeParameters.in_openapi(),
        responses=answers({200: page_of(ClusterNodeSerializer)}),
    )
    def get(self, request: Request) -> Response:
        """List nodes, by cluster, name and pool."""
        asked = ClusterNodeParameters.read(request)
        nodes = ClusterNode.objects.select_related("cluster", "pool")
        if asked.cluster is not None:
            nodes = nodes.filter(cluster=_named_cluster(asked.cluster))
        if asked.pool is not None:
            nodes = nodes.filter(pool=named_pool(asked.pool))
        page = page_by_key(asked, nodes, "cluster__name", "name", "pool__name")
        shown = Page(_shown(page.items, actor_from(request)), page.next_cursor)
        return Response(page_body(request, shown, lambda body: body))


class ClusterNodeDetail(APIView):
    """One node."""

    @extend_schema(
        operation_id="get_cluster_node",
        summary="Get a node of a cluster",
        responses=answers({200: ClusterNodeSerializer}, 404),
    )
    def get(self, request: Request, node_id: UUID) -> Response:
        """Get a node."""
        refuse_unknown_parameters(request, set())
        (shown,) = _shown([_node(node_id)], actor_from(request))
        return Response(shown)


class ClusterNodeDrain(APIView):
    """Drains a node."""

    @extend_schema(
        operation_id="drain_cluster_node",
        summary="Drain a node",
        description="No new jobs start on it. Running workloads continue, unless they are evicted "
        "(the cluster's `eviction_refusal` says where that is impossible). The cluster is asked "
        "soon after the answer. The node's `request` has the result, and its `state` what the "
        "cluster reports then. For platform administrators.",
        request=NodeDrainSerializer,
        parameters=[IDEMPOTENCY_KEY],
        responses=answers({202: ClusterNodeSerializer}, 403, 404, 409, 422),
    )
    def post(self, request: Request, node_id: UUID) -> Response:
        """Drain a node."""
        return _ask(request, node_id, NodeAction.DRAIN, NodeDrainSerializer)


class ClusterNodeResume(APIView):
    """Resumes a node."""

    @extend_schema(
        operation_id="resume_cluster_node",
        summary="Resume a node",
        description="New jobs may start on it once the cluster confirms. For platform "
        "administrators.",
        request=NodeResumeSerializer,
        parameters=[IDEMPOTENCY_KEY],
        responses=answers({202: ClusterNodeSerializer}, 403, 404, 409, 422),
    )
    def post(self, request: Request, node_id: UUID) -> Response:
        """Resume a node."""
        return _ask(request, node_id, NodeAction.RESUME, NodeResumeSerializer)


def _ask(
    request: Request, node_id: UUID, action: NodeAction, shape: type[StrictSerializer]
) -> Response:
    refuse_unknown_parameters(request, set())
    actor = actor_from(request)
    by = administrator(actor)
    node = _node(node_id)
    body = shape(data=request.data)
    body.is_valid(raise_exception=True)
    now = SystemClock().now()

    def act() -> tuple[int, dict[str, Any]]:
        request_node_change(node, action, **body.validated_data, by=by, now=now)
        (shown,) = _shown([node], actor)
        return 202, shown

    return respond_once(request, principal_id=actor.user.pk, now=now, act=act)


def _shown(nodes: Iterable[ClusterNode], actor: Actor) -> list[dict[str, Any]]:
    """Return nodes, loaded with clusters and pools, as JSON, as the actor may see them."""
    found = list(nodes)
    tells_all = may_manage_clusters(actor)
    requests: dict[tuple[UUID, str], NodeRequest] = latest_requests(found) if tells_all else {}
    return [
        dict(
            ClusterNodeSerializer(
                {
                    "id": node.pk,
                    "cluster": node.cluster.name,
                    "name": node.name,
                    "pool": node.pool.name,
                    "device": node.pool.device,
                    "capacity_mgpu": node.capacity_mgpu,
                    "is_schedulable": node.is_schedulable,
                    "state": node.state,
                    "reason": node.reason if tells_all else "",
                    "features": node.features,
                    "domains": node.domains,
                    "seen_at": last_seen(node),
                    "request": requests.get((node.cluster_id, node.name)),
                }
            ).data
        )
        for node in found
    ]


def _node(node_id: UUID) -> ClusterNode:
    node = ClusterNode.objects.select_related("cluster", "pool").filter(pk=node_id).first()
    if node is None:
        raise NotFound("There is no such node.")
    return node


def _named_cluster(name: str) -> Cluster:
    cluster = Cluster.objects.filter(name=name).first()
    if cluster is None:
        raise InvalidRequest(
            f"There is no cluster {name[:63]!r}.",
            errors=[FieldError("/cluster", "is not a cluster")],
        )
    return cluster

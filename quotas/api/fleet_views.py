"""Pools and clusters. All users may see them, and platform administrators may change them."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from clusters.models import Cluster, Pool
from clusters.queries import cluster_by_id, pool_by_id, shares_of
from clusters.registration import (
    add_cluster,
    add_pool,
    change_cluster,
    change_pool,
    delete_pool,
)
from connectors.registry import kinds_by_label
from outbox.quarantine import open_quarantine
from primitives.clock import SystemClock
from quotas.api.fleet_serializers import (
    ClusterCreateSerializer,
    ClusterKindSerializer,
    ClusterSerializer,
    ClusterUpdateSerializer,
    PoolCreateSerializer,
    PoolSerializer,
    PoolUpdateSerializer,
    shown_cluster,
    shown_pool,
)
from quotas.fleet import administrator, pool_rows
from quotas.pushes import check_changed, delete_never_used
from tenants.api.authentication import actor_from
from webapi.idempotency import respond_once
from webapi.paging import (
    Page,
    page_body,
    page_by_text,
    refuse_unknown_parameters,
)
from webapi.parameters import PageParameters
from webapi.serializers import IDEMPOTENCY_KEY, answers, page_of


class PoolList(APIView):
    """All pools."""

    @extend_schema(
        operation_id="list_pools",
        summary="List pools",
        parameters=PageParameters.in_openapi(),
        responses=answers({200: page_of(PoolSerializer)}),
    )
    def get(self, request: Request) -> Response:
        """List pools, by name."""
        asked = PageParameters.read(request)
        page = page_by_text(asked, Pool.objects.all(), "name")
        rows = Page(
            pool_rows(actor_from(request), page.items, now=SystemClock().now()), page.next_cursor
        )
        return Response(page_body(request, rows, PoolSerializer().to_representation))

    @extend_schema(
        operation_id="create_pool",
        summary="Add a pool",
        request=PoolCreateSerializer,
        parameters=[IDEMPOTENCY_KEY],
        responses=answers({201: PoolSerializer}, 403, 409, 422),
    )
    def post(self, request: Request) -> Response:
        """Add a pool. For platform administrators."""
        refuse_unknown_parameters(request, set())
        actor = actor_from(request)
        by = administrator(actor)
        body = PoolCreateSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        now = SystemClock().now()

        def act() -> tuple[int, dict[str, Any]]:
            pool = add_pool(**body.validated_data, by=by, now=now)
            return 201, shown_pool(pool, actor=actor)

        return respond_once(request, principal_id=actor.user.pk, now=now, act=act)


class PoolDetail(APIView):
    """One pool."""

    @extend_schema(
        operation_id="get_pool", summary="Get a pool", responses=answers({200: PoolSerializer}, 404)
    )
    def get(self, request: Request, pool_id: UUID) -> Response:
        """Get a pool."""
        refuse_unknown_parameters(request, set())
        return Response(shown_pool(pool_by_id(pool_id), actor=actor_from(request)))

    @extend_schema(
        operation_id="change_pool",
        summary="Change a pool",
        request=PoolUpdateSerializer,
        responses=answers({200: PoolSerializer}, 403, 404),
    )
    def patch(self, request: Request, pool_id: UUID) -> Response:
        """Change a pool. For platform administrators. The name stays."""
        refuse_unknown_parameters(request, set())
        actor = actor_from(request)
        by = administrator(actor)
        body = PoolUpdateSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        pool = change_pool(
            pool_by_id(pool_id), **body.validated_data, by=by, now=SystemClock().now()
        )
        return Response(shown_pool(pool, actor=actor))

    @extend_schema(
        operation_id="delete_pool",
        summary="Delete a pool that was never used",
        description="409 lists what refers to it. For platform administrators.",
        responses=answers({204: None}, 403, 404, 409),
    )
    def delete(self, request: Request, pool_id: UUID) -> Response:
        """Delete a pool."""
        refuse_unknown_parameters(request, set())
        by = administrator(actor_from(request))
        delete_pool(pool_by_id(pool_id), by=by, now=SystemClock().now())
        return Response(status=204)


class ClusterKindList(APIView):
    """The kinds of cluster that can be added."""

    @extend_schema(
        operation_id="list_cluster_kinds",
        summary="List kinds of cluster",
        description="For platform administrators.",
        responses=answers({200: page_of(ClusterKindSerializer)}, 403),
    )
    def get(self, request: Request) -> Response:
        """List the kinds by their names for people, with the schema of their options."""
        refuse_unknown_parameters(request, set())
        administrator(actor_from(request))
        items = [ClusterKindSerializer(kind).data for kind in kinds_by_label()]
        return Response({"items": items, "next": None})


class ClusterList(APIView):
    """All clusters."""

    @extend_schema(
        operation_id="list_clusters",
        summary="List clusters",
        parameters=PageParameters.in_openapi(),
        responses=answers({200: page_of(ClusterSerializer)}),
    )
    def get(self, request: Request) -> Response:
        """List clusters, by name."""
        asked = PageParameters.read(request)
        actor, now = actor_from(request), SystemClock().now()
        page = page_by_text(asked, Cluster.objects.all(), "name")
        shares, quarantine = shares_of(page.items), open_quarantine()
        return Response(
            page_body(
                request,
                page,
                lambda cluster: shown_cluster(
                    cluster,
                    shares.get(cluster.pk, []),
                    actor=actor,
                    now=now,
                    quarantine=quarantine,
                ),
            )
        )

    @extend_schema(
        operation_id="create_cluster",
        summary="Add a cluster",
        request=ClusterCreateSerializer,
        parameters=[IDEMPOTENCY_KEY],
        responses=answers({201: ClusterSerializer}, 403, 409, 422),
    )
    def post(self, request: Request) -> Response:
        """Add a cluster. For platform administrators."""
        refuse_unknown_parameters(request, set())
        actor = actor_from(request)
        by = administrator(actor)
        body = ClusterCreateSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        now = SystemClock().now()

        def act() -> tuple[int, dict[str, Any]]:
            cluster = add_cluster(**body.validated_data, by=by, now=now)
            return 201, shown_cluster(
                cluster, [], actor=actor, now=now, quarantine=open_quarantine()
            )

        return respond_once(request, principal_id=actor.user.pk, now=now, act=act)


class ClusterDetail(APIView):
    """One cluster."""

    @extend_schema(
        operation_id="get_cluster",
        summary="Get a cluster",
        responses=answers({200: ClusterSerializer}, 404),
    )
    def get(self, request: Request, cluster_id: UUID) -> Response:
        """Get a cluster."""
        refuse_unknown_parameters(request, set())
        cluster = cluster_by_id(cluster_id)
        shares = shares_of([cluster]).get(cluster.pk, [])
        return Response(
            shown_cluster(
                cluster,
                shares,
                actor=actor_from(request),
                now=SystemClock().now(),
                quarantine=open_quarantine(),
            )
        )

    @extend_schema(
        operation_id="change_cluster",
        summary="Change a cluster",
        request=ClusterUpdateSerializer,
        responses=answers({200: ClusterSerializer}, 403, 404),
    )
    def patch(self, request: Request, cluster_id: UUID) -> Response:
        """Change a cluster. For platform administrators. Name and kind stay."""
        refuse_unknown_parameters(request, set())
        actor = actor_from(request)
        by = administrator(actor)
        body = ClusterUpdateSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        now = SystemClock().now()
        cluster = change_cluster(cluster_by_id(cluster_id), **body.validated_data, by=by, now=now)
        if "options" in body.validated_data:
            check_changed(cluster, now=now)
        shares = shares_of([cluster]).get(cluster.pk, [])
        return Response(
            shown_cluster(cluster, shares, actor=actor, now=now, quarantine=open_quarantine())
        )

    @extend_schema(
        operation_id="delete_cluster",
        summary="Delete a cluster that never answered",
        description="409 lists what refers to it. For platform administrators.",
        responses=answers({204: None}, 403, 404, 409),
    )
    def delete(self, request: Request, cluster_id: UUID) -> Response:
        """Delete a cluster."""
        refuse_unknown_parameters(request, set())
        by = administrator(actor_from(request))
        delete_never_used(cluster_by_id(cluster_id), by=by, now=SystemClock().now())
        return Response(status=204)

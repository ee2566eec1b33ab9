"""Entitlements of people in their teams, fair-share, and capacity."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from primitives.clock import SystemClock
from quotas.administration import named_pool
from shares.api.pool_serializers import (
    ExplainedFairShareSerializer,
    NodeSummariesSerializer,
    PoolCapacitySerializer,
    capacity_body,
    explained_fair_share_body,
    summaries_body,
)
from shares.api.serializers import EntitlementSerializer, entitlement_body
from shares.capacity import capacity_of
from shares.entitlements import entitlement_of
from shares.explained_fair_share import explained_fair_share
from shares.summaries import summaries_below
from tenants.api.authentication import actor_from
from webapi.parameters import Parameters, flag, text
from webapi.serializers import answers


class EntitlementParameters(Parameters):
    """The team and the pool of an entitlement."""

    team: str = text("Path of the team", required="give the path of a team")
    pool: str | None = text("Only this pool. Default: all pools of the organization")
    numbers_only: bool = flag("Leave out `starts`, which take longer")


class EntitlementView(APIView):
    """The entitlement of the caller in a team."""

    @extend_schema(
        operation_id="get_entitlement",
        summary="Get what a team has of each pool, and what could start now",
        description="Guarantee, fair-share, use, lent and borrowed GPUs, and what others may "
        "reclaim. `starts` are decided by the scheduler as if each job alone were submitted now; "
        "nothing is reserved. `waits` are those of the last weeks.",
        parameters=EntitlementParameters.in_openapi(),
        responses=answers({200: EntitlementSerializer}, 404),
    )
    def get(self, request: Request) -> Response:
        """Get the entitlement."""
        asked = EntitlementParameters.read(request)
        found = entitlement_of(
            asked.team,
            pool=None if asked.pool is None else named_pool(asked.pool),
            with_starts=not asked.numbers_only,
            actor=actor_from(request),
            now=SystemClock().now(),
        )
        return Response(EntitlementSerializer(entitlement_body(found)).data)


class NodeAndPoolParameters(Parameters):
    """A node and a pool."""

    node: str = text("Path of the node", required="give the path of a node")
    pool: str = text("Name of the pool", required="give the name of a pool")


class FairShareView(APIView):
    """The fair-share of a node."""

    @extend_schema(
        operation_id="get_fair_share",
        summary="Get the fair-share of a node, its place among its siblings, and its outlook",
        description="All numbers are those by which the scheduler orders nodes at this moment.",
        parameters=NodeAndPoolParameters.in_openapi(),
        responses=answers({200: ExplainedFairShareSerializer}, 404),
    )
    def get(self, request: Request) -> Response:
        """Get the fair-share."""
        asked = NodeAndPoolParameters.read(request)
        found = explained_fair_share(
            asked.node,
            named_pool(asked.pool),
            actor=actor_from(request),
            now=SystemClock().now(),
        )
        return Response(ExplainedFairShareSerializer(explained_fair_share_body(found)).data)


class NodeSummaries(APIView):
    """The summaries of a node and of all nodes below it."""

    @extend_schema(
        operation_id="get_node_summaries",
        summary="Get fair-share, credits and the last week of all nodes below a node",
        parameters=NodeAndPoolParameters.in_openapi(),
        responses=answers({200: NodeSummariesSerializer}, 404),
    )
    def get(self, request: Request) -> Response:
        """Get the summaries."""
        asked, now = NodeAndPoolParameters.read(request), SystemClock().now()
        pool = named_pool(asked.pool)
        found = summaries_below(asked.node, pool, actor=actor_from(request), now=now)
        return Response(NodeSummariesSerializer(summaries_body(pool, now, found)).data)


class CapacityView(APIView):
    """The capacity of a pool."""

    @extend_schema(
        operation_id="get_capacity",
        summary="Get the free blocks of a pool by size, and who borrows and who starves",
        description="Free devices are those of all clusters of the pool. Loans and starved teams "
        "are of the node's organization, after the last decision.",
        parameters=NodeAndPoolParameters.in_openapi(),
        responses=answers({200: PoolCapacitySerializer}, 404),
    )
    def get(self, request: Request) -> Response:
        """Get the capacity."""
        asked = NodeAndPoolParameters.read(request)
        found = capacity_of(
            asked.node,
            named_pool(asked.pool),
            actor=actor_from(request),
            now=SystemClock().now(),
        )
        return Response(PoolCapacitySerializer(capacity_body(found)).data)

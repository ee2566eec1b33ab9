"""Months of an organization."""

from __future__ import annotations

from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from periods.api.serializers import (
    PeriodCloseSerializer,
    PeriodDetailSerializer,
    PeriodSerializer,
)
from periods.closing import close_month, months_of, one_month, organization_of
from primitives.clock import SystemClock
from tenants.api.authentication import actor_from
from tenants.roles import Permission
from webapi.paging import refuse_unknown_parameters
from webapi.serializers import answers, page_of


class PeriodList(APIView):
    """The months of an organization."""

    @extend_schema(
        operation_id="list_periods",
        summary="List the months of an organization",
        description="From its first use on, newest first, at most 24. For people who see the costs "
        "of the whole organization.",
        responses=answers({200: page_of(PeriodSerializer)}, 403, 404),
    )
    def get(self, request: Request, organization_id: UUID) -> Response:
        """List months."""
        refuse_unknown_parameters(request, set())
        node = organization_of(actor_from(request), organization_id, Permission.VIEW_COSTS)
        views = months_of(node, now=SystemClock().now())
        return Response({"items": [PeriodSerializer(view).data for view in views], "next": None})


class PeriodDetail(APIView):
    """A month of an organization."""

    @extend_schema(
        operation_id="get_period",
        summary="Get a month, and its charges once it is closed",
        responses=answers({200: PeriodDetailSerializer}, 403, 404),
    )
    def get(self, request: Request, organization_id: UUID, month: str) -> Response:
        """Get a month."""
        refuse_unknown_parameters(request, set())
        node = organization_of(actor_from(request), organization_id, Permission.VIEW_COSTS)
        view = one_month(node, month, now=SystemClock().now())
        return Response(PeriodDetailSerializer(view).data)


class PeriodClosing(APIView):
    """The closing of a month."""

    @extend_schema(
        operation_id="close_period",
        summary="Close a month for good",
        description="Its charges are stored as they are, and never change. Late facts become "
        "corrections in the next month that is closed.",
        request=PeriodCloseSerializer,
        responses=answers({200: PeriodDetailSerializer}, 403, 404, 409),
    )
    def post(self, request: Request, organization_id: UUID, month: str) -> Response:
        """Close a month."""
        refuse_unknown_parameters(request, set())
        body = PeriodCloseSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        actor, now = actor_from(request), SystemClock().now()
        reason = body.validated_data.get("reason", "")
        period = close_month(organization_id, month, reason, actor=actor, now=now)
        view = one_month(period.organization, month, now=now)
        return Response(PeriodDetailSerializer(view).data)

"""Reconciled days."""

from __future__ import annotations

from datetime import date
from uuid import UUID

from django.db.models import Q
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from billing.acknowledgements import acknowledge_day
from billing.api.reconciliation_serializers import (
    AcknowledgementRequestSerializer,
    ReconciliationDetailSerializer,
    ReconciliationRequestSerializer,
    ReconciliationSerializer,
)
from billing.reconciliations import day_view, one_day, request_day, visible_days
from primitives.clock import SystemClock
from tenants.api.authentication import actor_from
from webapi.paging import (
    Page,
    day_or_refuse,
    decode_cursor,
    encode_cursor,
    page_body,
    refuse_unknown_parameters,
)
from webapi.parameters import PageParameters, day, text
from webapi.serializers import answers, page_of


class ReconciliationParameters(PageParameters):
    """The filters of the list of reconciled days."""

    cluster: str | None = text("Only this cluster")
    start: date | None = day("Only this UTC day and later ones")
    end: date | None = day("Only days before this UTC day")
    day: date | None = day("Only this UTC day")


class ReconciliationList(APIView):
    """Days on which the meter was compared with a cluster's own account."""

    @extend_schema(
        operation_id="list_reconciliations",
        summary="List reconciled days, newest first",
        description="Sums and status cover the accounts whose costs the caller may see.",
        parameters=ReconciliationParameters.in_openapi(),
        responses=answers({200: page_of(ReconciliationSerializer)}, 403),
    )
    def get(self, request: Request) -> Response:
        """List days, newest first."""
        asked = ReconciliationParameters.read(request)
        actor = actor_from(request)
        rows = visible_days(actor)
        if asked.cluster is not None:
            rows = rows.filter(cluster__name=asked.cluster)
        if asked.day is not None:
            rows = rows.filter(day=asked.day)
        if asked.start is not None:
            rows = rows.filter(day__gte=asked.start)
        if asked.end is not None:
            rows = rows.filter(day__lt=asked.end)
        limit = asked.limit
        if asked.cursor is not None:
            words, name = decode_cursor(asked.cursor, parts=2)
            last = day_or_refuse(words, "cursor")
            rows = rows.filter(Q(day__lt=last) | Q(day=last, cluster__name__gt=name))
        found = list(rows.order_by("-day", "cluster__name")[: limit + 1])
        items = [day_view(actor, row) for row in found[:limit]]
        following = None
        if len(found) > limit:
            end = items[-1].row
            following = encode_cursor([end.day.isoformat(), end.cluster.name])
        return Response(
            page_body(
                request,
                Page(items, following),
                ReconciliationSerializer().to_representation,
            )
        )

    @extend_schema(
        operation_id="request_reconciliation",
        summary="Request the comparison of a day",
        description="The comparison runs soon. The answer shows the day before it. While an "
        "earlier request is open, this request joins it.",
        request=ReconciliationRequestSerializer,
        responses=answers({202: ReconciliationSerializer}, 403, 404, 409),
    )
    def post(self, request: Request) -> Response:
        """Request the comparison of a day."""
        refuse_unknown_parameters(request, set())
        body = ReconciliationRequestSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        actor = actor_from(request)
        row = request_day(
            body.validated_data["cluster"],
            body.validated_data["day"],
            actor=actor,
            now=SystemClock().now(),
        )
        seen = visible_days(actor).get(pk=row.pk)
        return Response(ReconciliationSerializer(day_view(actor, seen)).data, status=202)


class ReconciliationDetail(APIView):
    """One reconciled day."""

    @extend_schema(
        operation_id="get_reconciliation",
        summary="Get a reconciled day with its differences",
        responses=answers({200: ReconciliationDetailSerializer}, 403, 404),
    )
    def get(self, request: Request, reconciliation_id: UUID) -> Response:
        """Get a day."""
        refuse_unknown_parameters(request, set())
        view = one_day(actor_from(request), reconciliation_id)
        return Response(ReconciliationDetailSerializer(view).data)


class ReconciliationAcknowledgement(APIView):
    """The acknowledgement of a red day."""

    @extend_schema(
        operation_id="acknowledge_reconciliation",
        summary="Acknowledge a red day with a reason",
        description="The day stays red. The acknowledgement lapses when a later comparison finds "
        "other differences.",
        request=AcknowledgementRequestSerializer,
        responses=answers({200: ReconciliationDetailSerializer}, 403, 404, 409),
    )
    def post(self, request: Request, reconciliation_id: UUID) -> Response:
        """Acknowledge a day."""
        refuse_unknown_parameters(request, set())
        body = AcknowledgementRequestSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        actor = actor_from(request)
        acknowledge_day(
            reconciliation_id,
            body.validated_data["reason"],
            actor=actor,
            now=SystemClock().now(),
        )
        return Response(ReconciliationDetailSerializer(one_day(actor, reconciliation_id)).data)

"""Reports by groups."""

from __future__ import annotations

from datetime import datetime

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from chargeback.api.parameters import NarrowedParameters, PeriodParameters
from chargeback.api.serializers import (
    ClosedMonthsSerializer,
    GroupedReportSerializer,
    IdleSerializer,
    MovesSerializer,
)
from chargeback.checks import closed_months
from chargeback.dimensions import Dimension
from chargeback.group_csv import csv_lines, file_name
from chargeback.idle import Share, idle_between
from chargeback.moves import moves_between
from chargeback.reports import grouped_report
from primitives.clock import SystemClock
from tenants.api.authentication import actor_from
from webapi.formats import CsvRenderer, NamedFormats
from webapi.parameters import choice, in_order, time
from webapi.serializers import answers


class GroupParameters(NarrowedParameters):
    """The parameters of a report by groups."""

    by: tuple[str, ...] = in_order(
        Dimension,
        "One or two dimensions, at most one of them of time",
        default=(Dimension.TEAM, Dimension.POOL),
    )
    priced_at: datetime | None = time(
        "What the period would cost at the prices of this moment. Default: as charged",
        is_in_seconds=True,
    )
    format: str = choice(("json", "csv"), default="json")


class Chargeback(APIView):
    """Use and cost of a period by groups."""

    renderer_classes = [JSONRenderer, CsvRenderer]
    content_negotiation_class = NamedFormats

    @extend_schema(
        operation_id="get_chargeback",
        summary="Get usage and cost of a period by one or two dimensions",
        description="Covers everything below `node`, or else all nodes whose costs the caller may "
        "see. Days, weeks and months are those of the organization's time zone. With the same "
        "`as_of`, a report and the jobs behind it agree exactly.",
        parameters=GroupParameters.in_openapi(),
        responses=answers(
            {
                (200, "application/json"): GroupedReportSerializer,  # type: ignore[dict-item]
                (200, "text/csv"): OpenApiTypes.STR,  # type: ignore[dict-item]
            },
            403,
            404,
        ),
    )
    def get(self, request: Request) -> Response:
        """Get the report."""
        asked = GroupParameters.read(request)
        report = grouped_report(
            actor=actor_from(request),
            by=[Dimension(dimension) for dimension in asked.by],
            asked=asked.asked,
            narrowed=asked.narrowed,
            priced_at=asked.priced_at,
            now=SystemClock().now(),
        )
        if request.accepted_renderer.format == "csv":
            name = file_name(report)
            return Response(
                "".join(csv_lines(report)),
                headers={"Content-Disposition": f'attachment; filename="{name}"'},
            )
        return Response(GroupedReportSerializer(report).data)


class ChargebackMoves(APIView):
    """The change of costs since the period before."""

    @extend_schema(
        operation_id="get_chargeback_moves",
        summary="Split the change of costs since the period before into its causes",
        description="Before a month is the month before. The parts sum exactly to the change.",
        parameters=NarrowedParameters.in_openapi(),
        responses=answers({200: MovesSerializer}, 403, 404),
    )
    def get(self, request: Request) -> Response:
        """Get what moved."""
        asked = NarrowedParameters.read(request)
        found = moves_between(
            actor=actor_from(request),
            asked=asked.asked,
            narrowed=asked.narrowed,
            now=SystemClock().now(),
        )
        return Response(MovesSerializer(found).data)


class ClosedMonths(APIView):
    """Closed months beside what was billed for them."""

    @extend_schema(
        operation_id="check_closed_months",
        summary="Compare the report of closed months with their charges, statements and ledger",
        description="Of the organizations whose costs the caller sees completely. It has the "
        "months inside of the period, the latest first, at most 3.",
        parameters=PeriodParameters.in_openapi(),
        responses=answers({200: ClosedMonthsSerializer}, 403),
    )
    def get(self, request: Request) -> Response:
        """Compare the months."""
        asked = PeriodParameters.read(request)
        found = closed_months(actor=actor_from(request), asked=asked.asked, now=SystemClock().now())
        return Response(ClosedMonthsSerializer({"months": found}).data)


class IdleParameters(PeriodParameters):
    """The period of idle time, and its share-out."""

    share: str = choice(Share, "How idle time is shared out among teams", default=Share.NONE)


class ChargebackIdle(APIView):
    """Idle and spare GPUs of a period."""

    @extend_schema(
        operation_id="get_chargeback_idle",
        summary="Get idle and spare GPUs of a period, and share them out among teams",
        description="Only of pools whose capacity reveals nothing about other organizations' use.",
        parameters=IdleParameters.in_openapi(),
        responses=answers({200: IdleSerializer}, 403, 404),
    )
    def get(self, request: Request) -> Response:
        """Get idle time."""
        asked = IdleParameters.read(request)
        found = idle_between(
            actor=actor_from(request),
            asked=asked.asked,
            share=Share(asked.share),
            pool_name=asked.pool,
            now=SystemClock().now(),
        )
        return Response(IdleSerializer(found).data)

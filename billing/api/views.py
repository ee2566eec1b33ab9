"""Chargeback reports."""

from __future__ import annotations

from datetime import datetime

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from billing.api.serializers import ChargebackReportSerializer
from billing.chargeback import GroupBy, chargeback
from billing.csv_export import csv_lines, file_name
from billing.periods import Period, period_of
from primitives.clock import SystemClock
from primitives.errors import FieldError, InvalidRequest
from tenants.api.authentication import actor_from
from webapi.formats import CsvRenderer, NamedFormats
from webapi.parameters import Parameters, choice, text, time
from webapi.serializers import answers

_A_TIME = "give a time such as 2026-11-21T12:00:00Z"


class PeriodParameters(Parameters):
    """The period of a report, and its pool."""

    start: datetime = time("Start, with an offset", is_in_seconds=True, required=_A_TIME)
    end: datetime = time(
        "End, excluded; at most 400 days after start", is_in_seconds=True, required=_A_TIME
    )
    as_of: datetime | None = time(
        "Count running jobs until this time. Default: now. With the same as_of, a report and the "
        "jobs behind it agree exactly.",
        is_in_seconds=True,
    )
    pool: str | None = text("Only this pool")

    def period(self, now: datetime) -> Period:
        """Return the period. Raises InvalidRequest for one that is empty or too long."""
        return period_of(self.start, self.end, as_of=self.as_of, now=now)


class ReportParameters(PeriodParameters):
    """The parameters of the report."""

    organization: str | None = text("Only this organization, by its slug")
    team: str | None = text("Only the node with this path, and below it")
    group_by: GroupBy = choice(
        ("team", "department"),
        "department: includes organizations and departments, parents first",
        default="team",
    )
    priced_at: datetime | None = time(
        "What the period would cost at the prices of this moment. The answer says so in "
        "`priced_at`, and a CSV in a column and in its file name. Default: as charged",
        is_in_seconds=True,
    )
    format: str = choice(("json", "csv"), default="json")

    @property
    def top(self) -> str | None:
        """The path of the node that the report covers, or None."""
        if self.organization is not None and self.team is not None:
            raise InvalidRequest(
                "Give organization or team, not both. A team's path begins with its organization.",
                errors=[FieldError("/organization", "is given beside team")],
            )
        return self.organization if self.team is None else self.team


class ChargebackView(APIView):
    """Usage and cost of a period."""

    renderer_classes = [JSONRenderer, CsvRenderer]
    content_negotiation_class = NamedFormats

    @extend_schema(
        operation_id="get_chargeback_report",
        summary="Get usage and cost of a period",
        description="Covers everything below `organization` or `team`, or else all nodes whose "
        "costs the caller may see. CSV has one line per team, pool and usage class.",
        parameters=ReportParameters.in_openapi(),
        responses=answers(
            {
                (200, "application/json"): ChargebackReportSerializer,  # type: ignore[dict-item]
                (200, "text/csv"): OpenApiTypes.STR,  # type: ignore[dict-item]
            },
            403,
            404,
        ),
    )
    def get(self, request: Request) -> Response:
        """Get the report."""
        asked = ReportParameters.read(request)
        report = chargeback(
            actor=actor_from(request),
            period=asked.period(SystemClock().now()),
            node_path=asked.top,
            group_by=asked.group_by,
            pool_name=asked.pool,
            priced_at=asked.priced_at,
        )
        if request.accepted_renderer.format == "csv":
            # A report has at most teams x pools x classes lines, which are summed already. It is
            # sent whole, because a broken stream would leave a file that looks complete.
            name = file_name(report)
            return Response(
                "".join(csv_lines(report)),
                headers={"Content-Disposition": f'attachment; filename="{name}"'},
            )
        return Response(ChargebackReportSerializer(report).data)

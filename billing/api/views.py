"""Chargeback reports."""

from __future__ import annotations

from datetime import datetime

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from billing.api.serializers import (
    ChargebackJobSerializer,
    ChargebackReportSerializer,
)
from billing.chargeback import GroupBy, JobKey, JobUse, chargeback, jobs_behind
from billing.csv_export import csv_lines, file_name
from billing.models import UsageClass
from billing.periods import Period, period_of
from primitives.clock import SystemClock
from primitives.errors import FieldError, InvalidRequest
from tenants.api.authentication import actor_from
from webapi.formats import CsvRenderer, NamedFormats
from webapi.paging import (
    Page,
    decode_cursor,
    encode_cursor,
    page_body,
    time_or_refuse,
    uuid_or_refuse,
)
from webapi.parameters import PageParameters, Parameters, choice, text, time
from webapi.serializers import answers, page_of

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


class ReportJobsParameters(PeriodParameters, PageParameters):
    """The parameters of the jobs behind a number."""

    node: str = text("Path of the row's node", required="give the path of a node of the report")
    usage_class: str | None = choice(UsageClass, "Only this class. Default: all")


#: More digits than the usage of any attempt. It keeps a cursor's number within the database's
#: range.
_USAGE_DIGITS_MAX = 30


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


class ChargebackJobs(APIView):
    """The jobs behind a number of the report."""

    @extend_schema(
        operation_id="list_chargeback_jobs",
        summary="List the jobs behind a number of the report",
        description="Largest first. All pages use the time of the first page, so together they sum "
        "to the number.",
        parameters=ReportJobsParameters.in_openapi(),
        responses=answers({200: page_of(ChargebackJobSerializer)}, 403, 404),
    )
    def get(self, request: Request) -> Response:
        """List jobs, largest first."""
        asked = ReportJobsParameters.read(request)
        now = SystemClock().now()
        period, after = asked.period(now), None
        if asked.cursor is not None:
            period, after = _after(asked.cursor, period, now)
        jobs, more = jobs_behind(
            actor=actor_from(request),
            period=period,
            node_path=asked.node,
            pool_name=asked.pool,
            usage_class=None if asked.usage_class is None else UsageClass(asked.usage_class),
            after=after,
            limit=asked.limit,
        )
        page = Page(jobs, _cursor(period, jobs[-1]) if more else None)
        return Response(page_body(request, page, lambda job: ChargebackJobSerializer(job).data))


def _cursor(period: Period, last: JobUse) -> str:
    return encode_cursor(
        [
            period.as_of.isoformat(),
            str(last.mgpu_s),
            str(last.job_id),
            last.usage_class.value,
            last.team,
            last.pool,
        ]
    )


def _after(cursor: str, period: Period, now: datetime) -> tuple[Period, JobKey]:
    """Return the period with the time of the first page, and the job before this page."""
    as_of, mgpu_s, job_id, usage_class, team, pool = decode_cursor(cursor, parts=6)
    is_number = mgpu_s.isascii() and mgpu_s.isdigit() and len(mgpu_s) <= _USAGE_DIGITS_MAX
    if not is_number or usage_class not in UsageClass.values:
        raise InvalidRequest(
            "The cursor is not valid for this list. Start again without it.",
            errors=[FieldError("/cursor", "is not a cursor of this list")],
        )
    job = uuid_or_refuse(job_id, "cursor")
    key = JobKey(int(mgpu_s), job, UsageClass(usage_class), team, pool)
    known = period_of(period.start, period.end, as_of=time_or_refuse(as_of, "cursor"), now=now)
    return known, key

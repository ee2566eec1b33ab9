"""The jobs behind a number of a report."""

from __future__ import annotations

from datetime import datetime

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from billing.periods import Period, period_of
from billing.usage_sql import CLASSES
from chargeback.api.parameters import NarrowedParameters
from chargeback.api.sum_serializers import ChargebackJobSerializer
from chargeback.job_csv import job_lines, jobs_file_name
from chargeback.jobs import JobKey, JobUse, every_job, jobs_behind
from chargeback.reports import charged_as, zone_for
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
from webapi.parameters import PageParameters, choice, text
from webapi.serializers import answers, page_of


class JobsParameters(NarrowedParameters, PageParameters):
    """The parameters of the jobs behind a number."""

    node: str = text("Path of the row's node", required="give the path of a node of the report")
    format: str = choice(("json", "csv"), default="json")


#: More digits than the usage of any attempt. It keeps a cursor's number within the database's
#: range.
_USAGE_DIGITS_MAX = 30


class ChargebackJobs(APIView):
    """The jobs behind a number of the report."""

    renderer_classes = [JSONRenderer, CsvRenderer]
    content_negotiation_class = NamedFormats

    @extend_schema(
        operation_id="list_chargeback_jobs",
        summary="List the jobs behind a number of the report",
        description="Use first, the largest first, then commitments and top-ups. All pages use the "
        "time of the first page, so together they sum to the number. CSV has all of them, at "
        "most 10,000.",
        parameters=JobsParameters.in_openapi(),
        responses=answers(
            {
                (200, "application/json"): page_of(ChargebackJobSerializer),  # type: ignore[dict-item]
                (200, "text/csv"): OpenApiTypes.STR,  # type: ignore[dict-item]
            },
            403,
            404,
        ),
    )
    def get(self, request: Request) -> Response:
        """List jobs, largest first."""
        asked = JobsParameters.read(request)
        now = SystemClock().now()
        actor = actor_from(request)
        period, after = asked.asked.period(zone_for(actor, asked.node), now), None
        if asked.cursor is not None:
            period, after = _after(asked.cursor, period, now)
        if request.accepted_renderer.format == "csv":
            name = jobs_file_name(period, asked.node)
            found = every_job(actor=actor, period=period, narrowed=asked.narrowed)
            return Response(
                "".join(job_lines(period, found)),
                headers={"Content-Disposition": f'attachment; filename="{name}"'},
            )
        jobs, more = jobs_behind(
            actor=actor,
            period=period,
            narrowed=asked.narrowed,
            after=after,
            limit=asked.limit,
        )
        page = Page(jobs, _cursor(period, jobs[-1]) if more else None)
        return Response(page_body(request, page, ChargebackJobSerializer().to_representation))


def _cursor(period: Period, last: JobUse) -> str:
    return encode_cursor(
        [
            period.as_of.isoformat(),
            str(last.mgpu_s),
            "" if last.job_id is None else str(last.job_id),
            last.usage_class.value,
            last.team,
            last.pool,
        ]
    )


def _after(cursor: str, period: Period, now: datetime) -> tuple[Period, JobKey]:
    """Return the period with the time of the first page, and the job before this page."""
    as_of, mgpu_s, job_id, usage_class, team, pool = decode_cursor(cursor, parts=6)
    is_number = mgpu_s.isascii() and mgpu_s.isdigit() and len(mgpu_s) <= _USAGE_DIGITS_MAX
    if not is_number or usage_class not in CLASSES.values():
        raise InvalidRequest(
            "The cursor is not valid for this list. Start again without it.",
            errors=[FieldError("/cursor", "is not a cursor of this list")],
        )
    job = uuid_or_refuse(job_id, "cursor") if job_id else None
    key = JobKey(int(mgpu_s), job, charged_as(usage_class), team, pool)
    known = period_of(period.start, period.end, as_of=time_or_refuse(as_of, "cursor"), now=now)
    return known, key

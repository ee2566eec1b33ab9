"""The jobs behind a number of a report."""

from __future__ import annotations

from datetime import datetime

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from billing.api.serializers import ChargebackJobSerializer
from billing.chargeback import JobKey, JobUse, jobs_behind
from billing.models import UsageClass
from billing.periods import Period, period_of
from chargeback.api.parameters import NarrowedParameters
from chargeback.reports import zone_for
from primitives.clock import SystemClock
from primitives.errors import FieldError, InvalidRequest
from tenants.api.authentication import actor_from
from webapi.paging import (
    Page,
    decode_cursor,
    encode_cursor,
    page_body,
    time_or_refuse,
    uuid_or_refuse,
)
from webapi.parameters import PageParameters, text
from webapi.serializers import answers, page_of


class JobsParameters(NarrowedParameters, PageParameters):
    """The parameters of the jobs behind a number."""

    node: str = text("Path of the row's node", required="give the path of a node of the report")


#: More digits than the usage of any attempt. It keeps a cursor's number within the database's
#: range.
_USAGE_DIGITS_MAX = 30


class ChargebackJobs(APIView):
    """The jobs behind a number of the report."""

    @extend_schema(
        operation_id="list_chargeback_jobs",
        summary="List the jobs behind a number of the report",
        description="Largest first. All pages use the time of the first page, so together they sum "
        "to the number.",
        parameters=JobsParameters.in_openapi(),
        responses=answers({200: page_of(ChargebackJobSerializer)}, 403, 404),
    )
    def get(self, request: Request) -> Response:
        """List jobs, largest first."""
        asked = JobsParameters.read(request)
        now = SystemClock().now()
        actor = actor_from(request)
        period, after = asked.asked.period(zone_for(actor, asked.node), now), None
        if asked.cursor is not None:
            period, after = _after(asked.cursor, period, now)
        jobs, more = jobs_behind(
            actor=actor,
            period=period,
            node_path=asked.node,
            pool_name=asked.pool,
            usage_class=asked.narrowed.usage_class,
            attempts=asked.narrowed.attempts,
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

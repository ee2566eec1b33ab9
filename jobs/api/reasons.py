"""Why a job has waited, one reason after another."""

from __future__ import annotations

from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from jobs.api.serializers import JobReasonsSerializer
from jobs.queue.reason_documents import iso
from jobs.reading.reason_history import get_reasons
from tenants.api.authentication import actor_from
from webapi.paging import refuse_unknown_parameters
from webapi.serializers import answers

_SHOWN = ("code", "sentence", "numbers", "node", "jobs_ahead", "estimated_start")


class JobReasons(APIView):
    """The reasons for which a job has waited."""

    @extend_schema(
        operation_id="list_job_reasons",
        summary="The reasons for which a job has waited",
        description="A line whenever the cause changed, or the job began to wait again. Each holds "
        "until the next one or the start.",
        responses=answers({200: JobReasonsSerializer}, 404),
    )
    def get(self, request: Request, job_id: UUID) -> Response:
        """The last 100, the latest first."""
        refuse_unknown_parameters(request, set())
        found = get_reasons(job_id, actor=actor_from(request))
        return Response(
            {
                "items": [
                    {"since": iso(since), **{name: document[name] for name in _SHOWN}}
                    for since, document in found
                ]
            }
        )

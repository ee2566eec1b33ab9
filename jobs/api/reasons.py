"""The history of reasons for which a job waited."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from jobs.api.serializers import EXPLANATION_CODES, EstimatedStartSerializer
from jobs.queue.reason_documents import iso
from jobs.reading.reason_history import get_reasons
from tenants.api.authentication import actor_from
from webapi.paging import refuse_unknown_parameters
from webapi.serializers import answers

_SHOWN = ("code", "sentence", "numbers", "node", "jobs_ahead", "estimated_start")


class JobReasonSerializer(serializers.Serializer[Any]):
    """A reason for which a job waits or waited, with the numbers of its beginning."""

    since = serializers.DateTimeField()
    code = serializers.ChoiceField(choices=EXPLANATION_CODES)
    sentence = serializers.CharField()
    numbers = serializers.DictField(child=serializers.IntegerField())
    node = serializers.CharField(allow_null=True, help_text="Path of the node whose limit binds")
    jobs_ahead = serializers.IntegerField()
    estimated_start = EstimatedStartSerializer(allow_null=True)


class JobReasonsSerializer(serializers.Serializer[Any]):
    """The last 100 reasons for which a job waited, newest first."""

    items = JobReasonSerializer(many=True)


class JobReasons(APIView):
    """The reasons for which a job has waited."""

    @extend_schema(
        operation_id="list_job_reasons",
        summary="The reasons for which a job has waited",
        description="One line for each change of the reason, and for each time that the job began "
        "to wait. A reason is valid until the next line or the start.",
        responses=answers({200: JobReasonsSerializer}, 404),
    )
    def get(self, request: Request, job_id: UUID) -> Response:
        """Return the last 100 reasons, newest first."""
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

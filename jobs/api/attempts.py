"""The attempts (executions) of a job."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from jobs.api.rendering import attempt_body, written
from jobs.api.serializers import AttemptSerializer
from jobs.reading.queries import get_attempts
from tenants.api.authentication import actor_from
from webapi.paging import refuse_unknown_parameters
from webapi.serializers import answers


class JobAttemptsSerializer(serializers.Serializer[Any]):
    """The latest 500 attempts of a job, oldest first."""

    items = AttemptSerializer(many=True)


class JobAttempts(APIView):
    """The attempts (executions) of a job."""

    @extend_schema(
        operation_id="list_job_attempts",
        summary="A job's attempts",
        responses=answers({200: JobAttemptsSerializer}, 404),
    )
    def get(self, request: Request, job_id: UUID) -> Response:
        """Return the latest 500 attempts, oldest first."""
        refuse_unknown_parameters(request, set())
        actor = actor_from(request)
        found = get_attempts(job_id, actor=actor)
        return Response(written({"items": [attempt_body(item, actor=actor) for item in found]}))

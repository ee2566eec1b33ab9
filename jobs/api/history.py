"""The timeline of a job."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from jobs.api.rendering import history_body
from jobs.reading.queries import get_history
from tenants.api.authentication import actor_from
from webapi.paging import refuse_unknown_parameters
from webapi.serializers import answers


class JobEventSerializer(serializers.Serializer[Any]):
    """One line of a job's timeline."""

    at = serializers.DateTimeField()
    event = serializers.CharField()
    detail = serializers.DictField()


class JobHistorySerializer(serializers.Serializer[Any]):
    """The latest 1,000 lines of a job's timeline, oldest first."""

    items = JobEventSerializer(many=True)


class JobHistory(APIView):
    """The timeline of a job."""

    @extend_schema(
        operation_id="get_job_history",
        summary="A job's timeline",
        responses=answers({200: JobHistorySerializer}, 404),
    )
    def get(self, request: Request, job_id: UUID) -> Response:
        """Return the latest 1,000 lines, oldest first."""
        refuse_unknown_parameters(request, set())
        return Response(history_body(get_history(job_id, actor=actor_from(request))))

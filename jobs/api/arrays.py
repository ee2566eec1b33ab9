"""Job arrays."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from jobs.api.rendering import array_body
from jobs.api.serializers import ACTIONS
from jobs.submission.job_arrays import cancel_array, get_array
from primitives.clock import SystemClock
from tenants.api.authentication import actor_from
from webapi.paging import refuse_body, refuse_unknown_parameters
from webapi.serializers import answers


class JobArraySerializer(serializers.Serializer[Any]):
    """A job array, with its tasks counted by state. Each task is a job."""

    id = serializers.UUIDField()
    name = serializers.CharField(help_text="Its tasks are called name[index]")
    team = serializers.CharField(help_text="Path")
    user = serializers.CharField(help_text="Username")
    organization = serializers.CharField(help_text="Slug")
    pools = serializers.ListField(
        child=serializers.CharField(), help_text="Pools that its tasks accept, the preferred first"
    )
    indices = serializers.CharField(help_text="As submitted: `0-9`, `1,3,5-7`, `0-31:4`")
    size = serializers.IntegerField(help_text="Number of tasks")
    max_running = serializers.IntegerField(
        allow_null=True, help_text="Tasks that may run at once; null: all"
    )
    submitted_at = serializers.DateTimeField()
    counts = serializers.DictField(
        child=serializers.IntegerField(), help_text="Number of tasks by state, for every state"
    )
    first_started_at = serializers.DateTimeField(
        allow_null=True, help_text="The earliest start of the present attempts"
    )
    first_ended_at = serializers.DateTimeField(allow_null=True)
    last_ended_at = serializers.DateTimeField(
        allow_null=True, help_text="The latest end of a task so far"
    )
    can = serializers.ListField(
        child=serializers.ChoiceField(choices=ACTIONS), help_text="`cancel`, or empty"
    )


class JobArrayDetail(APIView):
    """One job array."""

    @extend_schema(
        operation_id="get_job_array",
        summary="One job array",
        description="Its tasks are listed by `GET /jobs?array=ID`.",
        responses=answers({200: JobArraySerializer}, 404),
    )
    def get(self, request: Request, array_id: UUID) -> Response:
        """Return the array with its tasks counted."""
        refuse_unknown_parameters(request, set())
        return Response(array_body(get_array(array_id, actor=actor_from(request))))


class JobArrayCancel(APIView):
    """The cancellation of an array."""

    @extend_schema(
        operation_id="cancel_job_array",
        summary="Cancel all tasks of an array",
        description="Cancels each task that has not ended, as a single job. Repeating it changes "
        "nothing.",
        request=None,
        responses=answers({200: JobArraySerializer}, 403, 404),
    )
    def post(self, request: Request, array_id: UUID) -> Response:
        """Cancel the array and return it."""
        refuse_unknown_parameters(request, set())
        actor, now = actor_from(request), SystemClock().now()
        refuse_body(request)
        cancel_array(array_id, actor=actor, now=now)
        return Response(array_body(get_array(array_id, actor=actor)))

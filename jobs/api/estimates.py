"""The estimated start of a waiting job, by a look-ahead."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from jobs.api.serializers import EstimatedStartSerializer
from jobs.queue.reason_documents import iso
from jobs.whatif.looking_ahead import (
    HORIZON_S_DEFAULT,
    HORIZON_S_MAX,
    HORIZON_S_MIN,
    estimate_start,
)
from primitives.clock import SystemClock
from tenants.api.authentication import actor_from
from webapi.paging import refuse_unknown_parameters
from webapi.serializers import StrictSerializer, WholeNumberField, answers

_METHOD = "look_ahead"


class StartEstimateRequestSerializer(StrictSerializer):
    """The horizon of a look-ahead, in seconds."""

    horizon_s = WholeNumberField(
        min_value=HORIZON_S_MIN,
        max_value=HORIZON_S_MAX,
        required=False,
        default=HORIZON_S_DEFAULT,
    )


class StartEstimateSerializer(serializers.Serializer[Any]):
    """The estimated start of a waiting job.

    It assumes that running jobs use their full time limit and that no new jobs are submitted.
    """

    as_of = serializers.DateTimeField()
    estimated_start = EstimatedStartSerializer(
        help_text="`latest` is null if the job does not start before `until`"
    )
    until = serializers.DateTimeField(help_text="End of the look-ahead")
    asked_until = serializers.DateTimeField()
    assumed_ends = serializers.IntegerField(
        help_text="Jobs without a time limit: assumed to run a day, or as long again as so far"
    )


class JobEstimate(APIView):
    """The estimated start of a waiting job."""

    @extend_schema(
        operation_id="estimate_job_start",
        summary="Estimate the start of a waiting job",
        description="Simulates the arbiter from this moment on. Changes nothing. The server works "
        "on one answer at a time; 429 says when to try again. 409 for a job that waits for "
        "something other than GPUs.",
        request=StartEstimateRequestSerializer,
        responses=answers({200: StartEstimateSerializer}, 404, 409),
    )
    def post(self, request: Request, job_id: UUID) -> Response:
        """Return the range of the start and the end of the look-ahead."""
        refuse_unknown_parameters(request, set())
        actor = actor_from(request)
        body = StartEstimateRequestSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        found = estimate_start(
            job_id,
            horizon_s=body.validated_data["horizon_s"],
            actor=actor,
            now=SystemClock().now(),
        )
        return Response(
            {
                "as_of": iso(found.as_of),
                "estimated_start": {
                    "earliest": iso(found.earliest),
                    "latest": None if found.latest is None else iso(found.latest),
                    "method": _METHOD,
                },
                "until": iso(found.until),
                "asked_until": iso(found.asked_until),
                "assumed_ends": found.assumed_ends,
            }
        )

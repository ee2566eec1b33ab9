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
from jobs.reading.costs import costs_of_job_attempts
from jobs.reading.queries import get_attempts, get_job
from primitives.clock import SystemClock
from tenants.api.authentication import actor_from
from webapi.paging import refuse_unknown_parameters
from webapi.serializers import answers


class JobAttemptsSerializer(serializers.Serializer[Any]):
    """The latest 500 attempts of a job, oldest first."""

    items = AttemptSerializer(many=True)


class AttemptCostSerializer(serializers.Serializer[Any]):
    """The use and the cost of an attempt so far."""

    attempt = serializers.UUIDField()
    mgpu_s = serializers.IntegerField()
    cost_nano = serializers.IntegerField()


class JobAttemptCostsSerializer(serializers.Serializer[Any]):
    """The costs of the attempts of a job; an attempt without use has none."""

    currency = serializers.CharField(
        allow_null=True, help_text="Null: the caller may not see the cost, or there is no rate card"
    )
    items = AttemptCostSerializer(many=True)


class JobAttemptCosts(APIView):
    """The costs of a job by attempt."""

    @extend_schema(
        operation_id="list_job_attempt_costs",
        summary="Costs of a job's attempts",
        responses=answers({200: JobAttemptCostsSerializer}, 404),
    )
    def get(self, request: Request, job_id: UUID) -> Response:
        """Return what each attempt used and cost so far."""
        refuse_unknown_parameters(request, set())
        actor, now = actor_from(request), SystemClock().now()
        view = get_job(job_id, actor=actor, now=now)
        found = costs_of_job_attempts(view.job, actor=actor, now=now)
        items = [
            {"attempt": attempt, "mgpu_s": cost.mgpu_s, "cost_nano": cost.cost_nano}
            for attempt, cost in found.by_attempt.items()
        ]
        return Response({"currency": found.currency, "items": items})


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

"""Unused GPUs, memory and CPUs of jobs over HTTP."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from jobs.api.metrics import MetricSummarySerializer
from jobs.api.serializers import WorkCostSerializer
from jobs.reading.unused import ENDED_WITHIN, IDLE_FOR, ROWS_MAX, UnusedRow, unused_below
from primitives.clock import SystemClock
from tenants.api.authentication import actor_from
from webapi.parameters import Parameters, text
from webapi.serializers import DEVICE_HELP, DEVICES, answers


class UnusedParameters(Parameters):
    """The node of the list."""

    node: str = text("Path of the node", required="give the path of a node")


class UnusedJobSerializer(serializers.Serializer[Any]):
    """An attempt of a job, and its figures."""

    job = serializers.UUIDField()
    name = serializers.CharField()
    team = serializers.CharField()
    user = serializers.CharField()
    pool = serializers.CharField()
    cluster = serializers.CharField()
    device = serializers.ChoiceField(choices=DEVICES, help_text=DEVICE_HELP)
    mgpu = serializers.IntegerField()
    attempt = serializers.IntegerField()
    state = serializers.CharField(help_text="State of the job")
    started_at = serializers.DateTimeField()
    ended_at = serializers.DateTimeField(allow_null=True)
    summary = MetricSummarySerializer()
    idle_mgpu_s = serializers.IntegerField(
        allow_null=True, help_text="GPU time since its GPUs had work; null outside of `idle_gpus`"
    )
    cost = WorkCostSerializer(
        allow_null=True,
        help_text="Cost of that time; null for callers who may not see the cost of the job, and "
        "where a price is missing",
    )


class UnusedSerializer(serializers.Serializer[Any]):
    """Jobs at or below a node that use little, the largest waste first in each list."""

    node = serializers.CharField()
    reports_gpus = serializers.BooleanField(
        help_text="Whether the cluster of any running job reports GPU use"
    )
    idle_gpus = UnusedJobSerializer(many=True)
    memory = UnusedJobSerializer(many=True)
    cpus = UnusedJobSerializer(many=True)


def _job_body(row: UnusedRow) -> dict[str, Any]:
    attempt, job = row.attempt, row.attempt.job
    return {
        "job": job.id,
        "name": job.name,
        "team": job.team.display_path,
        "user": job.user.username,
        "pool": job.pool.name,
        "cluster": attempt.cluster.name,
        "device": job.pool.kind,
        "mgpu": attempt.mgpu,
        "attempt": attempt.number,
        "state": job.state,
        "started_at": attempt.started_at,
        "ended_at": attempt.ended_at,
        "summary": row.summary,
        "idle_mgpu_s": None if row.idle_s is None else attempt.mgpu * row.idle_s,
        "cost": None if row.cost is None else row.cost._asdict(),
    }


class UnusedResources(APIView):
    """Jobs that use little of what they hold or asked for."""

    @extend_schema(
        operation_id="get_unused_resources",
        summary="List jobs with idle GPUs, and jobs that asked for far more memory or CPUs than "
        "they used",
        description="Idle GPUs: running jobs, all of whose GPUs have had a utilisation of 0 for "
        f"{IDLE_FOR.seconds // 60} minutes, or no process where the utilisation is unknown. Memory "
        "and CPUs: jobs that ran for 10 minutes and used less than a quarter of what they were "
        f"given or asked for. Jobs that ended are listed for {ENDED_WITHIN.days} days. Each list "
        f"has at most {ROWS_MAX} jobs, among those that the caller may see.",
        parameters=UnusedParameters.in_openapi(),
        responses=answers({200: UnusedSerializer}, 404),
    )
    def get(self, request: Request) -> Response:
        """Get the lists."""
        given = UnusedParameters.read(request)
        found = unused_below(given.node, actor=actor_from(request), now=SystemClock().now())
        body = {
            "node": found.path,
            "reports_gpus": found.reports_gpus,
            "idle_gpus": [_job_body(row) for row in found.idle_gpus],
            "memory": [_job_body(row) for row in found.memory],
            "cpus": [_job_body(row) for row in found.cpus],
        }
        return Response(UnusedSerializer(body).data)

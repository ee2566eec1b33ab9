"""Metrics of jobs over HTTP."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from jobs.reading.metric_csv import csv_lines
from jobs.reading.metrics import get_metrics
from primitives.clock import SystemClock
from tenants.api.authentication import actor_from
from webapi.formats import CsvRenderer, NamedFormats
from webapi.parameters import Parameters, choice, whole
from webapi.serializers import answers


class MetricParameters(Parameters):
    """The attempt and the format of metrics."""

    attempt: int | None = whole("Number of the attempt. Default: the latest", low=1, high=2**31 - 1)
    format: str = choice(("json", "csv"), default="json")


class GpuMetricSerializer(serializers.Serializer[Any]):
    """A GPU of an attempt at one moment; null: its cluster does not report the figure."""

    node = serializers.CharField()
    index = serializers.IntegerField(help_text="Counts on its node")
    utilisation_percent = serializers.IntegerField(allow_null=True)
    memory_bytes = serializers.IntegerField(allow_null=True)
    memory_total_bytes = serializers.IntegerField(allow_null=True)
    has_process = serializers.BooleanField(
        allow_null=True, help_text="Whether a process of the job holds it"
    )


class MetricPointSerializer(serializers.Serializer[Any]):
    """The figures of an attempt at one moment; null: its cluster does not report the figure."""

    at = serializers.DateTimeField()
    cpu_time_ms = serializers.IntegerField(
        allow_null=True, help_text="CPU time of all processes since the start"
    )
    cpu_rate_milli = serializers.IntegerField(
        allow_null=True,
        help_text="Busy milli-cores, on clusters that report no CPU time: the mean over the "
        "cluster's own window before this moment",
    )
    memory_bytes = serializers.IntegerField(allow_null=True, help_text="In use at this moment")
    processes = serializers.IntegerField(allow_null=True)
    gpus = GpuMetricSerializer(
        many=True, allow_null=True, help_text="Null: the cluster reports nothing about GPUs"
    )


class MetricSummarySerializer(serializers.Serializer[Any]):
    """The figures of a whole attempt; null: its cluster does not report the figure."""

    sampled_at = serializers.DateTimeField(help_text="Time of the latest figures")
    elapsed_s = serializers.IntegerField(help_text="From the start to the latest figures")
    cpu_time_ms = serializers.IntegerField(allow_null=True)
    cpu_rate_milli = serializers.IntegerField(
        allow_null=True,
        help_text="Mean of the busy milli-cores over the sampled time, on clusters that report no "
        "CPU time",
    )
    cpu_milli = serializers.IntegerField(
        allow_null=True, help_text="Milli-cores that the attempt was given or asked for"
    )
    cpu_efficiency_permille = serializers.IntegerField(
        allow_null=True,
        help_text="CPU time in thousandths of cores times elapsed time; without a CPU time, "
        "cpu_rate_milli in thousandths of the cores",
    )
    memory_peak_bytes = serializers.IntegerField(allow_null=True)
    memory_asked_bytes = serializers.IntegerField(
        allow_null=True, help_text="Memory on all nodes that the attempt was given or asked for"
    )
    memory_efficiency_permille = serializers.IntegerField(
        allow_null=True, help_text="The peak in thousandths of that memory"
    )
    gpu_utilisation_percent = serializers.IntegerField(
        allow_null=True, help_text="Mean over all GPUs and the time"
    )
    gpu_idle_permille = serializers.IntegerField(
        allow_null=True,
        help_text="Part of the GPU time with a utilisation of 0, or without a process where the "
        "utilisation is unknown",
    )
    gpu_memory_peak_bytes = serializers.IntegerField(allow_null=True)
    gpus_idle_since = serializers.DateTimeField(
        allow_null=True, help_text="Since when all GPUs are idle; null: one is busy, or not known"
    )
    gpus_are_held = serializers.BooleanField(
        allow_null=True, help_text="Whether a process holds any of the GPUs"
    )


class JobMetricsSerializer(serializers.Serializer[Any]):
    """The metrics of an attempt: at most 240 points, oldest first, and a summary."""

    attempt = serializers.IntegerField(allow_null=True, help_text="Null: no attempt yet")
    cluster = serializers.CharField(allow_null=True)
    is_supported = serializers.BooleanField(help_text="Whether such clusters report metrics")
    is_final = serializers.BooleanField(
        help_text="Whether the figures of the ended attempt are complete"
    )
    summary = MetricSummarySerializer(
        allow_null=True, help_text="Null: nothing was reported so far"
    )
    points = MetricPointSerializer(many=True)


class JobMetrics(APIView):
    """The CPU time, memory and GPU use of a job."""

    renderer_classes = [JSONRenderer, CsvRenderer]
    content_negotiation_class = NamedFormats

    @extend_schema(
        operation_id="get_job_metrics",
        summary="Get CPU time, memory and GPU use of a job",
        description="Points are half a minute apart at first, and further apart in long attempts. "
        "They stay for 90 days after the end; the summary stays. CSV has a line for each point and "
        "GPU.",
        parameters=MetricParameters.in_openapi(),
        responses=answers(
            {
                (200, "application/json"): JobMetricsSerializer,  # type: ignore[dict-item]
                (200, "text/csv"): OpenApiTypes.STR,  # type: ignore[dict-item]
            },
            404,
        ),
    )
    def get(self, request: Request, job_id: UUID) -> Response:
        """Get the metrics."""
        given = MetricParameters.read(request)
        found = get_metrics(
            job_id, actor=actor_from(request), attempt=given.attempt, now=SystemClock().now()
        )
        if request.accepted_renderer.format == "csv":
            name = f"metrics-{job_id}-{found.attempt or 0}.csv"
            return Response(
                "".join(csv_lines(found)),
                headers={"Content-Disposition": f'attachment; filename="{name}"'},
            )
        return Response(JobMetricsSerializer(found).data)

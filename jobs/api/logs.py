"""The log of a job: its text in pieces, and a summary."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from jobs.reading import logs
from jobs.reading.log_summary import summarize_log
from jobs.reading.queries import (
    get_job,
    record_reading,
    require_log,
)
from primitives.clock import SystemClock
from tenants.api.authentication import actor_from
from webapi.paging import (
    choice_or_refuse,
    refuse_unknown_parameters,
    whole_or_refuse,
)
from webapi.serializers import answers

_NUMBER_MAX = 2**31 - 1


class LogStreamSerializer(serializers.Serializer[Any]):
    """One stream of a rank."""

    stream = serializers.ChoiceField(choices=logs.STREAMS)
    has_output = serializers.BooleanField()


class JobLogSummarySerializer(serializers.Serializer[Any]):
    """The streams of a rank with output, and the last lines of an error."""

    attempt = serializers.IntegerField()
    rank = serializers.IntegerField()
    node = serializers.CharField(allow_null=True, help_text="Node on which the rank ran")
    ranks = serializers.IntegerField()
    streams = LogStreamSerializer(many=True)
    error_stream = serializers.ChoiceField(
        choices=logs.STREAMS,
        allow_null=True,
        help_text="Stream with the error of a failed attempt; null: no failure or no output",
    )
    error_lines = serializers.ListField(
        child=serializers.CharField(), help_text="The last lines of `error_stream`"
    )


class JobLogSerializer(serializers.Serializer[Any]):
    """A piece of a log. Offsets are in bytes; the next piece begins at `next_offset`."""

    attempt = serializers.IntegerField()
    rank = serializers.IntegerField()
    stream = serializers.CharField()
    offset = serializers.IntegerField()
    next_offset = serializers.IntegerField()
    text = serializers.CharField()
    is_final = serializers.BooleanField(
        help_text="Whether the stream has ended and this piece is the last"
    )
    is_truncated = serializers.BooleanField(help_text="Whether the log was cut at its maximum size")
    ranks = serializers.IntegerField()


class JobLogSummary(APIView):
    """The summary of a job's log."""

    @extend_schema(
        operation_id="get_job_log_summary",
        summary="Summary of a job's log: streams with output, last lines of the error",
        parameters=[
            OpenApiParameter("attempt", OpenApiTypes.INT, description="Default: the latest"),
            OpenApiParameter(
                "rank",
                OpenApiTypes.INT,
                description="Default: the first rank that failed, else rank 0",
            ),
        ],
        responses=answers({200: JobLogSummarySerializer}, 403, 404, 503),
    )
    def get(self, request: Request, job_id: UUID) -> Response:
        """Return the summary of one rank."""
        refuse_unknown_parameters(request, {"attempt", "rank"})
        actor, now = actor_from(request), SystemClock().now()
        view = get_job(job_id, actor=actor, now=now)
        require_log(view, actor)
        found = summarize_log(
            job_id,
            attempt=whole_or_refuse(request, "attempt", None, low=1, high=_NUMBER_MAX),
            rank=whole_or_refuse(request, "rank", None, low=0, high=_NUMBER_MAX),
        )
        record_reading(view.job, "log", actor=actor, now=now)
        return Response(
            {
                "attempt": found.attempt,
                "rank": found.rank,
                "node": found.node,
                "ranks": found.ranks,
                "streams": [
                    {"stream": stream, "has_output": has_output}
                    for stream, has_output in found.has_output.items()
                ],
                "error_stream": found.error_stream,
                "error_lines": list(found.error_lines),
            }
        )


class JobLogs(APIView):
    """The log of a job."""

    @extend_schema(
        operation_id="get_job_log",
        summary="A piece of a job's log",
        description="Control characters are left out. The next piece begins at `next_offset`.",
        parameters=[
            OpenApiParameter("attempt", OpenApiTypes.INT, description="Default: the latest"),
            OpenApiParameter("rank", OpenApiTypes.INT, default=0),
            OpenApiParameter("stream", OpenApiTypes.STR, enum=logs.STREAMS, default="stdout"),
            OpenApiParameter(
                "offset",
                OpenApiTypes.INT,
                default=0,
                description="In bytes; a negative offset counts from the end",
            ),
            OpenApiParameter(
                "limit",
                OpenApiTypes.INT,
                default=logs.LIMIT_DEFAULT,
                description=f"Maximum number of bytes, {logs.LIMIT_MIN} to {logs.LIMIT_MAX}",
            ),
        ],
        responses=answers({200: JobLogSerializer}, 403, 404, 503),
    )
    def get(self, request: Request, job_id: UUID) -> Response:
        """Return text of one stream of a rank."""
        refuse_unknown_parameters(request, {"attempt", "rank", "stream", "offset", "limit"})
        actor, now = actor_from(request), SystemClock().now()
        view = get_job(job_id, actor=actor, now=now)
        require_log(view, actor)
        attempt = whole_or_refuse(request, "attempt", None, low=1, high=_NUMBER_MAX)
        rank = whole_or_refuse(request, "rank", 0, low=0, high=_NUMBER_MAX)
        offset = whole_or_refuse(request, "offset", 0, low=-logs.OFFSET_MAX, high=logs.OFFSET_MAX)
        limit = whole_or_refuse(
            request, "limit", logs.LIMIT_DEFAULT, low=logs.LIMIT_MIN, high=logs.LIMIT_MAX
        )
        found = logs.read_log(
            job_id,
            attempt=attempt,
            rank=rank or 0,
            stream=choice_or_refuse(request, "stream", logs.STREAMS) or "stdout",
            offset=offset or 0,
            limit=limit or logs.LIMIT_DEFAULT,
        )
        record_reading(view.job, "log", actor=actor, now=now)
        return Response(
            {
                "attempt": found.attempt,
                "rank": found.rank,
                "stream": found.stream,
                "offset": found.offset,
                "next_offset": found.next_offset,
                "text": found.text,
                "is_final": found.is_final,
                "is_truncated": found.is_truncated,
                "ranks": found.ranks,
            }
        )

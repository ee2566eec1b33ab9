"""The log of a job: its text in pieces, and a summary."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from django.http.response import HttpResponseBase
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from jobs.reading import logs
from jobs.reading.log_downloads import download_log
from jobs.reading.log_search import (
    QUERY_CHARS_MAX,
    SHOWN_CHARS_MAX,
    LogMatch,
    LogQuery,
    search_log,
)
from jobs.reading.log_summary import summarize_log
from jobs.reading.queries import (
    get_job,
    record_reading,
    require_log,
)
from jobs.reading.reading_rights import ReadingRight
from primitives.clock import SystemClock
from tenants.api.authentication import actor_again, actor_from
from webapi.paging import page_body
from webapi.parameters import PageParameters, Parameters, choice, flag, text, time, whole
from webapi.serializers import answers
from webapi.streams import PartwiseResponse

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


class LogTimeSerializer(serializers.Serializer[Any]):
    """The time of a line."""

    line = serializers.IntegerField(help_text="Line of `text`, counted from 0")
    at = serializers.DateTimeField(
        allow_null=True,
        help_text="At most two seconds after the line was written; null: the cluster knows no time",
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
    times = LogTimeSerializer(
        many=True, help_text="When lines were written; a time is true up to the next item"
    )


class LogSummaryParameters(Parameters):
    """The log that is summarized."""

    attempt: int | None = whole("Default: the latest", low=1, high=_NUMBER_MAX)
    rank: int | None = whole(
        "Default: the first rank that failed, else rank 0", low=0, high=_NUMBER_MAX
    )


class LogParameters(Parameters):
    """The piece of a log that is read."""

    attempt: int | None = whole("Default: the latest", low=1, high=_NUMBER_MAX)
    rank: int = whole(low=0, high=_NUMBER_MAX, default=0)
    stream: str = choice(logs.STREAMS, default="stdout")
    offset: int = whole(
        "In bytes; a negative offset counts from the end",
        low=-logs.OFFSET_MAX,
        high=logs.OFFSET_MAX,
        default=0,
    )
    limit: int = whole(
        f"Maximum number of bytes, {logs.LIMIT_MIN} to {logs.LIMIT_MAX}",
        low=logs.LIMIT_MIN,
        high=logs.LIMIT_MAX,
        default=logs.LIMIT_DEFAULT,
    )


class LogDownloadParameters(Parameters):
    """The log that is downloaded."""

    attempt: int | None = whole("Default: the latest", low=1, high=_NUMBER_MAX)
    rank: int | None = whole("Default with a stream: 0", low=0, high=_NUMBER_MAX)
    stream: str | None = choice(logs.STREAMS, "Default with a rank: stdout")


class LogMatchSerializer(serializers.Serializer[Any]):
    """A line of a log with the text of a search."""

    rank = serializers.IntegerField()
    stream = serializers.ChoiceField(choices=logs.STREAMS)
    offset = serializers.IntegerField(help_text="First byte of the line in its stream")
    text = serializers.CharField(
        help_text=f"At most {SHOWN_CHARS_MAX} characters of the line, around the first match"
    )
    at = serializers.DateTimeField(
        allow_null=True, help_text="When the line was written; null: unknown"
    )


class LogSearchSerializer(serializers.Serializer[Any]):
    """A page of the lines that a search found, in the order of ranks, streams and offsets."""

    attempt = serializers.IntegerField()
    ranks = serializers.IntegerField()
    items = LogMatchSerializer(many=True)
    next = serializers.CharField(
        allow_null=True,
        help_text="Address of the next page, which a page without matches may have too",
    )
    scanned_bytes = serializers.IntegerField(help_text="Bytes that this page read")
    untimed = serializers.IntegerField(
        help_text="Matching lines that were left out because their time is unknown"
    )


class LogSearchParameters(PageParameters):
    """The lines that a search finds, and where it looks for them."""

    q: str = text("Text of one line", most=QUERY_CHARS_MAX, required="the text to search for")
    case: bool = flag("Whether upper and lower case differ")
    attempt: int | None = whole("Default: the latest", low=1, high=_NUMBER_MAX)
    rank: int | None = whole("Default: all ranks", low=0, high=_NUMBER_MAX)
    stream: str | None = choice(logs.STREAMS, "Default: both")
    since: datetime | None = time("Only lines written from this time on")
    until: datetime | None = time("Only lines written until this time")


class JobLogSummary(APIView):
    """The summary of a job's log."""

    @extend_schema(
        operation_id="get_job_log_summary",
        summary="Summary of a job's log: streams with output, last lines of the error",
        parameters=LogSummaryParameters.in_openapi(),
        responses=answers({200: JobLogSummarySerializer}, 403, 404, 503),
    )
    def get(self, request: Request, job_id: UUID) -> Response:
        """Return the summary of one rank."""
        asked = LogSummaryParameters.read(request)
        actor, now = actor_from(request), SystemClock().now()
        view = get_job(job_id, actor=actor, now=now)
        require_log(view, actor)
        found = summarize_log(job_id, attempt=asked.attempt, rank=asked.rank)
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
        parameters=LogParameters.in_openapi(),
        responses=answers({200: JobLogSerializer}, 403, 404, 503),
    )
    def get(self, request: Request, job_id: UUID) -> Response:
        """Return text of one stream of a rank."""
        asked = LogParameters.read(request)
        actor, now = actor_from(request), SystemClock().now()
        view = get_job(job_id, actor=actor, now=now)
        require_log(view, actor)
        found = logs.read_log(
            job_id,
            attempt=asked.attempt,
            rank=asked.rank,
            stream=asked.stream,
            offset=asked.offset,
            limit=asked.limit,
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
                "times": [{"line": line, "at": at} for line, at in found.times],
            }
        )


class JobLogSearch(APIView):
    """A search in the log of a job."""

    @extend_schema(
        operation_id="search_job_log",
        summary="Search the log of a job",
        description="Finds lines with a literal text. A page reads at most 16 MiB of the log, so "
        "that a page without matches may have a next one. With `since` or `until`, lines of "
        "unknown time are left out. Parts of 1 MiB of a longer line count as lines.",
        parameters=LogSearchParameters.in_openapi(),
        responses=answers({200: LogSearchSerializer}, 403, 404, 503),
    )
    def get(self, request: Request, job_id: UUID) -> Response:
        """Return a page of matching lines."""
        asked = LogSearchParameters.read(request)
        actor, now = actor_from(request), SystemClock().now()
        view = get_job(job_id, actor=actor, now=now)
        require_log(view, actor)
        found = search_log(
            job_id,
            attempt=asked.attempt,
            rank=asked.rank,
            stream=asked.stream,
            query=LogQuery(asked.q, asked.case, asked.since, asked.until),
            asked=asked,
        )
        record_reading(view.job, "log", actor=actor, now=now)
        return Response(
            {
                "attempt": found.attempt,
                "ranks": found.ranks,
                **page_body(request, found.page, LogMatch._asdict),
                "scanned_bytes": found.scanned_bytes,
                "untimed": found.untimed,
            }
        )


class JobLogDownload(APIView):
    """A whole log as a file."""

    renderer_classes = [JSONRenderer]

    @extend_schema(
        operation_id="download_job_log",
        summary="Download a job's log",
        description="With a rank or a stream: its text. Without both: a ZIP archive of all ranks "
        "and streams of the attempt. Control characters are left out. A download of a running job "
        "ends with what was written until then.",
        parameters=LogDownloadParameters.in_openapi(),
        responses=answers(
            {
                (200, "text/plain"): OpenApiTypes.BINARY,  # type: ignore[dict-item]
                (200, "application/zip"): OpenApiTypes.BINARY,  # type: ignore[dict-item]
            },
            403,
            404,
            503,
        ),
    )
    def get(self, request: Request, job_id: UUID) -> HttpResponseBase:
        """Send the log part by part."""
        asked = LogDownloadParameters.read(request)
        actor, now = actor_from(request), SystemClock().now()
        view = get_job(job_id, actor=actor, now=now)
        require_log(view, actor)
        found = download_log(
            job_id,
            attempt=asked.attempt,
            rank=asked.rank,
            stream=asked.stream,
            right=ReadingRight(job_id, lambda: actor_again(request), SystemClock()),
        )
        record_reading(view.job, "log", actor=actor, now=now)
        return PartwiseResponse(
            found.parts, file_name=found.file_name, content_type=found.content_type
        )

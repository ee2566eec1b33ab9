"""The files that a job left in its folder."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.http.response import HttpResponseBase
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from jobs.reading.job_files import FileRow, list_files, open_file
from jobs.reading.queries import get_job, record_reading, require_log
from jobs.reading.reading_rights import ReadingRight
from primitives.clock import SystemClock
from tenants.api.authentication import actor_again, actor_from
from webapi.paging import page_body
from webapi.parameters import PageParameters, Parameters, text, whole
from webapi.serializers import answers
from webapi.streams import PartwiseResponse, asked_range

_NUMBER_MAX = 2**31 - 1
_NAME_CHARS_MAX = 500


class JobFileSerializer(serializers.Serializer[Any]):
    """A file."""

    name = serializers.CharField(help_text="Relative to the job's folder")
    size_bytes = serializers.IntegerField()
    modified_at = serializers.DateTimeField()


class JobFilesSerializer(serializers.Serializer[Any]):
    """A page of the files of an attempt, by name."""

    attempt = serializers.IntegerField()
    items = JobFileSerializer(many=True)
    next = serializers.CharField(allow_null=True, help_text="Address of the next page")
    is_cut = serializers.BooleanField(help_text="Whether the folder has more files than are listed")
    left_out = serializers.IntegerField(
        help_text="Number of links, special files, files of other users and unreadable names"
    )


class FilesParameters(PageParameters):
    """The files that are listed."""

    attempt: int | None = whole("Default: the latest", low=1, high=_NUMBER_MAX)


class FileParameters(Parameters):
    """The file that is downloaded."""

    name: str = text("As listed", most=_NAME_CHARS_MAX, required="the name of a file")
    attempt: int | None = whole("Default: the latest", low=1, high=_NUMBER_MAX)


class JobFiles(APIView):
    """The files of a job."""

    @extend_schema(
        operation_id="list_job_files",
        summary="List the files that a job left in its folder",
        description="For those who may read the job's log. The first 10,000 files are listed.",
        parameters=FilesParameters.in_openapi(),
        responses=answers({200: JobFilesSerializer}, 403, 404, 503),
    )
    def get(self, request: Request, job_id: UUID) -> Response:
        """Return a page of files."""
        asked = FilesParameters.read(request)
        actor, now = actor_from(request), SystemClock().now()
        view = get_job(job_id, actor=actor, now=now)
        require_log(view, actor)
        found = list_files(job_id, attempt=asked.attempt, asked=asked)
        record_reading(view.job, "files", actor=actor, now=now)
        return Response(
            {
                "attempt": found.attempt,
                **page_body(request, found.page, _file_body),
                "is_cut": found.is_cut,
                "left_out": found.left_out,
            }
        )


class JobFileDownload(APIView):
    """The content of a file."""

    renderer_classes = [JSONRenderer]

    @extend_schema(
        operation_id="download_job_file",
        summary="Download a file of a job",
        description="One range of bytes may be asked for, with If-Range for the same content.",
        parameters=[
            *FileParameters.in_openapi(),
            OpenApiParameter("Range", OpenApiTypes.STR, OpenApiParameter.HEADER),
            OpenApiParameter("If-Range", OpenApiTypes.STR, OpenApiParameter.HEADER),
        ],
        responses=answers(
            {
                (200, "application/octet-stream"): OpenApiTypes.BINARY,  # type: ignore[dict-item]
                (206, "application/octet-stream"): OpenApiTypes.BINARY,  # type: ignore[dict-item]
            },
            403,
            404,
            503,
        ),
    )
    def get(self, request: Request, job_id: UUID) -> HttpResponseBase:
        """Send the file part by part."""
        asked = FileParameters.read(request)
        actor, now = actor_from(request), SystemClock().now()
        view = get_job(job_id, actor=actor, now=now)
        require_log(view, actor)
        right = ReadingRight(job_id, lambda: actor_again(request), SystemClock())
        file = open_file(job_id, asked.name, attempt=asked.attempt, right=right)
        record_reading(view.job, "files", actor=actor, now=now)
        etag, size = f'"{file.version}"', file.size_bytes
        part = None
        if request.headers.get("If-Range", etag) == etag:
            part = asked_range(request.headers.get("Range", ""), size)
        start, end = part or (0, size)
        headers = {"Accept-Ranges": "bytes", "ETag": etag}
        if part is not None:
            headers["Content-Range"] = f"bytes {start}-{end - 1}/{size}"
        return PartwiseResponse(
            file.parts(start, end),
            file_name=asked.name.rpartition("/")[2],
            content_type="application/octet-stream",
            size=end - start,
            status=200 if part is None else 206,
            headers=headers,
        )


def _file_body(file: FileRow) -> dict[str, Any]:
    return {"name": file.name, "size_bytes": file.size_bytes, "modified_at": file.modified_at}

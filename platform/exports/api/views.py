"""Exports: list, request, details, and the file."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.http import HttpResponse
from django.http.response import HttpResponseBase
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from exports.api.serializers import ExportCreateSerializer, ExportSerializer
from exports.requests import (
    export_by_id,
    finished_file,
    make_again,
    request_export,
    visible_exports,
)
from primitives.clock import SystemClock
from tenants.api.authentication import actor_from
from webapi.idempotency import respond_once
from webapi.paging import page_body, page_by_id, refuse_body, refuse_unknown_parameters
from webapi.parameters import PageParameters
from webapi.serializers import IDEMPOTENCY_KEY, answers, etag_header, page_of
from webapi.streams import PartwiseResponse, file_parts

_CONTENT_TYPES = {
    "csv": "text/csv; charset=utf-8",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "parquet": "application/vnd.apache.parquet",
    "pdf": "application/pdf",
}


class ExportList(APIView):
    """The list of exports, and the request of another one."""

    @extend_schema(
        operation_id="list_exports",
        summary="List exports",
        description="Those of nodes whose costs and jobs the caller may see, newest first.",
        parameters=PageParameters.in_openapi(),
        responses=answers({200: page_of(ExportSerializer)}),
    )
    def get(self, request: Request) -> Response:
        """Return a page of exports."""
        asked = PageParameters.read(request)
        page = page_by_id(asked, visible_exports(actor_from(request)), newest_first=True)
        return Response(page_body(request, page, ExportSerializer().to_representation))

    @extend_schema(
        operation_id="create_export",
        summary="Request a file of charges",
        description="A worker writes the file within seconds to minutes. `state` and "
        "`progress_permille` of the export tell how far it is.",
        request=ExportCreateSerializer,
        parameters=[IDEMPOTENCY_KEY],
        responses=answers({201: ExportSerializer}, 403, 404, 409),
    )
    def post(self, request: Request) -> Response:
        """Request an export."""
        refuse_unknown_parameters(request, set())
        actor, now = actor_from(request), SystemClock().now()
        body = ExportCreateSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        asked = body.validated_data

        def act() -> tuple[int, dict[str, Any]]:
            export = request_export(
                actor=actor,
                dataset=asked["dataset"],
                format_name=asked["format"],
                node_path=asked["node"],
                start=asked["start"],
                end=asked["end"],
                as_of=asked["as_of"],
                pool_name=asked["pool"],
                now=now,
            )
            return 201, dict(ExportSerializer(export).data)

        return respond_once(request, principal_id=actor.user.pk, now=now, act=act)


class ExportDetail(APIView):
    """An export, by its id."""

    @extend_schema(
        operation_id="get_export",
        summary="Get an export with its progress and its manifest",
        responses=answers({200: ExportSerializer}, 404),
    )
    def get(self, request: Request, export_id: UUID) -> Response:
        """Return the export."""
        refuse_unknown_parameters(request, set())
        return Response(ExportSerializer(export_by_id(actor_from(request), export_id)).data)


class ExportRepetition(APIView):
    """The repetition of an export."""

    @extend_schema(
        operation_id="repeat_export",
        summary="Make a removed or failed file again",
        description="It is a new export of the same moment.",
        request=None,
        parameters=[IDEMPOTENCY_KEY],
        responses=answers({201: ExportSerializer}, 403, 404, 409),
    )
    def post(self, request: Request, export_id: UUID) -> Response:
        """Request the file again."""
        refuse_unknown_parameters(request, set())
        refuse_body(request)
        actor, now = actor_from(request), SystemClock().now()

        def act() -> tuple[int, dict[str, Any]]:
            return 201, dict(ExportSerializer(make_again(export_id, actor=actor, now=now)).data)

        return respond_once(request, principal_id=actor.user.pk, now=now, act=act)


class ExportFile(APIView):
    """The file of an export."""

    renderer_classes = [JSONRenderer]

    @extend_schema(
        operation_id="get_export_file",
        summary="Download the file of an export",
        description="The ETag is the file's SHA-256. A request with it in If-None-Match is "
        "answered 304 without the file.",
        parameters=[etag_header("SHA-256 of the file")],
        responses=answers(
            {(200, "application/octet-stream"): OpenApiTypes.BINARY},  # type: ignore[dict-item]
            404,
            409,
        ),
    )
    def get(self, request: Request, export_id: UUID) -> HttpResponseBase:
        """Send the file."""
        refuse_unknown_parameters(request, set())
        export = export_by_id(actor_from(request), export_id)
        path = finished_file(export)
        etag = f'"{export.sha256}"'
        known = {one.strip() for one in request.headers.get("If-None-Match", "").split(",")}
        headers = {"ETag": etag, "Cache-Control": "private, no-cache"}
        if known & {etag, "*"}:
            return HttpResponse(status=304, headers=headers)
        return PartwiseResponse(
            file_parts(path),
            file_name=export.file_name,
            content_type=_CONTENT_TYPES[export.format],
            size=path.stat().st_size,
            headers=headers,
        )

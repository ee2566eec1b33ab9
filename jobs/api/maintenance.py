"""The jobs that a maintenance window would meet."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from jobs.reading.maintenance_jobs import still_running
from maintenance.windows import window_by_id
from tenants.api.authentication import actor_from
from webapi.paging import Page, decode_cursor, encode_cursor, page_body, uuid_or_refuse
from webapi.parameters import PageParameters
from webapi.serializers import UtcTimeField, answers, page_of


class StillRunningSerializer(serializers.Serializer[Any]):
    """A job that would still run when the maintenance begins."""

    job = serializers.UUIDField()
    name = serializers.CharField()
    team = serializers.CharField(help_text="Path")
    user = serializers.CharField(help_text="Username")
    ends_at = UtcTimeField(
        allow_null=True, help_text="End by its time limit; null: it has no time limit"
    )


class MaintenanceJobs(APIView):
    """The jobs that would still run when a window begins."""

    @extend_schema(
        operation_id="list_maintenance_jobs",
        summary="Jobs that would still run when the maintenance begins",
        description="Jobs on the cluster or pool that the caller may see and that end after the "
        "start by their time limit, or have none. Nothing stops them.",
        parameters=PageParameters.in_openapi(),
        responses=answers({200: page_of(StillRunningSerializer)}, 404),
    )
    def get(self, request: Request, maintenance_id: UUID) -> Response:
        """Return a page of jobs."""
        asked = PageParameters.read(request)
        limit, cursor = asked.limit, asked.cursor
        actor = actor_from(request)
        found = still_running(
            actor,
            window_by_id(actor, maintenance_id),
            after=None
            if cursor is None
            else uuid_or_refuse(decode_cursor(cursor, parts=1)[0], "cursor"),
            limit=limit + 1,
        )
        shown = found[:limit]
        following = encode_cursor([str(shown[-1].attempt_id)]) if len(found) > limit else None
        return Response(
            page_body(
                request,
                Page(shown, following),
                lambda item: dict(StillRunningSerializer(asdict(item)).data),
            )
        )

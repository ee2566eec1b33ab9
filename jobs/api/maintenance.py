"""Maintenance windows: the list, a new one, and the jobs that it would meet."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from jobs.reading.maintenance_jobs import quietest_nodes, still_running
from maintenance.api.serializers import (
    MaintenanceCreateSerializer,
    MaintenanceSerializer,
    shown_window,
)
from maintenance.windows import in_force, plan_window, visible_windows, window_by_id
from primitives.clock import SystemClock
from tenants.api.authentication import actor_from
from webapi.idempotency import respond_once
from webapi.paging import (
    Page,
    decode_cursor,
    encode_cursor,
    page_body,
    page_by_id,
    refuse_unknown_parameters,
    uuid_or_refuse,
)
from webapi.parameters import PageParameters, flag, text
from webapi.serializers import IDEMPOTENCY_KEY, UtcTimeField, answers, page_of


class MaintenanceParameters(PageParameters):
    """The filters of the list of maintenance windows."""

    in_force: bool = flag("Only those that are planned or open")
    cluster: str | None = text("Only of the cluster of this name", most=100)


class MaintenanceList(APIView):
    """The maintenance windows, and a new one."""

    @extend_schema(
        operation_id="list_maintenance_windows",
        summary="List maintenance windows, newest first",
        parameters=MaintenanceParameters.in_openapi(),
        responses=answers({200: page_of(MaintenanceSerializer)}),
    )
    def get(self, request: Request) -> Response:
        """Return a page of windows."""
        asked = MaintenanceParameters.read(request)
        actor, now = actor_from(request), SystemClock().now()
        rows = visible_windows(actor)
        if asked.in_force:
            rows = in_force(rows, now)
        if asked.cluster is not None:
            rows = rows.filter(cluster__name=asked.cluster)
        page = page_by_id(asked, rows, newest_first=True)
        return Response(
            page_body(request, page, lambda row: shown_window(row, actor=actor, now=now))
        )

    @extend_schema(
        operation_id="plan_maintenance_window",
        summary="Plan the maintenance of a cluster, a pool on it, or some of its nodes",
        description="From now on no job starts there that could still run in the window. Nothing "
        "is stopped. A banner tells everybody. Needs an administrator of the platform.",
        request=MaintenanceCreateSerializer,
        parameters=[IDEMPOTENCY_KEY],
        responses=answers({201: MaintenanceSerializer}, 403, 404, 409),
    )
    def post(self, request: Request) -> Response:
        """Plan a window."""
        refuse_unknown_parameters(request, set())
        actor, now = actor_from(request), SystemClock().now()
        body = MaintenanceCreateSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        asked = body.validated_data

        def act() -> tuple[int, dict[str, Any]]:
            found = plan_window(
                actor=actor,
                cluster_name=asked["cluster"],
                pool_name=asked.get("pool"),
                nodes=asked.get("nodes") or asked.get("node_count"),
                quietest=quietest_nodes,
                start=asked.get("start"),
                end=asked["end"],
                reason=asked["reason"],
                now=now,
            )
            return 201, shown_window(found, actor=actor, now=now)

        return respond_once(request, principal_id=actor.user.pk, now=now, act=act)


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
        description="Jobs on the cluster, pool or nodes that the caller may see and that end "
        "after the start by their time limit, or have none. Nothing stops them.",
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

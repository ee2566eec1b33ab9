"""Maintenance windows of clusters."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from maintenance.api.serializers import (
    MaintenanceCreateSerializer,
    MaintenanceSerializer,
    MaintenanceUpdateSerializer,
    shown_window,
)
from maintenance.windows import (
    cancel_window,
    change_window,
    in_force,
    plan_window,
    visible_windows,
)
from primitives.clock import SystemClock
from tenants.api.authentication import actor_from
from webapi.idempotency import respond_once
from webapi.paging import page_body, page_by_id, refuse_body, refuse_unknown_parameters
from webapi.parameters import PageParameters, flag, text
from webapi.preconditions import required_version, tagged
from webapi.serializers import IDEMPOTENCY_KEY, answers, etag_header, if_match_header, page_of

_IF_MATCH = if_match_header("The ETag of the version on which the change is based")
_ETAG = etag_header("Version")


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
        summary="Plan the maintenance of a cluster",
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
                start=asked.get("start"),
                end=asked["end"],
                reason=asked["reason"],
                now=now,
            )
            return 201, shown_window(found, actor=actor, now=now)

        return respond_once(request, principal_id=actor.user.pk, now=now, act=act)


class MaintenanceDetail(APIView):
    """A maintenance window, by its id."""

    @extend_schema(
        operation_id="change_maintenance_window",
        summary="Change start, end or reason of a maintenance window",
        request=MaintenanceUpdateSerializer,
        parameters=[_IF_MATCH, _ETAG],
        responses=answers({200: MaintenanceSerializer}, 403, 404, 409, 412, 428),
    )
    def patch(self, request: Request, maintenance_id: UUID) -> Response:
        """Change the window."""
        refuse_unknown_parameters(request, set())
        body = MaintenanceUpdateSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        actor, now = actor_from(request), SystemClock().now()
        found = change_window(
            maintenance_id,
            body.validated_data,
            actor=actor,
            if_version=required_version(request),
            now=now,
        )
        return tagged(Response(shown_window(found, actor=actor, now=now)))


class MaintenanceCancel(APIView):
    """Cancels a maintenance window."""

    @extend_schema(
        operation_id="cancel_maintenance_window",
        summary="Cancel a planned maintenance window, or end an open one now",
        request=None,
        responses=answers({200: MaintenanceSerializer}, 403, 404, 409),
    )
    def post(self, request: Request, maintenance_id: UUID) -> Response:
        """Cancel the window."""
        refuse_unknown_parameters(request, set())
        refuse_body(request)
        actor, now = actor_from(request), SystemClock().now()
        found = cancel_window(maintenance_id, actor=actor, now=now)
        return Response(shown_window(found, actor=actor, now=now))

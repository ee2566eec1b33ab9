"""A maintenance window of a cluster. The list, which counts the work of nodes, is of the jobs."""

from __future__ import annotations

from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from maintenance.api.serializers import (
    MaintenanceSerializer,
    MaintenanceUpdateSerializer,
    shown_window,
)
from maintenance.windows import cancel_window, change_window
from primitives.clock import SystemClock
from tenants.api.authentication import actor_from
from webapi.paging import refuse_body, refuse_unknown_parameters
from webapi.preconditions import required_version, tagged
from webapi.serializers import answers, etag_header, if_match_header

_IF_MATCH = if_match_header("The ETag of the version on which the change is based")
_ETAG = etag_header("Version")


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

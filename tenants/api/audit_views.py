"""The audit log over HTTP: pages of JSON, or CSV."""

from __future__ import annotations

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from audit.models import AuditEvent
from audit.reading import EventFilter, matching_events
from primitives.clock import SystemClock
from primitives.errors import Forbidden
from tenants.access import visible
from tenants.api.authentication import actor_from
from tenants.api.serializers import AuditEventSerializer
from tenants.audit_export import EXPORT_MAX, csv_lines
from tenants.roles import Permission
from webapi.formats import CsvRenderer, NamedFormats
from webapi.paging import (
    page_body,
    page_by_id,
    refuse_unknown_filters,
    refuse_unknown_parameters,
    time_or_refuse,
)
from webapi.serializers import PAGE_PARAMETERS, answers, page_of

_FILTERS = [
    OpenApiParameter("organization", OpenApiTypes.STR, description="Slug of an organization"),
    OpenApiParameter(
        "actor", OpenApiTypes.STR, description="Only acts of this login, `system` or `anonymous`"
    ),
    OpenApiParameter("action", OpenApiTypes.STR, description="Only this action"),
    OpenApiParameter(
        "subject_kind", OpenApiTypes.STR, description="Only acts on this kind, such as `team`"
    ),
    OpenApiParameter("subject_id", OpenApiTypes.STR, description="Only acts on this id"),
    OpenApiParameter("since", OpenApiTypes.DATETIME, description="Only from this time on"),
    OpenApiParameter("until", OpenApiTypes.DATETIME, description="Only before this time"),
]
_NAMES = {parameter.name for parameter in _FILTERS}


class AuditEventList(APIView):
    """The list of audit events."""

    renderer_classes = [JSONRenderer, CsvRenderer]
    content_negotiation_class = NamedFormats

    @extend_schema(
        operation_id="list_audit_events",
        summary="Audit events, newest first",
        description="Events of the nodes on which the caller has view_audit. Platform admins also "
        f"see the platform's own events. CSV has all matching events, at most {EXPORT_MAX:,}; "
        "more are refused.",
        parameters=[
            *_FILTERS,
            OpenApiParameter("format", OpenApiTypes.STR, enum=["json", "csv"], default="json"),
            *PAGE_PARAMETERS,
        ],
        responses=answers(
            {
                (200, "application/json"): page_of(AuditEventSerializer),  # type: ignore[dict-item]
                (200, "text/csv"): OpenApiTypes.STR,  # type: ignore[dict-item]
            },
            403,
        ),
    )
    def get(self, request: Request) -> Response:
        """List events, newest first."""
        is_csv = request.accepted_renderer.format == "csv"
        if is_csv:
            refuse_unknown_parameters(request, {*_NAMES, "format"})
        else:
            refuse_unknown_filters(request, {*_NAMES, "format"})
        actor, query = actor_from(request), request.query_params
        if not actor.prefixes(Permission.VIEW_AUDIT):
            raise Forbidden(
                "The audit log needs a token with the scope admin."
                if actor.granted(Permission.VIEW_AUDIT)
                else "The audit log is for auditors and administrators. Ask one of them."
            )
        events = matching_events(
            visible(actor, AuditEvent.objects.all(), Permission.VIEW_AUDIT, path_field="node_path"),
            EventFilter(
                organization_slug=query.get("organization"),
                actor=query.get("actor"),
                action=query.get("action"),
                subject_kind=query.get("subject_kind"),
                subject_id=query.get("subject_id"),
                since=time_or_refuse(query["since"], "since") if "since" in query else None,
                until=time_or_refuse(query["until"], "until") if "until" in query else None,
            ),
            # Visibility implies this filter. It is given because there is an index for it.
            organization_id=None if actor.is_platform_admin else actor.user.organization_id,
        )
        if is_csv:
            name = f"audit-{SystemClock().now():%Y%m%d-%H%M%S}.csv"
            return Response(
                "".join(csv_lines(events)),
                headers={"Content-Disposition": f'attachment; filename="{name}"'},
            )
        page = page_by_id(request, events, newest_first=True)
        return Response(page_body(request, page, lambda row: AuditEventSerializer(row).data))

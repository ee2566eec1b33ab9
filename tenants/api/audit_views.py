"""The audit log over HTTP: pages of JSON, or CSV."""

from __future__ import annotations

from datetime import datetime

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
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
)
from webapi.parameters import PageParameters, Parameters, choice, text, time
from webapi.serializers import answers, page_of


class AuditParameters(Parameters):
    """The filters of the audit log."""

    organization: str | None = text("Slug of an organization")
    actor: str | None = text("Only acts of this login, `system` or `anonymous`")
    action: str | None = text("Only this action")
    subject_kind: str | None = text("Only acts on this kind, such as `team`")
    subject_id: str | None = text("Only acts on this id")
    since: datetime | None = time("Only from this time on")
    until: datetime | None = time("Only before this time")
    format: str = choice(("json", "csv"), default="json")


class AuditPageParameters(AuditParameters, PageParameters):
    """The same for pages of JSON. CSV has no pages."""


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
        parameters=AuditPageParameters.in_openapi(),
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
        paged = None if is_csv else AuditPageParameters.read(request)
        asked = paged or AuditParameters.read(request)
        actor = actor_from(request)
        if not actor.prefixes(Permission.VIEW_AUDIT):
            raise Forbidden(
                "The audit log needs a token with the scope admin."
                if actor.granted(Permission.VIEW_AUDIT)
                else "The audit log is for auditors and administrators. Ask one of them."
            )
        events = matching_events(
            visible(actor, AuditEvent.objects.all(), Permission.VIEW_AUDIT, path_field="node_path"),
            EventFilter(
                organization_slug=asked.organization,
                actor=asked.actor,
                action=asked.action,
                subject_kind=asked.subject_kind,
                subject_id=asked.subject_id,
                since=asked.since,
                until=asked.until,
            ),
            # Visibility implies this filter. It is given because there is an index for it.
            organization_id=None if actor.is_platform_admin else actor.user.organization_id,
        )
        if paged is None:
            name = f"audit-{SystemClock().now():%Y%m%d-%H%M%S}.csv"
            return Response(
                "".join(csv_lines(events)),
                headers={"Content-Disposition": f'attachment; filename="{name}"'},
            )
        page = page_by_id(paged, events, newest_first=True)
        return Response(page_body(request, page, AuditEventSerializer().to_representation))

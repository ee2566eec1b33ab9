"""The list of organizations over HTTP, for administrators of the platform."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from portal.organization_list import OrganizationSummary, organizations, summaries_of
from tenants.api.authentication import actor_from
from tenants.api.serializers import TreeNodeSerializer
from tenants.api.views import node_body
from webapi.paging import Page, page_body, page_by_text
from webapi.parameters import PageParameters
from webapi.serializers import DEVICE_HELP, DEVICES, answers, page_of


class PoolGuaranteeSerializer(serializers.Serializer[Any]):
    """The guarantee of an organization in a pool."""

    pool = serializers.CharField()
    device = serializers.ChoiceField(choices=DEVICES, help_text=DEVICE_HELP)
    guaranteed_mgpu = serializers.IntegerField()


class OrganizationCountsSerializer(serializers.Serializer[Any]):
    """Settings and counts of an organization."""

    created_at = serializers.DateTimeField(source="node.created_at")
    time_zone = serializers.CharField()
    currency = serializers.CharField(help_text="Of its rate card; empty without one")
    people = serializers.IntegerField(help_text="People with an account that is active")
    teams = serializers.IntegerField(help_text="Teams that are not archived")
    guarantees = PoolGuaranteeSerializer(many=True)
    jobs_running = serializers.IntegerField(help_text="Including those that start or are stopped")
    jobs_waiting = serializers.IntegerField()


class OrganizationSummarySerializer(TreeNodeSerializer, OrganizationCountsSerializer):
    """An organization, with its settings and counts."""


class OrganizationSummaries(APIView):
    """All organizations, with their settings and counts."""

    @extend_schema(
        operation_id="list_organization_summaries",
        summary="List organizations with time zone, currency, people, teams, guarantees and jobs",
        description="For platform administrators.",
        parameters=PageParameters.in_openapi(),
        responses=answers({200: page_of(OrganizationSummarySerializer)}, 403),
    )
    def get(self, request: Request) -> Response:
        """List organizations, by slug."""
        asked = PageParameters.read(request)
        page = page_by_text(asked, organizations(actor_from(request)), "path")
        shown = Page(summaries_of(page.items), page.next_cursor)
        return Response(page_body(request, shown, _body))


def _body(summary: OrganizationSummary) -> dict[str, Any]:
    return {**node_body(summary.node), **OrganizationCountsSerializer(summary).data}

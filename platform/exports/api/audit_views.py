"""Audits of the charges."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from exports.api.serializers import ChargeAuditSerializer
from exports.nightly_audits import visible_audits
from periods.months import first_day
from tenants.api.authentication import actor_from
from webapi.paging import page_body, page_by_id
from webapi.parameters import PageParameters, text
from webapi.serializers import answers, page_of


class ChargeAuditParameters(PageParameters):
    """The filters of the list of audits."""

    month: str | None = text('Only this month, such as "2026-11"')
    organization: str | None = text("Only this organization, by its slug")


class ChargeAuditList(APIView):
    """The latest audits of months."""

    @extend_schema(
        operation_id="list_charge_audits",
        summary="List the latest audit of each month",
        description="Each night another program computes the use and the cost of this month and "
        "the last one again, from raw use and prices. The list is for people who see the costs of "
        "the whole organization, newest first.",
        parameters=ChargeAuditParameters.in_openapi(),
        responses=answers({200: page_of(ChargeAuditSerializer)}),
    )
    def get(self, request: Request) -> Response:
        """Return a page of audits."""
        asked = ChargeAuditParameters.read(request)
        rows = visible_audits(actor_from(request))
        if asked.month is not None:
            rows = rows.filter(month=first_day(asked.month))
        if asked.organization is not None:
            rows = rows.filter(organization__slug=asked.organization)
        page = page_by_id(asked, rows, newest_first=True)
        return Response(page_body(request, page, ChargeAuditSerializer().to_representation))

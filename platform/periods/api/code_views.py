"""Accounting codes of nodes."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from periods.api.code_serializers import (
    AccountingCodeSerializer,
    CodeEndSerializer,
    CodesSetSerializer,
)
from periods.closing import organization_of
from periods.code_models import CodeKind
from periods.codes import NewCode, codes_of, end_code, remove_code, set_codes
from primitives.clock import SystemClock
from tenants.api.authentication import actor_from
from tenants.roles import Permission
from webapi.idempotency import respond_once
from webapi.paging import page_body, page_by_id, refuse_unknown_parameters
from webapi.parameters import PageParameters, text
from webapi.serializers import IDEMPOTENCY_KEY, answers, page_of


class CodeParameters(PageParameters):
    """The node of a list of codes."""

    node: str | None = text("Only codes of the node with this path")


class AccountingCodeList(APIView):
    """The accounting codes of an organization."""

    @extend_schema(
        operation_id="list_accounting_codes",
        summary="List cost centres and project codes",
        description="Past and scheduled ones included, newest first. For people who see the costs "
        "of the whole organization.",
        parameters=CodeParameters.in_openapi(),
        responses=answers({200: page_of(AccountingCodeSerializer)}, 403, 404),
    )
    def get(self, request: Request, organization_id: UUID) -> Response:
        """List codes."""
        asked = CodeParameters.read(request)
        node = organization_of(actor_from(request), organization_id, Permission.VIEW_COSTS)
        rows = codes_of(node)
        if asked.node is not None:
            rows = rows.filter(node__path=asked.node.rstrip("/") + "/")
        page = page_by_id(asked, rows, newest_first=True)
        return Response(page_body(request, page, AccountingCodeSerializer().to_representation))

    @extend_schema(
        operation_id="set_accounting_codes",
        summary="Set cost centres and project codes",
        description="All or none. A code ends the one before it; closed months keep theirs.",
        parameters=[IDEMPOTENCY_KEY],
        request=CodesSetSerializer,
        responses=answers({200: page_of(AccountingCodeSerializer)}, 403, 404, 409),
    )
    def post(self, request: Request, organization_id: UUID) -> Response:
        """Set codes."""
        refuse_unknown_parameters(request, set())
        actor, now = actor_from(request), SystemClock().now()
        body = CodesSetSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        wanted = [
            NewCode(**{**one, "kind": CodeKind(one["kind"]), "node": one["node"].rstrip("/")})
            for one in body.validated_data["codes"]
        ]

        def act() -> tuple[int, dict[str, Any]]:
            rows = set_codes(organization_id, wanted, actor=actor, now=now)
            return 200, {"items": AccountingCodeSerializer(rows, many=True).data, "next": None}

        return respond_once(request, principal_id=actor.user.pk, now=now, act=act)


class AccountingCodeDetail(APIView):
    """An accounting code."""

    @extend_schema(
        operation_id="end_accounting_code",
        summary="End a cost centre or a project code",
        description="The code of the node above applies from then on.",
        request=CodeEndSerializer,
        responses=answers({200: AccountingCodeSerializer}, 403, 404, 409),
    )
    def patch(self, request: Request, code_id: UUID) -> Response:
        """End a code."""
        refuse_unknown_parameters(request, set())
        body = CodeEndSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        actor, now = actor_from(request), SystemClock().now()
        row = end_code(code_id, body.validated_data["end"], actor=actor, now=now)
        return Response(AccountingCodeSerializer(row).data)

    @extend_schema(
        operation_id="remove_accounting_code",
        summary="Remove a cost centre or a project code that no closed month has",
        responses=answers({204: None}, 403, 404, 409),
    )
    def delete(self, request: Request, code_id: UUID) -> Response:
        """Remove a code."""
        refuse_unknown_parameters(request, set())
        remove_code(code_id, actor=actor_from(request), now=SystemClock().now())
        return Response(status=204)

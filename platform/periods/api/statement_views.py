"""Statements of closed months."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from periods.api.statement_serializers import (
    IssuedStatementDetailSerializer,
    IssuedStatementSerializer,
    StatementCreditSerializer,
    StatementsIssueSerializer,
)
from periods.closing import one_month, organization_of
from periods.documents import document_of, html_of, pdf_of
from periods.statements import (
    Unit,
    credit_statement,
    issue_statements,
    statement_by_id,
    statements_of,
)
from primitives.clock import SystemClock
from tenants.api.authentication import actor_from
from tenants.roles import Permission
from webapi.idempotency import respond_once
from webapi.paging import refuse_unknown_parameters
from webapi.serializers import answers, page_of


class StatementList(APIView):
    """The statements of a closed month."""

    @extend_schema(
        operation_id="list_statements",
        summary="List the statements and credit notes of a month",
        description="In the order of their numbers. For people who see the costs of the whole "
        "organization.",
        responses=answers({200: page_of(IssuedStatementSerializer)}, 403, 404),
    )
    def get(self, request: Request, organization_id: UUID, month: str) -> Response:
        """List statements."""
        refuse_unknown_parameters(request, set())
        node = organization_of(actor_from(request), organization_id, Permission.VIEW_COSTS)
        view = one_month(node, month, now=SystemClock().now())
        found = [] if view.period is None else statements_of(view.period)
        return Response({"items": IssuedStatementSerializer(found, many=True).data, "next": None})

    @extend_schema(
        operation_id="issue_statements",
        summary="Issue the statements of a closed month",
        description="Each unit gets one, with the next number, for its charges without a "
        "statement. Statements never change. They are posted in the ledger of money.",
        request=StatementsIssueSerializer,
        responses=answers({201: page_of(IssuedStatementSerializer)}, 403, 404, 409),
    )
    def post(self, request: Request, organization_id: UUID, month: str) -> Response:
        """Issue statements."""
        refuse_unknown_parameters(request, set())
        actor, now = actor_from(request), SystemClock().now()
        body = StatementsIssueSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        asked = body.validated_data

        def act() -> tuple[int, dict[str, Any]]:
            issued = issue_statements(
                organization_id,
                month,
                Unit(asked["unit"]),
                due_on=asked["due_on"],
                terms=asked["terms"],
                actor=actor,
                now=now,
            )
            return 201, {"items": IssuedStatementSerializer(issued, many=True).data, "next": None}

        return respond_once(request, principal_id=actor.user.pk, now=now, act=act)


class StatementDetail(APIView):
    """A statement."""

    @extend_schema(
        operation_id="get_statement",
        summary="Get a statement with its lines",
        responses=answers({200: IssuedStatementDetailSerializer}, 403, 404),
    )
    def get(self, request: Request, statement_id: UUID) -> Response:
        """Get a statement."""
        refuse_unknown_parameters(request, set())
        found = statement_by_id(actor_from(request), statement_id, Permission.VIEW_COSTS)
        return Response(IssuedStatementDetailSerializer(found).data)


class StatementCredit(APIView):
    """The credit note of a statement."""

    @extend_schema(
        operation_id="credit_statement",
        summary="Credit a statement",
        description="A credit note with a number of its own takes all of it back. Its charges may "
        "be issued anew.",
        request=StatementCreditSerializer,
        responses=answers({201: IssuedStatementDetailSerializer}, 403, 404, 409),
    )
    def post(self, request: Request, statement_id: UUID) -> Response:
        """Credit a statement."""
        refuse_unknown_parameters(request, set())
        actor, now = actor_from(request), SystemClock().now()
        body = StatementCreditSerializer(data=request.data)
        body.is_valid(raise_exception=True)

        def act() -> tuple[int, dict[str, Any]]:
            reason = body.validated_data["reason"]
            note = credit_statement(statement_id, reason, actor=actor, now=now)
            return 201, dict(IssuedStatementDetailSerializer(note).data)

        return respond_once(request, principal_id=actor.user.pk, now=now, act=act)


class _StatementFile(APIView):
    """The document of a statement, for a download."""

    # The path names the format, and refusals are problems as everywhere.
    renderer_classes = [JSONRenderer]
    ending: str

    def answer(self, request: Request, statement_id: UUID) -> HttpResponse:
        """Return the document."""
        refuse_unknown_parameters(request, set())
        found = statement_by_id(actor_from(request), statement_id, Permission.VIEW_COSTS)
        document = document_of(found)
        if self.ending == "pdf":
            content, content_type = pdf_of(document), "application/pdf"
        else:
            content, content_type = html_of(document).encode(), "text/html; charset=utf-8"
        name = f"{found.organization.slug}-{found.kind}-{found.number}.{self.ending}"
        return HttpResponse(
            content,
            content_type=content_type,
            headers={"Content-Disposition": f'attachment; filename="{name}"'},
        )


class StatementHtml(_StatementFile):
    """The document of a statement as HTML."""

    ending = "html"

    @extend_schema(
        operation_id="get_statement_html",
        summary="Download a statement as HTML",
        responses=answers({(200, "text/html"): OpenApiTypes.STR}, 403, 404),  # type: ignore[dict-item]
    )
    def get(self, request: Request, statement_id: UUID) -> HttpResponse:
        """Send the document."""
        return self.answer(request, statement_id)


class StatementPdf(_StatementFile):
    """The document of a statement as PDF."""

    ending = "pdf"

    @extend_schema(
        operation_id="get_statement_pdf",
        summary="Download a statement as PDF",
        description="The same statement gives the same bytes. It has at most 5,000 lines.",
        responses=answers(
            {(200, "application/pdf"): OpenApiTypes.BINARY},  # type: ignore[dict-item]
            403,
            404,
            409,
        ),
    )
    def get(self, request: Request, statement_id: UUID) -> HttpResponse:
        """Send the document."""
        return self.answer(request, statement_id)

"""Transfers of credits: asked for, approved and rejected."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from bank.api.transfer_serializers import (
    CreditTransferSerializer,
    DecisionSerializer,
    NewTransferSerializer,
    shown_transfer,
)
from bank.models import TransferStatus
from bank.transfers import (
    NewCredits,
    approve_transfer,
    reject_transfer,
    transfer_credits,
    visible_transfers,
)
from primitives.clock import SystemClock
from quotas.administration import named_pool
from tenants.access import visible_node
from tenants.api.authentication import actor_from
from webapi.idempotency import respond_once
from webapi.paging import page_body, page_by_id, refuse_unknown_parameters
from webapi.parameters import PageParameters, choice, text
from webapi.serializers import IDEMPOTENCY_KEY, answers, page_of


class TransferParameters(PageParameters):
    """The filters of the list of transfers."""

    organization: str | None = text("Slug of the organization. Default: all that you see")
    team: str | None = text("Path of a team that sends or receives")
    pool: str | None = text("Name of the pool")
    status: str | None = choice(TransferStatus, "Only this status")


class TransferList(APIView):
    """The transfers of credits that the caller may see."""

    @extend_schema(
        operation_id="list_credit_transfers",
        summary="List transfers of credits, newest first",
        parameters=TransferParameters.in_openapi(),
        responses=answers({200: page_of(CreditTransferSerializer)}, 404),
    )
    def get(self, request: Request) -> Response:
        """List transfers, newest first."""
        asked = TransferParameters.read(request)
        actor = actor_from(request)
        rows = visible_transfers(actor)
        if asked.organization is not None:
            organization = visible_node(actor, asked.organization)
            rows = rows.filter(credit_pool__organization=organization)
        if asked.team is not None:
            team = visible_node(actor, asked.team)
            rows = rows.filter(sender=team) | rows.filter(recipient=team)
        if asked.pool is not None:
            rows = rows.filter(credit_pool__pool=named_pool(asked.pool))
        if asked.status is not None:
            rows = rows.filter(status=asked.status)
        page = page_by_id(asked, rows, newest_first=True)
        return Response(page_body(request, page, lambda row: shown_transfer(row, actor=actor)))

    @extend_schema(
        operation_id="transfer_credits",
        summary="Transfer credits to another team, or ask for approval",
        description="Inside a department its administrator transfers at once. Across departments "
        "the transfer is pending: an administrator of the other department or of the organization "
        "approves it, who did not ask. It expires after 7 days. Only credits above 0 can be "
        "transferred. The oldest move first and keep their expiry.",
        request=NewTransferSerializer,
        parameters=[IDEMPOTENCY_KEY],
        responses=answers({201: CreditTransferSerializer}, 403, 404, 409, 422),
    )
    def post(self, request: Request) -> Response:
        """Transfer credits."""
        refuse_unknown_parameters(request, set())
        actor = actor_from(request)
        body = NewTransferSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        given = body.validated_data
        now = SystemClock().now()

        def act() -> tuple[int, dict[str, Any]]:
            asked = NewCredits(
                sender=visible_node(actor, given["sender"]),
                recipient=visible_node(actor, given["recipient"]),
                pool=named_pool(given["pool"]),
                amount=given["amount_ugpu_s"],
                reason=given["reason"],
            )
            transfer = transfer_credits(asked, actor=actor, now=now)
            return 201, shown_transfer(transfer, actor=actor)

        return respond_once(request, principal_id=actor.user.pk, now=now, act=act)


class TransferApproval(APIView):
    """Approves a pending transfer."""

    @extend_schema(
        operation_id="approve_credit_transfer",
        summary="Approve a pending transfer of credits",
        description="Repeating it changes nothing.",
        request=DecisionSerializer,
        responses=answers({200: CreditTransferSerializer}, 403, 404, 409),
    )
    def post(self, request: Request, transfer_id: UUID) -> Response:
        """Approve the transfer."""
        actor, note = actor_from(request), _note_in(request)
        transfer = approve_transfer(transfer_id, note=note, actor=actor, now=SystemClock().now())
        return Response(shown_transfer(transfer, actor=actor))


class TransferRejection(APIView):
    """Rejects a pending transfer, or withdraws one's own."""

    @extend_schema(
        operation_id="reject_credit_transfer",
        summary="Reject a pending transfer of credits, or withdraw your own",
        description="Repeating it changes nothing.",
        request=DecisionSerializer,
        responses=answers({200: CreditTransferSerializer}, 403, 404, 409),
    )
    def post(self, request: Request, transfer_id: UUID) -> Response:
        """Reject or withdraw the transfer."""
        actor, note = actor_from(request), _note_in(request)
        transfer = reject_transfer(transfer_id, note=note, actor=actor, now=SystemClock().now())
        return Response(shown_transfer(transfer, actor=actor))


def _note_in(request: Request) -> str:
    refuse_unknown_parameters(request, set())
    body = DecisionSerializer(data=request.data)
    body.is_valid(raise_exception=True)
    return str(body.validated_data["note"])

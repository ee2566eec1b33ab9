"""Adjustments of charges, disputes about them, and the threshold of an organization."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from adjustments.adjusting import (
    NewAdjustment,
    approve_adjustment,
    ask_for_adjustment,
    named_person,
    reject_adjustment,
    visible_adjustments,
)
from adjustments.api.serializers import (
    AdjustmentDecisionSerializer,
    AdjustmentPolicySerializer,
    AdjustmentPolicyUpdateSerializer,
    AdjustmentSerializer,
    DisputeAcceptanceSerializer,
    DisputeSerializer,
    NewAdjustmentSerializer,
    NewDisputeSerializer,
    shown_adjustment,
    shown_dispute,
    shown_policy,
)
from adjustments.disputes import (
    DisputedRow,
    accept_dispute,
    decline_dispute,
    open_dispute,
    open_row_dispute,
    visible_disputes,
)
from adjustments.models import AdjustmentStatus, DisputeStatus
from adjustments.thresholds import change_policy, visible_policy
from primitives.clock import SystemClock
from primitives.errors import FieldError, InvalidRequest
from quotas.administration import named_pool
from tenants.access import Actor, under, visible_node
from tenants.api.authentication import actor_from
from webapi.idempotency import respond_once
from webapi.paging import page_body, page_by_id, refuse_unknown_parameters, uuid_or_refuse
from webapi.parameters import PageParameters, choice, text
from webapi.preconditions import etag_of, required_version
from webapi.serializers import (
    IDEMPOTENCY_KEY,
    answers,
    etag_header,
    if_match_header,
    page_of,
)

_IF_MATCH = if_match_header("The ETag of the version on which the change is based")
_ETAG = etag_header("Version")


class AdjustmentParameters(PageParameters):
    """The filters of the list of adjustments."""

    node: str | None = text("Path of a node: only its teams")
    status: str | None = choice(AdjustmentStatus, "Only this status")


class DisputeParameters(PageParameters):
    """The filters of the list of disputes."""

    node: str | None = text("Path of a node: only its teams")
    job: str | None = text("Only of the job with this id")
    status: str | None = choice(DisputeStatus, "Only this status")


class AdjustmentList(APIView):
    """The adjustments that the caller may see."""

    @extend_schema(
        operation_id="list_adjustments",
        summary="List adjustments, newest first",
        parameters=AdjustmentParameters.in_openapi(),
        responses=answers({200: page_of(AdjustmentSerializer)}, 404),
    )
    def get(self, request: Request) -> Response:
        """List adjustments, newest first."""
        asked = AdjustmentParameters.read(request)
        actor = actor_from(request)
        rows = visible_adjustments(actor)
        if asked.node is not None:
            rows = rows.filter(under([visible_node(actor, asked.node).path], "team__path"))
        if asked.status is not None:
            rows = rows.filter(status=asked.status)
        page = page_by_id(asked, rows, newest_first=True)
        return Response(page_body(request, page, lambda row: shown_adjustment(row, actor=actor)))

    @extend_schema(
        operation_id="add_adjustment",
        summary="Charge or credit a team beside its use",
        description="Up to the threshold of the organization it counts at once. The threshold is "
        "that of all adjustments that a person makes alone for a team and month. Above it, a "
        "second person with finance rights approves it within 7 days. The month is open, and at "
        "most 12 months back.",
        request=NewAdjustmentSerializer,
        parameters=[IDEMPOTENCY_KEY],
        responses=answers({201: AdjustmentSerializer}, 403, 404, 409, 422),
    )
    def post(self, request: Request) -> Response:
        """Adjust the charges of a team."""
        body = NewAdjustmentSerializer(data=request.data)

        def act() -> dict[str, Any]:
            given, actor = body.validated_data, actor_from(request)
            team = visible_node(actor, given["team"])
            login, pool = given.get("user"), given.get("pool")
            asked = NewAdjustment(
                team=team,
                user=None if login is None else named_person(team, login),
                pool=None if pool is None else named_pool(pool),
                amount_nano=given["amount_nano"],
                month=given.get("month"),
                reason=given["reason"],
            )
            adjustment = ask_for_adjustment(asked, actor=actor, now=SystemClock().now())
            return shown_adjustment(adjustment, actor=actor)

        return _created(request, body, act)


class AdjustmentApproval(APIView):
    """Approves a pending adjustment."""

    @extend_schema(
        operation_id="approve_adjustment",
        summary="Approve a pending adjustment",
        description="Repeating it changes nothing.",
        request=AdjustmentDecisionSerializer,
        responses=answers({200: AdjustmentSerializer}, 403, 404, 409),
    )
    def post(self, request: Request, adjustment_id: UUID) -> Response:
        """Approve the adjustment."""
        actor, note = actor_from(request), _note_in(request)
        now = SystemClock().now()
        adjustment = approve_adjustment(adjustment_id, note=note, actor=actor, now=now)
        return Response(shown_adjustment(adjustment, actor=actor))


class AdjustmentRejection(APIView):
    """Rejects a pending adjustment, or withdraws one's own."""

    @extend_schema(
        operation_id="reject_adjustment",
        summary="Reject a pending adjustment, or withdraw your own",
        description="Repeating it changes nothing.",
        request=AdjustmentDecisionSerializer,
        responses=answers({200: AdjustmentSerializer}, 403, 404, 409),
    )
    def post(self, request: Request, adjustment_id: UUID) -> Response:
        """Reject or withdraw the adjustment."""
        actor, note = actor_from(request), _note_in(request)
        now = SystemClock().now()
        adjustment = reject_adjustment(adjustment_id, note=note, actor=actor, now=now)
        return Response(shown_adjustment(adjustment, actor=actor))


class DisputeList(APIView):
    """The disputes that the caller may see."""

    @extend_schema(
        operation_id="list_disputes",
        summary="List disputes about charges, newest first",
        description="Those of teams whose costs you see, and your own ones.",
        parameters=DisputeParameters.in_openapi(),
        responses=answers({200: page_of(DisputeSerializer)}, 404),
    )
    def get(self, request: Request) -> Response:
        """List disputes, newest first."""
        asked = DisputeParameters.read(request)
        actor = actor_from(request)
        rows = visible_disputes(actor)
        if asked.node is not None:
            rows = rows.filter(under([visible_node(actor, asked.node).path], "team__path"))
        if asked.job is not None:
            rows = rows.filter(attempt__job_id=uuid_or_refuse(asked.job, "job"))
        if asked.status is not None:
            rows = rows.filter(status=asked.status)
        page = page_by_id(asked, rows, newest_first=True)
        return Response(page_body(request, page, lambda row: shown_dispute(row, actor=actor)))

    @extend_schema(
        operation_id="open_dispute",
        summary="Dispute the charge of an attempt, or of a pool in a month",
        description="An attempt that has ended: for the person who submitted the job, and those "
        "who manage the team's jobs. Or all that a team was charged for a pool in a month that is "
        "over: for those who manage its jobs and see its costs. A charge is refunded once.",
        request=NewDisputeSerializer,
        parameters=[IDEMPOTENCY_KEY],
        responses=answers({201: DisputeSerializer}, 404, 409, 422),
    )
    def post(self, request: Request) -> Response:
        """Open a dispute."""
        body = NewDisputeSerializer(data=request.data)

        def act() -> dict[str, Any]:
            given, actor = body.validated_data, actor_from(request)
            now = SystemClock().now()
            row = _row_in(given, actor)
            dispute = (
                open_dispute(given["attempt"], given["reason"], actor=actor, now=now)
                if row is None
                else open_row_dispute(row, given["reason"], actor=actor, now=now)
            )
            return shown_dispute(dispute, actor=actor)

        return _created(request, body, act)


class DisputeAcceptance(APIView):
    """Accepts a dispute."""

    @extend_schema(
        operation_id="accept_dispute",
        summary="Refund a disputed charge, in full or in part",
        description="The refund is a negative adjustment. It counts in the month of the use, or as "
        "a correction in the next month that is not closed. Repeating it changes nothing.",
        request=DisputeAcceptanceSerializer,
        responses=answers({200: DisputeSerializer}, 403, 404, 409),
    )
    def post(self, request: Request, dispute_id: UUID) -> Response:
        """Accept the dispute."""
        refuse_unknown_parameters(request, set())
        actor = actor_from(request)
        body = DisputeAcceptanceSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        given = body.validated_data
        dispute = accept_dispute(
            dispute_id,
            given.get("refund_nano"),
            note=given["note"],
            actor=actor,
            now=SystemClock().now(),
        )
        return Response(shown_dispute(dispute, actor=actor))


class DisputeRefusal(APIView):
    """Declines a dispute, or withdraws one's own."""

    @extend_schema(
        operation_id="decline_dispute",
        summary="Decline a dispute with a note, or withdraw your own",
        description="Repeating it changes nothing.",
        request=AdjustmentDecisionSerializer,
        responses=answers({200: DisputeSerializer}, 403, 404, 409),
    )
    def post(self, request: Request, dispute_id: UUID) -> Response:
        """Decline or withdraw the dispute."""
        actor, note = actor_from(request), _note_in(request)
        dispute = decline_dispute(dispute_id, note=note, actor=actor, now=SystemClock().now())
        return Response(shown_dispute(dispute, actor=actor))


class AdjustmentPolicyDetail(APIView):
    """The threshold of an organization."""

    @extend_schema(
        operation_id="get_adjustment_policy",
        summary="Get the amount above which adjustments need a second person",
        parameters=[_ETAG],
        responses=answers({200: AdjustmentPolicySerializer}, 404),
    )
    def get(self, request: Request, organization_id: UUID) -> Response:
        """Get the threshold."""
        refuse_unknown_parameters(request, set())
        actor = actor_from(request)
        policy = visible_policy(actor, organization_id)
        data = shown_policy(policy, actor=actor)
        return Response(data, headers={"ETag": etag_of(policy.version)})

    @extend_schema(
        operation_id="change_adjustment_policy",
        summary="Change the amount above which adjustments need a second person",
        description="A raise counts for other persons only, until another person changes it.",
        request=AdjustmentPolicyUpdateSerializer,
        parameters=[_IF_MATCH, _ETAG],
        responses=answers({200: AdjustmentPolicySerializer}, 403, 404, 412, 428),
    )
    def patch(self, request: Request, organization_id: UUID) -> Response:
        """Change the threshold."""
        refuse_unknown_parameters(request, set())
        body = AdjustmentPolicyUpdateSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        actor = actor_from(request)
        policy = change_policy(
            organization_id,
            body.validated_data["threshold_nano"],
            actor=actor,
            if_version=required_version(request),
            now=SystemClock().now(),
        )
        data = shown_policy(policy, actor=actor)
        return Response(data, headers={"ETag": etag_of(policy.version)})


def _created(request: Request, body: Any, act: Callable[[], dict[str, Any]]) -> Response:
    """Answer once with 201 for an idempotency key. The body is checked first."""
    refuse_unknown_parameters(request, set())
    actor = actor_from(request)
    body.is_valid(raise_exception=True)
    return respond_once(
        request,
        principal_id=actor.user.pk,
        now=SystemClock().now(),
        act=lambda: (201, act()),
    )


def _row_in(given: dict[str, Any], actor: Actor) -> DisputedRow | None:
    """Return the row that a dispute is about; None for an attempt. Raises InvalidRequest."""
    of_row = [given.get(name) for name in ("team", "pool", "month")]
    has_attempt = given.get("attempt") is not None
    if has_attempt and not any(of_row):
        return None
    if has_attempt or not all(of_row):
        raise InvalidRequest(
            "Give an attempt, or else a team, a pool and a month.",
            errors=[FieldError("/attempt", "is needed without a team, a pool and a month")],
        )
    team, pool, month = of_row
    return DisputedRow(visible_node(actor, str(team)), named_pool(str(pool)), str(month))


def _note_in(request: Request) -> str:
    refuse_unknown_parameters(request, set())
    body = AdjustmentDecisionSerializer(data=request.data)
    body.is_valid(raise_exception=True)
    return str(body.validated_data["note"])

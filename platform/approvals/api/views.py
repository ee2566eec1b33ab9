"""Requests for changes, and their decisions."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from approvals.api.serializers import (
    ApprovalSerializer,
    ChangeRequestDetailSerializer,
    ChangeRequestSerializer,
    CounterTermsSerializer,
    NewChangeRequestSerializer,
    NewCommentSerializer,
    OverrideSerializer,
    RejectionSerializer,
    RequestCommentSerializer,
    RequestCountsSerializer,
    shown_detail,
    shown_request,
    terms_in,
)
from approvals.asking import NewRequest, ask, comment
from approvals.changes import state_tag
from approvals.deciding import accept_offer, approve, counter, decline_offer, reject, withdraw
from approvals.guarded_writes import override_second_person
from approvals.models import RequestKind, RequestStatus
from approvals.reading import counts, decided_between, listed, request_by_id
from primitives.clock import SystemClock
from tenants.access import Actor, under, visible_node
from tenants.api.authentication import actor_from
from tenants.roles import Role
from webapi.idempotency import respond_once
from webapi.paging import page_body, page_by_id, refuse_body, refuse_unknown_parameters
from webapi.parameters import PageParameters, choice, text, time
from webapi.preconditions import required_etag, showing_current
from webapi.serializers import (
    IDEMPOTENCY_KEY,
    StrictSerializer,
    WaitingWriteSerializer,
    answers,
    etag_header,
    if_match_header,
    page_of,
)

_IF_MATCH = if_match_header("The ETag of the request, or of its preview")
_ETAG = etag_header("State of the request, and of the quotas or the target that it would change")
VIEWS = ("to_decide", "mine", "decided")


class ChangeRequestParameters(PageParameters):
    """The filters of the list of requests."""

    view: str | None = choice(VIEWS, "To be decided by you, your open ones, or decided ones")
    status: str | None = choice(RequestStatus, "Only this status")
    node: str | None = text("Path of a node: only requests for it and nodes below it")
    decided_since: datetime | None = time("Only requests that were decided then or later")
    decided_until: datetime | None = time("Only requests that were decided before")


class ChangeRequestList(APIView):
    """The requests that the caller may see."""

    @extend_schema(
        operation_id="list_requests",
        summary="List requests for changes, newest first",
        description="Your own, those that you may decide, and those for nodes whose quotas, or "
        "siblings' quotas, you manage.",
        parameters=ChangeRequestParameters.in_openapi(),
        responses=answers({200: page_of(ChangeRequestSerializer)}, 404),
    )
    def get(self, request: Request) -> Response:
        """List requests, newest first."""
        asked = ChangeRequestParameters.read(request)
        actor = actor_from(request)
        rows = decided_between(listed(actor, asked.view), asked.decided_since, asked.decided_until)
        if asked.status is not None:
            rows = rows.filter(status=asked.status)
        if asked.node is not None:
            rows = rows.filter(under([visible_node(actor, asked.node).path], "node__path"))
        page = page_by_id(asked, rows, newest_first=True)
        return Response(page_body(request, page, lambda row: shown_request(row, actor=actor)))

    @extend_schema(
        operation_id="ask_for_change",
        summary="Ask for more quota, a budget, a class cap or a role, or offer to lend",
        description="Nothing changes until another person, who may make the change, approves it. "
        "The nearest of them in the tree are told. A request expires after 7 days.",
        request=NewChangeRequestSerializer,
        parameters=[IDEMPOTENCY_KEY, _ETAG],
        responses=answers({201: ChangeRequestDetailSerializer}, 403, 404, 409, 422),
    )
    def post(self, request: Request) -> Response:
        """Ask for a change."""
        actor = actor_from(request)
        given = _read(request, NewChangeRequestSerializer)
        now = SystemClock().now()

        def act() -> tuple[int, dict[str, Any]]:
            role = given.get("role")
            new = NewRequest(
                kind=RequestKind(given["kind"]),
                node=given.get("node"),
                reason=given["reason"],
                pool=given.get("pool"),
                lender=given.get("lender"),
                target=given.get("target"),
                role=None if role is None else Role(role),
                amount=given.get("amount"),
                begin=given.get("begin"),
                until=given.get("until"),
            )
            made = ask(new, actor=actor, now=now)
            return 201, shown_detail(request_by_id(actor, made.pk), actor=actor)

        response = respond_once(request, principal_id=actor.user.pk, now=now, act=act)
        made = request_by_id(actor, UUID(str(response.data["id"])))
        response.headers["ETag"] = state_tag(made)
        return response


class ChangeRequestCounts(APIView):
    """Numbers of requests of the caller."""

    @extend_schema(
        operation_id="count_requests",
        summary="Count the requests to decide, your own, and decided ones",
        responses=answers({200: RequestCountsSerializer}),
    )
    def get(self, request: Request) -> Response:
        """Count requests."""
        refuse_unknown_parameters(request, set())
        return Response(RequestCountsSerializer(counts(actor_from(request))).data)


class ChangeRequestDetail(APIView):
    """A request."""

    @extend_schema(
        operation_id="get_request",
        summary="Get a request with its counter-offers, comments and possible sources",
        parameters=[_ETAG],
        responses=answers({200: ChangeRequestDetailSerializer}, 404),
    )
    def get(self, request: Request, request_id: UUID) -> Response:
        """Get a request."""
        refuse_unknown_parameters(request, set())
        return _answer(actor_from(request), request_id)


class ChangeRequestApproval(APIView):
    """Approves a request."""

    @extend_schema(
        operation_id="approve_request",
        summary="Approve a request as asked",
        description="The change is made at once, with your rights, or the approval is refused. A "
        "change of quotas is a planned change, which is reverted at the end of the request. "
        "Repeating it changes nothing.",
        request=ApprovalSerializer,
        parameters=[_IF_MATCH, _ETAG],
        responses=answers(
            {200: ChangeRequestDetailSerializer, 202: WaitingWriteSerializer},
            403,
            404,
            409,
            412,
            428,
        ),
    )
    def post(self, request: Request, request_id: UUID) -> Response:
        """Approve the request."""
        actor = actor_from(request)
        given = _read(request, ApprovalSerializer)
        with showing_current(lambda: _shown(actor, request_id)):
            approve(
                request_id,
                terms_in(given, actor).sources,
                note=given["note"],
                if_match=required_etag(request),
                actor=actor,
                now=SystemClock().now(),
            )
        return _answer(actor, request_id)


class ChangeRequestOverride(APIView):
    """Makes a write without a second person."""

    @extend_schema(
        operation_id="override_second_person",
        summary="Make a change without its second person, in an emergency",
        description="For a platform administrator who asked for it, where the organization allows "
        "it. The people who could have decided are told. Repeating it changes nothing.",
        request=OverrideSerializer,
        parameters=[_IF_MATCH, _ETAG],
        responses=answers({200: ChangeRequestDetailSerializer}, 403, 404, 409, 412, 428),
    )
    def post(self, request: Request, request_id: UUID) -> Response:
        """Make the change."""
        actor = actor_from(request)
        reason = _read(request, OverrideSerializer)["reason"]
        with showing_current(lambda: _shown(actor, request_id)):
            override_second_person(
                request_id,
                reason=reason,
                if_match=required_etag(request),
                actor=actor,
                now=SystemClock().now(),
            )
        return _answer(actor, request_id)


class ChangeRequestCounter(APIView):
    """Offers other terms for a request."""

    @extend_schema(
        operation_id="counter_request",
        summary="Offer other terms to the person who asked",
        description="If the person accepts, the change is made with your present rights.",
        request=CounterTermsSerializer,
        parameters=[_IF_MATCH, _ETAG],
        responses=answers({200: ChangeRequestDetailSerializer}, 403, 404, 409, 412, 428),
    )
    def post(self, request: Request, request_id: UUID) -> Response:
        """Make a counter-offer."""
        actor = actor_from(request)
        given = _read(request, CounterTermsSerializer)
        with showing_current(lambda: _shown(actor, request_id)):
            counter(
                request_id,
                terms_in(given, actor),
                note=given["note"],
                if_match=required_etag(request),
                actor=actor,
                now=SystemClock().now(),
            )
        return _answer(actor, request_id)


class CounterOfferAcceptance(APIView):
    """Accepts a counter-offer."""

    @extend_schema(
        operation_id="accept_counter_offer",
        summary="Accept a counter-offer to your request",
        description="409 if its quotas changed since it was made. Repeating it changes nothing.",
        request=None,
        parameters=[_ETAG],
        responses=answers(
            {200: ChangeRequestDetailSerializer, 202: WaitingWriteSerializer}, 403, 404, 409
        ),
    )
    def post(self, request: Request, request_id: UUID, number: int) -> Response:
        """Accept the counter-offer."""
        actor = _actor_of_empty(request)
        accept_offer(request_id, number, actor=actor, now=SystemClock().now())
        return _answer(actor, request_id)


class CounterOfferRefusal(APIView):
    """Declines a counter-offer."""

    @extend_schema(
        operation_id="decline_counter_offer",
        summary="Decline a counter-offer to your request, which then waits again",
        request=None,
        parameters=[_ETAG],
        responses=answers({200: ChangeRequestDetailSerializer}, 403, 404, 409),
    )
    def post(self, request: Request, request_id: UUID, number: int) -> Response:
        """Decline the counter-offer."""
        actor = _actor_of_empty(request)
        decline_offer(request_id, number, actor=actor, now=SystemClock().now())
        return _answer(actor, request_id)


class ChangeRequestRejection(APIView):
    """Rejects a request."""

    @extend_schema(
        operation_id="reject_request",
        summary="Reject a request with a note",
        description="Repeating it changes nothing.",
        request=RejectionSerializer,
        parameters=[_ETAG],
        responses=answers({200: ChangeRequestDetailSerializer}, 403, 404, 409),
    )
    def post(self, request: Request, request_id: UUID) -> Response:
        """Reject the request."""
        actor = actor_from(request)
        note = _read(request, RejectionSerializer)["note"]
        reject(request_id, note=note, actor=actor, now=SystemClock().now())
        return _answer(actor, request_id)


class ChangeRequestWithdrawal(APIView):
    """Withdraws the caller's request."""

    @extend_schema(
        operation_id="withdraw_request",
        summary="Withdraw your request",
        description="Repeating it changes nothing.",
        request=None,
        parameters=[_ETAG],
        responses=answers({200: ChangeRequestDetailSerializer}, 403, 404, 409),
    )
    def post(self, request: Request, request_id: UUID) -> Response:
        """Withdraw the request."""
        actor = _actor_of_empty(request)
        withdraw(request_id, actor=actor, now=SystemClock().now())
        return _answer(actor, request_id)


class ChangeRequestComments(APIView):
    """The comments on a request."""

    @extend_schema(
        operation_id="comment_on_request",
        summary="Comment on a request",
        request=NewCommentSerializer,
        parameters=[IDEMPOTENCY_KEY],
        responses=answers({201: RequestCommentSerializer}, 403, 404, 409, 422),
    )
    def post(self, request: Request, request_id: UUID) -> Response:
        """Add a comment."""
        actor = actor_from(request)
        given = _read(request, NewCommentSerializer)
        now = SystemClock().now()

        def act() -> tuple[int, dict[str, Any]]:
            made = comment(request_id, given["text"], actor=actor, now=now)
            return 201, dict(RequestCommentSerializer(made).data)

        return respond_once(request, principal_id=actor.user.pk, now=now, act=act)


def _read(request: Request, shape: type[StrictSerializer]) -> dict[str, Any]:
    refuse_unknown_parameters(request, set())
    body = shape(data=request.data)
    body.is_valid(raise_exception=True)
    return dict(body.validated_data)


def _actor_of_empty(request: Request) -> Actor:
    """Return the actor of a request without body and parameters."""
    refuse_unknown_parameters(request, set())
    refuse_body(request)
    return actor_from(request)


def _shown(actor: Actor, request_id: UUID) -> dict[str, Any]:
    return shown_detail(request_by_id(actor, request_id), actor=actor)


def _answer(actor: Actor, request_id: UUID) -> Response:
    found = request_by_id(actor, request_id)
    return Response(shown_detail(found, actor=actor), headers={"ETag": state_tag(found)})

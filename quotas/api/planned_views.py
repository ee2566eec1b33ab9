"""Changes of several quotas together: drafted, applied now or at a time, reverted."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from primitives.clock import SystemClock
from quotas.api.planned_serializers import (
    PlannedChangeCreateSerializer,
    PlannedChangeSerializer,
    PlannedEditRequestSerializer,
    shown_change,
)
from quotas.models import PlannedStatus
from quotas.planned_changes import apply_planned, cancel_planned, draft_change
from quotas.planned_reading import etag_of_planned, planned_by_id, visible_planned
from tenants.access import Actor
from tenants.api.authentication import actor_from
from webapi.idempotency import respond_once
from webapi.paging import (
    page_body,
    page_by_id,
    refuse_body,
    refuse_unknown_parameters,
)
from webapi.parameters import PageParameters, choice
from webapi.preconditions import required_etag, showing_current
from webapi.serializers import (
    IDEMPOTENCY_KEY,
    WaitingWriteSerializer,
    answers,
    etag_header,
    if_match_header,
    page_of,
)

_IF_MATCH = if_match_header("The ETag of the draft, or of its preview")
_ETAG = etag_header("State of the change and of the quotas of its organization in its pools")


class PlannedChangeParameters(PageParameters):
    """The filter of the list of planned changes."""

    status: str | None = choice(PlannedStatus, "Only this status")


class PlannedChangeList(APIView):
    """The planned changes that the caller may see."""

    @extend_schema(
        operation_id="list_planned_quota_changes",
        summary="List planned changes of quotas, newest first",
        parameters=PlannedChangeParameters.in_openapi(),
        responses=answers({200: page_of(PlannedChangeSerializer)}),
    )
    def get(self, request: Request) -> Response:
        """List planned changes, newest first."""
        asked = PlannedChangeParameters.read(request)
        actor = actor_from(request)
        planned = visible_planned(actor)
        if asked.status is not None:
            planned = planned.filter(status=asked.status)
        page = page_by_id(asked, planned, newest_first=True)
        return Response(page_body(request, page, lambda row: shown_change(row, actor=actor)))

    @extend_schema(
        operation_id="draft_quota_change",
        summary="Draft a change of several quotas",
        description="Nothing changes yet. Preview the draft, then apply it with the ETag. A draft "
        "needs the right to change some setting of each quota. Applying needs the rights to all "
        "edits.",
        request=PlannedChangeCreateSerializer,
        parameters=[IDEMPOTENCY_KEY, _ETAG],
        responses=answers({201: PlannedChangeSerializer}, 403, 404, 422),
    )
    def post(self, request: Request) -> Response:
        """Draft a change."""
        refuse_unknown_parameters(request, set())
        actor = actor_from(request)
        body = PlannedChangeCreateSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        given = body.validated_data
        now = SystemClock().now()

        def act() -> tuple[int, dict[str, Any]]:
            planned = draft_change(
                [
                    (edit["quota"], PlannedEditRequestSerializer.edit_of(edit))
                    for edit in given["edits"]
                ],
                reason=given["reason"],
                apply_at=given["apply_at"],
                revert_after_s=given["revert_after_s"],
                actor=actor,
                now=now,
            )
            return 201, shown_change(planned_by_id(actor, planned.pk), actor=actor)

        response = respond_once(request, principal_id=actor.user.pk, now=now, act=act)
        planned = planned_by_id(actor, UUID(str(response.data["id"])))
        response.headers["ETag"] = etag_of_planned(planned)
        return response


class PlannedChangeDetail(APIView):
    """One planned change."""

    @extend_schema(
        operation_id="get_planned_quota_change",
        summary="Get a planned change of quotas",
        parameters=[_ETAG],
        responses=answers({200: PlannedChangeSerializer}, 404),
    )
    def get(self, request: Request, planned_id: UUID) -> Response:
        """Get a planned change, with its quotas in three versions."""
        refuse_unknown_parameters(request, set())
        return _answer(actor_from(request), planned_id)


class PlannedChangeApply(APIView):
    """Applies or schedules a draft."""

    @extend_schema(
        operation_id="apply_planned_quota_change",
        summary="Apply a drafted change, or schedule it for its time",
        description="All edits are made, or none. 412 if the change, or a quota of its "
        "organization in its pools, has changed. The answer then has `current`, with each quota in "
        "three versions.",
        request=None,
        parameters=[_IF_MATCH, _ETAG],
        responses=answers(
            {200: PlannedChangeSerializer, 202: WaitingWriteSerializer}, 403, 404, 409, 412, 428
        ),
    )
    def post(self, request: Request, planned_id: UUID) -> Response:
        """Apply or schedule a draft."""
        refuse_unknown_parameters(request, set())
        actor = actor_from(request)
        refuse_body(request)
        now = SystemClock().now()
        with showing_current(lambda: shown_change(planned_by_id(actor, planned_id), actor=actor)):
            apply_planned(planned_id, if_match=required_etag(request), actor=actor, now=now)
        return _answer(actor, planned_id)


class PlannedChangeCancel(APIView):
    """Cancels a planned change."""

    @extend_schema(
        operation_id="cancel_planned_quota_change",
        summary="Cancel a draft or a scheduled change, or keep a change that would be reverted",
        request=None,
        parameters=[_ETAG],
        responses=answers({200: PlannedChangeSerializer}, 403, 404, 409),
    )
    def post(self, request: Request, planned_id: UUID) -> Response:
        """Cancel or keep a change."""
        refuse_unknown_parameters(request, set())
        actor = actor_from(request)
        refuse_body(request)
        cancel_planned(planned_id, actor=actor, now=SystemClock().now())
        return _answer(actor, planned_id)


def _answer(actor: Actor, planned_id: UUID) -> Response:
    planned = planned_by_id(actor, planned_id)
    shown = shown_change(planned, actor=actor)
    return Response(shown, headers={"ETag": etag_of_planned(planned)})

"""The inbox of the caller."""

from __future__ import annotations

from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from notices.api.serializers import (
    NoticeSerializer,
    NoticesReadSerializer,
    UnreadCountSerializer,
)
from notices.inbox import mark_all_read, mark_read, own_notices, unread_count
from notices.models import NoticeEvent
from primitives.clock import SystemClock
from tenants.access import Actor
from tenants.api.authentication import actor_from
from webapi.paging import page_body, page_by_id, refuse_body, refuse_unknown_parameters
from webapi.parameters import PageParameters, flag, several, text
from webapi.serializers import answers, page_of


class NoticeParameters(PageParameters):
    """The filters of the list of notices."""

    event: frozenset[str] | None = several(NoticeEvent, "Only of these events")
    subject_kind: str | None = text("Only of this kind of object, such as job")
    subject_id: str | None = text("Only of the object with this id")
    unread: bool = flag("Only unread ones")


class NoticeList(APIView):
    """The notices of the caller."""

    @extend_schema(
        operation_id="list_notices",
        summary="List your notices, newest first",
        description="Notices are kept for 90 days, at most 1,000 for each person.",
        parameters=NoticeParameters.in_openapi(),
        responses=answers({200: page_of(NoticeSerializer)}),
    )
    def get(self, request: Request) -> Response:
        """List notices, newest first."""
        asked = NoticeParameters.read(request)
        rows = own_notices(actor_from(request))
        if asked.event is not None:
            rows = rows.filter(event__in=asked.event)
        if asked.subject_kind is not None:
            rows = rows.filter(subject_kind=asked.subject_kind)
        if asked.subject_id is not None:
            rows = rows.filter(subject_id=asked.subject_id)
        if asked.unread:
            rows = rows.filter(read_at=None)
        page = page_by_id(asked, rows, newest_first=True)
        return Response(page_body(request, page, NoticeSerializer().to_representation))


class UnreadNotices(APIView):
    """The number of unread notices of the caller."""

    @extend_schema(
        operation_id="count_unread_notices",
        summary="Count your unread notices",
        responses=answers({200: UnreadCountSerializer}),
    )
    def get(self, request: Request) -> Response:
        """Count the unread notices."""
        refuse_unknown_parameters(request, set())
        return _count(actor_from(request))


class NoticeReading(APIView):
    """Marks a notice as read."""

    @extend_schema(
        operation_id="read_notice",
        summary="Mark a notice as read",
        description="Repeating it changes nothing.",
        request=None,
        responses=answers({200: NoticeSerializer}, 403, 404),
    )
    def post(self, request: Request, notice_id: UUID) -> Response:
        """Mark the notice as read."""
        refuse_unknown_parameters(request, set())
        refuse_body(request)
        notice = mark_read(notice_id, actor=actor_from(request), now=SystemClock().now())
        return Response(NoticeSerializer(notice).data)


class NoticesReading(APIView):
    """Marks all notices of the caller as read."""

    @extend_schema(
        operation_id="read_all_notices",
        summary="Mark all your notices as read",
        description="With `through`, notices that are newer than that one stay unread.",
        request=NoticesReadSerializer,
        responses=answers({200: UnreadCountSerializer}, 403),
    )
    def post(self, request: Request) -> Response:
        """Mark notices as read."""
        refuse_unknown_parameters(request, set())
        body = NoticesReadSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        actor = actor_from(request)
        mark_all_read(body.validated_data.get("through"), actor=actor, now=SystemClock().now())
        return _count(actor)


def _count(actor: Actor) -> Response:
    return Response(UnreadCountSerializer({"unread": unread_count(actor)}).data)

"""Announcements on top of all pages."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from notices.announcements import (
    announce,
    change_announcement,
    current,
    remove_announcement,
    visible_announcements,
)
from notices.api.announcement_serializers import (
    AnnouncementCreateSerializer,
    AnnouncementSerializer,
    AnnouncementUpdateSerializer,
    shown_announcement,
)
from primitives.clock import SystemClock
from tenants.api.authentication import actor_from
from webapi.idempotency import respond_once
from webapi.paging import page_body, page_by_id, refuse_unknown_parameters
from webapi.parameters import PageParameters, flag
from webapi.preconditions import required_version, tagged
from webapi.serializers import IDEMPOTENCY_KEY, answers, etag_header, if_match_header, page_of

_IF_MATCH = if_match_header("The ETag of the version on which the change is based")
_ETAG = etag_header("Version")


class AnnouncementParameters(PageParameters):
    """The filter of the list of announcements."""

    current: bool = flag("Only those that are shown now")


class AnnouncementList(APIView):
    """The announcements, and a new one."""

    @extend_schema(
        operation_id="list_announcements",
        summary="List announcements, newest first",
        description="Those to everybody, of clusters, and of nodes at, above or below which you "
        "have a role.",
        parameters=AnnouncementParameters.in_openapi(),
        responses=answers({200: page_of(AnnouncementSerializer)}),
    )
    def get(self, request: Request) -> Response:
        """Return a page of announcements."""
        asked = AnnouncementParameters.read(request)
        actor = actor_from(request)
        rows = visible_announcements(actor)
        if asked.current:
            rows = current(rows, SystemClock().now())
        page = page_by_id(asked, rows, newest_first=True)
        return Response(page_body(request, page, lambda row: shown_announcement(row, actor=actor)))

    @extend_schema(
        operation_id="announce",
        summary="Show a text on top of all pages",
        description="Announcements of a node need the right manage_members on it, others an "
        "administrator of the platform.",
        request=AnnouncementCreateSerializer,
        parameters=[IDEMPOTENCY_KEY],
        responses=answers({201: AnnouncementSerializer}, 403, 404, 409),
    )
    def post(self, request: Request) -> Response:
        """Announce a text."""
        refuse_unknown_parameters(request, set())
        actor, now = actor_from(request), SystemClock().now()
        body = AnnouncementCreateSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        asked = body.validated_data

        def act() -> tuple[int, dict[str, Any]]:
            found = announce(
                actor=actor,
                node_path=asked.get("node"),
                cluster_name=asked.get("cluster"),
                level=asked["level"],
                text=asked["text"],
                start=asked.get("start"),
                end=asked.get("end"),
                now=now,
            )
            return 201, shown_announcement(found, actor=actor)

        return respond_once(request, principal_id=actor.user.pk, now=now, act=act)


class AnnouncementDetail(APIView):
    """An announcement, by its id."""

    @extend_schema(
        operation_id="change_announcement",
        summary="Change an announcement",
        request=AnnouncementUpdateSerializer,
        parameters=[_IF_MATCH, _ETAG],
        responses=answers({200: AnnouncementSerializer}, 403, 404, 412, 428),
    )
    def patch(self, request: Request, announcement_id: UUID) -> Response:
        """Change the announcement."""
        refuse_unknown_parameters(request, set())
        body = AnnouncementUpdateSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        actor = actor_from(request)
        found = change_announcement(
            announcement_id,
            body.validated_data,
            actor=actor,
            if_version=required_version(request),
            now=SystemClock().now(),
        )
        return tagged(Response(shown_announcement(found, actor=actor)))

    @extend_schema(
        operation_id="remove_announcement",
        summary="Remove an announcement",
        responses=answers({204: None}, 403, 404),
    )
    def delete(self, request: Request, announcement_id: UUID) -> Response:
        """Remove the announcement."""
        refuse_unknown_parameters(request, set())
        remove_announcement(announcement_id, actor=actor_from(request), now=SystemClock().now())
        return Response(status=204)

"""Browser sessions over HTTP: the caller's own, and those of users that the caller manages."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from primitives.clock import SystemClock
from tenants.api import serializers as shapes
from tenants.api.authentication import actor_from
from tenants.models import Session
from tenants.session_store import store_of
from tenants.sessions import device_name, end_session, end_sessions, sessions_of
from webapi.paging import page_body, page_by_id, refuse_unknown_parameters
from webapi.parameters import PageParameters, text
from webapi.serializers import answers, page_of


class BrowserSessionParameters(PageParameters):
    """The owner of the listed sessions; the caller by default."""

    user: str | None = text("Login of a user that the caller manages")


class BrowserSessionList(APIView):
    """Browser sessions of the caller or of a managed user."""

    @extend_schema(
        operation_id="list_sessions",
        summary="Browser sessions, newest first",
        description="The caller's own, unless `user` is given.",
        parameters=BrowserSessionParameters.in_openapi(),
        responses=answers({200: page_of(shapes.BrowserSessionSerializer)}, 403, 404),
    )
    def get(self, request: Request) -> Response:
        """List sessions, newest first."""
        asked = BrowserSessionParameters.read(request)
        sessions = sessions_of(actor_from(request), asked.user, now=SystemClock().now())
        page = page_by_id(asked, sessions, newest_first=True)
        present = _present(request)
        return Response(page_body(request, page, lambda row: _shown(row, present)))


class BrowserSessionDetail(APIView):
    """A browser session."""

    @extend_schema(
        operation_id="end_session",
        summary="End a browser session and close its open pages' sockets",
        responses=answers({204: None}, 403, 404),
    )
    def delete(self, request: Request, session_id: UUID) -> Response:
        """End the session."""
        refuse_unknown_parameters(request, set())
        end_session(actor=actor_from(request), session_id=session_id, now=SystemClock().now())
        return Response(status=204)


class BrowserSessionsEnd(APIView):
    """The end of all browser sessions of a user."""

    @extend_schema(
        operation_id="end_sessions",
        summary="End all browser sessions of a user, but not the one in use",
        request=shapes.SessionsEndSerializer,
        responses=answers({200: shapes.EndedSessionsSerializer}, 403, 404),
    )
    def post(self, request: Request) -> Response:
        """End the sessions."""
        refuse_unknown_parameters(request, set())
        body = shapes.SessionsEndSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        ended = end_sessions(
            actor=actor_from(request),
            login=body.validated_data["user"],
            besides=_present(request),
            now=SystemClock().now(),
        )
        return Response(shapes.EndedSessionsSerializer({"ended": ended}).data)


def _present(request: Request) -> UUID | None:
    """Return the id of the session in use; None for an access token."""
    if actor_from(request).scopes is not None:
        return None
    return store_of(request._request).row_id


def _shown(row: Session, present: UUID | None) -> dict[str, Any]:
    shown: dict[str, Any] = shapes.BrowserSessionSerializer(
        {
            "id": row.pk,
            "user": row.user,
            "device": device_name(row.user_agent),
            "user_agent": row.user_agent,
            "address": row.address,
            "started_at": row.started_at,
            "last_used_at": row.last_used_at,
            "expires_at": row.expire_date,
            "is_current": row.pk == present,
        }
    ).data
    return shown

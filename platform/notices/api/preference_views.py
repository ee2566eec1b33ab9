"""The choices of the caller, and the mails to the caller."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from notices.api.preference_serializers import (
    MailSerializer,
    PreferencesSerializer,
    PreferencesUpdateSerializer,
    asked_changes,
    shown_preferences,
)
from notices.mail_models import MailState
from notices.mailing import own_mails
from notices.preferences import change_preferences, settings_of
from primitives.clock import SystemClock
from tenants.api.authentication import actor_from
from webapi.paging import page_body, page_by_id, refuse_unknown_parameters
from webapi.parameters import PageParameters, several
from webapi.preconditions import required_version, showing_current, tagged
from webapi.serializers import answers, etag_header, if_match_header, page_of

_IF_MATCH = if_match_header("The ETag of the version on which the change is based")
_ETAG = etag_header("Version")


class NoticePreferences(APIView):
    """The channels of each event, and the time of mails."""

    @extend_schema(
        operation_id="get_notice_preferences",
        summary="Get which events reach you, and how",
        parameters=[_ETAG],
        responses=answers({200: PreferencesSerializer}),
    )
    def get(self, request: Request) -> Response:
        """Get the choices."""
        refuse_unknown_parameters(request, set())
        user = actor_from(request).user
        return tagged(Response(shown_preferences(user, settings_of(user.pk))))

    @extend_schema(
        operation_id="change_notice_preferences",
        summary="Change which events reach you, and how",
        description="Notices that were given before stay as they are, and so does the time of "
        "their mails.",
        request=PreferencesUpdateSerializer,
        parameters=[_IF_MATCH, _ETAG],
        responses=answers({200: PreferencesSerializer}, 403, 412, 428),
    )
    def patch(self, request: Request) -> Response:
        """Change the choices."""
        refuse_unknown_parameters(request, set())
        body = PreferencesUpdateSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        fields, choices = asked_changes(body.validated_data)
        actor = actor_from(request)
        user = actor.user
        with showing_current(lambda: shown_preferences(user, settings_of(user.pk))):
            settings = change_preferences(
                fields,
                choices,
                actor=actor,
                if_version=required_version(request),
                now=SystemClock().now(),
            )
        return tagged(Response(shown_preferences(user, settings)))


class MailParameters(PageParameters):
    """The filters of the list of mails."""

    state: frozenset[str] | None = several(MailState, "Only in these states")


class MailList(APIView):
    """The mails to the caller."""

    @extend_schema(
        operation_id="list_notice_mails",
        summary="List mails to you with their delivery, newest first",
        description="Mails are kept for 30 days. A mail that the server accepted and that bounced "
        "later is `sent`.",
        parameters=MailParameters.in_openapi(),
        responses=answers({200: page_of(MailSerializer)}),
    )
    def get(self, request: Request) -> Response:
        """List mails, newest first."""
        asked = MailParameters.read(request)
        rows = own_mails(actor_from(request))
        if asked.state is not None:
            rows = rows.filter(state__in=asked.state)
        page = page_by_id(asked, rows, newest_first=True)
        return Response(page_body(request, page, MailSerializer().to_representation))

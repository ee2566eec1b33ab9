"""Saved views of the list of jobs: list, creation and deletion."""

from __future__ import annotations

from dataclasses import fields
from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from jobs.actions.saved_views import delete_view, may_delete_view, save_view, visible_views
from jobs.api.job_parameters import SortedJobParameters
from jobs.models import SavedView
from jobs.queue.reason_documents import iso
from jobs.saved_view_models import NAME_LENGTH_MAX
from primitives.clock import SystemClock
from tenants.access import Actor
from tenants.api.authentication import actor_from
from webapi.idempotency import respond_once
from webapi.paging import page_body, page_by_id, refuse_body, refuse_unknown_parameters
from webapi.parameters import PageParameters
from webapi.serializers import (
    IDEMPOTENCY_KEY,
    StrictSerializer,
    TextField,
    answers,
    page_of,
)

_PARAMETERS = frozenset({one.name for one in fields(SortedJobParameters)} | {"columns"})
_VALUE_LENGTH_MAX = 1_000
_HELP = "Query parameters of `GET /jobs` without `limit` and `cursor`, and `columns` of the page"


class ViewParametersField(serializers.DictField):
    """The query parameters of a view."""

    child = TextField(max_length=_VALUE_LENGTH_MAX)

    def to_internal_value(self, data: Any) -> Any:
        """Return the parameters. Raises ValidationError for unknown ones."""
        if isinstance(data, dict) and (unknown := sorted(map(str, data.keys() - _PARAMETERS))):
            raise serializers.ValidationError(
                f"has {unknown[0][:60]}, which is no filter of jobs; there are "
                f"{', '.join(sorted(_PARAMETERS))}",
                code="invalid",
            )
        return super().to_internal_value(data)


class SavedViewCreateSerializer(StrictSerializer):
    """A new view."""

    name = TextField(max_length=NAME_LENGTH_MAX)
    parameters = ViewParametersField(help_text=_HELP)
    share_with = TextField(
        max_length=_VALUE_LENGTH_MAX,
        required=False,
        allow_null=True,
        default=None,
        help_text="Path of a team that gets the view; null: a personal one",
    )


class SavedViewSerializer(serializers.Serializer[Any]):
    """A saved view of the list of jobs."""

    id = serializers.UUIDField()
    name = serializers.CharField()
    parameters = serializers.DictField(child=serializers.CharField(), help_text=_HELP)
    user = serializers.CharField(help_text="The username of its owner")
    shared_with = serializers.CharField(
        allow_null=True, help_text="Path of the team that it is shared with; null: personal"
    )
    created_at = serializers.DateTimeField()
    can = serializers.ListField(
        child=serializers.ChoiceField(choices=["delete"]),
        help_text="Actions that the caller may take",
    )


class SavedViewList(APIView):
    """The views that the caller may use."""

    @extend_schema(
        operation_id="list_saved_views",
        summary="Saved views of the list of jobs",
        description="The caller's own views, and those of teams whose jobs the caller may see or "
        "submit.",
        parameters=PageParameters.in_openapi(),
        responses=answers({200: page_of(SavedViewSerializer)}),
    )
    def get(self, request: Request) -> Response:
        """Return a page of views."""
        asked = PageParameters.read(request)
        actor = actor_from(request)
        page = page_by_id(asked, visible_views(actor))
        return Response(page_body(request, page, lambda view: _body(view, actor)))

    @extend_schema(
        operation_id="create_saved_view",
        summary="Save a view of the list of jobs",
        description="Sharing it with a team needs the right submit_jobs there.",
        request=SavedViewCreateSerializer,
        parameters=[IDEMPOTENCY_KEY],
        responses=answers({201: SavedViewSerializer}, 403, 404, 409, 422),
    )
    def post(self, request: Request) -> Response:
        """Save a view and return it."""
        refuse_unknown_parameters(request, set())
        actor, now = actor_from(request), SystemClock().now()
        given = SavedViewCreateSerializer(data=request.data)
        given.is_valid(raise_exception=True)
        wanted = given.validated_data

        def act() -> tuple[int, dict[str, Any]]:
            made = save_view(
                wanted["name"],
                wanted["parameters"],
                share_with=wanted["share_with"],
                actor=actor,
                now=now,
            )
            return 201, _body(made, actor)

        return respond_once(request, principal_id=actor.user.pk, now=now, act=act)


class SavedViewDetail(APIView):
    """A saved view."""

    @extend_schema(
        operation_id="delete_saved_view",
        summary="Delete a saved view",
        description="Views of a team are deleted by their owner and by those who manage "
        "jobs there.",
        responses=answers({204: None}, 403, 404),
    )
    def delete(self, request: Request, view_id: UUID) -> Response:
        """Delete the view."""
        refuse_unknown_parameters(request, set())
        actor, now = actor_from(request), SystemClock().now()
        refuse_body(request)
        delete_view(view_id, actor=actor, now=now)
        return Response(status=204)


def _body(view: SavedView, actor: Actor) -> dict[str, Any]:
    return {
        "id": str(view.pk),
        "name": view.name,
        "parameters": view.parameters,
        "user": view.user.username,
        "shared_with": None if view.node is None else view.node.display_path,
        "created_at": iso(view.created_at),
        "can": ["delete"] if may_delete_view(view, actor) else [],
    }

"""Caps for the users of a team."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from primitives.clock import SystemClock
from primitives.units import MGPU_MAX
from quotas.models import UserCap
from quotas.user_caps import (
    CapOwner,
    change_cap,
    create_cap,
    may_manage_caps,
    remove_cap,
    visible_cap,
    visible_caps,
)
from tenants.access import Actor
from tenants.api.authentication import actor_from
from webapi.idempotency import respond_once
from webapi.paging import page_body, page_by_id, refuse_unknown_parameters
from webapi.parameters import PageParameters, text
from webapi.preconditions import etag_of, required_version, showing_current, tagged
from webapi.serializers import (
    IDEMPOTENCY_KEY,
    StrictSerializer,
    TextField,
    WholeNumberField,
    answers,
    etag_header,
    if_match_header,
    page_of,
)

_IF_MATCH = if_match_header("The ETag of the version on which the change is based")
_ETAG = etag_header("Version")
_USER_HELP = "Username; null: the default for each user of the team"
_POOL_HELP = "Null: the GPUs of all pools together"
_CAP_HELP = "The most at once, in milli-GPU; null: no cap for this user"


class UserCapParameters(PageParameters):
    """The filters of the list of caps."""

    team: str | None = text("Path of a team: its caps only")


class UserCapSerializer(serializers.Serializer[Any]):
    """The most GPUs that a user of a team may use at once."""

    id = serializers.UUIDField()
    team = serializers.CharField(source="team.display_path")
    user = serializers.SerializerMethodField(help_text=_USER_HELP)
    pool = serializers.SerializerMethodField(help_text=_POOL_HELP)
    cap_mgpu = serializers.IntegerField(allow_null=True, help_text=_CAP_HELP)
    can_edit = serializers.SerializerMethodField(help_text="Whether the caller may change it")
    version = serializers.IntegerField(help_text='The ETag is "v" and this number, quoted')

    def get_user(self, cap: UserCap) -> str | None:
        """Return whose cap it is."""
        return None if cap.user is None else cap.user.username

    def get_pool(self, cap: UserCap) -> str | None:
        """Return the pool that it is for."""
        return None if cap.pool is None else cap.pool.name

    def get_can_edit(self, cap: UserCap) -> bool:
        """Return whether the caller may change it."""
        return may_manage_caps(self.context["actor"], cap.team)


class UserCapUpdateSerializer(StrictSerializer):
    """A change of a cap."""

    cap_mgpu = WholeNumberField(
        min_value=0, max_value=MGPU_MAX, allow_null=True, help_text=_CAP_HELP
    )


class UserCapCreateSerializer(UserCapUpdateSerializer):
    """A new cap."""

    team = TextField(max_length=2_000, help_text="Path of the team")
    user = TextField(max_length=150, required=False, allow_null=True, help_text=_USER_HELP)
    pool = TextField(max_length=63, required=False, allow_null=True, help_text=_POOL_HELP)

    def to_owner(self) -> CapOwner:
        """Return what it is for."""
        given = self.validated_data
        return CapOwner(given["team"], given.get("user"), given.get("pool"))


class UserCapList(APIView):
    """The caps that the caller may see."""

    @extend_schema(
        operation_id="list_user_caps",
        summary="List caps for users",
        description="Of the teams that you may see. The cap of a person comes before the default "
        "of the team for the same pool.",
        parameters=UserCapParameters.in_openapi(),
        responses=answers({200: page_of(UserCapSerializer)}, 404),
    )
    def get(self, request: Request) -> Response:
        """List caps."""
        asked = UserCapParameters.read(request)
        actor = actor_from(request)
        page = page_by_id(asked, visible_caps(actor, team=asked.team))
        return Response(page_body(request, page, lambda cap: _shown(cap, actor)))

    @extend_schema(
        operation_id="create_user_cap",
        summary="Cap the users of a team",
        description="Jobs beyond it wait with the reason user_cap_reached. Running jobs go on. It "
        "needs the right manage_quota on the team.",
        request=UserCapCreateSerializer,
        parameters=[IDEMPOTENCY_KEY, _ETAG],
        responses=answers({201: UserCapSerializer}, 403, 404, 409, 422),
    )
    def post(self, request: Request) -> Response:
        """Set a cap."""
        refuse_unknown_parameters(request, set())
        actor = actor_from(request)
        body = UserCapCreateSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        now = SystemClock().now()

        def act() -> tuple[int, dict[str, Any]]:
            cap_mgpu = body.validated_data["cap_mgpu"]
            return 201, _shown(create_cap(body.to_owner(), cap_mgpu, actor=actor, now=now), actor)

        return tagged(respond_once(request, principal_id=actor.user.pk, now=now, act=act))


class UserCapDetail(APIView):
    """A cap, by its id."""

    @extend_schema(
        operation_id="get_user_cap",
        summary="Get a cap for users",
        parameters=[_ETAG],
        responses=answers({200: UserCapSerializer}, 404),
    )
    def get(self, request: Request, cap_id: UUID) -> Response:
        """Get the cap."""
        refuse_unknown_parameters(request, set())
        actor = actor_from(request)
        return _answer(visible_cap(actor, cap_id), actor)

    @extend_schema(
        operation_id="change_user_cap",
        summary="Change a cap for users",
        request=UserCapUpdateSerializer,
        parameters=[_IF_MATCH, _ETAG],
        responses=answers({200: UserCapSerializer}, 403, 404, 412, 428),
    )
    def patch(self, request: Request, cap_id: UUID) -> Response:
        """Change the cap. A 412 has the `current` one."""
        refuse_unknown_parameters(request, set())
        actor = actor_from(request)
        body = UserCapUpdateSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        with showing_current(lambda: _shown(visible_cap(actor, cap_id), actor)):
            cap = change_cap(
                cap_id,
                body.validated_data["cap_mgpu"],
                actor=actor,
                if_version=required_version(request),
                now=SystemClock().now(),
            )
        return _answer(cap, actor)

    @extend_schema(
        operation_id="remove_user_cap",
        summary="Remove a cap for users",
        parameters=[_IF_MATCH],
        responses=answers({204: None}, 403, 404, 412, 428),
    )
    def delete(self, request: Request, cap_id: UUID) -> Response:
        """Remove the cap. A 412 has the `current` one."""
        refuse_unknown_parameters(request, set())
        actor = actor_from(request)
        with showing_current(lambda: _shown(visible_cap(actor, cap_id), actor)):
            remove_cap(
                cap_id,
                actor=actor,
                if_version=required_version(request),
                now=SystemClock().now(),
            )
        return Response(status=204)


def _shown(cap: UserCap, actor: Actor) -> dict[str, Any]:
    return dict(UserCapSerializer(cap, context={"actor": actor}).data)


def _answer(cap: UserCap, actor: Actor) -> Response:
    return Response(_shown(cap, actor), headers={"ETag": etag_of(cap.version)})

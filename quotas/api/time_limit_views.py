"""Default and longest time limits of pools, tree nodes and priority classes."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from primitives.clock import SystemClock
from quotas.models import TIME_LIMIT_S_MAX, TimeLimit
from quotas.time_limits import (
    LimitEdit,
    Owner,
    change_limit,
    create_limit,
    may_change,
    remove_limit,
    visible_limit,
    visible_limits,
)
from tenants.access import Actor
from tenants.api.authentication import actor_from
from tenants.names import SLUG_LENGTH_MAX
from webapi.idempotency import respond_once
from webapi.paging import page_body, page_by_id, refuse_unknown_parameters
from webapi.parameters import PageParameters
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
_DEFAULT_HELP = "Time limit of jobs that ask for none; null: none from here"
_LONGEST_HELP = "Longest time limit that a job may ask for; null: none from here"


class TimeLimitSerializer(serializers.Serializer[Any]):
    """The time limits of one owner: a pool, a node of the tree, or a priority class."""

    id = serializers.UUIDField()
    pool = serializers.CharField(allow_null=True)
    node = serializers.CharField(allow_null=True, help_text="Path of the tree node")
    priority_class = serializers.CharField(allow_null=True)
    organization = serializers.CharField(allow_null=True, help_text="Of the node or class")
    default_s = serializers.IntegerField(allow_null=True, help_text=_DEFAULT_HELP)
    longest_s = serializers.IntegerField(allow_null=True, help_text=_LONGEST_HELP)
    can_edit = serializers.BooleanField(help_text="Whether the caller may change them")
    version = serializers.IntegerField(help_text='The ETag is "v" and this number, quoted')


class TimeLimitUpdateSerializer(StrictSerializer):
    """A change of time limits. Missing ones stay."""

    default_s = WholeNumberField(
        min_value=60,
        max_value=TIME_LIMIT_S_MAX,
        required=False,
        allow_null=True,
        help_text=_DEFAULT_HELP,
    )
    longest_s = WholeNumberField(
        min_value=60,
        max_value=TIME_LIMIT_S_MAX,
        required=False,
        allow_null=True,
        help_text=_LONGEST_HELP,
    )

    def to_edit(self) -> LimitEdit:
        """Return the given limits."""
        edit = LimitEdit()
        if "default_s" in self.validated_data:
            edit["default_s"] = self.validated_data["default_s"]
        if "longest_s" in self.validated_data:
            edit["longest_s"] = self.validated_data["longest_s"]
        return edit


class TimeLimitCreateSerializer(TimeLimitUpdateSerializer):
    """First time limits of an owner: exactly one of `pool`, `node` and `priority_class`."""

    pool = TextField(max_length=63, required=False)
    node = TextField(max_length=2_000, required=False, help_text="Path of the tree node")
    priority_class = TextField(max_length=SLUG_LENGTH_MAX, required=False)
    organization = TextField(
        max_length=SLUG_LENGTH_MAX, required=False, help_text="Slug; with `priority_class`"
    )

    def to_owner(self) -> Owner:
        """Return the named owner."""
        given = self.validated_data
        return Owner(
            pool=given.get("pool"),
            node=given.get("node"),
            priority_class=given.get("priority_class"),
            organization=given.get("organization"),
        )


class TimeLimitList(APIView):
    """The time limits that the caller may see."""

    @extend_schema(
        operation_id="list_time_limits",
        summary="List time limits",
        description="Of pools, and of the tree nodes and priority classes that you may see. The "
        "strictest longest limit binds a job; the nearest default is used: of the class, the team, "
        "the nodes above it, then the pool.",
        parameters=PageParameters.in_openapi(),
        responses=answers({200: page_of(TimeLimitSerializer)}),
    )
    def get(self, request: Request) -> Response:
        """List time limits."""
        asked = PageParameters.read(request)
        actor = actor_from(request)
        page = page_by_id(asked, visible_limits(actor))
        return Response(page_body(request, page, lambda found: _shown(found, actor)))

    @extend_schema(
        operation_id="create_time_limit",
        summary="Give a pool, tree node or priority class time limits",
        description="They apply to jobs that are submitted from then on. Those of a node need the "
        "right manage_quota on its parent.",
        request=TimeLimitCreateSerializer,
        parameters=[IDEMPOTENCY_KEY, _ETAG],
        responses=answers({201: TimeLimitSerializer}, 403, 404, 409, 422),
    )
    def post(self, request: Request) -> Response:
        """Create time limits."""
        refuse_unknown_parameters(request, set())
        actor = actor_from(request)
        body = TimeLimitCreateSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        now = SystemClock().now()

        def act() -> tuple[int, dict[str, Any]]:
            made = create_limit(body.to_owner(), body.to_edit(), actor=actor, now=now)
            return 201, _shown(made, actor)

        return tagged(respond_once(request, principal_id=actor.user.pk, now=now, act=act))


class TimeLimitDetail(APIView):
    """The time limits of one owner."""

    @extend_schema(
        operation_id="get_time_limit",
        summary="Get time limits",
        parameters=[_ETAG],
        responses=answers({200: TimeLimitSerializer}, 404),
    )
    def get(self, request: Request, limit_id: UUID) -> Response:
        """Get time limits."""
        refuse_unknown_parameters(request, set())
        return _answer(limit_id, actor_from(request))

    @extend_schema(
        operation_id="change_time_limit",
        summary="Change time limits",
        description="They apply to jobs that are submitted or extended from then on.",
        request=TimeLimitUpdateSerializer,
        parameters=[_IF_MATCH, _ETAG],
        responses=answers({200: TimeLimitSerializer}, 403, 404, 412, 428),
    )
    def patch(self, request: Request, limit_id: UUID) -> Response:
        """Change time limits. A 412 has the `current` ones."""
        refuse_unknown_parameters(request, set())
        actor = actor_from(request)
        body = TimeLimitUpdateSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        with showing_current(lambda: _shown(visible_limit(actor, limit_id), actor)):
            change_limit(
                limit_id,
                body.to_edit(),
                actor=actor,
                if_version=required_version(request),
                now=SystemClock().now(),
            )
        return _answer(limit_id, actor)

    @extend_schema(
        operation_id="remove_time_limit",
        summary="Remove time limits",
        parameters=[_IF_MATCH],
        responses=answers({204: None}, 403, 404, 412, 428),
    )
    def delete(self, request: Request, limit_id: UUID) -> Response:
        """Remove time limits. A 412 has the `current` ones."""
        refuse_unknown_parameters(request, set())
        actor = actor_from(request)
        with showing_current(lambda: _shown(visible_limit(actor, limit_id), actor)):
            remove_limit(
                limit_id,
                actor=actor,
                if_version=required_version(request),
                now=SystemClock().now(),
            )
        return Response(status=204)


def _shown(limit: TimeLimit, actor: Actor) -> dict[str, Any]:
    organization = None
    if limit.node is not None:
        organization = limit.node.path.partition("/")[0]
    elif limit.priority_class is not None:
        organization = limit.priority_class.organization.slug
    return dict(
        TimeLimitSerializer(
            {
                "id": limit.pk,
                "pool": None if limit.pool is None else limit.pool.name,
                "node": None if limit.node is None else limit.node.display_path,
                "priority_class": None
                if limit.priority_class is None
                else limit.priority_class.name,
                "organization": organization,
                "default_s": limit.default_s,
                "longest_s": limit.longest_s,
                "can_edit": may_change(actor, limit),
                "version": limit.version,
            }
        ).data
    )


def _answer(limit_id: UUID, actor: Actor) -> Response:
    shown = _shown(visible_limit(actor, limit_id), actor)
    return Response(shown, headers={"ETag": etag_of(shown["version"])})

"""Quotas and their history."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from primitives.clock import SystemClock
from quotas.administration import change_quota, create_quota, named_pool
from quotas.api.paging_by_key import page_by_key
from quotas.api.serializers import (
    QuotaChangeSerializer,
    QuotaCreateSerializer,
    QuotaSerializer,
    QuotaUpdateSerializer,
)
from quotas.models import Quota
from quotas.queries import quota_rows, visible_quotas
from tenants.access import Actor, get_visible, under, visible_node
from tenants.api.authentication import actor_from
from tenants.roles import Permission
from webapi.idempotency import respond_once
from webapi.paging import (
    Page,
    page_body,
    page_by_id,
    refuse_unknown_parameters,
)
from webapi.parameters import PageParameters, text
from webapi.preconditions import etag_of, required_version, showing_current, tagged
from webapi.serializers import (
    IDEMPOTENCY_KEY,
    WaitingWriteSerializer,
    answers,
    etag_header,
    if_match_header,
    page_of,
)

_IF_MATCH = if_match_header("The ETag of the version on which the change is based")
_ETAG = etag_header("Version")


class QuotaParameters(PageParameters):
    """The filters of the list of quotas."""

    pool: str | None = text("Only this pool")
    node: str | None = text("Only the node with this path")
    subtree: str | None = text("Only the node with this path, and below it")


class QuotaList(APIView):
    """The quotas that the caller may see."""

    @extend_schema(
        operation_id="list_quotas",
        summary="List quotas, in tree order",
        description="Sorted by path, so parents come first, then by pool.",
        parameters=QuotaParameters.in_openapi(),
        responses=answers({200: page_of(QuotaSerializer)}, 404),
    )
    def get(self, request: Request) -> Response:
        """List quotas."""
        asked = QuotaParameters.read(request)
        actor = actor_from(request)
        quotas = visible_quotas(actor)
        if asked.pool is not None:
            quotas = quotas.filter(pool=named_pool(asked.pool))
        if asked.node is not None:
            quotas = quotas.filter(node=visible_node(actor, asked.node))
        if asked.subtree is not None:
            top = visible_node(actor, asked.subtree)
            quotas = quotas.filter(under([top.path], "node__path"))
        found = page_by_key(asked, quotas, "node__path", "pool__name")
        page = Page(quota_rows(actor, found.items), found.next_cursor)
        return Response(page_body(request, page, QuotaSerializer().to_representation))

    @extend_schema(
        operation_id="create_quota",
        summary="Create a quota of a node in a pool",
        request=QuotaCreateSerializer,
        parameters=[IDEMPOTENCY_KEY],
        responses=answers({201: QuotaSerializer, 202: WaitingWriteSerializer}, 403, 404, 409, 422),
    )
    def post(self, request: Request) -> Response:
        """Create a quota."""
        refuse_unknown_parameters(request, set())
        actor = actor_from(request)
        body = QuotaCreateSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        now = SystemClock().now()

        def act() -> tuple[int, dict[str, Any]]:
            quota = create_quota(
                body.validated_data["node"],
                body.validated_data["pool"],
                body.to_edit(),
                actor=actor,
                reason=body.validated_data["reason"],
                now=now,
            )
            return 201, _shown(actor, quota.pk)

        return tagged(respond_once(request, principal_id=actor.user.pk, now=now, act=act))


class QuotaDetail(APIView):
    """One quota."""

    @extend_schema(
        operation_id="get_quota",
        summary="Get a quota",
        parameters=[_ETAG],
        responses=answers({200: QuotaSerializer}, 404),
    )
    def get(self, request: Request, quota_id: UUID) -> Response:
        """Get a quota."""
        refuse_unknown_parameters(request, set())
        shown = _shown(actor_from(request), quota_id)
        return Response(shown, headers={"ETag": etag_of(shown["version"])})

    @extend_schema(
        operation_id="change_quota",
        summary="Change a quota",
        description="Takes effect in the scheduler's next cycle. Percentages that depend on it are "
        "resolved again.",
        request=QuotaUpdateSerializer,
        parameters=[_IF_MATCH, _ETAG],
        responses=answers(
            {200: QuotaSerializer, 202: WaitingWriteSerializer}, 403, 404, 409, 412, 428
        ),
    )
    def patch(self, request: Request, quota_id: UUID) -> Response:
        """Change a quota. A 412 has the `current` one."""
        refuse_unknown_parameters(request, set())
        actor = actor_from(request)
        body = QuotaUpdateSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        with showing_current(lambda: _shown(actor, quota_id)):
            change_quota(
                quota_id,
                body.to_edit(),
                actor=actor,
                if_version=required_version(request),
                reason=body.validated_data["reason"],
                now=SystemClock().now(),
            )
        shown = _shown(actor, quota_id)
        return Response(shown, headers={"ETag": etag_of(shown["version"])})


class QuotaChanges(APIView):
    """The history of one quota."""

    @extend_schema(
        operation_id="list_quota_changes",
        summary="List the changes of a quota, newest first",
        parameters=PageParameters.in_openapi(),
        responses=answers({200: page_of(QuotaChangeSerializer)}, 404),
    )
    def get(self, request: Request, quota_id: UUID) -> Response:
        """List changes, newest first."""
        asked = PageParameters.read(request)
        quota = _visible_quota(actor_from(request), quota_id)
        page = page_by_id(asked, quota.changes.select_related("actor"), newest_first=True)
        return Response(page_body(request, page, QuotaChangeSerializer().to_representation))


def _visible_quota(actor: Actor, quota_id: UUID) -> Quota:
    return get_visible(
        actor,
        Quota.objects.select_related("node", "pool"),
        Permission.VIEW_TREE,
        path_field="node__path",
        pk=quota_id,
    )


def _shown(actor: Actor, quota_id: UUID) -> dict[str, Any]:
    (row,) = quota_rows(actor, [_visible_quota(actor, quota_id)])
    return dict(QuotaSerializer(row).data)

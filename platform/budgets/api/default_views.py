"""Default budgets of new teams."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from billing.scopes import currencies_of
from budgets.api.serializers import (
    BudgetDefaultCreateSerializer,
    BudgetDefaultSerializer,
    BudgetDefaultUpdateSerializer,
)
from budgets.defaults import (
    change_default,
    create_default,
    may_set_default,
    remove_default,
    visible_default,
    visible_defaults,
)
from budgets.models import BudgetDefault
from primitives.clock import SystemClock
from tenants.access import Actor
from tenants.api.authentication import actor_from
from webapi.idempotency import respond_once
from webapi.paging import page_body, page_by_id, refuse_unknown_parameters
from webapi.parameters import PageParameters, text
from webapi.preconditions import etag_of, required_version, showing_current, tagged
from webapi.serializers import IDEMPOTENCY_KEY, answers, etag_header, if_match_header, page_of

_IF_MATCH = if_match_header("The ETag of the version on which the change is based")
_ETAG = etag_header("Version")


class DefaultParameters(PageParameters):
    """The filters of the list of default budgets."""

    node: str | None = text("Path of a node: its default and those of all nodes below it")


class BudgetDefaultList(APIView):
    """The default budgets that the caller may see."""

    @extend_schema(
        operation_id="list_budget_defaults",
        summary="List default budgets of new teams",
        description="Those of nodes whose costs you may see.",
        parameters=DefaultParameters.in_openapi(),
        responses=answers({200: page_of(BudgetDefaultSerializer)}, 404),
    )
    def get(self, request: Request) -> Response:
        """List default budgets."""
        asked = DefaultParameters.read(request)
        actor = actor_from(request)
        page = page_by_id(asked, visible_defaults(actor, below=asked.node))
        shown = _shown(page.items, actor)
        return Response(page_body(request, page, lambda one: shown[one.pk]))

    @extend_schema(
        operation_id="create_budget_default",
        summary="Set the default budget of new teams",
        description="Each team made below the node gets an own budget with these terms at its "
        "creation. The nearest default above the team counts. Existing teams stay unchanged. It "
        "needs the right manage_quota on the node, or manage_prices.",
        request=BudgetDefaultCreateSerializer,
        parameters=[IDEMPOTENCY_KEY, _ETAG],
        responses=answers({201: BudgetDefaultSerializer}, 403, 404, 409, 422),
    )
    def post(self, request: Request) -> Response:
        """Set a default budget."""
        refuse_unknown_parameters(request, set())
        actor = actor_from(request)
        body = BudgetDefaultCreateSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        now = SystemClock().now()

        def act() -> tuple[int, dict[str, Any]]:
            given = body.validated_data
            made = create_default(
                given["node"], given["measure"], body.to_edit(), actor=actor, now=now
            )
            return 201, _one(made, actor)

        return tagged(respond_once(request, principal_id=actor.user.pk, now=now, act=act))


class BudgetDefaultDetail(APIView):
    """A default budget, by its id."""

    @extend_schema(
        operation_id="get_budget_default",
        summary="Get a default budget",
        parameters=[_ETAG],
        responses=answers({200: BudgetDefaultSerializer}, 404),
    )
    def get(self, request: Request, default_id: UUID) -> Response:
        """Get the default budget."""
        refuse_unknown_parameters(request, set())
        actor = actor_from(request)
        return _answer(visible_default(actor, default_id), actor)

    @extend_schema(
        operation_id="change_budget_default",
        summary="Change a default budget",
        description="Its node and measure stay. No existing budget changes.",
        request=BudgetDefaultUpdateSerializer,
        parameters=[_IF_MATCH, _ETAG],
        responses=answers({200: BudgetDefaultSerializer}, 403, 404, 412, 428),
    )
    def patch(self, request: Request, default_id: UUID) -> Response:
        """Change the default budget. A 412 has the `current` one."""
        refuse_unknown_parameters(request, set())
        actor = actor_from(request)
        body = BudgetDefaultUpdateSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        with showing_current(lambda: _one(visible_default(actor, default_id), actor)):
            changed = change_default(
                default_id,
                body.to_edit(),
                actor=actor,
                if_version=required_version(request),
                now=SystemClock().now(),
            )
        return _answer(changed, actor)

    @extend_schema(
        operation_id="remove_budget_default",
        summary="Remove a default budget",
        description="The budgets of teams stay.",
        parameters=[_IF_MATCH],
        responses=answers({204: None}, 403, 404, 412, 428),
    )
    def delete(self, request: Request, default_id: UUID) -> Response:
        """Remove the default budget. A 412 has the `current` one."""
        refuse_unknown_parameters(request, set())
        actor = actor_from(request)
        with showing_current(lambda: _one(visible_default(actor, default_id), actor)):
            remove_default(
                default_id,
                actor=actor,
                if_version=required_version(request),
                now=SystemClock().now(),
            )
        return Response(status=204)


def _shown(defaults: Iterable[BudgetDefault], actor: Actor) -> dict[UUID, dict[str, Any]]:
    found = list(defaults)
    context = {
        "currencies": currencies_of({one.node.organization_id for one in found}),
        "may_set": lambda one: may_set_default(actor, one.node),
    }
    return {one.pk: dict(BudgetDefaultSerializer(one, context=context).data) for one in found}


def _one(default: BudgetDefault, actor: Actor) -> dict[str, Any]:
    return _shown([default], actor)[default.pk]


def _answer(default: BudgetDefault, actor: Actor) -> Response:
    return Response(_one(default, actor), headers={"ETag": etag_of(default.version)})

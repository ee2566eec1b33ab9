"""Budgets and their alerts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from billing.scopes import currencies_of
from budgets.administration import (
    change_budget,
    create_budget,
    may_manage,
    remove_budget,
    visible_budget,
    visible_budgets,
)
from budgets.api.serializers import (
    BudgetAlertSerializer,
    BudgetCreateSerializer,
    BudgetDetailSerializer,
    BudgetSerializer,
    BudgetUpdateSerializer,
)
from budgets.evaluation import days_of_window
from budgets.models import Budget, BudgetAlert
from clusters.unheld import pools_with_unheld_natives
from primitives.clock import SystemClock
from tenants.access import Actor
from tenants.api.authentication import actor_from
from webapi.idempotency import respond_once
from webapi.paging import page_body, page_by_id, refuse_unknown_parameters
from webapi.parameters import PageParameters, text, uuid
from webapi.preconditions import etag_of, required_version, showing_current, tagged
from webapi.serializers import IDEMPOTENCY_KEY, answers, etag_header, if_match_header, page_of

_IF_MATCH = if_match_header("The ETag of the version on which the change is based")
_ETAG = etag_header("Version")


class BudgetParameters(PageParameters):
    """The filters of the list of budgets."""

    node: str | None = text("Path of a node: its budgets and those of all nodes below it")


class AlertParameters(PageParameters):
    """The filters of the list of alerts."""

    node: str | None = text("Path of a node: alerts of its budgets and of those below it")
    budget: UUID | None = uuid("Alerts of this budget only")


class BudgetList(APIView):
    """The budgets that the caller may see."""

    @extend_schema(
        operation_id="list_budgets",
        summary="List budgets",
        description="Those of nodes whose costs you may see, and those of your own use.",
        parameters=BudgetParameters.in_openapi(),
        responses=answers({200: page_of(BudgetSerializer)}, 404),
    )
    def get(self, request: Request) -> Response:
        """List budgets."""
        asked = BudgetParameters.read(request)
        actor = actor_from(request)
        page = page_by_id(asked, visible_budgets(actor, below=asked.node))
        shown = _shown(page.items, actor)
        return Response(page_body(request, page, lambda one: shown[one.pk]))

    @extend_schema(
        operation_id="create_budget",
        summary="Make a budget",
        description="For a node and everything below it, or for one user there. It is evaluated at "
        "once. A node's own budget needs the right manage_quota above it, or manage_prices.",
        request=BudgetCreateSerializer,
        parameters=[IDEMPOTENCY_KEY, _ETAG],
        responses=answers({201: BudgetSerializer}, 403, 404, 409, 422),
    )
    def post(self, request: Request) -> Response:
        """Make a budget."""
        refuse_unknown_parameters(request, set())
        actor = actor_from(request)
        body = BudgetCreateSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        now = SystemClock().now()

        def act() -> tuple[int, dict[str, Any]]:
            made = create_budget(body.to_new(), body.to_edit(), actor=actor, now=now)
            return 201, _one(made, actor)

        return tagged(respond_once(request, principal_id=actor.user.pk, now=now, act=act))


class BudgetDetail(APIView):
    """A budget, by its id."""

    @extend_schema(
        operation_id="get_budget",
        summary="Get a budget",
        parameters=[_ETAG],
        responses=answers({200: BudgetDetailSerializer}, 404),
    )
    def get(self, request: Request, budget_id: UUID) -> Response:
        """Get the budget with its use by day."""
        refuse_unknown_parameters(request, set())
        actor = actor_from(request)
        budget = visible_budget(actor, budget_id)
        context = {**_context([budget], actor), "days": days_of_window(budget)}
        body = BudgetDetailSerializer(budget, context=context).data
        return Response(body, headers={"ETag": etag_of(budget.version)})

    @extend_schema(
        operation_id="change_budget",
        summary="Change a budget",
        description="Its node, user, pool and measure stay. It is evaluated at once.",
        request=BudgetUpdateSerializer,
        parameters=[_IF_MATCH, _ETAG],
        responses=answers({200: BudgetSerializer}, 403, 404, 409, 412, 428),
    )
    def patch(self, request: Request, budget_id: UUID) -> Response:
        """Change the budget. A 412 has the `current` one."""
        refuse_unknown_parameters(request, set())
        actor = actor_from(request)
        body = BudgetUpdateSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        with showing_current(lambda: _one(visible_budget(actor, budget_id), actor)):
            budget = change_budget(
                budget_id,
                body.to_edit(),
                actor=actor,
                if_version=required_version(request),
                now=SystemClock().now(),
            )
        return _answer(budget, actor)

    @extend_schema(
        operation_id="remove_budget",
        summary="Remove a budget",
        description="The audit log keeps it and its alerts.",
        parameters=[_IF_MATCH],
        responses=answers({204: None}, 403, 404, 412, 428),
    )
    def delete(self, request: Request, budget_id: UUID) -> Response:
        """Remove the budget. A 412 has the `current` one."""
        refuse_unknown_parameters(request, set())
        actor = actor_from(request)
        with showing_current(lambda: _one(visible_budget(actor, budget_id), actor)):
            remove_budget(
                budget_id,
                actor=actor,
                if_version=required_version(request),
                now=SystemClock().now(),
            )
        return Response(status=204)


class BudgetAlertList(APIView):
    """The alerts of the budgets that the caller may see."""

    @extend_schema(
        operation_id="list_budget_alerts",
        summary="List alerts of budgets, newest first",
        description="A budget alerts once in each window at 50, 80, 90 and 100 % of its limit, and "
        "when the forecast reaches the limit.",
        parameters=AlertParameters.in_openapi(),
        responses=answers({200: page_of(BudgetAlertSerializer)}, 404),
    )
    def get(self, request: Request) -> Response:
        """List alerts."""
        asked = AlertParameters.read(request)
        budgets = visible_budgets(actor_from(request), below=asked.node)
        if asked.budget is not None:
            budgets = budgets.filter(pk=asked.budget)
        rows = BudgetAlert.objects.filter(budget__in=budgets.values("pk"))
        page = page_by_id(asked, rows, newest_first=True)
        return Response(page_body(request, page, BudgetAlertSerializer().to_representation))


def _context(budgets: Iterable[Budget], actor: Actor) -> dict[str, Any]:
    return {
        "currencies": currencies_of({one.organization_id for one in budgets}),
        "may_manage": lambda one: may_manage(actor, one.node, one.user_id),
        "unheld": pools_with_unheld_natives(),
    }


def _shown(budgets: Iterable[Budget], actor: Actor) -> dict[UUID, dict[str, Any]]:
    found = list(budgets)
    context = _context(found, actor)
    return {one.pk: dict(BudgetSerializer(one, context=context).data) for one in found}


def _one(budget: Budget, actor: Actor) -> dict[str, Any]:
    return _shown([budget], actor)[budget.pk]


def _answer(budget: Budget, actor: Actor) -> Response:
    return Response(_one(budget, actor), headers={"ETag": etag_of(budget.version)})

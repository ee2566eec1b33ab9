"""Default budgets: the budget that each team made below a node gets at its creation.

A change of a default changes no existing budget.
"""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import QuerySet

from audit.recording import record
from budgets.administration import (
    BudgetEdit,
    add_budget,
    refuse_uncounted,
    require_costs,
    set_terms,
    terms_of,
)
from budgets.evaluation import lock_budgets
from budgets.models import Budget, BudgetDefault
from budgets.subtrees import paths_above
from live.publishing import publish
from primitives.errors import Conflict, FieldError, Forbidden, InvalidRequest, NotFound
from tenants.access import Actor, get_visible, under, visible, visible_node
from tenants.models import Node, NodeKind
from tenants.roles import Permission
from tenants.structure import on_new_team
from webapi.middleware import current_request_id
from webapi.preconditions import refuse_stale


def register() -> None:
    """Let each new team get its default budget."""
    on_new_team(give_default)


def visible_defaults(actor: Actor, *, below: str | None = None) -> QuerySet[BudgetDefault]:
    """Return the defaults of nodes whose costs the actor may see.

    With `below`, the path of a node, only those of the node and of nodes below it. Raises NotFound
    for an invisible node.
    """
    rows = BudgetDefault.objects.select_related("node")
    if below is not None:
        rows = rows.filter(under([visible_node(actor, below).path], "node__path"))
    return visible(actor, rows, Permission.VIEW_COSTS, path_field="node__path")


def visible_default(actor: Actor, default_id: UUID) -> BudgetDefault:
    """Return one default. Raises NotFound for an absent or invisible one."""
    rows = visible_defaults(actor)
    return get_visible(actor, rows, Permission.VIEW_COSTS, path_field="node__path", pk=default_id)


def may_set_default(actor: Actor, node: Node) -> bool:
    """Return whether the actor may set the node's default: with manage_prices or manage_quota."""
    return actor.holds(Permission.MANAGE_PRICES, node.path) or actor.holds(
        Permission.MANAGE_QUOTA, node.path
    )


@transaction.atomic
def create_default(
    node_path: str, measure: str, edit: BudgetEdit, *, actor: Actor, now: datetime
) -> BudgetDefault:
    """Set the first default of a node. `edit` has all its settings.

    Raises NotFound for an invisible node, and Forbidden without the right to manage its budgets.
    Raises InvalidRequest for a team, or settings that cannot be. Raises Conflict for a second one.
    """
    require_costs(actor)
    node = visible_node(actor, node_path)
    _require(actor, node)
    if node.kind == NodeKind.TEAM:
        raise InvalidRequest(
            f"{node.display_path} is a team, and no team is made below it. Make a budget.",
            errors=[FieldError("/node", "is a team")],
        )
    refuse_uncounted(measure, node.organization, None)
    made = BudgetDefault(node=node, measure=measure, rolling_days=None)
    set_terms(made, edit)
    try:
        with transaction.atomic():
            made.save(force_insert=True)
    except IntegrityError:
        raise Conflict(
            f"{node.display_path} has a default budget already. Change that one."
        ) from None
    _record("budget_default.created", made, actor=actor, now=now)
    return made


@transaction.atomic
def change_default(
    default_id: UUID, edit: BudgetEdit, *, actor: Actor, if_version: int, now: datetime
) -> BudgetDefault:
    """Change the settings in `edit`, based on the version that the actor has seen.

    Raises as `create_default`, and PreconditionFailed unless `if_version` is current.
    """
    found = _changeable(default_id, actor, if_version)
    set_terms(found, edit)
    found.version += 1
    found.save()
    _record("budget_default.changed", found, actor=actor, now=now)
    return found


@transaction.atomic
def remove_default(default_id: UUID, *, actor: Actor, if_version: int, now: datetime) -> None:
    """Remove a default. The budgets of teams stay. Raises as `change_default`."""
    found = _changeable(default_id, actor, if_version)
    _record("budget_default.removed", found, actor=actor, now=now)
    found.delete()


def give_default(team: Node, actor: Actor, now: datetime) -> None:
    """Make the budget of a new team, from the nearest default above it; nothing without one.

    Raises Conflict when the organization has as many budgets as it may.
    """
    above = BudgetDefault.objects.filter(node__path__in=list(paths_above(team.path)))
    default = max(above.select_related("node"), key=lambda one: one.node.depth, default=None)
    if default is None:
        return
    lock_budgets(team.organization_id)
    name = f"{default.name} of {team.slug}"
    if Budget.objects.filter(organization=team.organization_id, name=name).exists():
        # Another department has a team of this slug.
        name = f"{default.name} of {team.pk}"
    budget = Budget(
        organization=team.organization,
        node=team,
        name=name,
        measure=default.measure,
        limit=default.limit,
        window=default.window,
        rolling_days=default.rolling_days,
        policy=default.policy,
        created_at=now,
    )
    add_budget(budget, actor=actor, now=now)


def _changeable(default_id: UUID, actor: Actor, if_version: int) -> BudgetDefault:
    require_costs(actor)
    _require(actor, visible_default(actor, default_id).node)
    rows = BudgetDefault.objects.select_for_update(of=("self",)).select_related("node")
    found = rows.filter(pk=default_id).first()
    if found is None:
        raise NotFound("It was removed meanwhile.")
    refuse_stale(if_version, found.version, body=None)
    return found


def _require(actor: Actor, node: Node) -> None:
    if not may_set_default(actor, node):
        raise Forbidden(
            "You need the right manage_prices or manage_quota on this node; ask an administrator.",
            permission=Permission.MANAGE_PRICES.value,
            node=node.display_path,
        )


def _record(action: str, default: BudgetDefault, *, actor: Actor, now: datetime) -> None:
    record(
        action=action,
        subject_kind="budget_default",
        subject_id=default.pk,
        now=now,
        actor_id=actor.user.pk,
        actor=actor.user.login,
        organization_id=default.node.organization_id,
        node_path=default.node.path,
        detail={"name": default.name, **terms_of(default)},
        request_id=current_request_id(),
    )
    publish("reports", organization_id=default.node.organization_id)

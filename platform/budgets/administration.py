"""Budgets as people set them: who may see, make, change and remove them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TypedDict
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import Q, QuerySet

from audit.recording import record
from billing.models import RateCard
from budgets.evaluation import evaluate_after_change, lock_budgets
from budgets.models import (
    LIMIT_MAX,
    ROLLING_DAYS_MAX,
    Budget,
    Measure,
    Policy,
    Terms,
    WindowKind,
)
from clusters.models import Pool
from live.publishing import publish
from primitives.errors import Conflict, FieldError, Forbidden, InvalidRequest
from quotas.administration import named_pool
from tenants.access import Actor, get_visible, under, visible, visible_node
from tenants.models import Node, User
from tenants.roles import Permission
from webapi.middleware import current_request_id
from webapi.preconditions import refuse_stale

#: The most budgets of an organization, so that its evaluation stays short.
BUDGETS_MAX = 5_000


class BudgetEdit(TypedDict, total=False):
    """The settings to change; see `models.Budget`."""

    name: str
    limit: int
    window: str
    rolling_days: int | None
    policy: str


@dataclass(frozen=True, slots=True)
class NewBudget:
    """A budget to make: whose it is, and what it measures. These never change."""

    node: str
    user: str | None
    pool: str | None
    measure: str


def visible_budgets(actor: Actor, *, below: str | None = None) -> QuerySet[Budget]:
    """Return the budgets whose costs the actor may see, and those of the actor alone.

    With `below`, the path of a node, only those of the node and of nodes below it. Raises NotFound
    for an invisible node.
    """
    rows = Budget.objects.select_related("node", "user", "pool", "state", "organization")
    if below is not None:
        rows = rows.filter(under([visible_node(actor, below).path], "node__path"))
    return visible(
        actor,
        rows,
        Permission.VIEW_COSTS,
        path_field="node__path",
        own=Q(user=actor.user),
    )


def visible_budget(actor: Actor, budget_id: UUID) -> Budget:
    """Return one budget. Raises NotFound for an absent or invisible one."""
    return get_visible(
        actor,
        visible_budgets(actor),
        Permission.VIEW_COSTS,
        path_field="node__path",
        pk=budget_id,
        own=Q(user=actor.user),
    )


def may_manage(actor: Actor, node: Node, user: UUID | None) -> bool:
    """Return whether the actor may make and change a budget of the node, or of a user below it.

    That takes the right to manage prices there, or quotas: at the node for a budget of another
    user, above the node for the node's budget and the actor's own. The administrators of an
    organization manage its own budget.
    """
    above = node.display_parent
    is_of_other = user is not None and user != actor.user.pk
    path = node.path if is_of_other or above is None else f"{above}/"
    return actor.holds(Permission.MANAGE_PRICES, node.path) or actor.holds(
        Permission.MANAGE_QUOTA, path
    )


@transaction.atomic
def create_budget(new: NewBudget, edit: BudgetEdit, *, actor: Actor, now: datetime) -> Budget:
    """Make a budget, and evaluate it at once. `edit` has all its settings.

    Raises NotFound for an invisible node, and Forbidden without the right to manage its budgets.
    Raises InvalidRequest for an unknown pool or user, or settings that cannot be. Raises Conflict
    for a taken name.
    """
    require_costs(actor)
    node = visible_node(actor, new.node)
    organization: Node = node.organization
    user = None if new.user is None else _user(new.user, organization)
    _require(actor, node, None if user is None else user.pk)
    budget = Budget(
        organization=organization,
        node=node,
        user=user,
        pool=None if new.pool is None else named_pool(new.pool),
        measure=new.measure,
        created_at=now,
        rolling_days=None,
    )
    refuse_uncounted(budget.measure, organization, budget.pool)
    _set(budget, edit)
    lock_budgets(organization.pk)
    add_budget(budget, actor=actor, now=now)
    return visible_budget(actor, budget.pk)


def add_budget(budget: Budget, *, actor: Actor, now: datetime) -> None:
    """Store a new budget, and evaluate it at once. The caller holds the lock of the budgets.

    Raises Conflict for a taken name, or when the organization has as many budgets as it may.
    """
    organization: Node = budget.organization
    if Budget.objects.filter(organization=organization).count() >= BUDGETS_MAX:
        raise Conflict(
            f"{organization.slug} has {BUDGETS_MAX:,} budgets, and may not have more. Remove one."
        )
    _save(budget)
    _record("budget.created", budget, actor=actor, now=now)
    evaluate_after_change(budget, now)


@transaction.atomic
def change_budget(
    budget_id: UUID, edit: BudgetEdit, *, actor: Actor, if_version: int, now: datetime
) -> Budget:
    """Change the settings in `edit`, based on the version that the actor has seen.

    Raises as `create_budget`, and PreconditionFailed unless `if_version` is current.
    """
    budget = _changeable(budget_id, actor, if_version)
    _set(budget, edit)
    budget.version += 1
    _save(budget)
    _record("budget.changed", budget, actor=actor, now=now)
    evaluate_after_change(budget, now)
    return visible_budget(actor, budget.pk)


@transaction.atomic
def remove_budget(budget_id: UUID, *, actor: Actor, if_version: int, now: datetime) -> None:
    """Remove a budget with its alerts. The audit log keeps both. Raises as `change_budget`."""
    budget = _changeable(budget_id, actor, if_version)
    _record("budget.removed", budget, actor=actor, now=now)
    budget.delete()


def _changeable(budget_id: UUID, actor: Actor, if_version: int) -> Budget:
    require_costs(actor)
    seen = visible_budget(actor, budget_id)
    _require(actor, seen.node, seen.user_id)
    lock_budgets(seen.organization_id)
    budget = (
        Budget.objects.select_for_update(of=("self",))
        .select_related("node", "user", "pool", "organization")
        .get(pk=budget_id)
    )
    refuse_stale(if_version, budget.version, body=None)
    return budget


def require_costs(actor: Actor) -> None:
    """Raise Forbidden for a token that may not read the use, which the answer shows."""
    if not actor.permits(Permission.VIEW_COSTS):
        raise Forbidden(
            "The token needs the scope reports too, because the answer shows use. Make a token "
            "with the scopes quotas and reports.",
            permission=Permission.VIEW_COSTS.value,
        )


def _require(actor: Actor, node: Node, user: UUID | None) -> None:
    if not may_manage(actor, node, user):
        raise Forbidden(
            "You need the right manage_prices on this node, or manage_quota above it; ask an "
            "administrator.",
            permission=Permission.MANAGE_PRICES.value,
            node=node.display_path,
        )


def _user(username: str, organization: Node) -> User:
    found = User.objects.filter(organization=organization, username=username).first()
    if found is None:
        raise InvalidRequest(
            f"There is no user {username!r} in {organization.slug}.",
            errors=[FieldError("/user", "is no user of the organization")],
        )
    return found


def refuse_uncounted(measure: str, organization: Node, pool: Pool | None) -> None:
    """Raise InvalidRequest for a measure that nothing can count."""
    if measure == Measure.MONEY:
        if not RateCard.objects.filter(organization=organization).exists():
            raise InvalidRequest(
                f"{organization.slug} has no rate card, so money cannot be counted. Make one, or "
                "choose gpu_hours or credits.",
                errors=[FieldError("/measure", "needs a rate card")],
            )
    elif measure == Measure.GPU_HOURS and pool is not None and pool.device != "gpu":
        raise InvalidRequest(
            f"{pool.name} is a pool of cores, without GPU-hours. Choose credits or money.",
            errors=[FieldError("/measure", "does not count cores")],
        )


def set_terms(terms: Terms, edit: BudgetEdit) -> None:
    """Set the settings in `edit`. Raises InvalidRequest for settings that cannot be together."""
    for name, value in edit.items():
        setattr(terms, name, value)
    if not 1 <= terms.limit <= LIMIT_MAX:
        raise InvalidRequest(
            f"limit must be from 1 to {LIMIT_MAX}.", errors=[FieldError("/limit", "out of range")]
        )
    if terms.window != WindowKind.ROLLING:
        if edit.get("rolling_days") is not None:
            raise InvalidRequest(
                "rolling_days goes with the window rolling only. Leave it out.",
                errors=[FieldError("/rolling_days", "goes with a rolling window")],
            )
        terms.rolling_days = None
    elif not 1 <= (terms.rolling_days or 0) <= ROLLING_DAYS_MAX:
        raise InvalidRequest(
            f"Give rolling_days, from 1 to {ROLLING_DAYS_MAX}, with a rolling window.",
            errors=[FieldError("/rolling_days", "is missing or out of range")],
        )


def _set(budget: Budget, edit: BudgetEdit) -> None:
    set_terms(budget, edit)
    if budget.user_id is not None and budget.policy == Policy.STOP_BORROWING:
        raise InvalidRequest(
            "A user's budget cannot stop borrowing, because a team borrows and not a user. Choose "
            "notify or stop_starts.",
            errors=[FieldError("/policy", "is not possible for a user")],
        )


def _save(budget: Budget) -> None:
    try:
        with transaction.atomic():
            budget.save()
    except IntegrityError as error:
        raise Conflict(
            f"{budget.organization.slug} has a budget {budget.name!r} already. Choose another name."
        ) from error


def _record(action: str, budget: Budget, *, actor: Actor, now: datetime) -> None:
    record(
        action=action,
        subject_kind="budget",
        subject_id=budget.pk,
        now=now,
        actor_id=actor.user.pk,
        actor=actor.user.login,
        organization_id=budget.organization_id,
        node_path=budget.node.path,
        detail={
            "name": budget.name,
            "user": None if budget.user is None else budget.user.username,
            "pool": None if budget.pool is None else budget.pool.name,
            **terms_of(budget),
        },
        request_id=current_request_id(),
    )
    publish("reports", organization_id=budget.organization_id, wake="arbiter")


def terms_of(terms: Terms) -> dict[str, str | int | None]:
    """Return the terms as the audit log keeps them."""
    return {
        "measure": str(terms.measure),
        "limit": terms.limit,
        "window": str(terms.window),
        "rolling_days": terms.rolling_days,
        "policy": str(terms.policy),
    }

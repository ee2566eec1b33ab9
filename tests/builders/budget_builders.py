"""Budgets for tests, with defaults."""

from __future__ import annotations

from typing import Any

from budgets.evaluation import evaluate
from budgets.models import Budget, BudgetDefault, BudgetState
from builders.portal_builders import NOW
from primitives.units import MGPU_S_PER_GPU_HOUR
from tenants.models import Node

GPU_HOUR = MGPU_S_PER_GPU_HOUR


def a_budget(node: Node, gpu_hours: int = 100, **changes: Any) -> Budget:
    """A budget of GPU-hours a month that stops starts, unless changed."""
    return Budget.objects.create(
        **{
            "organization_id": node.organization_id,
            "node": node,
            "name": f"budget of {node.slug}",
            "measure": "gpu_hours",
            "limit": gpu_hours * GPU_HOUR,
            "window": "month",
            "policy": "stop_starts",
            "created_at": NOW,
            **changes,
        }
    )


def a_default_budget(node: Node, gpu_hours: int = 100, **changes: Any) -> BudgetDefault:
    """The default of new teams below a node: GPU-hours a month that stop starts, unless changed."""
    return BudgetDefault.objects.create(
        **{
            "node": node,
            "name": f"default of {node.slug}",
            "measure": "gpu_hours",
            "limit": gpu_hours * GPU_HOUR,
            "window": "month",
            "policy": "stop_starts",
            **changes,
        }
    )


def an_evaluated_budget(node: Node, gpu_hours: int = 100, **changes: Any) -> Budget:
    """A budget that was evaluated at NOW."""
    budget = a_budget(node, gpu_hours, **changes)
    evaluate(budget.organization_id, NOW)
    return budget


def state_of(budget: Budget) -> tuple[int, int]:
    """Used and on hold at the last evaluation, in whole GPU-hours."""
    state = BudgetState.objects.get(budget=budget)
    return state.used // GPU_HOUR, state.on_hold // GPU_HOUR

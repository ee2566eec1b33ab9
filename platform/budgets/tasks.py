"""The timer of budgets. Its tasks may be late, lost or run twice without harm."""

from __future__ import annotations

from uuid import UUID

from celery import shared_task

from budgets.evaluation import evaluate, organizations_with_budgets
from primitives.clock import SystemClock

#: The seconds for which an evaluation waits for a worker. Clocks of machines differ.
EXPIRES_AFTER_S = 60


@shared_task
def evaluate_budgets() -> None:
    """Ask for an evaluation of each organization, the least recently evaluated first.

    Each is a task of its own, so that a slow or failing one does not keep the others.
    """
    for organization in organizations_with_budgets():
        evaluate_budgets_of.apply_async((str(organization),), expires=EXPIRES_AFTER_S)


@shared_task
def evaluate_budgets_of(organization: str) -> None:
    """Evaluate the budgets of the organization with this id."""
    evaluate(UUID(organization), SystemClock().now())

"""The timer of budgets. The task may be late, lost or run twice without harm."""

from __future__ import annotations

from celery import shared_task

from budgets.evaluation import evaluate, organizations_with_budgets
from primitives.clock import SystemClock


@shared_task
def evaluate_budgets() -> None:
    """Evaluate the budgets of all organizations, the least recently evaluated first."""
    for organization in organizations_with_budgets():
        evaluate(organization, SystemClock().now())

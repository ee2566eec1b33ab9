"""The timers of planned changes and clusters. A task may be late, lost or run twice unharmed."""

from __future__ import annotations

from celery import shared_task

from primitives.clock import SystemClock
from quotas.planned_changes import carry_out_due
from quotas.quota_notices import give_cluster_notices


@shared_task
def carry_out_planned_changes() -> None:
    """Expire, apply and revert due changes, up to a hundred. Others follow the next time."""
    carry_out_due(now=SystemClock().now())


@shared_task
def notify_of_silent_clusters() -> None:
    """Tell platform administrators of clusters that do not answer."""
    give_cluster_notices(SystemClock().now())

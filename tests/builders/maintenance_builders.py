"""Maintenance windows."""

from __future__ import annotations

from datetime import datetime, timedelta

from builders.portal_builders import NOW, a_user
from clusters.models import Cluster, Pool
from maintenance.models import MaintenanceWindow


def a_window(
    cluster: Cluster,
    *,
    start: datetime = NOW,
    hours: int = 1,
    pool: Pool | None = None,
    nodes: list[str] | None = None,
) -> MaintenanceWindow:
    """A window of a cluster, of a pool on it, or of some nodes, without a banner."""
    return MaintenanceWindow.objects.create(
        cluster=cluster,
        pool=pool,
        nodes=nodes,
        start=start,
        end=start + timedelta(hours=hours),
        reason="New switches.",
        made_by=a_user(None),
        made_at=NOW,
    )

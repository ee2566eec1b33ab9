"""What is known of the fleet: for the arbiter, the pages and the API."""

from __future__ import annotations

from datetime import datetime, timedelta

from arbiter.snapshot import Device
from clusters.models import Cluster, ClusterNode
from clusters.observation import GONE


def devices(*, now: datetime, stale_after: timedelta) -> tuple[tuple[Device, ...], frozenset[str]]:
    """Every device of the fleet, and the ids of the clusters that accept starts.

    A cluster accepts starts while it is enabled and its last complete answer is at most
    `stale_after` old. Devices of the others are listed too (what runs on them counts), with
    the capacity last seen; drained nodes offer 0 and nodes that are gone are left out.
    Clusters and pools are ids, nodes are the names that slots use. Two queries.
    """
    answering = frozenset(
        str(cluster_id)
        for cluster_id in Cluster.objects.filter(
            is_enabled=True, seen_at__gte=now - stale_after
        ).values_list("pk", flat=True)
    )
    rows = (
        ClusterNode.objects.exclude(state=GONE, is_schedulable=False)
        .order_by("cluster_id", "name", "pool_id")
        .values_list("cluster_id", "name", "pool_id", "capacity_mgpu", "is_schedulable")
    )
    texts: dict[object, str] = {}
    found = []
    for cluster_id, name, pool_id, capacity_mgpu, is_schedulable in rows:
        cluster = texts.get(cluster_id) or texts.setdefault(cluster_id, str(cluster_id))
        pool = texts.get(pool_id) or texts.setdefault(pool_id, str(pool_id))
        found.append(Device(cluster, name, pool, capacity_mgpu if is_schedulable else 0))
    return tuple(found), answering

"""Clusters that start native jobs without asking the portal."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from uuid import UUID

from clusters.models import Cluster
from connectors.registry import kind_named


def pools_with_unheld_natives() -> Mapping[str, frozenset[UUID]]:
    """Return by cluster the pools in which it starts native jobs by itself. One query.

    Limits count such jobs, but cannot hold them. Clusters without native jobs are left out.
    """
    found: dict[str, set[UUID]] = defaultdict(set)
    rows = Cluster.objects.filter(archived_at=None, nodes__pool__isnull=False)
    for name, kind_name, options, pool in (
        rows.order_by("name").values_list("name", "kind", "options", "nodes__pool").distinct()
    ):
        kind = kind_named(kind_name)
        if kind.control_natives is not None and not kind.holds_natives(options):
            found[name].add(pool)
    return {name: frozenset(pools) for name, pools in found.items()}

"""Queries of the fleet for the arbiter, the pages and the API."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models import (
    BigIntegerField,
    Case,
    Count,
    DecimalField,
    F,
    Func,
    Min,
    Q,
    QuerySet,
    Sum,
    When,
)
from django.db.models.functions import Coalesce, Least

from arbiter.api.snapshot import NOWHERE, Device, Domains
from clusters.models import Cluster, ClusterNode, Pool
from clusters.observation import GONE
from primitives.errors import NotFound
from primitives.units import DeviceKind

#: The most features that are listed per pool.
FEATURES_MAX = 200

_OFFERED = Case(
    When(is_schedulable=True, then="capacity_mgpu"), default=0, output_field=BigIntegerField()
)


@dataclass(frozen=True, slots=True)
class Fleet:
    """All devices, and the rows that they come from."""

    rows: Sequence[tuple[Any, ...]] = ()
    devices: tuple[Device, ...] = ()


def read_fleet(known: Fleet | None = None) -> Fleet:
    """Return every device of the fleet; `known` itself if nothing has changed. One query.

    Clusters that accept no starts are included with their capacity as last seen, because what runs
    on them counts. Drained nodes offer 0. Capacity held by unknown workloads is not offered, and
    nodes that are gone are left out. Clusters and pools are ids; nodes are the names that slots
    use.
    """
    with connection.cursor() as cursor:
        cursor.execute(_FLEET, [GONE])
        rows = cursor.fetchall()
    if known is not None and rows == known.rows:
        return known
    texts: dict[str, str] = {}
    features: dict[str, frozenset[str]] = {}
    domains: dict[str, Domains] = {"{}": NOWHERE}
    found: list[Device] = []
    for (
        cluster,
        name,
        pool,
        capacity_mgpu,
        outside_mgpu,
        is_schedulable,
        has,
        stands,
        cpu_milli,
        memory_mib,
        cpu_milli_per_gpu,
        memory_mib_per_gpu,
    ) in rows:
        # Equal ids share one object, which saves memory in a large fleet.
        cluster, pool = texts.setdefault(cluster, cluster), texts.setdefault(pool, pool)
        outside = min(outside_mgpu, capacity_mgpu) if is_schedulable else 0
        offered = capacity_mgpu - outside if is_schedulable else 0
        if has not in features:
            features[has] = frozenset(json.loads(has))
        if stands not in domains:
            domains[stands] = Domains(**json.loads(stands))
        if found and (found[-1].cluster, found[-1].node) == (cluster, name):
            # Each pool is scheduled separately, so CPU and memory that several pools share count in
            # none.
            found[-1] = replace(found[-1], cpu_milli=None, memory_mib=None)
            cpu_milli = memory_mib = None
        found.append(
            Device(
                cluster,
                name,
                pool,
                offered,
                outside,
                features[has],
                domains[stands],
                cpu_milli,
                memory_mib,
                cpu_milli_per_gpu,
                memory_mib_per_gpu,
            )
        )
    return Fleet(rows, tuple(found))


_FLEET = """
SELECT cluster_id::text, name, pool_id::text, capacity_mgpu, outside_mgpu, is_schedulable,
       features::text, domains::text, cpu_milli, memory_mib, cpu_milli_per_gpu, memory_mib_per_gpu
FROM clusters_clusternode WHERE state <> %s OR is_schedulable ORDER BY cluster_id, name, pool_id
"""


def accepting(*, now: datetime, stale_after: timedelta) -> frozenset[str]:
    """Return the ids of the clusters that accept starts. One query.

    They are enabled, and their last complete answer is at most `stale_after` old.
    """
    return frozenset(
        str(cluster_id)
        for cluster_id in Cluster.objects.filter(
            is_enabled=True, seen_at__gte=now - stale_after
        ).values_list("pk", flat=True)
    )


@dataclass(frozen=True, slots=True)
class NodeWish:
    """Requirements of nodes: all of `features`, and enough CPU and memory.

    A node with unknown CPU or memory meets the requirement.
    """

    features: Collection[str] = ()
    cpu_milli: int | None = None
    memory_mib: int | None = None

    def nodes_of(self, pool: Pool) -> QuerySet[ClusterNode]:
        """Return the nodes of a pool that meet the requirements."""
        found = _present().filter(pool=pool, features__contains=sorted(self.features))
        if self.cpu_milli is not None:
            found = found.filter(Q(cpu_milli=None) | Q(cpu_milli__gte=self.cpu_milli))
        if self.memory_mib is not None:
            found = found.filter(Q(memory_mib=None) | Q(memory_mib__gte=self.memory_mib))
        return found


def nodes_having(pool: Pool, wish: NodeWish) -> Mapping[str, Mapping[int, int]]:
    """Return the number of matching nodes of the pool, by cluster and by milli-GPU. One query.

    The milli-GPU is 0 for nodes that offer nothing now.
    """
    found: dict[str, dict[int, int]] = {}
    for cluster_id, mgpu, count in (
        wish.nodes_of(pool).values_list("cluster_id").annotate(mgpu=_OFFERED, nodes=Count("pk"))
    ):
        found.setdefault(str(cluster_id), {})[mgpu] = count
    return found


def places_having(pool: Pool, wish: NodeWish) -> Mapping[str, Mapping[int, Sequence[Domains]]]:
    """Return the domains of matching nodes of the pool, by cluster and by milli-GPU. One query.

    The milli-GPU is 0 for nodes that offer nothing now.
    """
    found: dict[str, dict[int, list[Domains]]] = {}
    for cluster_id, domains, mgpu, count in (
        wish.nodes_of(pool)
        .exclude(domains={})
        .values_list("cluster_id", "domains")
        .annotate(mgpu=_OFFERED, nodes=Count("pk"))
    ):
        of_size = found.setdefault(str(cluster_id), {}).setdefault(mgpu, [])
        of_size.extend([Domains(**domains)] * count)
    return found


def features_of(pools: Iterable[Pool]) -> dict[UUID, list[str]]:
    """Return the sorted features of nodes by pool, at most `FEATURES_MAX` each. One query."""
    found: dict[UUID, list[str]] = {pool.pk: [] for pool in pools}
    rows = (
        _present()
        .filter(pool__in=list(found))
        .annotate(feature=Func(F("features"), function="jsonb_array_elements_text"))
        .values_list("pool_id", "feature")
        .distinct()
        .order_by("pool_id", "feature")
    )
    for pool_id, feature in rows:
        if len(found[pool_id]) < FEATURES_MAX:
            found[pool_id].append(feature)
    return found


def cluster_by_id(cluster_id: UUID) -> Cluster:
    """Return the cluster. Raises NotFound; clusters are no secret."""
    cluster = Cluster.objects.filter(pk=cluster_id).first()
    if cluster is None:
        raise NotFound("There is no such cluster.")
    return cluster


def pool_by_id(pool_id: UUID) -> Pool:
    """Return the pool. Raises NotFound; pools are no secret."""
    pool = Pool.objects.filter(pk=pool_id).first()
    if pool is None:
        raise NotFound("There is no such pool.")
    return pool


_SUM: DecimalField[Decimal, Decimal] = DecimalField()


class State(StrEnum):
    """The reachability of a cluster."""

    REACHABLE = "reachable"
    UNREACHABLE = "unreachable"
    NEVER_SEEN = "never_seen"


@dataclass(frozen=True, slots=True)
class Share:
    """The share of one cluster in one pool, without nodes that are gone.

    `outside_mgpu` of the healthy capacity is held by workloads unknown to the portal.
    """

    pool: str
    device: DeviceKind
    capacity_mgpu: int
    healthy_mgpu: int
    outside_mgpu: int
    nodes: int
    nodes_healthy: int


def state_of(cluster: Cluster, *, now: datetime, stale_after: timedelta) -> State:
    """Return the reachability by the age of the last complete answer.

    One failed call changes nothing.
    """
    if cluster.seen_at is None:
        return State.NEVER_SEEN
    return State.REACHABLE if cluster.seen_at >= now - stale_after else State.UNREACHABLE


def shares_of(clusters: Iterable[Cluster]) -> dict[UUID, list[Share]]:
    """Return the pools of each cluster, by name, as last seen. One query."""
    healthy = Q(is_schedulable=True)
    found: dict[UUID, list[Share]] = {}
    for (
        cluster_id,
        pool,
        device,
        capacity_mgpu,
        healthy_mgpu,
        outside_mgpu,
        nodes,
        nodes_healthy,
    ) in (
        listed_nodes()
        .filter(cluster__in=[cluster.pk for cluster in clusters])
        .values_list("cluster_id", "pool__name", "pool__device")
        .annotate(
            all_mgpu=Sum("capacity_mgpu"),
            healthy_mgpu=Coalesce(Sum("capacity_mgpu", filter=healthy), 0, output_field=_SUM),
            held_outside_mgpu=Coalesce(
                Sum(Least("outside_mgpu", "capacity_mgpu"), filter=healthy), 0, output_field=_SUM
            ),
            nodes=Count("pk"),
            nodes_healthy=Count("pk", filter=healthy),
        )
        .order_by("cluster_id", "pool__name")
    ):
        found.setdefault(cluster_id, []).append(
            Share(
                pool,
                DeviceKind(device),
                int(capacity_mgpu),
                int(healthy_mgpu),
                int(outside_mgpu),
                nodes,
                nodes_healthy,
            )
        )
    return found


def healthy_capacity_mgpu(pools: Iterable[Pool]) -> dict[UUID, int]:
    """Return the healthy capacity of each pool on all enabled clusters, as last seen. One query."""
    found = {pool.pk: 0 for pool in pools}
    found.update(
        ClusterNode.objects.filter(
            pool__in=list(found), is_schedulable=True, cluster__is_enabled=True
        )
        .values_list("pool_id")
        .annotate(Sum("capacity_mgpu"))
    )
    return {pool_id: int(capacity_mgpu) for pool_id, capacity_mgpu in found.items()}


def stale_capacity(pools: Iterable[Pool], *, before: datetime) -> dict[UUID, datetime]:
    """Return by pool the time of the oldest answer behind its healthy capacity. One query.

    Only pools with nodes on enabled clusters whose last answer is older than `before` are included.
    """
    return dict(
        ClusterNode.objects.filter(
            pool__in=list(pools),
            is_schedulable=True,
            cluster__is_enabled=True,
            cluster__seen_at__lt=before,
        )
        .values_list("pool_id")
        .annotate(Min("cluster__seen_at"))
    )


def last_seen(node: ClusterNode) -> datetime:
    """Return when the node, loaded with its cluster, was last in an answer of its cluster."""
    if node.state == GONE and not node.is_schedulable:
        return node.seen_at
    return max(node.seen_at, node.cluster.seen_at or node.seen_at)


def _present() -> QuerySet[ClusterNode]:
    """Return the nodes in their clusters' last answers, without archived clusters."""
    return listed_nodes().filter(cluster__archived_at=None)


def listed_nodes() -> QuerySet[ClusterNode]:
    """Return the nodes in their clusters' last answers."""
    return ClusterNode.objects.exclude(state=GONE, is_schedulable=False)

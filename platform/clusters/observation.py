"""Stores a cluster's answers about its nodes, and its failures to answer.

A cluster that does not answer keeps its capacity as last seen. Its jobs go on and their GPUs are
still metered, and idle time differs from time without capacity. It only accepts no starts
(`clusters.queries.accepting`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction

from clusters.models import CapacitySegment, Cluster, ClusterNode, Pool
from connectors.errors import AnotherCluster
from connectors.protocol import TOPOLOGY_LEVELS, Inventory, NodeCapacity
from connectors.registry import kind_named
from live.publishing import publish
from live.waking import wake
from primitives.clock import from_epoch
from primitives.units import MGPU_MAX, DeviceKind

GONE = "gone"
MESSAGE_LENGTH_MAX = 2_000
#: An answer that is older than the last one by more than this is not late, because no call lasts so
#: long: the cluster's clock was set back.
LATE_AT_MOST = timedelta(seconds=300)
_EXAMPLES_MAX = 5
_NAME_LENGTH_MAX = 253
_STATE_LENGTH_MAX = 100
_REASON_LENGTH_MAX = 300
_REASON_MAX = 500
_FEATURES_MAX = 64
_FEATURE_LENGTH_MAX = 64
_DOMAIN_LENGTH_MAX = 128
#: No node has a million CPUs, in thousandths of one, or as many GiB.
_AMOUNT_MAX = 1 << 30

_NodeKey = tuple[str, UUID]


def check_is_no_other(cluster: Cluster, inventory: Inventory) -> None:
    """Raise AnotherCluster when the cluster that answers was added before, under another name.

    Otherwise its GPUs, and its native workloads, would count twice. At most one query.
    """
    reported = kind_named(cluster.kind).unique_identity
    if reported is None or reported not in inventory.identity:
        return
    first = Cluster.objects.filter(
        kind=cluster.kind,
        pk__lt=cluster.pk,
        **{f"identity__{reported}": inventory.identity[reported]},
    ).first()
    if first is not None:
        raise AnotherCluster(
            f"What answers is the cluster that was added as {first.name}, and a cluster counts "
            f"once: change the options of {first.name} instead, and disable this one."
        )


@transaction.atomic
def record_inventory(
    cluster: Cluster, inventory: Inventory, *, now: datetime, complaints: Sequence[str] = ()
) -> bool:
    """Store a complete answer of `cluster`. Return whether anything about it changed.

    Nodes are added and changed. Nodes that are no longer listed become "gone" and not schedulable.
    A node that cannot be used (unknown pool, impossible name or capacity) is left out. The
    cluster's message names it, before other `complaints`. If the healthy capacity of a pool
    changed, its open CapacitySegment ends at `inventory.observed_at` and the next one begins there.

    No node of an archived cluster or pool is schedulable, whatever the cluster reports.

    Repeating an answer changes nothing. An answer older than the last one is late and is dropped.
    If it is so much older that the cluster's clock must have been set back, it is stored. An answer
    to a request with outdated options of `cluster` is dropped too: another cluster may have given
    it.
    """
    known = Cluster.objects.select_for_update().get(pk=cluster.pk)
    if known.options != cluster.options:
        return False
    observed_at = from_epoch(inventory.observed_at)
    if known.observed_at is not None:
        behind = known.observed_at - observed_at
        if timedelta(0) < behind <= LATE_AT_MOST:
            return False
    usable, left_out = usable_nodes(inventory.nodes)
    is_changed = _store_nodes(known, usable, now=now)
    is_changed |= store_capacity(known, observed_at)
    # The first identity stays: the connector compares later ones with it.
    known.identity = {**inventory.identity, **known.identity}
    message = plain(" ".join((*left_out, *_twins(known), *complaints)))[:MESSAGE_LENGTH_MAX]
    is_news = (
        is_changed
        or known.seen_at is None
        or known.failing_since is not None
        or known.message != message
        or known.api_version != inventory.api_version
        or known.time_limits != inventory.time_limits_s
        or known.isolation != inventory.isolation
    )
    known.isolation = inventory.isolation
    known.isolation_reason = plain(inventory.isolation_reason)[:_REASON_MAX]
    known.portal_refusal = plain(inventory.portal_refusal)[:_REASON_MAX]
    known.api_version = inventory.api_version
    known.time_limits = dict(inventory.time_limits_s)
    known.seen_at = now if known.seen_at is None else max(now, known.seen_at)
    known.observed_at = observed_at
    known.failing_since = None
    known.message = message
    known.save(
        update_fields=[
            *("seen_at", "observed_at", "failing_since", "message", "api_version", "identity"),
            *("time_limits", "isolation", "isolation_reason", "portal_refusal"),
        ]
    )
    if is_news:
        publish("clusters", ids=[known.pk], organization_id=None)
        wake("arbiter")
    return is_news


@transaction.atomic
def record_silence(cluster: Cluster, message: str, *, now: datetime) -> None:
    """Store that `cluster` did not answer and why.

    `failing_since` keeps the first failure since the last answer. Nodes and capacity stay as last
    seen. A failure from before the last answer is dropped.
    """
    known = Cluster.objects.select_for_update().get(pk=cluster.pk)
    if known.seen_at is not None and now < known.seen_at:
        return
    text = plain(message)[:MESSAGE_LENGTH_MAX]
    if known.failing_since is not None and known.message == text:
        return
    known.failing_since = known.failing_since or now
    known.message = text
    known.save(update_fields=["failing_since", "message"])
    publish("clusters", ids=[known.pk], organization_id=None)


def usable_nodes(
    listed: Sequence[NodeCapacity],
) -> tuple[dict[_NodeKey, NodeCapacity], list[str]]:
    """Return the nodes that can be stored, by name and pool, and sentences about the others."""
    pools = {pool.name: pool for pool in Pool.objects.all()}
    usable: dict[_NodeKey, NodeCapacity] = {}
    unknown_pools: dict[str, int] = {}
    other_devices: dict[DeviceKind, list[str]] = {}
    impossible: list[str] = []
    repeated: list[str] = []
    for node in listed:
        pool = pools.get(node.pool)
        if pool is None:
            unknown_pools[node.pool] = unknown_pools.get(node.pool, 0) + 1
        elif pool.kind is not node.device:
            other_devices.setdefault(node.device, []).append(node.pool)
        elif not _is_possible(node):
            impossible.append(node.name)
        elif (node.name, pool.pk) in usable:
            repeated.append(node.name)
        else:
            usable[node.name, pool.pk] = node
    complaints = []
    if unknown_pools:
        count = sum(unknown_pools.values())
        complaints.append(
            f"{count} nodes are left out because their pool does not exist here: "
            f"{_some(unknown_pools)}. Create the pool and they count from the next answer on."
        )
    for device, named in other_devices.items():
        complaints.append(
            f"{len(named)} nodes are left out because they offer {device.plural} and their pool has"
            f" other devices: {_some(named)}."
            f" The pool here and the cluster's options must both be of {device.plural}, or neither."
        )
    if impossible:
        complaints.append(
            f"{len(impossible)} nodes are left out because their name or capacity is "
            f"impossible: {_some(impossible)}."
        )
    if repeated:
        complaints.append(
            f"{len(repeated)} nodes are listed twice for one pool; the first entry counts: "
            f"{_some(repeated)}."
        )
    return usable, complaints


def _twins(cluster: Cluster) -> list[str]:
    """Return sentences about clusters that may be this one under another address.

    They have the name and nodes of this one, which may both be a vendor's defaults.
    `check_is_no_other` handles certain cases.
    """
    name = cluster.identity.get("cluster")
    if name is None or kind_named(cluster.kind).unique_identity is not None:
        return []
    others = Cluster.objects.filter(
        kind=cluster.kind, is_enabled=True, identity__cluster=name
    ).exclude(pk=cluster.pk)
    nodes = cluster.nodes.exclude(state=GONE).values("name")
    return [
        f"It has the name {name} and nodes of {other.name}: if they are one cluster, everything on "
        "it is offered and charged twice, so disable one of them."
        for other in others.order_by("name")
        if other.nodes.filter(name__in=nodes).exclude(state=GONE).exists()
    ]


def _is_possible(node: NodeCapacity) -> bool:
    return (
        0 < len(node.name) <= _NAME_LENGTH_MAX
        and node.name == plain(node.name)
        and 0 <= node.capacity_mgpu <= MGPU_MAX
    )


def _bounded(amount: int | None) -> int | None:
    """Return a node's CPU or memory; None for an impossible amount."""
    return amount if amount is not None and 0 <= amount <= _AMOUNT_MAX else None


def _some(names: Iterable[str]) -> str:
    chosen = sorted(set(names))
    text = ", ".join(plain(name)[:60] for name in chosen[:_EXAMPLES_MAX])
    rest = len(chosen) - _EXAMPLES_MAX
    return f"{text} and {rest} more" if rest > 0 else text


def plain(text: str) -> str:
    """Return `text` without characters that a database refuses or a page should not show."""
    return "".join(character if character.isprintable() else " " for character in text)


def _store_nodes(cluster: Cluster, listed: dict[_NodeKey, NodeCapacity], *, now: datetime) -> bool:
    stored = {(node.name, node.pool_id): node for node in cluster.nodes.all()}
    archived = set(Pool.objects.exclude(archived_at=None).values_list("pk", flat=True))
    added: list[ClusterNode] = []
    changed: list[ClusterNode] = []
    for (name, pool_id), seen in listed.items():
        state = plain(seen.state)[:_STATE_LENGTH_MAX]
        reason = plain(seen.reason)[:_REASON_LENGTH_MAX]
        features = [plain(name)[:_FEATURE_LENGTH_MAX] for name in seen.features[:_FEATURES_MAX]]
        domains = {
            level: plain(seen.domains[level])[:_DOMAIN_LENGTH_MAX]
            for level in TOPOLOGY_LEVELS
            if seen.domains.get(level)
        }
        reported: dict[str, Any] = {
            "capacity_mgpu": seen.capacity_mgpu,
            "is_schedulable": seen.is_schedulable
            and cluster.archived_at is None
            and pool_id not in archived,
            "state": state,
            "reason": reason,
            "features": features,
            "domains": domains,
            "cpu_milli": _bounded(seen.cpu_milli),
            "memory_mib": _bounded(seen.memory_mib),
            "cpu_milli_per_gpu": seen.cpu_milli_per_gpu,
            "memory_mib_per_gpu": seen.memory_mib_per_gpu,
        }
        node = stored.pop((name, pool_id), None)
        if node is None:
            node = ClusterNode(cluster=cluster, name=name, pool_id=pool_id)
            added.append(node)
        elif any(getattr(node, field) != value for field, value in reported.items()):
            changed.append(node)
        else:
            continue
        for field, value in reported.items():
            setattr(node, field, value)
        node.seen_at = now
    for node in stored.values():
        if node.state != GONE or node.is_schedulable:
            node.state = GONE
            node.is_schedulable = False
            node.seen_at = cluster.seen_at or node.seen_at
            changed.append(node)
    ClusterNode.objects.bulk_create(added, batch_size=1_000)
    ClusterNode.objects.bulk_update(
        changed,
        [
            *("capacity_mgpu", "is_schedulable", "state", "reason", "features", "domains"),
            *("cpu_milli", "memory_mib", "cpu_milli_per_gpu", "memory_mib_per_gpu", "seen_at"),
        ],
        batch_size=1_000,
    )
    return bool(added or changed)


def store_capacity(cluster: Cluster, observed_at: datetime) -> bool:
    """Update the locked cluster's capacity segments from its nodes. Return whether any changed."""
    healthy: dict[UUID, tuple[int, int]] = {}
    for pool_id, capacity_mgpu, outside_mgpu, is_schedulable in cluster.nodes.values_list(
        "pool_id", "capacity_mgpu", "outside_mgpu", "is_schedulable"
    ):
        all_mgpu, held_mgpu = healthy.get(pool_id, (0, 0))
        if is_schedulable:
            all_mgpu += capacity_mgpu
            held_mgpu += min(outside_mgpu, capacity_mgpu)
        healthy[pool_id] = all_mgpu, held_mgpu
    current = {
        segment.pool_id: segment
        for segment in CapacitySegment.objects.filter(cluster=cluster, end=None)
    }
    is_changed = False
    for pool_id, (capacity_mgpu, outside_mgpu) in sorted(healthy.items()):
        segment = current.get(pool_id)
        if segment is not None and (segment.capacity_mgpu, segment.outside_mgpu) == (
            capacity_mgpu,
            outside_mgpu,
        ):
            continue
        is_changed = True
        if segment is not None and observed_at <= segment.start:
            # A second change within one second, or the cluster's clock was set back: there is no
            # time that a new segment could cover.
            segment.capacity_mgpu = capacity_mgpu
            segment.outside_mgpu = outside_mgpu
            segment.save(update_fields=["capacity_mgpu", "outside_mgpu"])
            continue
        if segment is not None:
            segment.end = observed_at
            segment.save(update_fields=["end"])
        CapacitySegment.objects.create(
            cluster=cluster,
            pool_id=pool_id,
            capacity_mgpu=capacity_mgpu,
            outside_mgpu=outside_mgpu,
            start=observed_at,
        )
    return is_changed

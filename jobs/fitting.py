"""Could a request ever run? Asked of the arbiter itself, on a fleet where nothing else runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from uuid import UUID

from django.db.models import Count, F, Q

from arbiter.cycle import decide
from arbiter.decisions import Code, Waiting
from arbiter.policy import Policy
from arbiter.snapshot import Device, QueuedJob, Snapshot, TreeNode
from arbiter.snapshot import PriorityClass as ArbiterPriorityClass
from arbiter.snapshot import Quota as ArbiterQuota
from clusters.models import ClusterNode
from clusters.observation import GONE
from connectors.workload_checks import RANKS_MAX
from primitives.units import MGPU_PER_GPU
from quotas.models import PriorityClass, Quota
from tenants.models import Node

_ANYONE = "anyone"
_ASKED = "asked"


@dataclass(frozen=True, slots=True)
class Fleet:
    """How many nodes of which size a pool has: `sizes[cluster][mgpu]`, 0 for those that offer
    nothing now (drained) and may come back."""

    sizes: Mapping[str, Mapping[int, int]]

    def largest_node_mgpu(self, cluster: str | None = None) -> int | None:
        """The size of the largest node, of one cluster or of all; None when none is known."""
        found = [
            mgpu for name, sizes in self.sizes.items() if cluster in {None, name} for mgpu in sizes
        ]
        return max(found, default=0) or None

    def nodes_with(self, mgpu: int, cluster: str | None = None) -> int:
        """Nodes with at least `mgpu`, on the cluster that has most of them; drained ones count
        as the largest known, as they do for the arbiter."""
        largest = self.largest_node_mgpu() or mgpu
        return max(
            (
                sum(
                    count
                    for size, count in sizes.items()
                    if (size if size > 0 else largest) >= mgpu
                )
                for name, sizes in self.sizes.items()
                if cluster in {None, name}
            ),
            default=0,
        )


def fleet_of(pool_id: UUID) -> Fleet:
    """The pool's nodes by cluster and size. One query."""
    sizes: dict[str, dict[int, int]] = {}
    for cluster_id, mgpu, is_schedulable, count in (
        ClusterNode.objects.filter(pool_id=pool_id)
        .exclude(state=GONE, is_schedulable=False)
        .values_list("cluster_id", "capacity_mgpu", "is_schedulable")
        .annotate(nodes=Count("pk"))
        .order_by("cluster_id", "capacity_mgpu")
    ):
        of_cluster = sizes.setdefault(str(cluster_id), {})
        size = mgpu if is_schedulable else 0
        of_cluster[size] = of_cluster.get(size, 0) + count
    return Fleet(sizes)


def lay_out(mgpu: int, largest_node_mgpu: int | None) -> tuple[int, int] | None:
    """(milli-GPU per node, nodes) for `mgpu` in all: one node if that can hold it, else the
    largest equal parts of whole GPUs that a node can hold. None when there are none.
    """
    if largest_node_mgpu is None or mgpu <= largest_node_mgpu:
        return mgpu, 1
    for nodes in range(ceil(mgpu / largest_node_mgpu), RANKS_MAX + 1):
        if mgpu % (nodes * MGPU_PER_GPU) == 0:
            return mgpu // nodes, nodes
    return None


def why_never(
    *,
    team: Node,
    pool_id: UUID,
    priority_class: PriorityClass,
    mgpu_per_node: int,
    node_count: int,
    cluster: str | None,
    fleet: Fleet,
) -> Waiting | None:
    """The arbiter's word that such a job could never start, or None. Two queries at most."""
    nodes, quotas = _tree_around(team, pool_id)
    plan = decide(
        Snapshot(
            taken_at=0,
            nodes=nodes,
            quotas=quotas,
            priority_classes=(
                ArbiterPriorityClass(
                    str(priority_class.pk),
                    priority_class.order,
                    team_cap_mgpu=priority_class.team_cap_mgpu,
                ),
            ),
            devices=tuple(
                Device(name, f"{mgpu}-{number}", str(pool_id), mgpu)
                for name, sizes in fleet.sizes.items()
                for mgpu, count in sizes.items()
                for number in range(count)
            ),
            clusters=frozenset(fleet.sizes),
            running=(),
            queued=(
                QueuedJob(
                    _ASKED,
                    str(team.pk),
                    _ANYONE,
                    str(pool_id),
                    mgpu_per_node,
                    node_count,
                    str(priority_class.pk),
                    0,
                    cluster=cluster,
                ),
            ),
        ),
        Policy(),
    )
    return next((item for item in plan.waiting if item.code is Code.NEVER_FITS), None)


def _tree_around(
    team: Node, pool_id: UUID
) -> tuple[tuple[TreeNode, ...], tuple[ArbiterQuota, ...]]:
    """The part of the tree that bears on what `team` could ever have: its own path, and what
    others never lend, with their paths."""
    rows = list(
        Quota.objects.filter(
            Q(node__path__in=_paths_to(team.path)) | Q(lend_limit_mgpu__lt=F("guaranteed_mgpu")),
            pool_id=pool_id,
        ).values_list(
            "node_id",
            "guaranteed_mgpu",
            "lend_limit_mgpu",
            "borrow_limit_mgpu",
            "node__path",
        )
    )
    wanted = {path for row in rows for path in _paths_to(row[4])} | set(_paths_to(team.path))
    nodes = tuple(
        TreeNode(str(pk), None if parent is None else str(parent))
        for pk, parent in Node.objects.filter(path__in=sorted(wanted)).values_list(
            "pk", "parent_id"
        )
    )
    pool = str(pool_id)
    return nodes, tuple(
        ArbiterQuota(str(node), pool, guaranteed, lend, borrow)
        for node, guaranteed, lend, borrow, _ in rows
    )


def _paths_to(path: str) -> Sequence[str]:
    steps = path.rstrip("/").split("/")
    return ["/".join(steps[: depth + 1]) + "/" for depth in range(len(steps))]

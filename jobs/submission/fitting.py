"""The fleet of a pool as a request sees it: layouts, and whether it could ever hold the job."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, gcd

import arbiter
from arbiter.api.plan import Waiting
from arbiter.api.snapshot import NOWHERE, Device, Domains, Level, QueuedJob, TreeNode
from arbiter.api.snapshot import PriorityClass as ArbiterPriorityClass
from arbiter.api.snapshot import Quota as ArbiterQuota
from connectors.workload_checks import RANKS_MAX
from primitives.units import MGPU_PER_GPU
from quotas.models import PriorityClass

_ANYONE = "anyone"
_ASKED = "asked"


@dataclass(frozen=True, slots=True)
class Fleet:
    """The number of nodes of a pool by cluster and size: `sizes[cluster][mgpu]`.

    Size 0 counts nodes that offer nothing now (drained) and may come back. `having` counts the
    nodes with all features that the job asks for; None if it asks for none. `places` holds the
    known topology domains of these nodes, for a job that requires a topology. `large_enough` counts
    the nodes of `having` (else of all) with the requested CPUs and memory; None if the job leaves
    both to its cluster.
    """

    sizes: Mapping[str, Mapping[int, int]]
    having: Mapping[str, Mapping[int, int]] | None = None
    places: Mapping[str, Mapping[int, Sequence[Domains]]] = field(default_factory=dict)
    large_enough: Mapping[str, Mapping[int, int]] | None = None

    def largest_node_mgpu(self, clusters: Collection[str] | None = None) -> int | None:
        """Return the size of the largest usable node, on some clusters or on all.

        In milli-GPU; None when no size is known.
        """
        return _largest(self._usable, clusters)

    def nodes_with(self, mgpu: int, clusters: Collection[str] | None = None) -> int:
        """Return the number of usable nodes with at least `mgpu` on the best cluster for that.

        A drained node counts as the largest known node, as it does for the arbiter.
        """
        largest = _largest(self.sizes, None) or mgpu
        return max(
            (
                sum(
                    count
                    for size, count in sizes.items()
                    if (size if size > 0 else largest) >= mgpu
                )
                for name, sizes in self._usable.items()
                if clusters is None or name in clusters
            ),
            default=0,
        )

    def total_mgpu(self) -> int | None:
        """Return the capacity of the whole pool in milli-GPU; None when no size is known.

        A drained node counts as the largest known node.
        """
        largest = _largest(self.sizes, None)
        if largest is None:
            return None
        return sum(
            (mgpu or largest) * count
            for of_cluster in self.sizes.values()
            for mgpu, count in of_cluster.items()
        )

    @property
    def _usable(self) -> Mapping[str, Mapping[int, int]]:
        return self.sizes if self.having is None else self.having

    def devices(self, pool: str, features: frozenset[str]) -> tuple[Device, ...]:
        """Return the nodes in the arbiter's form.

        The nodes of `having` get `features`. The nodes of `large_enough` get 1 milli-CPU, which
        stands for the requested CPUs and memory.
        """
        having, large_enough = self.having or {}, self.large_enough

        def domains(cluster: str, mgpu: int, number: int) -> Domains:
            known = self.places.get(cluster, {}).get(mgpu, ())
            return known[number] if number < len(known) else NOWHERE

        return tuple(
            Device(
                name,
                f"{mgpu}-{number}",
                pool,
                mgpu,
                features=features if number < having.get(name, {}).get(mgpu, 0) else frozenset(),
                domains=domains(name, mgpu, number),
                cpu_milli=None
                if large_enough is None
                else int(number < large_enough.get(name, {}).get(mgpu, 0)),
            )
            for name, sizes in self.sizes.items()
            for mgpu, count in sizes.items()
            for number in range(count)
        )


def _largest(
    sizes: Mapping[str, Mapping[int, int]], clusters: Collection[str] | None
) -> int | None:
    found = [
        mgpu
        for name, of_cluster in sizes.items()
        if clusters is None or name in clusters
        for mgpu in of_cluster
    ]
    return max(found, default=0) or None


def lay_out(
    mgpu: int,
    largest_node_mgpu: int | None,
    nodes_with: Callable[[int], int],
    *,
    least_mgpu: int | None = None,
) -> tuple[int, int] | None:
    """Return (milli-GPU per node, nodes) for `mgpu` in total, or None if no layout exists.

    The layout is one node if that can hold `mgpu`, else equal parts of whole GPUs. It takes the
    largest parts that fill the largest node without a rest. Example: 100 GPUs on nodes of 8 become
    25 x 4, because 20 x 5 would leave three unused on each node. Parts smaller than half of the
    largest possible part are not taken for this reason.

    `nodes_with` returns how many nodes of a cluster can hold a part. At least `least_mgpu` (None:
    all) must run at once. Parts that need more nodes than a cluster has are taken only if all parts
    do.
    """
    least_mgpu = mgpu if least_mgpu is None else least_mgpu
    if largest_node_mgpu is None or mgpu <= largest_node_mgpu:
        return mgpu, 1
    parts = [
        (mgpu // nodes, nodes)
        for nodes in range(ceil(mgpu / largest_node_mgpu), RANKS_MAX + 1)
        if mgpu % (nodes * MGPU_PER_GPU) == 0
    ]
    if not parts:
        return None
    parts = [part for part in parts if nodes_with(part[0]) * part[0] >= least_mgpu] or parts
    largest, _ = parts[0]
    even = (part for part in parts if largest_node_mgpu % part[0] == 0 and part[0] * 2 >= largest)
    return next(even, parts[0])


def lay_out_elastic(
    least_mgpu: int,
    most_mgpu: int,
    largest_node_mgpu: int | None,
    nodes_with: Callable[[int], int],
) -> tuple[int, int, int] | None:
    """Return (milli-GPU per node, least nodes, most nodes) for an elastic job, or None.

    `least_mgpu` and `most_mgpu` are totals in whole GPUs. Each node gets as many GPUs as divide
    both, or equal parts of these where no node holds so many (see `lay_out`). None means that no
    layout exists, or that it has too many nodes.
    """
    part_mgpu = gcd(least_mgpu, most_mgpu)
    found = lay_out(part_mgpu, largest_node_mgpu, nodes_with, least_mgpu=least_mgpu)
    if found is None or most_mgpu // found[0] > RANKS_MAX:
        return None
    return found[0], least_mgpu // found[0], most_mgpu // found[0]


def why_never(
    *,
    tree: tuple[TreeNode, ...],
    quotas: Sequence[ArbiterQuota],
    team: str,
    pool: str,
    priority_class: PriorityClass,
    mgpu_per_node: int,
    node_count: int,
    clusters: frozenset[str] | None,
    features: Collection[str],
    required_topology: Level | None,
    fleet: Fleet,
) -> Waiting | None:
    """Return the arbiter's reason if such a job could never start, else None.

    `tree` and `quotas` need only hold the team's own path and the quotas that others never lend.
    """
    asked = QueuedJob(
        _ASKED,
        team,
        _ANYONE,
        pool,
        mgpu_per_node,
        node_count,
        priority_class.name,
        0,
        clusters=clusters,
        features=frozenset(features) or None,
        required_topology=required_topology,
        cpu_milli=None if fleet.large_enough is None else 1,
    )
    known = ArbiterPriorityClass(
        priority_class.name, priority_class.order, team_cap_mgpu=priority_class.team_cap_mgpu
    )
    return arbiter.why_never(
        asked,
        nodes=tree,
        quotas=[quota for quota in quotas if quota.pool == pool],
        priority_classes=[known],
        devices=fleet.devices(pool, frozenset(features)),
        clusters=frozenset(fleet.sizes),
    )

"""The position of nodes in a cluster: its racks, blocks and NVLink domains (R-42).

The domains of a level partition the nodes of a cluster. A rack is identified by its block and its
own name. Nodes in the same domains form a *cell*, so that a question about a set of nodes looks at
cells and not at nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from arbiter.api.snapshot import NOWHERE, Device, Domains, Level, Topology
from arbiter.placement.node_sets import NodeKinds

#: The levels whose domains have several nodes, from the tightest to the widest.
LEVELS = (Level.NVLINK, Level.RACK, Level.BLOCK)

#: Identifies a domain within its level and cluster; empty is none.
Domain = tuple[str, ...]


def levels_from(level: Level) -> tuple[Level, ...]:
    """Return `level` and the wider ones, of those whose domains have several nodes."""
    return LEVELS[LEVELS.index(level) :] if level in LEVELS else LEVELS


def _domain_of(domains: Domains, level: Level) -> Domain:
    match level:
        case Level.BLOCK:
            return (domains.block,) if domains.block else ()
        case Level.RACK:
            return (domains.block, domains.rack) if domains.rack else ()
        case _:
            return (domains.nvlink,) if domains.nvlink else ()


class TopologyPlan:
    """The topology of one cluster in numbered cells.

    It has the cell of each node, the domain of each cell by level, and the cells of each domain.
    """

    __slots__ = ("_cluster", "_kinds", "_known", "_nodes", "cell_of", "cells_in", "domains")

    def __init__(self, cluster: str, nodes: Mapping[str, Domains], kinds: NodeKinds) -> None:
        self._cluster = cluster
        self._kinds = kinds
        self._nodes: dict[Domains, list[str]] = {}
        for node in sorted(nodes):
            self._nodes.setdefault(nodes[node], []).append(node)
        cells = sorted(self._nodes)
        self.cell_of = {
            node: cell for cell, domains in enumerate(cells) for node in self._nodes[domains]
        }
        self.domains = {
            level: [_domain_of(domains, level) for domains in cells] for level in LEVELS
        }
        self.cells_in: dict[Level, dict[Domain, list[int]]] = {level: {} for level in LEVELS}
        for level, of_cells in self.domains.items():
            for cell, domain in enumerate(of_cells):
                self.cells_in[level].setdefault(domain, []).append(cell)
        self._known: dict[int, dict[int, frozenset[str] | None]] = {}

    def cells(self, kinds: int | None) -> Mapping[int, frozenset[str] | None] | None:
        """Return the cells with nodes of a set of kinds, each with these nodes.

        None stands for all nodes of a cell; as the result, for all cells.
        """
        if kinds is None:
            return None
        found = self._known.get(kinds)
        if found is None:
            among = self._kinds.nodes(kinds, self._cluster)
            found = self._known[kinds] = {}
            for cell, domains in enumerate(sorted(self._nodes)):
                every = self._kinds.numbered(self._cluster, self._nodes[domains])
                if every & among == every:
                    found[cell] = None
                elif every & among:
                    found[cell] = frozenset(self._kinds.named(self._cluster, every & among))
        return found

    def domain(self, level: Level, node: str) -> Domain:
        """Return the domain of a level that a node is in."""
        if level is Level.NODE:
            return (node,)
        cell = self.cell_of.get(node)
        return () if cell is None else self.domains[level][cell]


class TopologyPlans:
    """The topologies of those clusters of one pool where the position of any node is known.

    They are computed when first needed.
    """

    __slots__ = ("_devices", "_kinds", "_nodes", "_plans")

    def __init__(self, devices: Iterable[Device], kinds: NodeKinds) -> None:
        self._devices = devices
        self._kinds = kinds
        self._nodes: dict[str, dict[str, Domains]] | None = None
        self._plans: dict[str, TopologyPlan] = {}

    def of(self, cluster: str) -> TopologyPlan | None:
        """Return the topology of a cluster; None if no position of its nodes is known."""
        if self._nodes is None:
            self._nodes = self._read()
        if cluster not in self._nodes:
            return None
        plan = self._plans.get(cluster)
        if plan is None:
            plan = self._plans[cluster] = TopologyPlan(cluster, self._nodes[cluster], self._kinds)
        return plan

    def are_together(self, topology: Topology | None, cluster: str, nodes: Sequence[str]) -> bool:
        """Return whether `nodes` of a cluster are in one domain, if `topology` requires it."""
        if topology is None or not topology.is_required or len(nodes) == 1:
            return True
        tally = Tally(len(nodes), topology.level, self.of(cluster))
        for node in nodes:
            tally.add(node)
        return tally.is_enough

    def _read(self) -> dict[str, dict[str, Domains]]:
        known = {
            device.cluster
            for device in self._devices
            if device.domains is not NOWHERE and device.domains != NOWHERE
        }
        nodes: dict[str, dict[str, Domains]] = {cluster: {} for cluster in known}
        if known:
            for device in self._devices:
                if device.cluster in known:
                    of_cluster = nodes[device.cluster]
                    one, other = device.domains, of_cluster.get(device.node, device.domains)
                    of_cluster[device.node] = one if one is other else max(one, other)
        return nodes


class Tally:
    """Counts nodes large enough for one rank of a gang, by domain of the required level.

    Without a level it counts them all together, starting from `ready`.
    """

    __slots__ = ("_counts", "_full", "_level", "_node_count", "_plan")

    def __init__(
        self, node_count: int, level: Level | None, plan: TopologyPlan | None, ready: int = 0
    ) -> None:
        self._node_count = node_count
        self._level = level
        self._plan = plan
        self._counts: dict[Domain, int] = {(): ready}
        self._full = int(ready >= node_count)

    def add(self, node: str, sign: int = 1) -> None:
        """Count a node; with a `sign` of -1, remove it from the count."""
        domain: Domain = ()
        if self._level is not None:
            domain = () if self._plan is None else self._plan.domain(self._level, node)
            if not domain:
                return
        before = self._counts.get(domain, 0)
        self._counts[domain] = before + sign
        self._full += (before + sign >= self._node_count) - (before >= self._node_count)

    @property
    def count(self) -> int:
        """Return the number of nodes, where no level is required."""
        return self._counts[()]

    @property
    def is_enough(self) -> bool:
        """Return whether the whole gang fits."""
        return self._full > 0

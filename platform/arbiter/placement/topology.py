"""Where the nodes of a cluster stand: its racks, blocks and NVLink domains (R-42).

The domains of a level part the nodes of a cluster; a rack is known by its block and its own name.
Nodes that stand in the same domains make a *cell*, so that a question about a set of nodes looks at
cells and not at nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from arbiter.api.snapshot import NOWHERE, Device, Domains, Level, Topology
from arbiter.placement.node_sets import NodeKinds

#: The levels whose domains have several nodes, from the tightest to the widest.
LEVELS = (Level.NVLINK, Level.RACK, Level.BLOCK)

#: What tells a domain from the others of its level and cluster; empty is none.
Domain = tuple[str, ...]


def levels_from(level: Level) -> tuple[Level, ...]:
    """`level` and the wider ones, of those whose domains have several nodes."""
    return LEVELS[LEVELS.index(level) :] if level in LEVELS else LEVELS


def _domain_of(domains: Domains, level: Level) -> Domain:
    match level:
        case Level.BLOCK:
            return (domains.block,) if domains.block else ()
        case Level.RACK:
            return (domains.block, domains.rack) if domains.rack else ()
        case _:
            return (domains.nvlink,) if domains.nvlink else ()


class GroundPlan:
    """The cells of one cluster, numbered: the cell of each node, the domain of each cell by level,
    and the cells of each domain."""

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
        """The cells with nodes of a set of kinds, each with these nodes; None stands for all nodes
        of a cell, and in place of the whole for all cells."""
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
        """The domain of a level that a node is in."""
        if level is Level.NODE:
            return (node,)
        cell = self.cell_of.get(node)
        return () if cell is None else self.domains[level][cell]


class GroundPlans:
    """The ground plans of the clusters of one pool on which the place of any node is known.

    Nothing of them is made before the first question.
    """

    __slots__ = ("_devices", "_kinds", "_nodes", "_plans")

    def __init__(self, devices: Iterable[Device], kinds: NodeKinds) -> None:
        self._devices = devices
        self._kinds = kinds
        self._nodes: dict[str, dict[str, Domains]] | None = None
        self._plans: dict[str, GroundPlan] = {}

    def of(self, cluster: str) -> GroundPlan | None:
        """The ground plan of a cluster; None where nothing is known of the places of its nodes."""
        if self._nodes is None:
            self._nodes = self._read()
        if cluster not in self._nodes:
            return None
        plan = self._plans.get(cluster)
        if plan is None:
            plan = self._plans[cluster] = GroundPlan(cluster, self._nodes[cluster], self._kinds)
        return plan

    def are_together(self, topology: Topology | None, cluster: str, nodes: Sequence[str]) -> bool:
        """Whether `nodes` of a cluster are in one domain, if `topology` requires it."""
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
    """Counts the nodes that are large enough for one rank of a gang, in each domain of the level
    that must hold all of it; without such a level all together, with `ready` of them at first."""

    __slots__ = ("_counts", "_full", "_level", "_node_count", "_plan")

    def __init__(
        self, node_count: int, level: Level | None, plan: GroundPlan | None, ready: int = 0
    ) -> None:
        self._node_count = node_count
        self._level = level
        self._plan = plan
        self._counts: dict[Domain, int] = {(): ready}
        self._full = int(ready >= node_count)

    def add(self, node: str, sign: int = 1) -> None:
        """Count a node; with a sign of -1, count it out."""
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
        """How many there are, where no level binds."""
        return self._counts[()]

    @property
    def is_enough(self) -> bool:
        """Whether the whole gang fits."""
        return self._full > 0

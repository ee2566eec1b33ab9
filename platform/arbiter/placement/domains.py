"""The nodes of one cluster by free amount and topology: the choice for a gang (R-39, R-42, R-43).

A gang gets nodes that are close together, or that keep the largest domains whole.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from arbiter.api.snapshot import Level, Topology
from arbiter.placement.topology import LEVELS, Domain, TopologyPlan, levels_from

#: The order in which domains are filled without a requirement.
_WIDEST_FIRST = LEVELS[::-1]

_Nodes = list[tuple[int, str]]


class Chosen(NamedTuple):
    """Nodes with their free milli-GPU, in ascending order.

    `spread` is 0 when they are in one domain of the requested level, and 1 more for each wider
    level that was needed.
    """

    spread: int
    nodes: _Nodes


class _FittingNodes:
    """The nodes of a domain with enough free: their number, and their number by free amount."""

    __slots__ = ("amounts", "count")

    def __init__(self) -> None:
        self.count = 0
        self.amounts: dict[int, int] = {}

    def add(self, amount: int, count: int) -> None:
        self.count += count
        left = self.amounts.get(amount, 0) + count
        if left:
            self.amounts[amount] = left
        else:
            del self.amounts[amount]

    def least(self, node_count: int) -> int:
        """Return the sum of the free amounts of the `node_count` fullest nodes."""
        if len(self.amounts) == 1:
            return node_count * next(iter(self.amounts))
        total = 0
        for amount in sorted(self.amounts):
            taken = min(node_count, self.amounts[amount])
            total += taken * amount
            node_count -= taken
        return total


class _Bucket:
    """The nodes with one amount, in order of their names, by cell.

    `orders` are the cells from the smallest domain on, reversed, by the requested set of kinds.
    """

    __slots__ = ("cells", "orders")

    def __init__(self) -> None:
        self.cells: dict[int, list[str]] = {}
        self.orders: dict[int | None, list[int]] = {}

    def add(self, cell: int, node: str) -> None:
        insort(self.cells.setdefault(cell, []), node)
        self.orders.clear()

    def remove(self, cell: int, node: str) -> None:
        nodes = self.cells[cell]
        del nodes[bisect_left(nodes, node)]
        if not nodes:
            del self.cells[cell]
        # The smallest domain remains the smallest when it loses a node.
        for kinds, order in list(self.orders.items()):
            if order[-1:] != [cell]:
                del self.orders[kinds]
            elif not nodes:
                order.pop()


class NodeBuckets:
    """The nodes of one cluster by an amount of milli-GPU (free, or in total).

    It also counts for each domain the nodes with enough of it. Answers are cached and updated: a
    change costs one update per cached answer, and a new answer one step per domain. The object
    lives no longer than its `PoolConfig`, which bounds the number of answers (see
    `PoolConfig.remembered`).
    """

    __slots__ = ("_amounts", "_buckets", "_fitting", "_plan")

    def __init__(self, plan: TopologyPlan, mgpu: Mapping[str, int]) -> None:
        self._plan = plan
        self._buckets: dict[int, _Bucket] = {}
        for node in sorted(mgpu):
            bucket = self._buckets.get(mgpu[node])
            if bucket is None:
                bucket = self._buckets[mgpu[node]] = _Bucket()
            bucket.cells.setdefault(plan.cell_of[node], []).append(node)
        self._amounts = sorted(self._buckets)
        self._fitting: dict[tuple[Level, int, int | None], dict[Domain, _FittingNodes]] = {}

    def move(self, node: str, before: int, after: int) -> None:
        """Change the amount of a node."""
        if before == after:
            return
        cell = self._plan.cell_of[node]
        old = self._buckets[before]
        old.remove(cell, node)
        if not old.cells:
            del self._buckets[before]
            del self._amounts[bisect_left(self._amounts, before)]
        new = self._buckets.get(after)
        if new is None:
            new = self._buckets[after] = _Bucket()
            insort(self._amounts, after)
        new.add(cell, node)
        for (level, mgpu, kinds), by_domain in self._fitting.items():
            if before < mgpu and after < mgpu:
                continue
            domain = self._plan.domains[level][cell]
            among = self._plan.cells(kinds)
            if not domain or not (among is None or _has(among, cell, node)):
                continue
            fitting = by_domain.setdefault(domain, _FittingNodes())
            if before >= mgpu:
                fitting.add(before, -1)
            if after >= mgpu:
                fitting.add(after, 1)

    def most_together(self, level: Level, mgpu: int, kinds: int | None) -> int:
        """Return the most nodes of a set of kinds with at least `mgpu` in one domain."""
        if level is Level.NODE:
            return int(any(True for _ in self._at_least(mgpu, kinds, None)))
        return max(
            (fitting.count for fitting in self._fitting_by_domain(level, mgpu, kinds).values()),
            default=0,
        )

    def choose(
        self, mgpu: int, node_count: int, kinds: int | None, topology: Topology | None
    ) -> Chosen | None:
        """Return the nodes for a gang of `node_count` with `mgpu` on each, or None without a place.

        - Required topology: the nodes are in one domain of the level. It is the one on whose nodes
          least is left over, then the one with fewest such nodes, then the one in the block with
          fewest.
        - Preferred topology: the same in the tightest level, from the requested one on, that has
          such a domain. Inside, few domains of the tighter levels are used. Without such a domain
          the gang is spread over few domains.

        In the domain, and for a gang without a topology, the fullest nodes are taken. Among equally
        full ones it takes those in the smallest block, there in the smallest rack and NVLink
        domain. Nodes of unknown position come first.
        """
        if topology is None:
            nodes = self._pick(mgpu, node_count, kinds, None)
            return Chosen(0, nodes) if len(nodes) == node_count else None
        wider = levels_from(topology.level)
        if topology.is_required:
            wider = wider[: topology.level is not Level.NODE]
        for spread, level in enumerate(wider):
            domain = self._best_domain(level, mgpu, node_count, kinds)
            if domain is not None:
                cells = self._plan.cells_in[level][domain]
                if topology.is_required:
                    return Chosen(0, self._pick(mgpu, node_count, kinds, cells))
                inner = wider[:spread][::-1]
                return Chosen(spread, sorted(self._gather(mgpu, node_count, kinds, cells, inner)))
        if topology.is_required or self._count(mgpu, kinds, None) < node_count:
            return None
        nodes = self._gather(mgpu, node_count, kinds, None, wider[::-1])
        return Chosen(len(wider), sorted(nodes))

    def _best_domain(
        self, level: Level, mgpu: int, node_count: int, kinds: int | None
    ) -> Domain | None:
        """Return the domain of a level that holds the gang with least left over."""
        by_domain = self._fitting_by_domain(level, mgpu, kinds)
        options = [
            (fitting.least(node_count), fitting.count, domain)
            for domain, fitting in by_domain.items()
            if fitting.count >= node_count
        ]
        if not options:
            return None
        least, count, _ = min(options)
        tied = [domain for *key, domain in options if key == [least, count]]
        if len(tied) == 1 or level is Level.BLOCK:
            return min(tied)
        plan = self._plan
        blocks = self._fitting_by_domain(Level.BLOCK, mgpu, kinds)

        def of_block(domain: Domain) -> tuple[int, Domain]:
            block = plan.domains[Level.BLOCK][plan.cells_in[level][domain][0]]
            return blocks[block].count if block in blocks else 0, domain

        return min(tied, key=of_block)

    def _gather(
        self,
        mgpu: int,
        node_count: int,
        kinds: int | None,
        cells: Collection[int] | None,
        levels: Sequence[Level],
    ) -> _Nodes:
        """Return `node_count` nodes of `cells`, in few domains of each of `levels`, widest first.

        It takes the largest domains, and of those that can hold the rest the smallest. Nodes in no
        domain come last.
        """
        if not levels:
            return self._pick(mgpu, node_count, kinds, cells)
        of_cells = self._plan.domains[levels[0]]
        counts: Counter[Domain] = Counter()
        groups: dict[Domain, dict[int, None]] = {}
        for _, cell, nodes in self._at_least(mgpu, kinds, cells):
            domain = of_cells[cell]
            counts[domain] += len(nodes)
            groups.setdefault(domain, {})[cell] = None
        found: _Nodes = []
        left = sorted(groups, key=lambda domain: (not domain, -counts[domain], domain))
        while node_count:
            holding = [one for one in left if one and counts[one] >= node_count]
            domain = min(holding, key=lambda one: (counts[one], one)) if holding else left[0]
            taken = min(node_count, counts[domain])
            found += self._gather(mgpu, taken, kinds, groups[domain], levels[1:])
            node_count -= taken
            left.remove(domain)
        return found

    def _pick(
        self, mgpu: int, node_count: int, kinds: int | None, cells: Collection[int] | None
    ) -> _Nodes:
        """Return the `node_count` fullest nodes of `cells`, or as many as there are."""
        found: _Nodes = []
        for i in range(bisect_left(self._amounts, mgpu), len(self._amounts)):
            amount = self._amounts[i]
            for nodes in self._smallest_first(amount, kinds, cells):
                missing = node_count - len(found)
                found.extend((amount, node) for node in nodes[:missing])
                if len(found) >= node_count:
                    return found
        return found

    def _smallest_first(
        self, amount: int, kinds: int | None, cells: Collection[int] | None
    ) -> Iterator[Sequence[str]]:
        """Return the nodes of one amount cell by cell, those in the smallest domains first."""
        bucket = self._buckets[amount]
        order = bucket.orders.get(kinds) if cells is None else None
        if order is None:
            counts = {cell: len(nodes) for _, cell, nodes in self._of(amount, kinds, cells)}
            order = self._order(counts)
            if cells is None:
                bucket.orders[kinds] = order
        among = self._plan.cells(kinds)
        for cell in reversed(order):
            if cell in bucket.cells:
                nodes = _among(bucket.cells[cell], cell, among)
                if nodes:
                    yield nodes

    def _order(self, counts: Mapping[int, int]) -> list[int]:
        """Return the cells, which have so many nodes each, with the smallest domains last."""
        levels = [self._plan.domains[level] for level in _WIDEST_FIRST]
        sizes: list[Counter[Domain]] = []
        for of_cells in levels:
            size: Counter[Domain] = Counter()
            for cell, count in counts.items():
                size[of_cells[cell]] += count
            size[()] = 0
            sizes.append(size)
        return sorted(
            counts,
            key=lambda cell: [
                (size[of_cells[cell]], of_cells[cell])
                for size, of_cells in zip(sizes, levels, strict=True)
            ],
            reverse=True,
        )

    def _fitting_by_domain(
        self, level: Level, mgpu: int, kinds: int | None
    ) -> Mapping[Domain, _FittingNodes]:
        found = self._fitting.get((level, mgpu, kinds))
        if found is None:
            found = self._fitting[level, mgpu, kinds] = {}
            of_cells = self._plan.domains[level]
            for amount, cell, nodes in self._at_least(mgpu, kinds, None):
                domain = of_cells[cell]
                if domain:
                    fitting = found.get(domain)
                    if fitting is None:
                        fitting = found[domain] = _FittingNodes()
                    fitting.add(amount, len(nodes))
        return found

    def _count(self, mgpu: int, kinds: int | None, cells: Collection[int] | None) -> int:
        return sum(len(nodes) for _, _, nodes in self._at_least(mgpu, kinds, cells))

    def _at_least(
        self, mgpu: int, kinds: int | None, cells: Collection[int] | None
    ) -> Iterator[tuple[int, int, Sequence[str]]]:
        """Return (amount, cell, its nodes with that amount) from `mgpu` on."""
        for i in range(bisect_left(self._amounts, mgpu), len(self._amounts)):
            yield from self._of(self._amounts[i], kinds, cells)

    def _of(
        self, amount: int, kinds: int | None, cells: Collection[int] | None
    ) -> Iterator[tuple[int, int, Sequence[str]]]:
        among = self._plan.cells(kinds)
        bucket = self._buckets[amount].cells
        asked: Iterable[int] = bucket if cells is None else [one for one in cells if one in bucket]
        for cell in asked:
            nodes = _among(bucket[cell], cell, among)
            if nodes:
                yield amount, cell, nodes


def _has(among: Mapping[int, frozenset[str] | None], cell: int, node: str) -> bool:
    if cell not in among:
        return False
    some = among[cell]
    return some is None or node in some


def _among(
    nodes: Sequence[str], cell: int, among: Mapping[int, frozenset[str] | None] | None
) -> Sequence[str]:
    """Return the nodes of a cell that are in the requested set."""
    if among is None:
        return nodes
    if cell not in among:
        return ()
    some = among[cell]
    return nodes if some is None else [node for node in nodes if node in some]

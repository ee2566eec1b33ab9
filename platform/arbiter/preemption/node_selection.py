"""The nodes of a cluster to clear for a gang, and the victims that cost least (R-59).

The cost of a set of victims is their work since the last known checkpoint, plus one second of all
their GPUs. Any loss of a more valuable victim (see `Kind`) outweighs all losses of less valuable
ones.

For each node the cheapest set that frees enough for a rank is found, and the cheapest nodes are
taken. This is optimal if each victim runs on one node. A gang that is stopped clears several nodes
at once. So it is counted in two ways: in full on each of its nodes, and in equal shares.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Iterator, Mapping
from heapq import heapify, heappop, heappush
from itertools import groupby
from operator import itemgetter
from typing import Any

from arbiter.cache.victim_order import Kind
from arbiter.preemption.candidates import Candidate

#: If the victims of one node have more different sums than this, an approximation is used.
_SUMS_MAX = 512

#: Larger than any key has in the place of the minus start time.
_ABOVE_ALL = 1

#: The loss by kind of victims, the most valuable first.
Cost = tuple[tuple[Kind, int], ...]

#: A candidate on a node: its kind, its cost there, its number among the candidates, its milli-GPU
#: there, and itself.
_Item = tuple[Kind, int, int, int, Candidate]
_kind = itemgetter(0)
_cost_and_number = itemgetter(1, 2)


class _Node:
    """A node that may be cleared: the milli-GPU that a rank lacks there, and candidates on it."""

    __slots__ = ("cost", "have", "items", "lacks", "victims")

    def __init__(self, lacks: int) -> None:
        self.lacks = lacks
        self.have = 0
        self.items: list[_Item] = []
        self.cost: Cost | None = None
        self.victims: list[_Item] = []

    def choose(self) -> Cost:
        """Find the cheapest victims and return their cost; there must be enough candidates."""
        victims = self.victims = _cheapest(self.items, self.lacks)
        if len(victims) == 1:
            self.cost = (victims[0][:2],)
        else:
            self.cost = _sum(one[:2] for one in victims)
        return self.cost

    def stop(self, number: int) -> None:
        """Count the candidate of this number as a victim already."""
        (item,) = (one for one in self.items if one[2] == number)
        self.items.remove(item)
        self.have -= item[3]
        self.lacks -= item[3]


def cost_of(victims: Iterable[Candidate]) -> Cost:
    """Return the cost of stopping `victims`."""
    return _sum(one.key[:2] for one in victims)


def clearings(
    candidates: Iterable[Candidate],
    cluster: str,
    lacks: Mapping[str, int],
    count: int,
    slots_max: int,
) -> Iterator[list[Candidate]]:
    """Return sets of candidates, in order, that clear `count` nodes of `cluster` (above 0).

    There is none if the nodes cannot be cleared. `lacks[node]` is the milli-GPU lacking there. It
    is 0 or less if the node has enough, or cannot be used. `candidates` are in order; each runs on
    at most `slots_max` nodes.
    """
    slots_max = min(count, slots_max)
    nodes, has_gangs = _survey(candidates, cluster, lacks, count, slots_max, spreads=False)
    if all(node.cost is None for node in nodes.values()):
        return
    first = _pick(nodes, count)
    yield first
    if has_gangs:
        nodes, _ = _survey(candidates, cluster, lacks, count, slots_max, spreads=True)
        then = _pick(nodes, count)
        if then != first:
            yield then


def _survey(
    candidates: Iterable[Candidate],
    cluster: str,
    lacks: Mapping[str, int],
    count: int,
    slots_max: int,
    *,
    spreads: bool,
) -> tuple[dict[str, _Node], bool]:
    """Return the nodes that candidates can clear, and whether gangs are among these.

    Nodes that cannot be among the cheapest `count` may be missing. With `spreads` a gang's cost is
    divided among its nodes.
    """
    nodes: dict[str, _Node] = {}
    complete: list[_Node] = []
    best: list[Cost] = []
    has_gangs = False
    # By number of slots, the key beyond which no candidate is among the cheapest.
    last: dict[int, tuple[Any, ...]] = {}
    for number, candidate in enumerate(candidates):
        key, _, _, holding = candidate
        run = holding.run
        if run.cluster != cluster:
            continue
        slots = run.slots
        if best:
            # Later candidates cost at least as much, or are more valuable.
            own = last.get(len(slots))
            if own is None:
                worst_kind, worst = best[-1][0]
                own = last[len(slots)] = (worst_kind, worst * len(slots), _ABOVE_ALL)
                last[slots_max] = (worst_kind, worst * slots_max, _ABOVE_ALL)
            if key > own:
                if key > last[slots_max]:
                    break
                continue
        kind, cost, _, _ = key
        if len(slots) > 1:
            slots = tuple([slot for slot in slots if lacks[slot.node] > 0])
            has_gangs |= len(slots) > 1
            if spreads:
                cost = -(-cost // max(1, min(count, len(slots))))
        for slot in slots:
            name, mgpu = slot.node, slot.mgpu
            node = nodes.get(name)
            if node is None:
                lacking = lacks[name]
                if lacking <= 0:
                    continue
                node = nodes[name] = _Node(lacking)
            node.items.append((kind, cost, number, mgpu, candidate))
            node.have += mgpu
            if node.have < node.lacks:
                continue
            if node.have - mgpu < node.lacks:
                complete.append(node)
            if len(complete) < count:
                continue
            if not best:
                best = sorted(one.choose() for one in complete)
                continue
            before = node.cost
            if before is not None:
                if before[0] < (kind, cost):
                    continue
                if before in best:
                    best.remove(before)
            insort(best, node.choose())
            del best[count:]
            last = {}
    return nodes, has_gangs


def _pick(nodes: Mapping[str, _Node], count: int) -> list[Candidate]:
    """Return the victims of the `count` cheapest nodes, in order.

    A gang among them makes its other nodes cheaper by its cost.
    """
    chosen: dict[int, Candidate] = {}
    cleared: set[str] = set()
    heap = [_entry(name, node) for name, node in nodes.items() if node.cost is not None]
    heapify(heap)
    while heap and len(cleared) < count:
        entry = heappop(heap)
        name, cost = entry[2], entry[0]
        node = nodes[name]
        if name in cleared or node.cost is not cost:
            continue
        cleared.add(name)
        for _, _, number, _, victim in node.victims:
            chosen[number] = victim
            for slot in victim.holding.run.slots:
                other = nodes.get(slot.node)
                if other is None or slot.node in cleared:
                    continue
                other.stop(number)
                if other.lacks <= 0:
                    cleared.add(slot.node)
                elif other.have >= other.lacks:
                    other.choose()
                    heappush(heap, _entry(slot.node, other))
    return [chosen[number] for number in sorted(chosen)]


def _entry(name: str, node: _Node) -> tuple[Cost, int, str]:
    """Return the sort key of a node: its cost, then the position of its last victim."""
    assert node.cost is not None
    return node.cost, max(victim[2] for victim in node.victims), name


def _sum(losses: Iterable[tuple[Kind, int]]) -> Cost:
    total: dict[Kind, int] = {}
    for kind, cost in losses:
        total[kind] = total.get(kind, 0) + cost
    return tuple(sorted(total.items(), reverse=True))


def _cheapest(items: list[_Item], lacks: int) -> list[_Item]:
    """Return the `items` that cover the lacking amount at the least cost.

    It takes as little as possible of the most valuable kind, then of the next, and so on.
    """
    kinds: list[list[_Item]] = []
    have = 0
    for _, alike in groupby(items, key=_kind):
        if have >= lacks:
            break
        kinds.append(list(alike))
        have += sum(one[3] for one in kinds[-1])
    chosen: list[_Item] = []
    for group in reversed(kinds):
        have -= sum(one[3] for one in group)
        if lacks > have:
            found = _cover(sorted(group, key=_cost_and_number), lacks - have)
            chosen += found
            lacks -= sum(one[3] for one in found)
    return chosen


def _cover(items: list[_Item], lacks: int) -> list[_Item]:
    """Return the cheapest of `items`, in order of cost, that hold `lacks` together.

    Of equally cheap sets it is the one that holds most.
    """
    size = items[0][3]
    if all(one[3] == size for one in items):
        return items[: -(-lacks // size)]
    sums: dict[int, tuple[int, int, tuple[_Item, ...]]] = {0: (0, 0, ())}
    for item in items:
        for have, (cost, minus_mgpu, taken) in list(sums.items()):
            if have == lacks:
                continue
            then = min(lacks, have + item[3])
            new = (cost + item[1], minus_mgpu - item[3])
            known = sums.get(then)
            if known is None or new < known[:2]:
                sums[then] = (*new, (*taken, item))
        if len(sums) > _SUMS_MAX:
            return _roughly(items, lacks)
    return list(sums[lacks][2])


def _roughly(items: list[_Item], lacks: int) -> list[_Item]:
    """Return the first of `items` that hold `lacks` together, without unnecessary ones."""
    taken: list[_Item] = []
    for item in items:
        taken.append(item)
        lacks -= item[3]
        if lacks <= 0:
            break
    for item in taken[::-1]:
        if lacks + item[3] <= 0:
            taken.remove(item)
            lacks += item[3]
    return taken

"""Which nodes of a cluster are cleared for a gang, and of which victims, at the least cost (R-59).

A set of victims costs what is lost of their work since the last known checkpoint, and a second of
all their GPUs each. What the more valuable lose (see `Kind`) comes before any loss of the less
valuable. On each node the cheapest set that makes room for a rank is found, and the cheapest nodes
are taken; where each victim runs on one node there is nothing cheaper. A gang that is stopped
clears several nodes at once, and is counted in two ways: whole wherever it runs, and by equal
shares on its nodes.
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

#: Of more sums than this that victims on one node come to, not all are looked at.
_SUMS_MAX = 512

#: Above what any key has in the place where the youngest come first.
_ABOVE_ALL = 1

#: What is lost by kind of victims, the most valuable first.
Cost = tuple[tuple[Kind, int], ...]

#: What a candidate is in the way on a node: its kind, what it costs there, its number among the
#: candidates, what it holds there, and itself.
_Item = tuple[Kind, int, int, int, Candidate]
_kind = itemgetter(0)
_cost_and_number = itemgetter(1, 2)


class _Node:
    """A node on its way to be cleared: what a rank still lacks there, and who could give it."""

    __slots__ = ("cost", "have", "items", "lacks", "victims")

    def __init__(self, lacks: int) -> None:
        self.lacks = lacks
        self.have = 0
        self.items: list[_Item] = []
        self.cost: Cost | None = None
        self.victims: list[_Item] = []

    def choose(self) -> Cost:
        """Find the cheapest victims, of which there are enough, and what they cost."""
        victims = self.victims = _cheapest(self.items, self.lacks)
        if len(victims) == 1:
            self.cost = (victims[0][:2],)
        else:
            self.cost = _sum(one[:2] for one in victims)
        return self.cost

    def stop(self, number: int) -> None:
        """The candidate of this number is a victim already."""
        (item,) = (one for one in self.items if one[2] == number)
        self.items.remove(item)
        self.have -= item[3]
        self.lacks -= item[3]


def cost_of(victims: Iterable[Candidate]) -> Cost:
    """What stopping `victims` costs."""
    return _sum(one.key[:2] for one in victims)


def clearings(
    candidates: Iterable[Candidate],
    cluster: str,
    lacks: Mapping[str, int],
    count: int,
    slots_max: int,
) -> Iterator[list[Candidate]]:
    """Choices of candidates, in order, that clear `count` nodes of `cluster` (above 0); none where
    nothing can. `lacks[node]`: the GPUs that are lacking there (0 or less: it has room, or cannot
    be used). `candidates` are in order; each runs on `slots_max` nodes at most."""
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
    """The nodes that candidates can clear, as far as they may be among the cheapest `count`, and
    whether gangs are there. With `spreads` each node bears its share of a gang."""
    nodes: dict[str, _Node] = {}
    complete: list[_Node] = []
    best: list[Cost] = []
    has_gangs = False
    # By number of slots: the key beyond which nobody is among the cheapest any more.
    last: dict[int, tuple[Any, ...]] = {}
    for number, candidate in enumerate(candidates):
        key, _, _, holding = candidate
        run = holding.run
        if run.cluster != cluster:
            continue
        slots = run.slots
        if best:
            # Who comes later costs as much at least, or is more valuable.
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
    """The victims of the `count` cheapest nodes, in order. Once a gang is among them, its other
    nodes cost as much less."""
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
    """Orders nodes: by cost, then whose last victim is asked first."""
    assert node.cost is not None
    return node.cost, max(victim[2] for victim in node.victims), name


def _sum(losses: Iterable[tuple[Kind, int]]) -> Cost:
    total: dict[Kind, int] = {}
    for kind, cost in losses:
        total[kind] = total.get(kind, 0) + cost
    return tuple(sorted(total.items(), reverse=True))


def _cheapest(items: list[_Item], lacks: int) -> list[_Item]:
    """Those of `items` that cover what is lacking at the least cost: of the most valuable kind as
    little as the others leave to it, and so on down."""
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
    """The cheapest of `items`, which are in order of cost, that hold `lacks` together; of equally
    cheap ones those that hold most."""
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
    """The first of `items` that hold `lacks` together, without those that need not be."""
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

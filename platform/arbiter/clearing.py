"""Which nodes of a cluster are cleared for a gang, and of which victims, at the least cost.

A set of victims costs what is lost of their work since the last known checkpoint, and a second of
all their GPUs each. What the more valuable lose (see `Kind`) comes before any loss of the less
valuable. On each node the cheapest set that makes room for a rank is found, and the cheapest nodes
are taken; where each victim runs on one node there is nothing cheaper. A gang that is stopped
clears several nodes at once, and is counted in two ways: whole wherever it runs, and by equal
shares on its nodes.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from arbiter.holdings import Holding
from arbiter.victim_order import Kind, VictimKey

#: Of more sums than this that victims on one node come to, not all are looked at.
_SUMS_MAX = 512

#: Above what any key has in the place where the youngest come first.
_ABOVE_ALL = 1

#: What is lost by kind of victims, the most valuable first.
Cost = tuple[tuple[Kind, int], ...]


class Candidate(NamedTuple):
    """An attempt that may be stopped; smaller is asked earlier. `by`: the node x whose guarantee
    gives the right to."""

    key: VictimKey
    by: int
    holding: Holding


class _Item(NamedTuple):
    """What the candidate number `at` holds on a node, and what it costs there."""

    kind: Kind
    cost: int
    at: int
    mgpu: int


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
        self.victims = _cheapest(self.items, self.lacks)
        self.cost = _sum((one.kind, one.cost) for one in self.victims)
        return self.cost

    def stop(self, at: int) -> None:
        """Candidate `at` is a victim already."""
        (item,) = (one for one in self.items if one.at == at)
        self.items.remove(item)
        self.have -= item.mgpu
        self.lacks -= item.mgpu


def cost_of(victims: Iterable[Candidate]) -> Cost:
    """What stopping `victims` costs."""
    return _sum((one.key[:4], one.key[4]) for one in victims)


def clearings(
    candidates: Sequence[Candidate],
    cluster: str,
    lacks: Mapping[str, int],
    count: int,
    slots_max: int,
) -> Iterator[list[int]]:
    """Choices of candidates, by number, that clear `count` nodes of `cluster` (above 0) which
    lack GPUs (0 or less: it has room); none where nothing can. `candidates` are in order; each
    runs on `slots_max` nodes at most."""
    slots_max = min(count, slots_max)
    nodes, has_gangs = _survey(candidates, cluster, lacks, count, slots_max, spreads=False)
    if all(node.cost is None for node in nodes.values()):
        return
    yield _pick(nodes, candidates, count)
    if has_gangs:
        nodes, _ = _survey(candidates, cluster, lacks, count, slots_max, spreads=True)
        yield _pick(nodes, candidates, count)


def _survey(
    candidates: Sequence[Candidate],
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
    last: dict[int, tuple[int, ...]] = {}
    for at, (key, _, holding) in enumerate(candidates):
        run = holding.run
        if run.cluster != cluster:
            continue
        slots = run.slots
        if len(best) == count:
            # Who comes later costs as much at least, or is more valuable.
            own = last.get(len(slots))
            if own is None:
                worst_kind, worst = best[-1][0]
                own = last[len(slots)] = (*worst_kind, worst * len(slots), _ABOVE_ALL)
                last[slots_max] = (*worst_kind, worst * slots_max, _ABOVE_ALL)
            if key > own:
                if key > last[slots_max]:
                    break
                continue
        kind, cost = key[:4], key[4]
        if len(slots) > 1:
            slots = tuple(slot for slot in slots if lacks.get(slot.node, 0) > 0)
            has_gangs |= len(slots) > 1
            if spreads:
                cost = -(-cost // max(1, min(count, len(slots))))
        for slot in slots:
            node = nodes.get(slot.node)
            if node is None:
                lacking = lacks.get(slot.node, 0)
                if lacking <= 0:
                    continue
                node = nodes[slot.node] = _Node(lacking)
            node.items.append(_Item(kind, cost, at, slot.mgpu))
            node.have += slot.mgpu
            if node.have < node.lacks:
                continue
            if node.have - slot.mgpu < node.lacks:
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


def _pick(nodes: Mapping[str, _Node], candidates: Sequence[Candidate], count: int) -> list[int]:
    """The victims of the `count` cheapest nodes. Once a gang is among them, its other nodes cost
    as much less."""
    chosen: set[int] = set()
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
        for victim in node.victims:
            chosen.add(victim.at)
            for slot in candidates[victim.at].holding.run.slots:
                other = nodes.get(slot.node)
                if other is None or slot.node in cleared:
                    continue
                other.stop(victim.at)
                if other.lacks <= 0:
                    cleared.add(slot.node)
                elif other.have >= other.lacks:
                    other.choose()
                    heappush(heap, _entry(slot.node, other))
    return sorted(chosen)


def _entry(name: str, node: _Node) -> tuple[Cost, int, str]:
    """Orders nodes: by cost, then whose last victim is asked first."""
    assert node.cost is not None
    return node.cost, max(victim.at for victim in node.victims), name


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
    for _, alike in groupby(items, key=attrgetter("kind")):
        if have >= lacks:
            break
        kinds.append(list(alike))
        have += sum(one.mgpu for one in kinds[-1])
    chosen: list[_Item] = []
    for group in reversed(kinds):
        have -= sum(one.mgpu for one in group)
        if lacks > have:
            found = _cover(sorted(group, key=attrgetter("cost", "at")), lacks - have)
            chosen += found
            lacks -= sum(one.mgpu for one in found)
    return chosen


def _cover(items: list[_Item], lacks: int) -> list[_Item]:
    """The cheapest of `items`, which are in order of cost, that hold `lacks` together; of equally
    cheap ones those that hold most."""
    size = items[0].mgpu
    if all(one.mgpu == size for one in items):
        return items[: -(-lacks // size)]
    sums: dict[int, tuple[int, int, tuple[_Item, ...]]] = {0: (0, 0, ())}
    for item in items:
        for have, (cost, minus_mgpu, taken) in list(sums.items()):
            if have == lacks:
                continue
            then = min(lacks, have + item.mgpu)
            new = (cost + item.cost, minus_mgpu - item.mgpu)
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
        lacks -= item.mgpu
        if lacks <= 0:
            break
    for item in taken[::-1]:
        if lacks + item.mgpu <= 0:
            taken.remove(item)
            lacks += item.mgpu
    return taken

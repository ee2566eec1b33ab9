"""Integrals of a quota tree over time: use by class, guarantees and lent GPUs, exact to the second.

The input are changes of levels, such as "this team uses 8 GPUs more from here on". Between two
changes every level is constant, so a level times its seconds is its exact integral. Lent GPUs
follow the rule of the present (R-98), `arbiter.explain.usage.lent_below`. The module is pure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from heapq import heappop, heappush
from itertools import groupby, pairwise
from operator import itemgetter
from typing import NamedTuple

from arbiter.explain.usage import lent_below

#: The number of a root's parent.
NO_PARENT = -1


class Level(IntEnum):
    """The levels of a tree node that are integrated, in milli-GPU.

    The first four are use in each usage class, as charged. `WITHIN` is the part of the use inside
    of the node's guarantee. `LENT` is the part of its idle guarantee that others use.
    """

    GUARANTEED = 0
    BORROWED = 1
    UNPAID = 2
    FAULT = 3
    WAITING = 4
    GUARANTEE = 5
    WITHIN = 6
    LENT = 7


#: The levels that sum up the tree. The others are of each node alone.
SUMMED = (Level.GUARANTEED, Level.BORROWED, Level.UNPAID, Level.FAULT, Level.WAITING)
_USED = SUMMED[:4]


class Change(NamedTuple):
    """A change at the second `at_s`: a difference of a summed level, or a new guarantee.

    With `level` GUARANTEE, `mgpu` is the difference of the guarantee, and `lendable_mgpu` that of
    the part which others may use. Without a node, `mgpu` is a difference of the pool's capacity.
    """

    at_s: int
    node: int | None
    level: Level
    mgpu: int
    lendable_mgpu: int = 0


class Borrower(NamedTuple):
    """A child that borrows, or None: the node lends to others outside."""

    node: int | None


class Lender(NamedTuple):
    """A child that lends, the node's own reserve, or None of both: others outside."""

    node: int | None
    is_reserve: bool = False


OUTSIDE = Borrower(None)
RESERVE, ELSEWHERE = Lender(None, is_reserve=True), Lender(None)

#: What children of a node borrowed from each other, in milli-GPU or milli-GPU-seconds.
Exchange = Mapping[tuple[Borrower, Lender], int]


@dataclass(frozen=True, slots=True)
class Integrals:
    """The integrals of each node and step in milli-GPU-seconds, by `Level`; and of exchanges.

    `capacity` is that of the pool, by step.
    """

    steps: Mapping[int, Sequence[Sequence[int]]]
    exchanges: Mapping[int, Exchange]
    capacity: Sequence[int]


def integrate(
    parents: Sequence[int],
    changes: Iterable[Change],
    edges_s: Sequence[int],
    focus: Collection[int],
) -> Integrals:
    """Return the integrals between the edges, for the nodes in `focus` and their children.

    Parents come before their children. Changes may come in any order; those before the first edge
    make its levels. `focus` must contain the parent of each of its nodes, so that what a node lends
    is known from the root down.
    """
    state = _State(parents, edges_s[0], len(edges_s) - 1, frozenset(focus) | {NO_PARENT})
    following = groupby(sorted(changes, key=itemgetter(0)), itemgetter(0))
    at_s, group = next(following, (edges_s[-1], ()))
    for step, (_, end_s) in enumerate(pairwise(edges_s)):
        state.step = step
        while at_s < end_s:
            state.apply(max(at_s, edges_s[0]), group)
            at_s, group = next(following, (edges_s[-1], ()))
        state.flush_all(end_s)
    exchanges = {
        node: {pair: mgpu_s for pair, mgpu_s in sums.items() if mgpu_s}
        for node, sums in state.exchanged.items()
    }
    return Integrals(state.sums, exchanges, state.capacity)


def exchange_at(
    excess: Mapping[Borrower, int], lenders: Mapping[Lender, int]
) -> dict[tuple[Borrower, Lender], int]:
    """Share out what lenders lend among borrowers, in proportion to both. The sums must be equal.

    Each row and each column sums exactly to its borrower and its lender.
    """
    left = dict(lenders)
    found: dict[tuple[Borrower, Lender], int] = {}
    for borrower, mgpu in excess.items():
        total, before, given = sum(left.values()), 0, 0
        for lender, most in left.items():
            before += most
            part = mgpu * before // total - given if total else 0
            if part:
                found[borrower, lender] = part
                given += part
                left[lender] = most - part
    return found


def lending_below(
    below: Iterable[int],
    used: Sequence[int],
    guaranteed: Sequence[int],
    lent: Mapping[int, int],
    *,
    drawn: int,
    reserve: int,
) -> dict[tuple[Borrower, Lender], int]:
    """Return what the children `below` of a node borrow from whom, in milli-GPU.

    `lent` is what each of them lends, `drawn` what the node itself lends, and `reserve` its
    guarantee less that of its children.
    """
    excess = {
        Borrower(node): used[node] - guaranteed[node]
        for node in below
        if used[node] > guaranteed[node]
    }
    if drawn:
        excess[OUTSIDE] = drawn
    total = sum(excess.values())
    lenders = {RESERVE: min(total, max(0, reserve))}
    lenders |= {Lender(node): mgpu for node, mgpu in lent.items() if mgpu}
    lenders[ELSEWHERE] = max(0, total - sum(lenders.values()))
    return exchange_at(excess, lenders)


@dataclass(slots=True)
class _State:
    """The levels of all nodes at one moment, and the integrals until then."""

    parents: Sequence[int]
    start_s: int
    step_count: int
    focus: Collection[int]
    step: int = 0
    capacity_mgpu: int = 0
    capacity_since_s: int = 0
    capacity: list[int] = field(default_factory=list)
    below: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    levels: list[list[int]] = field(default_factory=list)
    used: list[int] = field(default_factory=list)
    guaranteed: list[int] = field(default_factory=list)
    lendable: list[int] = field(default_factory=list)
    #: Of each parent: the use of its children above their guarantees, and these guarantees.
    excess: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    promised: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    lent: dict[int, dict[int, int]] = field(default_factory=dict)
    since_s: dict[int, int] = field(default_factory=dict)
    sums: dict[int, list[list[int]]] = field(default_factory=dict)
    exchange: dict[int, Exchange] = field(default_factory=dict)
    exchange_since_s: dict[int, int] = field(default_factory=dict)
    exchanged: dict[int, dict[tuple[Borrower, Lender], int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        count = len(self.parents)
        self.capacity_since_s = self.start_s
        self.capacity = [0] * self.step_count
        for node, parent in enumerate(self.parents):
            self.below[parent].append(node)
            if parent in self.focus or node in self.focus:
                self.since_s[node] = self.start_s
                self.sums[node] = [[0] * len(Level) for _ in range(self.step_count)]
        self.levels = [[0] * len(Level) for _ in range(count)]
        self.used, self.guaranteed, self.lendable = [0] * count, [0] * count, [0] * count

    def apply(self, at_s: int, changes: Iterable[Change]) -> None:
        """Apply the changes of one second."""
        dirty: set[int] = set()
        for change in changes:
            if change.node is None:
                self._flush_capacity(at_s)
                self.capacity_mgpu += change.mgpu
                dirty.add(NO_PARENT)
            elif change.level is Level.GUARANTEE:
                self._flush(change.node, at_s)
                self._weigh(change.node, 0, change.mgpu, change.lendable_mgpu)
                dirty |= {self.parents[change.node], change.node}
            else:
                node = change.node
                while node != NO_PARENT:
                    self._flush(node, at_s)
                    self.levels[node][change.level] += change.mgpu
                    if change.level in _USED:
                        self._weigh(node, change.mgpu, 0, 0)
                        dirty.add(self.parents[node])
                    node = self.parents[node]
        self._lend(at_s, dirty)

    def _weigh(self, node: int, used: int, guaranteed: int, lendable: int) -> None:
        """Change use and guarantee of a node, and what follows from both."""
        parent = self.parents[node]
        before = max(0, self.used[node] - self.guaranteed[node])
        self.used[node] += used
        self.guaranteed[node] += guaranteed
        self.lendable[node] += lendable
        self.promised[parent] += guaranteed
        self.excess[parent] += max(0, self.used[node] - self.guaranteed[node]) - before
        self.levels[node][Level.GUARANTEE] = self.guaranteed[node]
        self.levels[node][Level.WITHIN] = min(self.used[node], self.guaranteed[node])

    def _lend(self, at_s: int, dirty: Iterable[int]) -> None:
        """Find anew what the children of these nodes lend, from the root down."""
        queue = sorted(dirty)
        done = NO_PARENT - 1
        while queue:
            parent = heappop(queue)
            if parent == done or parent not in self.focus:
                continue
            done = parent
            drawn = 0 if parent == NO_PARENT else self.levels[parent][Level.LENT]
            whole = self.capacity_mgpu if parent == NO_PARENT else self.guaranteed[parent]
            lent: dict[int, int] = {}
            if self.excess[parent] + drawn > max(0, whole - self.promised[parent]):
                lent = lent_below(
                    self.below[parent],
                    self.guaranteed,
                    self.lendable,
                    self.used,
                    drawn=drawn,
                    reserve=whole,
                )
            before = self.lent.get(parent, {})
            self.lent[parent] = lent
            for node in before.keys() | lent.keys():
                if before.get(node, 0) != lent.get(node, 0):
                    self._flush(node, at_s)
                    self.levels[node][Level.LENT] = lent.get(node, 0)
                    heappush(queue, node)
            if parent != NO_PARENT:
                self._exchange(parent, at_s, drawn, whole, lent)

    def _exchange(
        self, parent: int, at_s: int, drawn: int, whole: int, lent: Mapping[int, int]
    ) -> None:
        """Find anew what the children of a node borrow from whom."""
        self._flush_exchange(parent, at_s)
        if self.excess[parent] + drawn == 0:
            self.exchange[parent] = {}
            return
        self.exchange[parent] = lending_below(
            self.below[parent],
            self.used,
            self.guaranteed,
            lent,
            drawn=drawn,
            reserve=whole - self.promised[parent],
        )

    def flush_all(self, at_s: int) -> None:
        """Integrate everything until the end of a step."""
        for node in self.since_s:
            self._flush(node, at_s)
        for node in self.exchange:
            self._flush_exchange(node, at_s)
        self._flush_capacity(at_s)

    def _flush_capacity(self, at_s: int) -> None:
        self.capacity[self.step] += self.capacity_mgpu * (at_s - self.capacity_since_s)
        self.capacity_since_s = at_s

    def _flush(self, node: int, at_s: int) -> None:
        since_s = self.since_s.get(node)
        if since_s is None or since_s == at_s:
            return
        seconds = at_s - since_s
        sums = self.sums[node][self.step]
        for level, mgpu in enumerate(self.levels[node]):
            if mgpu:
                sums[level] += mgpu * seconds
        self.since_s[node] = at_s

    def _flush_exchange(self, node: int, at_s: int) -> None:
        seconds = at_s - self.exchange_since_s.get(node, self.start_s)
        self.exchange_since_s[node] = at_s
        sums = self.exchanged.setdefault(node, defaultdict(int))
        for pair, mgpu in self.exchange.get(node, {}).items():
            sums[pair] += mgpu * seconds

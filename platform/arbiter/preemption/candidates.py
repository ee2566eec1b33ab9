"""Attempts that may be stopped for a job, in victim order, sorted only as far as needed (R-55).

Only a few of many candidates are needed, and these are among the first.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from heapq import merge
from itertools import chain
from typing import NamedTuple

from arbiter.cache.pool import Pool
from arbiter.cache.running import Holding
from arbiter.cache.victim_order import VictimKey
from arbiter.quota.tree import ROOT

#: Up to so many candidates are sorted at once.
_FEW = 200
#: Of more candidates one in so many is sorted first, then twice as many each time; the split is
#: estimated from a sample.
_PART_AT_FIRST = 16
_SAMPLE = 64


#: The value of `above` for candidates of a lower priority class, which need no guarantee as a
#: reason.
LOWER = -2


class Candidate(NamedTuple):
    """An attempt that may be stopped; smaller is stopped earlier.

    `above` is the lowest node above it and the job that needs GPUs. It is ROOT between
    organizations, or LOWER. `below` is the child of `above` on its path, the y of R-53.
    """

    key: VictimKey
    above: int
    below: int
    holding: Holding


class InOrder:
    """Candidates in order, shared by all jobs that look for victims in one cycle."""

    __slots__ = ("_part", "_rest", "_sorted")

    def __init__(self, candidates: Iterable[Candidate]) -> None:
        self._rest = list(candidates)
        self._sorted: list[Candidate] = []
        self._part = _PART_AT_FIRST

    def __iter__(self) -> Iterator[Candidate]:
        found = self._sorted
        return iter(found) if not self._rest else self._go_through(found)

    def _go_through(self, found: list[Candidate]) -> Iterator[Candidate]:
        at = 0
        while at < len(found) or self._sort_more():
            # Other iterators may be active at the same time.
            end = len(found)
            yield from found[at:end]
            at = end

    def _sort_more(self) -> bool:
        """Sort a part of the rest; return False when nothing is left."""
        rest = self._rest
        if not rest:
            return False
        if len(rest) > _FEW and self._part > 1:
            keys = sorted(one.key for one in rest[:: len(rest) // _SAMPLE])
            most = keys[len(keys) // self._part]
            self._rest = [one for one in rest if one[0] > most]
            rest = [one for one in rest if one[0] <= most]
            self._part //= 2
        else:
            self._rest = []
        rest.sort()
        self._sorted += rest
        return True


class Borrowers:
    """Attempts and claims by the nodes at which they are not protected.

    It shows the state when the first victim of the cycle was sought.
    """

    __slots__ = ("_by_parent", "_in_order", "_largest", "_pool")

    def __init__(
        self, pool: Pool, alike: Iterable[tuple[tuple[int, int], Collection[Holding]]]
    ) -> None:
        """Group attempts; `alike` has them by team and by the bits of where they are protected."""
        self._pool = pool
        tree = pool.tree
        self._in_order: dict[tuple[int, int], InOrder] = {}
        self._largest: dict[int, int] = {}
        self._by_parent: dict[int, list[tuple[int, Collection[Holding]]]] = {}
        for (team, protected), those in alike:
            for node in tree.paths[team]:
                if not protected >> tree.depths[node] & 1:
                    self._by_parent.setdefault(tree.parents[node], []).append((node, those))

    def at_sisters(self, node: int, parent: int) -> list[Collection[Holding]]:
        """Return the attempts that are not protected at a sister of `node` below `parent`."""
        below = self._by_parent.get(parent, ())
        return [those for child, those in below if child != node]

    def is_any_at_sisters(self, node: int, parent: int) -> bool:
        """Return whether any attempt that is not protected at a sister of `node` keeps running."""
        below = self._by_parent.get(parent, ())
        return any(not one.is_going for child, those in below if child != node for one in those)

    def below(self, parent: int, wanted_mgpu: int) -> InOrder:
        """Return attempts not protected at a child of `parent`, in order for a job of this size.

        Jobs at least as large as the largest of these attempts share one order.
        """
        of_sisters = self._by_parent.get(parent, ())
        largest = self._largest.get(parent)
        if largest is None:
            sizes = (holding.mgpu for _, holdings in of_sisters for holding in holdings)
            largest = self._largest[parent] = max(sizes, default=0)
        mgpu = min(wanted_mgpu, largest)
        found = self._in_order.get((parent, mgpu))
        if found is None:
            key, is_abroad = self._pool.victim_order.key, parent == ROOT
            found = self._in_order[parent, mgpu] = InOrder(
                Candidate(key(holding, mgpu, is_abroad=is_abroad), parent, child, holding)
                for child, holdings in of_sisters
                for holding in holdings
            )
        return found


class Seen:
    """Candidates in order; a lazy source is read at most once."""

    __slots__ = ("_known", "_more")

    def __init__(self, source: Iterable[Candidate]) -> None:
        self._known: list[Candidate] = []
        self._more: Iterator[Candidate] | None = iter(source)

    def __iter__(self) -> Iterator[Candidate]:
        return iter(self._known) if self._more is None else self._go_through()

    def _go_through(self) -> Iterator[Candidate]:
        known, at = self._known, 0
        while True:
            while at < len(known):
                yield known[at]
                at += 1
            one = None if self._more is None else next(self._more, None)
            if one is None:
                self._more = None
                return
            known.append(one)


class Group:
    """Candidates of one right to stop: `everybody` in order, and `near` ones.

    The latter run on nodes that can be cleared at all. The group has at least `at_least`
    candidates.
    """

    __slots__ = ("_attempts", "_may_ask", "at_least", "everybody", "near")

    def __init__(
        self,
        everybody: Seen,
        near: Seen,
        attempts: Sequence[Collection[Holding]],
        may_ask: Callable[[Holding], bool] | None,
        at_least: int,
    ) -> None:
        """Create a group whose candidates are all in `attempts`.

        `may_ask` selects them there; None selects all.
        """
        self.everybody = everybody
        self.near = near
        self._attempts = attempts
        self._may_ask = may_ask
        self.at_least = at_least

    @classmethod
    def of(cls, candidates: Sequence[Candidate]) -> Group:
        """Return a group of these candidates, in order, all of which count as near."""
        every = Seen(candidates)
        return cls(every, every, [[one.holding for one in candidates]], None, len(candidates))

    def holdings(self) -> Iterator[Holding]:
        """Return the attempts and claims of the group, in any order."""
        every = chain.from_iterable(self._attempts)
        return every if self._may_ask is None else filter(self._may_ask, every)


class Asked:
    """All candidates for one job, in `groups` by the node `above` them, without `excluded`."""

    __slots__ = ("_excluded", "_groups", "near")

    def __init__(self, groups: Mapping[int, Group], excluded: Candidate | None = None) -> None:
        self._groups = groups
        self._excluded = excluded
        #: Candidates on nodes that can be cleared.
        self.near = Seen(self._merged([group.near for group in groups.values()]))

    @property
    def aboves(self) -> list[int]:
        """Return the nodes above the groups."""
        return list(self._groups)

    def everybody(self, aboves: Iterable[int] | None = None) -> Iterator[Candidate]:
        """Return all candidates in order, or only those of the groups below these nodes."""
        found = self._groups if aboves is None else aboves
        return self._merged([self._groups[above].everybody for above in found])

    def _merged(self, groups: Sequence[Seen]) -> Iterator[Candidate]:
        every = iter(groups[0]) if len(groups) == 1 else merge(*groups)
        excluded = self._excluded
        return every if excluded is None else (one for one in every if one is not excluded)

    def without(self, aboves: Iterable[int]) -> Asked:
        """Return the candidates of all other groups."""
        left_out = set(aboves)
        return Asked({above: of for above, of in self._groups.items() if above not in left_out})

    def excluding(self, one: Candidate) -> Asked:
        """Return all candidates but this one."""
        return Asked(self._groups, one)

    def gangs_among(self, most: int) -> int | None:
        """Return the number of candidates if they include gangs and are few, else None.

        They are few if they are at most `most`.
        """
        if sum(group.at_least for group in self._groups.values()) > most:
            return None
        every = chain.from_iterable(group.holdings() for group in self._groups.values())
        widths = [len(one.run.slots) for one in every]
        return len(widths) if len(widths) <= most and max(widths, default=1) > 1 else None


class Asker:
    """The job of a team that looks for victims."""

    __slots__ = ("_asked", "_may_ask", "_order", "_team")

    def __init__(
        self,
        may_ask: Callable[[Holding, int, int], bool],
        team: int,
        order: int,
        asked: Iterable[Holding],
    ) -> None:
        """Create the asker of a team with this priority value.

        `may_ask` returns whether the team may stop an attempt. Attempts in `asked` are candidates
        already.
        """
        self._may_ask = may_ask
        self._team = team
        self._order = order
        self._asked = set(map(id, asked))

    @property
    def asked_count(self) -> int:
        """Return how many attempts are candidates already."""
        return len(self._asked)

    def may_ask(self, holding: Holding) -> bool:
        """Return whether an attempt is no candidate yet, and may be stopped."""
        return not (self._asked and id(holding) in self._asked) and self._may_ask(
            holding, self._team, self._order
        )

    def in_order(
        self, borrowers: Borrowers, parent: int, node: int, mgpu: int
    ) -> Iterator[Candidate]:
        """Return allowed candidates in order for a job of `mgpu`.

        These are not protected at a child of `parent` other than `node`.
        """
        for one in borrowers.below(parent, mgpu):
            if one.below != node and self.may_ask(one.holding):
                yield one

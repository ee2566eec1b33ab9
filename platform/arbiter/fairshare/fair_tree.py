"""Fair-share (R-30 to R-33): decayed use, and the order of nodes and users by it.

Use decays by half in each half-life. A use of `mgpu` over [a, b) counts at T as `mgpu` times the
integral of 2^(-(T - s) / half-life) for s from a to b. The integral has a closed form, so there is
no sampling. The unit is millionths of a GPU-second of the reference GPU: milli-GPU-seconds times
the pool's weight per mille.

Among siblings, S is a node's part of the weights, U its part of the use, and S / U its level value.
The largest goes first. Equal nodes count as one node whose children are compared with each other
(Fair Tree, with ties merged as Slurm documents it).

A node's *load* is its use over its part of all weights, that is over the product of S along its
path. Loads order siblings as level values do. They also order cousins if all ancestors are equal
level by level: then the use of their parents is in the same proportion as the parents' parts are.
So Fair Tree with ties merged is the lexicographic order of the loads along the path. Charging a
node never lowers a load.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from math import gcd
from typing import Protocol, TypeVar

from arbiter.api.snapshot import Phase, PriorityClass, RunningJob, Usage
from arbiter.fairshare.decay import (
    AREA_BITS,
    CHARGED_AT_START_S,
    FACTOR_BITS,
    PER_LN2,
    Decay,
    decay_of,
)
from arbiter.quota.tree import ROOT, UNLIMITED, Tree

#: The weight of a GPU in a pool without a weight, per mille.
WEIGHT_OF_REFERENCE = 1_000
#: Fills the levels below a team in an order: at equal loads a team goes before a department.
NO_LEVEL = -1
#: Load of a node without weight: after every other.
_LOAD_MAX = 1 << 4_096


_FoundCo = TypeVar("_FoundCo", covariant=True)


class ByNode(Protocol[_FoundCo]):
    """A value for every tree node."""

    def __getitem__(self, node: int, /) -> _FoundCo: ...


class _ByUser(dict[int, Mapping[str, int]]):
    """The use of each user by team, see `fair_use`; computed for teams when first needed."""

    __slots__ = ("_at", "_half_lives_s", "_starts", "_tree", "_usage", "_weights")

    def __init__(
        self,
        tree: Tree,
        usage: Callable[[str], Iterable[Usage]],
        starts: Starts,
        weights: Mapping[str, int],
        half_lives_s: tuple[int, ...],
        at: int,
    ) -> None:
        super().__init__()
        self._tree = tree
        self._usage = usage
        self._starts = starts
        self._weights = weights
        self._half_lives_s = half_lives_s
        self._at = at

    def __missing__(self, team: int) -> Mapping[str, int]:
        found: dict[str, int] = {}
        decay, weights, at = decay_of(self._half_lives_s[team]), self._weights, self._at
        for row in self._usage(self._tree.ids[team]):
            weight = weights.get(row.pool, WEIGHT_OF_REFERENCE)
            decayed = row.decayed_mgpu_s * weight * decay.factor(at - row.as_of)
            found[row.user] = found.get(row.user, 0) + (decayed >> FACTOR_BITS)
        self._starts.charge(found, team)
        self[team] = found
        return found


class _Hour(dict[int, int]):
    """The charge of a start by node, see `FairUse`; computed when first needed."""

    __slots__ = ("_half_lives_s",)

    def __init__(self, half_lives_s: tuple[int, ...]) -> None:
        super().__init__()
        self._half_lives_s = half_lives_s

    def __missing__(self, node: int) -> int:
        hour = self[node] = decay_of(self._half_lives_s[node]).at_start()
        return hour


class _Below(dict[int, int]):
    """The use of each tree node and all below it, computed when first needed."""

    __slots__ = ("_by_user", "_tree")

    def __init__(self, tree: Tree, by_user: ByNode[Mapping[str, int]]) -> None:
        super().__init__()
        self._tree = tree
        self._by_user = by_user

    def __missing__(self, node: int) -> int:
        by_user, children = self._by_user, self._tree.children
        used = sum(by_user[node].values())
        for child in children.get(node, ()):
            if child in children or child in self:
                used += self[child]
            else:
                self[child] = of_child = sum(by_user[child].values())
                used += of_child
        self[node] = used
        return used


@dataclass(frozen=True, slots=True)
class FairUse:
    """Decayed use of all pools: by tree node, everything below it included, and by team and user.

    `hour[x]` is the charge for the start of one milli-GPU of weight 1 below node x, in 2^-32.
    Organizations may have different half-lives.
    """

    by_node: ByNode[int]
    by_user: ByNode[Mapping[str, int]]
    hour: ByNode[int]
    half_lives_s: tuple[int, ...]


@dataclass(slots=True)
class _Charged:
    """The charge for the starts of one user of a team.

    `worth` is the milli-GPU times the pool's weight of attempts that run. `decayed` is the same
    sum, each times 2^-((end - since) / half-life), in 2^-64, where `end` is that of the `_Block`.
    `fresh` is the worth of attempts that have yet to run.
    """

    worth: int = 0
    decayed: int = 0
    fresh: int = 0


class _Block:
    """The half-life that contains the current time, counted in whole half-lives from time 0.

    Within it, a sum that decays by that half-life is known up to one common factor, whenever its
    parts began. So a sum is updated once per start, and not in each cycle.
    """

    __slots__ = ("_decay", "_end", "_from_end", "_hour_ago", "_now")

    def __init__(self, decay: Decay) -> None:
        self._decay = decay
        self._end = 0
        #: The current area per decayed amount at the end, in 2^-96.
        self._from_end = 0
        self._now, self._hour_ago = decay.area(0), decay.area(CHARGED_AT_START_S)

    def advance(self, at: int) -> bool:
        """Set the current time. Return whether it is in another block than before."""
        decay = self._decay
        since = at % decay.half_life_s
        self._from_end = 2 * decay.factor(since) * decay.half_life_s * PER_LN2
        before, self._end = self._end, at - since + decay.half_life_s
        return before != self._end

    def decayed(self, worth: int, since: int) -> int:
        """Return the value for `decayed` of `_Charged`."""
        return worth * self._decay.factor(self._end - since)

    def charged(self, one: _Charged) -> int:
        """Return the charge: the hour before now, less what was really held of it. Rounded once."""
        area = one.decayed * self._from_end >> 3 * FACTOR_BITS - AREA_BITS
        area -= one.worth * self._hour_ago
        if one.fresh:
            area += one.fresh * (self._now - self._hour_ago)
        return area >> AREA_BITS if area > 0 else 0


def permille(part: int, whole: int) -> int:
    """Return `part` of `whole` per mille, rounded down; 0 of nothing."""
    return 1_000 * part // (whole or 1)


def counted_mgpu(mgpu: int, priority_class: PriorityClass | None) -> int:
    """Return how much of a use counts for fair-share, rounded down (R-115)."""
    return mgpu if priority_class is None else mgpu * priority_class.use_factor_percent // 100


class Starts:
    """Attempts that may still be charged for their start, summed up by team and user.

    The sums are exact, whatever the order of changes. A cycle costs as much as the attempts that
    began, or became too old for the charge, since the last one. Other starts of the last hour cost
    nothing.
    """

    __slots__ = (
        *("_at", "_block_of", "_blocks", "_classes", "_of", "_seconds", "_to_begin", "_to_end"),
        *("_tree", "_weights"),
    )

    def __init__(
        self,
        tree: Tree,
        half_lives_s: Sequence[int],
        weights: Mapping[str, int],
        running: Iterable[RunningJob] = (),
        classes: Mapping[str, PriorityClass] | None = None,
    ) -> None:
        """Take `half_lives_s` as by `half_lives_of`, and `weights` of pools as in `fair_use`.

        `classes` have the factors of use; an unknown class counts as it is.
        """
        self._classes = classes or {}
        self._tree = tree
        self._weights = weights
        blocks = {half_life_s: _Block(decay_of(half_life_s)) for half_life_s in half_lives_s}
        self._blocks = list(blocks.values())
        #: By tree node.
        self._block_of = [blocks[half_life_s] for half_life_s in half_lives_s]
        self._of: dict[int, dict[str, _Charged]] = {}
        #: The worth of attempts that began in the same second, by team and user.
        self._seconds: dict[int, dict[tuple[int, str], int]] = {}
        self._to_begin: list[int] = []
        self._to_end: list[int] = []
        self._at = -UNLIMITED
        for run in running:
            self.add(run)

    def add(self, run: RunningJob) -> None:
        """Add `run`, which holds GPUs."""
        self._count(run, 1)

    def remove(self, run: RunningJob) -> None:
        """Remove `run`, which was added and holds no GPUs any more."""
        self._count(run, -1)

    def _count(self, run: RunningJob, sign: int) -> None:
        team, user, since = self._tree.index.get(run.team), run.user, run.started_at
        is_starting = run.phase is Phase.STARTING
        if team is None or (not is_starting and since <= self._at - CHARGED_AT_START_S):
            return
        of_users = self._of.setdefault(team, {})
        one = of_users.get(user)
        if one is None:
            one = of_users[user] = _Charged()
        mgpu = counted_mgpu(run.mgpu, self._classes.get(run.priority_class))
        worth = sign * mgpu * self._weights.get(run.pool, WEIGHT_OF_REFERENCE)
        if is_starting:
            one.fresh += worth
        else:
            second = self._seconds.get(since)
            if second is None:
                second = self._seconds[since] = {}
                heappush(self._to_end if since <= self._at else self._to_begin, since)
            second[team, user] = second.get((team, user), 0) + worth
            if since > self._at:
                one.fresh += worth
            else:
                one.worth += worth
                one.decayed += self._block_of[team].decayed(worth, since)
        if not one.worth and not one.fresh:
            del of_users[user]

    def advance(self, at: int) -> None:
        """Set the current time, which must not go back, and drop attempts that are too old."""
        to_begin, to_end, last = self._to_begin, self._to_end, at - CHARGED_AT_START_S
        while to_end and to_end[0] <= last:
            since = heappop(to_end)
            self._move(since, self._seconds.pop(since), begun=-1)
        are_others = [block.advance(at) for block in self._blocks]
        if any(are_others):
            for of_users in self._of.values():
                for one in of_users.values():
                    one.worth = one.decayed = 0
            for since in to_end:
                self._move(since, self._seconds[since], begun=1)
        while to_begin and to_begin[0] <= at:
            since = heappop(to_begin)
            if since <= last:
                self._move(since, self._seconds.pop(since), fresh=-1)
            else:
                self._move(since, self._seconds[since], begun=1, fresh=-1)
                heappush(to_end, since)
        self._at = at

    def _move(
        self, since: int, second: Mapping[tuple[int, str], int], *, begun: int = 0, fresh: int = 0
    ) -> None:
        """Move attempts that began in a `second`: add so many times their worth to each sum."""
        for (team, user), worth in second.items():
            if worth:
                one = self._of[team][user]
                one.fresh += fresh * worth
                one.worth += begun * worth
                one.decayed += self._block_of[team].decayed(begun * worth, since)
                if not one.worth and not one.fresh:
                    del self._of[team][user]

    def charge(self, used: dict[str, int], team: int) -> None:
        """Add the current charges of a team's attempts to the use of its users."""
        of_users = self._of.get(team)
        if of_users:
            charged = self._block_of[team].charged
            for user, one in of_users.items():
                used[user] = used.get(user, 0) + charged(one)


def half_lives_of(tree: Tree, half_life_s: int) -> tuple[int, ...]:
    """Return the half-life of each node's organization, or `half_life_s` without one."""
    return tuple(tree.given[path[-1]].half_life_s or half_life_s for path in tree.paths)


def fair_use(
    tree: Tree,
    *,
    usage: Callable[[str], Iterable[Usage]],
    starts: Starts,
    weights: Mapping[str, int],
    half_lives_s: tuple[int, ...],
    at: int,
) -> FairUse:
    """Return the use of teams as it counts at `at`, with the charges of `starts`.

    It is computed for teams and nodes when first needed. `weights` are of pools, per mille, 1000 by
    default. `half_lives_s` is as by `half_lives_of`.
    """
    starts.advance(at)
    by_user = _ByUser(tree, usage, starts, weights, half_lives_s, at)
    return FairUse(_Below(tree, by_user), by_user, _Hour(half_lives_s), half_lives_s)


class Parts:
    """The part of all weights that each node of one pool has, as exact fractions.

    `weights` are the nodes' weights for spare GPUs. Organizations are compared by use over
    half-life, that is by their average use over their own half-life. So a short half-life gives no
    advantage.
    """

    __slots__ = ("over", "scale_bits", "under", "weights")

    def __init__(self, tree: Tree, weights: Sequence[int], half_lives_s: Sequence[int]) -> None:
        self.weights = [max(0, weight) for weight in weights]
        compared = [
            weight * half_lives_s[node] if tree.parents[node] == ROOT else weight
            for node, weight in enumerate(self.weights)
        ]
        of_children: dict[int, int] = {}
        for node, parent in enumerate(tree.parents):
            of_children[parent] = of_children.get(parent, 0) + compared[node]
        # A node's part of all weights is under / over, reduced; 0 / 1 where it has none.
        over: list[int] = []
        under: list[int] = []
        for node, parent in enumerate(tree.parents):
            part = compared[node] if parent == ROOT else compared[node] * under[parent]
            of = of_children[parent] if parent == ROOT else of_children[parent] * over[parent]
            common = gcd(part, of) or 1
            under.append(part // common)
            over.append(of // common if part else 1)
        self.over, self.under = over, under
        self.scale_bits = 2 * max((value.bit_length() for value in under), default=0)


class _Loads(dict[int, int]):
    """The load of each tree node: an integer that orders like the exact fraction.

    It is equal for equal fractions: two fractions over u and v differ by 1 / uv at least.
    """

    __slots__ = ("_charged", "_parts", "_use")

    def __init__(self, parts: Parts, use: FairUse, charged: Mapping[int, int]) -> None:
        super().__init__()
        self._parts = parts
        self._use = use
        self._charged = charged

    def __missing__(self, node: int) -> int:
        parts = self._parts
        under = parts.under[node]
        load = _LOAD_MAX
        if under:
            used = self._use.by_node[node] + self._charged.get(node, 0)
            load = (used * parts.over[node] << parts.scale_bits) // under
        self[node] = load
        return load


class FairShares:
    """The fair-share order of the nodes and users of one pool; starts are charged at once.

    Values are computed when first needed. `loads` are by node.
    """

    __slots__ = (
        *("_charged", "_charged_users", "_pool_weight", "_use"),
        *("loads", "tree", "weights"),
    )

    def __init__(
        self,
        tree: Tree,
        weights: Sequence[int],
        use: FairUse,
        *,
        pool_weight: int = WEIGHT_OF_REFERENCE,
        parts: Parts | None = None,
    ) -> None:
        """Take `parts` of the same tree, weights and half-lives, if these are known already."""
        if parts is None:
            parts = Parts(tree, weights, use.half_lives_s)
        self.tree = tree
        self.weights = parts.weights
        self._use = use
        self._pool_weight = pool_weight
        self._charged: dict[int, int] = {}
        self._charged_users: dict[tuple[int, str], int] = {}
        self.loads = _Loads(parts, use, self._charged)

    def used(self, node: int) -> int:
        """Return the use below a node."""
        return self._use.by_node[node] + self._charged.get(node, 0)

    def order(self, team: int) -> tuple[int, ...]:
        """Return the sort key of a team in Fair Tree: the smallest first, equal ones are tied."""
        tree, loads = self.tree, self.loads
        pads = (NO_LEVEL,) * (tree.depth_max - tree.depths[team])
        return (*(loads[node] for node in reversed(tree.paths[team])), *pads)

    def of_user(self, team: int, user: str) -> int:
        """Return the use of a user of a team.

        The user with the least goes first, because all users of a team have equal shares of it.
        """
        used = self._use.by_user[team].get(user, 0)
        return used + self._charged_users.get((team, user), 0)

    def charge_start(self, team: int, user: str, mgpu: int) -> None:
        """Charge a start for its first hour."""
        amount = mgpu * (self._use.hour[team] * self._pool_weight) >> AREA_BITS
        by_user, charged = self._charged_users, self._charged
        by_user[team, user] = by_user.get((team, user), 0) + amount
        for node in self.tree.paths[team]:
            charged[node] = charged.get(node, 0) + amount
            self.loads.pop(node, None)

    def of_children(self, parent: int) -> tuple[int, int]:
        """Return the weight and the use of all nodes right below `parent` (ROOT: organizations)."""
        children = self.tree.children[parent]
        return (
            sum(self.weights[child] for child in children),
            sum(self.used(child) for child in children),
        )

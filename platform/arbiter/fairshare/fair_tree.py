"""Fair-share (R-30 to R-33): decayed use, and where it puts nodes and users.

Use decays by half in each half-life: what was held `mgpu` over [a, b) counts at T as `mgpu` times
the integral of 2^(-(T - s) / half-life) for s from a to b, which has a closed form; nothing is
sampled. It is counted in millionths of a GPU-second of the reference GPU: milli-GPU-seconds times
the pool's weight per mille.

Among siblings, S is a node's part of the weights, U its part of the use, S / U its level value;
the largest goes first, and equal ones are as one node whose children are compared with each other
(Fair Tree, with ties merged as Slurm documents it). A node's *load* is its use over its part
of all weights, that is over the product of S along its path. Loads order siblings as level values
do. Where all ancestors are equal level by level, loads of cousins do so too: then the use of their
parents is in the same proportion as the parents' parts are. So Fair Tree with ties merged is the
lexicographic order of the loads along the path, and charging a node never lowers a load.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from math import gcd
from typing import Protocol, TypeVar

from arbiter.api.snapshot import Phase, RunningJob, Usage
from arbiter.fairshare.decay import (
    AREA_BITS,
    CHARGED_AT_START_S,
    FACTOR_BITS,
    PER_LN2,
    Decay,
    decay_of,
)
from arbiter.quota.tree import ROOT, UNLIMITED, Tree

#: Worth of a GPU of a pool that is given no weight, per mille.
WEIGHT_OF_REFERENCE = 1_000
#: Stands in an order for the levels below a team: level with a department, a team goes first.
NO_LEVEL = -1
#: Load of a node without weight: after every other.
_LOAD_MAX = 1 << 4_096


_FoundCo = TypeVar("_FoundCo", covariant=True)


class ByNode(Protocol[_FoundCo]):
    """Has something for every tree node."""

    def __getitem__(self, node: int, /) -> _FoundCo: ...


class _ByUser(dict[int, Mapping[str, int]]):
    """By team what its users have used, see `fair_use`; worked out for those that somebody asks
    for."""

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
    """See `FairUse`; worked out for those that somebody asks for."""

    __slots__ = ("_half_lives_s",)

    def __init__(self, half_lives_s: tuple[int, ...]) -> None:
        super().__init__()
        self._half_lives_s = half_lives_s

    def __missing__(self, node: int) -> int:
        hour = self[node] = decay_of(self._half_lives_s[node]).at_start()
        return hour


class _Below(dict[int, int]):
    """By tree node what all below it have used, worked out for those that somebody asks for."""

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

    `hour[x]` is what one milli-GPU of weight 1 is charged at its start below node x, in
    2^-32: organizations may have different half-lives.
    """

    by_node: ByNode[int]
    by_user: ByNode[Mapping[str, int]]
    hour: ByNode[int]
    half_lives_s: tuple[int, ...]


@dataclass(slots=True)
class _Charged:
    """What is charged for their start of the attempts of one user of a team, by what they are
    `worth`: milli-GPU times the pool's weight. `decayed` is the same of those that run, each times
    2^-((end - since) / half-life), in 2^-64, where `end` is that of the `_Block`. `fresh` is what
    those are worth that have yet to run."""

    worth: int = 0
    decayed: int = 0
    fresh: int = 0


class _Block:
    """The half-life that a moment lies in, when they are counted from moment 0 on. In it what
    decays by that half-life is known up to one factor, the same for everything, whenever it began:
    so that a sum is put right for each start once, and not in each cycle."""

    __slots__ = ("_decay", "_end", "_from_end", "_hour_ago", "_now")

    def __init__(self, decay: Decay) -> None:
        self._decay = decay
        self._end = 0
        #: An area now over what has decayed until the end, in 2^-96.
        self._from_end = 0
        self._now, self._hour_ago = decay.area(0), decay.area(CHARGED_AT_START_S)

    def advance(self, at: int) -> bool:
        """It is `at` now. Whether that is in another block than before."""
        decay = self._decay
        since = at % decay.half_life_s
        self._from_end = 2 * decay.factor(since) * decay.half_life_s * PER_LN2
        before, self._end = self._end, at - since + decay.half_life_s
        return before != self._end

    def decayed(self, worth: int, since: int) -> int:
        """See `_Charged`."""
        return worth * self._decay.factor(self._end - since)

    def charged(self, one: _Charged) -> int:
        """What is charged: the hour before now, less what was really held of it. Rounded once."""
        area = one.decayed * self._from_end >> 3 * FACTOR_BITS - AREA_BITS
        area -= one.worth * self._hour_ago
        if one.fresh:
            area += one.fresh * (self._now - self._hour_ago)
        return area >> AREA_BITS if area > 0 else 0


class Starts:
    """Attempts that may still be charged for their start, summed up by team and user. The sums are
    exact and the same in whatever order they were told, and cost a cycle what began or became too
    old for that since the one before, and not what has started within the hour."""

    __slots__ = (
        *("_at", "_block_of", "_blocks", "_of", "_seconds", "_to_begin", "_to_end", "_tree"),
        "_weights",
    )

    def __init__(
        self,
        tree: Tree,
        half_lives_s: Sequence[int],
        weights: Mapping[str, int],
        running: Iterable[RunningJob] = (),
    ) -> None:
        """`half_lives_s` as by `half_lives_of`; `weights` of pools as in `fair_use`."""
        self._tree = tree
        self._weights = weights
        blocks = {half_life_s: _Block(decay_of(half_life_s)) for half_life_s in half_lives_s}
        self._blocks = list(blocks.values())
        #: By tree node.
        self._block_of = [blocks[half_life_s] for half_life_s in half_lives_s]
        self._of: dict[int, dict[str, _Charged]] = {}
        #: What those are worth who began in the same second, by team and user.
        self._seconds: dict[int, dict[tuple[int, str], int]] = {}
        self._to_begin: list[int] = []
        self._to_end: list[int] = []
        self._at = -UNLIMITED
        for run in running:
            self.add(run)

    def add(self, run: RunningJob) -> None:
        """`run` holds GPUs."""
        self._count(run, 1)

    def remove(self, run: RunningJob) -> None:
        """`run`, which was added, holds none any more."""
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
        worth = sign * run.mgpu * self._weights.get(run.pool, WEIGHT_OF_REFERENCE)
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
        """It is `at` now, and never before that again. Who has become too old is forgotten."""
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
        """Count those who began in a `second` so many times more among those that have `begun`, and
        those yet to run."""
        for (team, user), worth in second.items():
            if worth:
                one = self._of[team][user]
                one.fresh += fresh * worth
                one.worth += begun * worth
                one.decayed += self._block_of[team].decayed(begun * worth, since)
                if not one.worth and not one.fresh:
                    del self._of[team][user]

    def charge(self, used: dict[str, int], team: int) -> None:
        """Add to what the users of a team have `used` what its attempts are charged now."""
        of_users = self._of.get(team)
        if of_users:
            charged = self._block_of[team].charged
            for user, one in of_users.items():
                used[user] = used.get(user, 0) + charged(one)


def half_lives_of(tree: Tree, half_life_s: int) -> tuple[int, ...]:
    """The half-life of each node's organization, `half_life_s` where that has none."""
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
    """Sum up the `usage` of teams as it counts at `at`, and what `starts` are charged then: of
    those who are asked for, and when they are.

    `weights`: of pools, per mille, 1000 for those not named; `half_lives_s` as by `half_lives_of`.
    """
    starts.advance(at)
    by_user = _ByUser(tree, usage, starts, weights, half_lives_s, at)
    return FairUse(_Below(tree, by_user), by_user, _Hour(half_lives_s), half_lives_s)


class Parts:
    """What part of all weights each node of one pool has, as exact fractions.

    `weights`: each node's weight for spare GPUs. Organizations are compared by use over
    half-life, that is by what they held on average over their own memory: a short half-life makes
    nobody look lighter.
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
    """By tree node use over the node's part of all weights: an integer that orders like the
    fraction, equal for equal ones (two fractions over u and v differ by 1 / uv at least)."""

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
    """Where the nodes and users of one pool stand; what starts is charged at once.

    Of whom nobody asks for nothing is worked out; `loads` are by node.
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
        """`parts` of the same tree, weights and half-lives, where they are known already."""
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
        """What has been used below a node."""
        return self._use.by_node[node] + self._charged.get(node, 0)

    def order(self, team: int) -> tuple[int, ...]:
        """Orders teams as Fair Tree does: the smallest goes first, equal ones are tied."""
        tree, loads = self.tree, self.loads
        pads = (NO_LEVEL,) * (tree.depth_max - tree.depths[team])
        return (*(loads[node] for node in reversed(tree.paths[team])), *pads)

    def of_user(self, team: int, user: str) -> int:
        """What a user of a team has used; the least goes first among the team's users, who
        all have the same share of it."""
        used = self._use.by_user[team].get(user, 0)
        return used + self._charged_users.get((team, user), 0)

    def charge_start(self, team: int, user: str, mgpu: int) -> None:
        """Charge what starts now for its first hour."""
        amount = mgpu * (self._use.hour[team] * self._pool_weight) >> AREA_BITS
        by_user, charged = self._charged_users, self._charged
        by_user[team, user] = by_user.get((team, user), 0) + amount
        for node in self.tree.paths[team]:
            charged[node] = charged.get(node, 0) + amount
            self.loads.pop(node, None)

    def of_children(self, parent: int) -> tuple[int, int]:
        """The weight and the use of all nodes right below `parent` (ROOT: all organizations)."""
        children = self.tree.children[parent]
        return (
            sum(self.weights[child] for child in children),
            sum(self.used(child) for child in children),
        )

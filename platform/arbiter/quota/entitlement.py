"""Protected and borrowed jobs (R-15 to R-17): before a cycle those of the teams of which
anything changed are classed anew, and those at all nodes above them.

A job fits in what is left of a node's guarantee by the arithmetic of starts: what the node holds
with the jobs that are protected at it, and no others, stays within G. What a node below it keeps
for itself is held whether or not somebody uses it, so a sister's job cannot be protected on it.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from arbiter.quota.ledger import Ledger
from arbiter.quota.tree import ROOT, PoolQuota, Tree


@dataclass(slots=True, eq=False)
class Guarantees:
    """How much of each node's guarantee is taken by the jobs that are protected at it.

    `used_mgpu[x]` is what those of x use. `ledgers[d]` counts those of all nodes of depth d, and
    there are none where nobody keeps anything; further up than d what it says is of no meaning, nor
    is it in an organization where nothing is kept: there `used_mgpu` is what is held.
    """

    tree: Tree
    quota: PoolQuota
    used_mgpu: list[int]
    ledgers: list[Ledger]

    def copy(self) -> Guarantees:
        """The same, independent of this one."""
        ledgers = [ledger.copy() for ledger in self.ledgers]
        return Guarantees(self.tree, self.quota, self.used_mgpu.copy(), ledgers)

    def fits(self, node: int, team: int, mgpu: int) -> bool:
        """Whether a job of `team`, at or below `node`, fits whole in what is left there.

        As with starts, one that leaves what the node holds as it was may be protected even
        where more is held than guaranteed: where G was lowered below what its children keep.
        """
        guaranteed = self.quota.guaranteed[node]
        if self.used_mgpu[node] + mgpu > guaranteed:
            return False
        if not self.quota.keeps_below[node]:
            return True
        ledger = self.ledgers[self.tree.depths[node]]
        return ledger.holds_with(node, team, mgpu) <= max(guaranteed, ledger.held[node])

    def protect(self, team: int, mgpu: int) -> None:
        """Count a job of `team` as protected at all nodes of its path in which it fits so."""
        used, guaranteed, keeps = self.used_mgpu, self.quota.guaranteed, self.quota.keeps_below
        path = self.tree.paths[team]
        is_kept = keeps[path[-1]]
        for node in path:
            if used[node] + mgpu <= guaranteed[node]:
                if not is_kept:
                    used[node] += mgpu
                elif not keeps[node] or self.fits(node, team, mgpu):
                    self.take(node, team, mgpu)

    def take(self, node: int, team: int, mgpu: int) -> None:
        """Count a job of `team` as protected at `node`; a negative amount gives it back."""
        self.used_mgpu[node] += mgpu
        if self.quota.keeps_below[self.tree.paths[node][-1]]:
            self.ledgers[self.tree.depths[node]].charge(team, mgpu)


#: Priority (negative), start time, job, attempt: the order in which jobs are protected.
Turn = tuple[int, int, str, str]


class Contender(NamedTuple):
    """A job that is to be classed, which begins with its turn (see `Turn`): they sort by these, of
    which no two are alike. `what` is known by its identity or value, and by nothing else here."""

    minus_order: int
    started_at: int
    job: str
    attempt: str
    team: int
    mgpu: int
    what: Hashable


class Fitted(NamedTuple):
    """The `others` do not fit in `guaranteed` beside those before them, which take `mgpu`."""

    guaranteed: int
    mgpu: int
    others: list[Contender]


@dataclass(slots=True, eq=False)
class TeamJobs:
    """What is to be classed of one team, in order, and how much that is in all."""

    jobs: list[Contender] = field(default_factory=list)
    mgpu: int = 0
    #: Most teams have the same jobs in cycle after cycle: what was found for them last.
    _fitted: Fitted | None = None

    def add(self, job: Contender) -> None:
        """Put `job` in its place."""
        insort(self.jobs, job)
        self.mgpu += job.mgpu
        self._fitted = None

    def remove(self, turn: Turn) -> None:
        """Take the job of this turn out."""
        at = bisect_left(self.jobs, turn)
        self.mgpu -= self.jobs.pop(at).mgpu
        self._fitted = None

    def fitted(self, guaranteed: int) -> Fitted:
        """Which jobs do not fit in `guaranteed`, where nobody else is protected on it."""
        found = self._fitted
        if found is None or found.guaranteed != guaranteed:
            left = guaranteed
            others: list[Contender] = []
            if self.mgpu <= guaranteed:
                left -= self.mgpu
            else:
                for job in self.jobs:
                    if job.mgpu <= left:
                        left -= job.mgpu
                    else:
                        others.append(job)
            found = self._fitted = Fitted(guaranteed, guaranteed - left, others)
        return found

    def copy(self) -> TeamJobs:
        """The same, independent of this one."""
        return TeamJobs(self.jobs.copy(), self.mgpu)


def with_changed(teams: Mapping[int, TeamJobs], those: Iterable[int]) -> dict[int, TeamJobs]:
    """`teams`, where `those` can be changed without a change of the others."""
    changed = dict(teams)
    for team in those:
        known = changed.get(team)
        changed[team] = TeamJobs() if known is None else known.copy()
    return changed


class Protection:
    """How jobs are classed, kept node by node: what those of one organization are does not depend
    on those of another.

    `taken` is what that takes of the guarantees. `unprotected` has, by node, those jobs at or below
    it that are not protected there, where there are any; the lists are replaced and never changed.
    """

    __slots__ = ("taken", "unprotected")

    def __init__(self, taken: Guarantees, unprotected: dict[int, list[Contender]]) -> None:
        self.taken = taken
        self.unprotected = unprotected

    @classmethod
    def of_nobody(cls, tree: Tree, quota: PoolQuota) -> Protection:
        """Nobody has jobs."""
        size, is_any_kept = len(tree.ids), any(quota.keeps_below)
        ledgers = [
            Ledger(tree, quota, 0, [0] * size)
            for _ in range(tree.depth_max + 1 if is_any_kept else 0)
        ]
        return cls(Guarantees(tree, quota, [0] * size, ledgers), {})

    def copy(self) -> Protection:
        """The same, independent of this one."""
        return Protection(self.taken.copy(), self.unprotected.copy())

    def redo(self, teams: Mapping[int, TeamJobs], changed: Iterable[int]) -> Collection[int]:
        """Class the jobs anew at `changed` teams and at all nodes above, as `teams` has them now;
        returns the nodes at which that was done.

        At each node the jobs below it are taken in the order (protected one level lower first,
        then that of their turns) and marked protected whenever they fit whole in what is left of
        the guarantee; one that does not fit does not stop the ones behind it. Where something is
        kept in an organization, all of it is done: what is kept of one depth counts at all others.
        """
        tree, keeps_below = self.taken.tree, self.taken.quota.keeps_below
        nodes, keeping = set[int](), set[int]()
        for team in changed:
            path = tree.paths[team]
            if keeps_below[path[-1]]:
                keeping.add(path[-1])
            else:
                nodes.update(path)
        for node in sorted(nodes, reverse=True):
            if node in tree.children:
                self._class(teams, node)
            else:
                self._class_alone(teams.get(node), node)
        for organization in keeping:
            self._class_keeping(teams, tree.below[organization])
            nodes.update(tree.below[organization])
        return nodes

    def _class_keeping(self, teams: Mapping[int, TeamJobs], nodes: Sequence[int]) -> None:
        """Class the jobs of an organization in which something is kept, whose nodes these are."""
        depths, ledgers = self.taken.tree.depths, self.taken.ledgers
        depth = depths[nodes[0]]
        _clear(ledgers[depth], nodes)
        for node in nodes:
            if depths[node] < depth:
                # What is protected one level lower is so here too, unless G is too small for it.
                depth = depths[node]
                _carry_over(ledgers[depth + 1], ledgers[depth], nodes)
            if node in self.taken.tree.children:
                self._class(teams, node)
            else:
                self._class_alone(teams.get(node), node)
                ledgers[depth].charge(node, self.taken.used_mgpu[node])

    def _class_alone(self, own: TeamJobs | None, node: int) -> None:
        """Class the jobs at a node with nothing below."""
        guaranteed = self.taken.quota.guaranteed[node]
        if own is None or own.mgpu <= guaranteed:
            self.taken.used_mgpu[node] = 0 if own is None else own.mgpu
            self.unprotected.pop(node, None)
        else:
            _, self.taken.used_mgpu[node], self.unprotected[node] = own.fitted(guaranteed)

    def _class(self, teams: Mapping[int, TeamJobs], node: int) -> None:
        """Class the jobs at one node, when those below it are."""
        taken, unprotected = self.taken, self.unprotected
        tree, quota, used = taken.tree, taken.quota, taken.used_mgpu
        own, children, guaranteed = teams.get(node), tree.children[node], quota.guaranteed[node]
        is_kept = quota.keeps_below[tree.paths[node][-1]]
        used[node] = sum([used[child] for child in children])
        tried: list[Contender] = []
        for child in children:
            if child in unprotected:
                tried += unprotected[child]
        held = taken.ledgers[tree.depths[node]].held if is_kept else used
        again = self._below(teams, node, tried) if held[node] > guaranteed else []
        for job in again:
            taken.take(node, job.team, -job.mgpu)
        if own is not None:
            if tried or again or used[node] + own.mgpu > guaranteed or quota.keeps_below[node]:
                tried += own.jobs
            else:
                taken.take(node, node, own.mgpu)
        fits = taken.fits if quota.keeps_below[node] else None
        left = guaranteed - used[node]
        # Where all fit whatever the order, nobody has to know it: half of all nodes in a full pool.
        if fits is not None or again or sum([job.mgpu for job in tried]) > left:
            tried.sort()
        others: list[Contender] = []
        for job in (*again, *tried) if again else tried:
            team, mgpu = job.team, job.mgpu
            if mgpu <= left if fits is None else fits(node, team, mgpu):
                left -= mgpu
                if is_kept:
                    taken.take(node, team, mgpu)
            else:
                others.append(job)
        if not is_kept:
            used[node] = guaranteed - left
        if others:
            unprotected[node] = others
        else:
            unprotected.pop(node, None)

    def _below(
        self, teams: Mapping[int, TeamJobs], node: int, others: Iterable[Contender]
    ) -> list[Contender]:
        """All jobs below `node` but for the `others`, in order."""
        paths, left_out = self.taken.tree.paths, {job.what for job in others}
        return sorted(
            job
            for team, own in teams.items()
            if team != node and node in paths[team]
            for job in own.jobs
            if job.what not in left_out
        )


def _clear(ledger: Ledger, nodes: Sequence[int]) -> None:
    """Nothing is in use at any of `nodes`, which are those of an organization, the lowest first."""
    base, held, kept, parents = ledger.base, ledger.held, ledger.quota.kept, ledger.tree.parents
    for node in nodes:
        base[node] = 0
    for node in nodes:
        held[node] = max(base[node], kept[node])
        if parents[node] != ROOT:
            base[parents[node]] += held[node]


def _carry_over(before: Ledger, after: Ledger, nodes: Iterable[int]) -> None:
    """At each of `nodes` `after` is to say what `before` does."""
    for node in nodes:
        after.base[node], after.held[node] = before.base[node], before.held[node]

"""Protected and borrowed jobs (R-15 to R-17).

Before a cycle the jobs of changed teams are classed again, and those at all nodes above them.

A job fits in what is left of a node's guarantee by the same arithmetic as a start. The node, with
only the jobs that are protected at it, must not hold more than its guarantee G. Unlent quota of a
node below is held whether or not it is used, so no sister's job can be protected on it.
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
    """The part of each node's guarantee that jobs protected at it take.

    `used_mgpu[x]` is the use of the jobs protected at x. `ledgers[d]` counts the jobs protected at
    nodes of depth d. There are no ledgers if no node keeps unlent quota. The values of a ledger
    above depth d have no meaning, nor do those in an organization without unlent quota. There
    `used_mgpu` is what a node holds.
    """

    tree: Tree
    quota: PoolQuota
    used_mgpu: list[int]
    ledgers: list[Ledger]

    def copy(self) -> Guarantees:
        """Return an independent copy."""
        ledgers = [ledger.copy() for ledger in self.ledgers]
        return Guarantees(self.tree, self.quota, self.used_mgpu.copy(), ledgers)

    def fits(self, node: int, team: int, mgpu: int) -> bool:
        """Return whether a job of `team`, at or below `node`, fits whole in what is left there.

        As with starts, a job that does not change what the node holds may be protected even if the
        node holds more than its guarantee. This happens if G was lowered below what its children
        keep.
        """
        guaranteed = self.quota.guaranteed[node]
        if self.used_mgpu[node] + mgpu > guaranteed:
            return False
        if not self.quota.keeps_below[node]:
            return True
        ledger = self.ledgers[self.tree.depths[node]]
        return ledger.holds_with(node, team, mgpu) <= max(guaranteed, ledger.held[node])

    def protect(self, team: int, mgpu: int) -> None:
        """Count a job of `team` as protected at all nodes of its path in which it fits."""
        used, guaranteed, keeps = self.used_mgpu, self.quota.guaranteed, self.quota.keeps_below
        path = self.tree.paths[team]
        has_unlent = keeps[path[-1]]
        for node in path:
            if used[node] + mgpu <= guaranteed[node]:
                if not has_unlent:
                    used[node] += mgpu
                elif not keeps[node] or self.fits(node, team, mgpu):
                    self.take(node, team, mgpu)

    def take(self, node: int, team: int, mgpu: int) -> None:
        """Count a job of `team` as protected at `node`; a negative amount removes it."""
        self.used_mgpu[node] += mgpu
        if self.quota.keeps_below[self.tree.paths[node][-1]]:
            self.ledgers[self.tree.depths[node]].charge(team, mgpu)


#: Minus the priority value, start time, job, attempt: the order in which jobs are protected.
ProtectionKey = tuple[int, int, str, str]


class Contender(NamedTuple):
    """A job to be classed. It begins with its unique `ProtectionKey`, which sorts contenders.

    `what` identifies the job and has no other meaning here.
    """

    minus_order: int
    started_at: int
    job: str
    attempt: str
    team: int
    mgpu: int
    what: Hashable


class Fitted(NamedTuple):
    """The jobs (`others`) that do not fit in `guaranteed`; the other jobs take `mgpu`."""

    guaranteed: int
    mgpu: int
    others: list[Contender]


@dataclass(slots=True, eq=False)
class TeamJobs:
    """The jobs of one team to be classed, in order, and their sum in milli-GPU."""

    jobs: list[Contender] = field(default_factory=list)
    mgpu: int = 0
    #: The last result: most teams have the same jobs cycle after cycle.
    _fitted: Fitted | None = None

    def add(self, job: Contender) -> None:
        """Insert `job` in order."""
        insort(self.jobs, job)
        self.mgpu += job.mgpu
        self._fitted = None

    def remove(self, protection_key: ProtectionKey) -> None:
        """Remove the job with this position in the order of protection."""
        at = bisect_left(self.jobs, protection_key)
        self.mgpu -= self.jobs.pop(at).mgpu
        self._fitted = None

    def fitted(self, guaranteed: int) -> Fitted:
        """Return which jobs do not fit in `guaranteed`, if only this team is protected on it."""
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
        """Return an independent copy."""
        return TeamJobs(self.jobs.copy(), self.mgpu)


def with_changed(teams: Mapping[int, TeamJobs], changing: Iterable[int]) -> dict[int, TeamJobs]:
    """Return `teams`, with copies of the `changing` ones that are safe to change."""
    changed = dict(teams)
    for team in changing:
        known = changed.get(team)
        changed[team] = TeamJobs() if known is None else known.copy()
    return changed


class Protection:
    """The classes of jobs, node by node; those of one organization do not depend on another's.

    `taken` is the protected use of the guarantees. `unprotected` has, by node, the jobs at or below
    it that are not protected there, if there are any. Its lists are replaced and never modified.
    """

    __slots__ = ("taken", "unprotected")

    def __init__(self, taken: Guarantees, unprotected: dict[int, list[Contender]]) -> None:
        self.taken = taken
        self.unprotected = unprotected

    @classmethod
    def of_nobody(cls, tree: Tree, quota: PoolQuota) -> Protection:
        """Return the protection without any jobs."""
        size, is_any_unlent = len(tree.ids), any(quota.keeps_below)
        ledgers = [
            Ledger(tree, quota, 0, [0] * size)
            for _ in range(tree.depth_max + 1 if is_any_unlent else 0)
        ]
        return cls(Guarantees(tree, quota, [0] * size, ledgers), {})

    def copy(self) -> Protection:
        """Return an independent copy."""
        return Protection(self.taken.copy(), self.unprotected.copy())

    def redo(self, teams: Mapping[int, TeamJobs], changed: Iterable[int]) -> Collection[int]:
        """Class the jobs of `changed` teams again at all nodes above; return these nodes.

        `teams` has the current jobs. At each node the jobs below it are taken in order: jobs
        protected one level lower first, then by their turns. Each is protected if it fits whole in
        what is left of the guarantee. One that does not fit does not stop the next ones. In an
        organization with unlent quota all jobs are classed again, because unlent quota of one depth
        counts at all others.
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
        """Class the jobs of an organization with unlent quota; `nodes` are all its nodes."""
        depths, ledgers = self.taken.tree.depths, self.taken.ledgers
        depth = depths[nodes[0]]
        _clear(ledgers[depth], nodes)
        for node in nodes:
            if depths[node] < depth:
                # Jobs protected one level lower are protected here too, unless G is too small for
                # them.
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
        """Class the jobs at one node, after those at all nodes below it."""
        taken, unprotected = self.taken, self.unprotected
        tree, quota, used = taken.tree, taken.quota, taken.used_mgpu
        own, children, guaranteed = teams.get(node), tree.children[node], quota.guaranteed[node]
        has_unlent = quota.keeps_below[tree.paths[node][-1]]
        used[node] = sum([used[child] for child in children])
        tried: list[Contender] = []
        for child in children:
            if child in unprotected:
                tried += unprotected[child]
        held = taken.ledgers[tree.depths[node]].held if has_unlent else used
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
        # If all jobs fit in any order, the order is not needed. That is half of all nodes in a full
        # pool.
        if fits is not None or again or sum([job.mgpu for job in tried]) > left:
            tried.sort()
        others: list[Contender] = []
        for job in (*again, *tried) if again else tried:
            team, mgpu = job.team, job.mgpu
            if mgpu <= left if fits is None else fits(node, team, mgpu):
                left -= mgpu
                if has_unlent:
                    taken.take(node, team, mgpu)
            else:
                others.append(job)
        if not has_unlent:
            used[node] = guaranteed - left
        if others:
            unprotected[node] = others
        else:
            unprotected.pop(node, None)

    def _below(
        self, teams: Mapping[int, TeamJobs], node: int, others: Iterable[Contender]
    ) -> list[Contender]:
        """Return all jobs below `node` in order, without the `others`."""
        paths, left_out = self.taken.tree.paths, {job.what for job in others}
        return sorted(
            job
            for team, own in teams.items()
            if team != node and node in paths[team]
            for job in own.jobs
            if job.what not in left_out
        )


def _clear(ledger: Ledger, nodes: Sequence[int]) -> None:
    """Set the use of all nodes of an organization to 0; `nodes` are the lowest first."""
    base, held, unlent, parents = ledger.base, ledger.held, ledger.quota.unlent, ledger.tree.parents
    for node in nodes:
        base[node] = 0
    for node in nodes:
        held[node] = max(base[node], unlent[node])
        if parents[node] != ROOT:
            base[parents[node]] += held[node]


def _carry_over(before: Ledger, after: Ledger, nodes: Iterable[int]) -> None:
    """Copy the values of `nodes` from ledger `before` to ledger `after`."""
    for node in nodes:
        after.base[node], after.held[node] = before.base[node], before.held[node]

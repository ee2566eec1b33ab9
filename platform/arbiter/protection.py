"""Protected and borrowed jobs (semantics section 3): those of an organization are classed anew for
every cycle before which anything of it changed.

A job fits in what is left of a node's guarantee by the arithmetic of starts: what the node holds
with the jobs that are protected at it, and no others, stays within G. What a node below it keeps
for itself is held whether or not somebody uses it, so a sister's job cannot be protected on it.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from arbiter.quota_tree import ROOT, Ledger, PoolQuota, Tree


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

    def take(self, node: int, team: int, mgpu: int) -> None:
        """Count a job of `team` as protected at `node`; a negative amount gives it back."""
        self.used_mgpu[node] += mgpu
        if self.quota.keeps_below[self.tree.paths[node][-1]]:
            self.ledgers[self.tree.depths[node]].charge(team, mgpu)


#: Priority (negative), start time, job, attempt: the order in which jobs are protected.
Turn = tuple[int, int, str, str]


class Contender(NamedTuple):
    """A job that is to be classed; they sort by their turns, of which no two are alike. `what` is
    known by its identity or value, and by nothing else here."""

    turn: Turn
    team: int
    mgpu: int
    what: Hashable


class Fitted(NamedTuple):
    """The `others` do not fit in `guaranteed` beside those before them, which take `mgpu`; `whats`
    are what they are."""

    guaranteed: int
    mgpu: int
    others: list[Contender]
    whats: list[Hashable]


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
        at = bisect_left(self.jobs, (turn,))
        self.mgpu -= self.jobs.pop(at).mgpu
        self._fitted = None

    def fitted(self, guaranteed: int) -> Fitted:
        """Which jobs do not fit in `guaranteed`, where nobody else is protected on it."""
        found = self._fitted
        if found is None or found.guaranteed != guaranteed:
            left, others = guaranteed, list[Contender]()
            if self.mgpu <= guaranteed:
                left -= self.mgpu
            for job in self.jobs if self.mgpu > guaranteed else ():
                if job.mgpu <= left:
                    left -= job.mgpu
                else:
                    others.append(job)
            whats = [job.what for job in others]
            found = self._fitted = Fitted(guaranteed, guaranteed - left, others, whats)
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
    """How jobs are classed, kept organization by organization: what those of one are does not
    depend on those of another.

    `taken` is what that takes of the guarantees. `unprotected` has, by organization, those jobs
    that are not protected at each node of their path, with a bit for each depth where they are not
    (bit 0: the organization); `jobs` are the same jobs. The parts of both are replaced and never
    changed.
    """

    __slots__ = ("jobs", "taken", "unprotected")

    def __init__(self, tree: Tree, quota: PoolQuota) -> None:
        """Nobody has jobs."""
        size, is_any_kept = len(tree.ids), any(quota.keeps_below)
        ledgers = [
            Ledger(tree, quota, 0, [0] * size)
            for _ in range(tree.depth_max + 1 if is_any_kept else 0)
        ]
        self.taken = Guarantees(tree, quota, [0] * size, ledgers)
        self.unprotected: dict[int, dict[Hashable, int]] = {}
        self.jobs: dict[int, list[Contender]] = {}

    def copy(self) -> Protection:
        """The same, independent of this one."""
        twin = object.__new__(Protection)
        twin.taken = self.taken.copy()
        twin.unprotected, twin.jobs = self.unprotected.copy(), self.jobs.copy()
        return twin

    def bits(self, team: int, what: Hashable) -> int:
        """The depths at which a job of `team` is not protected."""
        known = self.unprotected.get(self.taken.tree.paths[team][-1])
        return 0 if known is None else known.get(what, 0)

    def redo(self, teams: Mapping[int, TeamJobs], organizations: Iterable[int]) -> None:
        """Class the jobs of `organizations` anew, as `teams` has them now.

        At each node the jobs below it are taken in the order (protected one level lower first,
        then that of their turns) and marked protected whenever they fit whole in what is left of
        the guarantee; one that does not fit does not stop the ones behind it. Where all jobs of a
        team fit, nothing is to be done for each of them.
        """
        for organization in organizations:
            unprotected, jobs = self._class(teams, organization)
            if jobs:
                self.unprotected[organization], self.jobs[organization] = unprotected, jobs
            else:
                self.unprotected.pop(organization, None)
                self.jobs.pop(organization, None)

    def _class(
        self, teams: Mapping[int, TeamJobs], organization: int
    ) -> tuple[dict[Hashable, int], list[Contender]]:
        taken = self.taken
        tree, quota, used = taken.tree, taken.quota, taken.used_mgpu
        guaranteed = quota.guaranteed
        nodes, is_kept = tree.below[organization], quota.keeps_below[organization]
        depth = tree.depths[nodes[0]]
        for node in nodes:
            used[node] = 0
        if is_kept:
            _clear(taken.ledgers[depth], nodes)
        # By node: how many jobs are protected one level lower, and the others.
        first: dict[int, int] = {}
        then: dict[int, list[Contender]] = {}
        unprotected: dict[Hashable, int] = {}
        anywhere: list[Contender] = []
        for node in nodes:
            if tree.depths[node] < depth:
                # What is protected one level lower is so here too, unless G is too small for it.
                depth = tree.depths[node]
                if is_kept:
                    _carry_over(taken.ledgers[depth + 1], taken.ledgers[depth], nodes)
            if not is_kept and node not in tree.children:
                own = teams.get(node)
                if own is not None:
                    fitted = own.fitted(guaranteed[node])
                    others, parent = fitted.others, tree.parents[node]
                    used[node] = fitted.mgpu
                    if parent != ROOT:
                        first[parent] = first.get(parent, 0) + len(own.jobs) - len(others)
                        used[parent] += fitted.mgpu
                    if others:
                        anywhere += others
                        unprotected.update(dict.fromkeys(fitted.whats, 1 << depth))
                        if parent != ROOT:
                            then.setdefault(parent, []).extend(others)
                continue
            fitting, tried = first.get(node, 0), then.get(node, [])
            if fitting and (
                (taken.ledgers[depth].held if is_kept else used)[node] > guaranteed[node]
            ):
                again = [
                    job
                    for team, line in teams.items()
                    if team != node and node in tree.paths[team]
                    for job in line.jobs
                    if not unprotected.get(job.what, 0) >> depth + 1 & 1
                ]
                for job in again:
                    taken.take(node, job.team, -job.mgpu)
                again.sort()
                fitting = 0
            else:
                again = []
            own, parent = teams.get(node), tree.parents[node]
            if own is None:
                tried.sort()
            elif (
                tried
                or again
                or used[node] + own.mgpu > guaranteed[node]
                or quota.keeps_below[node]
            ):
                tried = sorted(tried + own.jobs) if tried else own.jobs
            else:
                taken.take(node, node, own.mgpu)
                fitting += len(own.jobs)
            others = list[Contender]()
            fits = taken.fits if quota.keeps_below[node] else None
            left = guaranteed[node] - used[node]
            for job in (*again, *tried) if again else tried:
                mgpu = job.mgpu
                if mgpu <= left if fits is None else fits(node, job.team, mgpu):
                    fitting += 1
                    if is_kept:
                        taken.take(node, job.team, mgpu)
                    left -= mgpu
                else:
                    others.append(job)
                    bits = unprotected.get(job.what)
                    if bits is None:
                        anywhere.append(job)
                        unprotected[job.what] = 1 << depth
                    else:
                        unprotected[job.what] = bits | 1 << depth
            if not is_kept:
                used[node] = guaranteed[node] - left
            if parent != ROOT:
                first[parent] = first.get(parent, 0) + fitting
                then.setdefault(parent, []).extend(others)
                used[parent] += used[node]
        return unprotected, anywhere


def protect(tree: Tree, quota: PoolQuota, teams: Mapping[int, TeamJobs]) -> Protection:
    """Class the jobs of all `teams`."""
    found = Protection(tree, quota)
    found.redo(teams, {tree.paths[team][-1] for team in teams})
    return found


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

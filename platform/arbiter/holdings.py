"""What runs in one pool, kept up to date from cycle to cycle as attempts come and go."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from arbiter.placement import FreeDevices
from arbiter.protection import Contender, Protection, TeamJobs, Turn
from arbiter.quota_tree import ROOT, Ledger, PoolQuota, Tree
from arbiter.rooms import Rooms, is_beside
from arbiter.snapshot import Phase, PriorityClass, RunningJob
from arbiter.victim_order import VictimKey

#: A node of a cluster, or a room of one.
Node = tuple[str, str]


@dataclass(slots=True, eq=False)
class Holding:
    """One attempt that holds GPUs. `team` is ROOT when its team is not in the tree. Among the slots
    of `run` are those of rooms, where they are counted (see `arbiter.rooms`).

    `is_going`: it is being stopped. `is_coming_back`: its GPUs can be counted on within its
    grace. `protected` has a bit for each depth (bit 0: its organization) at which it is, and
    `everywhere` all of them. `claim_of` and `claim_key` are set on the stand-in for a claim: a job
    that does not run yet, and the order in which it is given up.
    """

    run: RunningJob
    team: int
    mgpu: int
    order: int
    is_going: bool = False
    is_coming_back: bool = False
    everywhere: int = 0
    protected: int = 0
    claim_of: str | None = None
    claim_key: VictimKey | None = None

    @property
    def turn(self) -> Turn:
        """Where it stands in the order of protection."""
        run = self.run
        return -self.order, run.started_at, run.job, run.attempt

    def contender(self) -> Contender:
        """It, to be classed."""
        return Contender(self.turn, self.team, self.mgpu, self)

    def is_protected_at(self, depth: int) -> bool:
        """Whether it is protected at the node of that depth on its path."""
        return bool(self.protected >> depth & 1)


def held_by_node(holdings: Iterable[Holding]) -> dict[str, dict[str, int]]:
    """What `holdings` hold, by cluster and node or room."""
    held: dict[str, dict[str, int]] = {}
    for holding in holdings:
        nodes = held.setdefault(holding.run.cluster, {})
        for slot in holding.run.slots:
            nodes[slot.node] = nodes.get(slot.node, 0) + slot.mgpu
    return held


class Borrowed:
    """Attempts that are not protected everywhere and may be stopped, kept up to date as that
    changes. `alike`: by team and the bits of where they are protected, which `of` has of each;
    `by_node`: what they hold, by cluster and node or room."""

    __slots__ = ("alike", "by_node", "of")

    def __init__(self, holdings: Iterable[Holding]) -> None:
        self.alike: dict[tuple[int, int], dict[Holding, None]] = {}
        self.by_node: dict[str, dict[str, int]] = {}
        self.of: dict[Holding, tuple[int, int]] = {}
        for holding in holdings:
            self.note(holding)

    def note(self, holding: Holding) -> None:
        """It is protected otherwise than before, or here for the first time."""
        self.forget(holding)
        protected, everywhere = holding.protected, holding.everywhere
        at_home = protected & (everywhere + 1) >> 1
        if (
            protected == everywhere
            or holding.claim_of is not None
            or (at_home and not holding.run.is_preemptible)
        ):
            return
        of = self.of[holding] = holding.team, protected
        alike = self.alike.get(of)
        if alike is None:
            self.alike[of] = {holding: None}
        else:
            alike[holding] = None
        self._count(holding, 1)

    def forget(self, holding: Holding) -> None:
        """It is protected everywhere, or gone."""
        of = self.of.pop(holding, None)
        if of is not None:
            alike = self.alike[of]
            del alike[holding]
            if not alike:
                del self.alike[of]
            self._count(holding, -1)

    def _count(self, holding: Holding, sign: int) -> None:
        run = holding.run
        nodes = self.by_node.setdefault(run.cluster, {})
        for slot in run.slots:
            nodes[slot.node] = nodes.get(slot.node, 0) + sign * slot.mgpu


class Holdings:
    """All attempts of one pool, and what they come to by team, node and end.

    `teams` has those that are not being stopped, by team, `going` the others. `unsettled` are those
    of which the last cycle left anything but "all of it guaranteed", by team; `settled` are teams
    of whose attempts nothing is to be told as long as none comes, goes or is stopped. `ends` has
    every end by a time limit, in order. `free` are the devices without them, once there was a
    cycle. `ledger` is how quota stands, in which the capacity is of no meaning.
    """

    def __init__(
        self,
        tree: Tree,
        quota: PoolQuota,
        classes: Mapping[str, PriorityClass],
        offered: Mapping[str, Mapping[str, int]],
        rooms: Rooms,
    ) -> None:
        self.all: dict[str, Holding] = {}
        #: How many attempts run on so many nodes.
        self.widths: Counter[int] = Counter()
        self.teams: dict[int, TeamJobs] = {}
        self.going: dict[str, Holding] = {}
        self.unsettled: dict[int, dict[str, Holding]] = {}
        self.settled: set[int] = set()
        self.direct = [0] * len(tree.ids)
        self.ledger = Ledger(tree, quota, 0, self.direct)
        self.stray_mgpu = 0
        self.class_use: dict[tuple[int, str], int] = {}
        self.used: dict[str, dict[str, int]] = {}
        self.on_node: dict[Node, dict[str, int]] = {}
        self.ends: list[tuple[int, str, Holding]] = []
        self.free: FreeDevices | None = None
        self._tree = tree
        self._classes = classes
        self.offered = offered
        self._rooms = rooms
        self.offered_mgpu = sum(sum(nodes.values()) for nodes in offered.values())
        self._beyond_mgpu = 0
        #: As of the last cycle, and the teams of which something changed since.
        self._protection = Protection(tree, quota)
        self._changed: set[int] = set()
        #: Kept from when somebody asks for it.
        self._borrowed: Borrowed | None = None

    def add(self, run: RunningJob) -> None:
        """`run` holds GPUs from now on."""
        team = self._tree.index.get(run.team, ROOT)
        cls = self._classes.get(run.priority_class)
        is_going = run.phase is Phase.STOPPING or run.beneficiary is not None
        everywhere = 0 if team == ROOT else (1 << len(self._tree.paths[team])) - 1
        holding = Holding(
            self._rooms.with_rooms(run),
            team,
            run.mgpu,
            0 if cls is None else cls.order,
            is_going,
            everywhere=everywhere,
            protected=0 if is_going else everywhere,
        )
        self.all[run.attempt] = holding
        self._count(holding, 1)
        if is_going:
            self.going[run.attempt] = holding
        else:
            if team != ROOT:
                line = self.teams.get(team)
                if line is None:
                    line = self.teams[team] = TeamJobs()
                line.add(holding.contender())
                self._changed.add(team)
            if run.time_limit_s is not None:
                insort(self.ends, (run.started_at + run.time_limit_s, run.attempt, holding))
        if is_going or team == ROOT or run.guaranteed_mgpu != holding.mgpu:
            self.unsettled.setdefault(team, {})[run.attempt] = holding
        self.settled.discard(team)

    def remove(self, attempt: str) -> None:
        """The attempt is gone."""
        holding = self.all.pop(attempt)
        run = holding.run
        self._count(holding, -1)
        unsettled = self.unsettled.get(holding.team, {})
        if unsettled.pop(attempt, None) is not None and not unsettled:
            del self.unsettled[holding.team]
        self.settled.discard(holding.team)
        if self.going.pop(attempt, None) is None:
            if holding.team != ROOT:
                line = self.teams[holding.team]
                line.remove(holding.turn)
                if not line.jobs:
                    del self.teams[holding.team]
                self._changed.add(holding.team)
            if run.time_limit_s is not None:
                end = run.started_at + run.time_limit_s, attempt
                del self.ends[bisect_left(self.ends, end)]

    def protect(self, teams: Mapping[int, TeamJobs], besides: Collection[int]) -> Protection:
        """Class all attempts for a cycle, and mark them. `teams` are theirs with what else is to be
        classed of those `besides`.

        What nothing came to or left since stays as it is.
        """
        protection = self._protection
        before, now = protection.unprotected.copy(), protection.unprotected
        marked: dict[Holding, None] = {}
        for node in protection.redo(teams, self._changed.union(besides)):
            was, others = before.get(node, ()), now.get(node, ())
            if was is not others:
                bit = 1 << self._tree.depths[node]
                known, left = {job.what for job in was}, {job.what for job in others}
                for _, _, _, holding in was:
                    if holding not in left:
                        assert isinstance(holding, Holding)
                        holding.protected |= bit
                        marked[holding] = None
                for _, _, _, holding in others:
                    if holding not in known:
                        assert isinstance(holding, Holding)
                        holding.protected &= ~bit
                        marked[holding] = None
        if self._borrowed is not None:
            for holding in marked:
                self._borrowed.note(holding)
        self._changed = set(besides)
        return protection

    @property
    def borrowed(self) -> Borrowed:
        """Who is not protected everywhere, as marked last; to be asked before anybody is stopped in
        a cycle."""
        if self._borrowed is None:
            marked = (
                job.what
                for others in self._protection.unprotected.values()
                for job in others
                if isinstance(job.what, Holding)
            )
            self._borrowed = Borrowed(dict.fromkeys(marked))
        return self._borrowed

    def left_of(self, offered: Mapping[str, Mapping[str, int]]) -> dict[str, dict[str, int]]:
        """What of the `offered`, by cluster and node or room, they leave."""
        return {
            cluster: {
                node: amount - self.used.get(cluster, {}).get(node, 0)
                for node, amount in nodes.items()
            }
            for cluster, nodes in offered.items()
        }

    def capacity(self, without: Mapping[str, Mapping[str, int]] | None = None) -> int:
        """Device by device, what it offers or what is in use on it `without` some, whichever is
        more."""
        beyond = self._beyond_mgpu
        for cluster, nodes in (without or {}).items():
            used = self.used.get(cluster, {})
            for node, mgpu in nodes.items():
                held = used.get(node, 0)
                beyond += self._beyond(cluster, node, held - mgpu)
                beyond -= self._beyond(cluster, node, held)
        return self.offered_mgpu + beyond

    def _count(self, holding: Holding, sign: int) -> None:
        run, mgpu = holding.run, sign * holding.mgpu
        self.ledger.charge(holding.team, mgpu)
        if holding.team == ROOT:
            self.stray_mgpu += mgpu
        else:
            self.direct[holding.team] += mgpu
        width = len(run.slots)
        self.widths[width] += 1 if sign > 0 else -1
        if not self.widths[width]:
            del self.widths[width]
        key = holding.team, run.priority_class
        self.class_use[key] = self.class_use.get(key, 0) + mgpu
        if not self.class_use[key]:
            del self.class_use[key]
        cluster, attempt, on_node, free = run.cluster, run.attempt, self.on_node, self.free
        used, offered = self.used.setdefault(cluster, {}), self.offered.get(cluster, {})
        for slot in run.slots:
            node, change = slot.node, sign * slot.mgpu
            before = used.get(node, 0)
            after = before + change
            if after:
                used[node] = after
            else:
                del used[node]
            most = offered.get(node, 0)
            if before > most or after > most:
                self._beyond_mgpu += self._beyond(cluster, node, after)
                self._beyond_mgpu -= self._beyond(cluster, node, before)
            at = cluster, node
            if sign > 0:
                on_node.setdefault(at, {})[attempt] = change
            else:
                held = on_node[at]
                del held[attempt]
                if not held:
                    del on_node[at]
            if free is not None:
                free.take_later(at, change)

    def _beyond(self, cluster: str, node: str, used: int) -> int:
        if is_beside(node):
            return 0
        nodes = self.offered.get(cluster)
        offered = None if nodes is None else nodes.get(node)
        return used if offered is None else max(0, used - offered)

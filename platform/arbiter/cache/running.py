"""What runs in one pool, kept up to date from cycle to cycle as attempts come and go."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from arbiter.api.snapshot import Phase, PriorityClass, RunningJob
from arbiter.cache.victim_order import VictimKey
from arbiter.placement.free_devices import FreeDevices
from arbiter.placement.resources import Rooms, is_beside
from arbiter.quota.entitlement import Contender, Protection, TeamJobs, Turn
from arbiter.quota.ledger import Ledger
from arbiter.quota.tree import ROOT, PoolQuota, Tree

#: A node of a cluster, or a room of one.
Node = tuple[str, str]

#: Of `Holdings.ends` at most one in so many is of an attempt that is gone.
_GONE_PART = 4

_NOTHING: Mapping[str, int] = {}


@dataclass(slots=True, eq=False)
class Holding:
    """One attempt that holds GPUs. `team` is ROOT when its team is not in the tree. Among the slots
    of `run` are those of rooms, where they are counted (see `arbiter.placement.resources`).

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
        run = self.run
        return Contender(
            -self.order, run.started_at, run.job, run.attempt, self.team, self.mgpu, self
        )

    def is_protected_at(self, depth: int) -> bool:
        """Whether it is protected at the node of that depth on its path."""
        return bool(self.protected >> depth & 1)


def _apart(one: list[Contender], other: list[Contender]) -> tuple[list[Contender], list[Contender]]:
    """Both without what they begin and end with alike: mostly one job came or left."""
    first, most = 0, min(len(one), len(other))
    while first < most and one[first] is other[first]:
        first += 1
    last = 0
    while last < most - first and one[~last] is other[~last]:
        last += 1
    return one[first : len(one) - last], other[first : len(other) - last]


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
        protected, everywhere = holding.protected, holding.everywhere
        at_home = protected & (everywhere + 1) >> 1
        if (
            protected == everywhere
            or holding.claim_of is not None
            or (at_home and not holding.run.is_preemptible)
        ):
            if self._part(holding):
                self._count(holding, -1)
            return
        if not self._part(holding):
            self._count(holding, 1)
        of = self.of[holding] = holding.team, protected
        alike = self.alike.get(of)
        if alike is None:
            self.alike[of] = {holding: None}
        else:
            alike[holding] = None

    def _part(self, holding: Holding) -> bool:
        """Take it from those that are alike; whether it was among any."""
        of = self.of.pop(holding, None)
        if of is None:
            return False
        alike = self.alike[of]
        del alike[holding]
        if not alike:
            del self.alike[of]
        return True

    def _count(self, holding: Holding, sign: int) -> None:
        run = holding.run
        nodes = self.by_node.get(run.cluster)
        if nodes is None:
            nodes = self.by_node[run.cluster] = {}
        for slot in run.slots:
            nodes[slot.node] = nodes.get(slot.node, 0) + sign * slot.mgpu


class Holdings:
    """All attempts of one pool, and what they come to by team, node and end.

    `teams` has those that are not being stopped, by team, `going` the others. `unsettled` are those
    of which the last cycle left anything but "all of it guaranteed", by team; `at_rest` are teams
    of whose attempts nothing is to be told as long as none comes, goes or is stopped. `class_use`
    is by team and class, of classes with a cap. `on_node` has what each holds of a node or room.
    `ends` has every end by a time limit, in order, and some of attempts that are gone (see `has`).
    `free` are the devices without them, once there was a cycle. `stale` are the nodes and rooms
    that `settle` is to look at: what goes of one, and what comes in its place until then, is one
    change. `ledger` is how quota stands, in which the capacity is of no meaning.
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
        #: How many gangs run on so many nodes.
        self.widths: Counter[int] = Counter()
        self.teams: dict[int, TeamJobs] = {}
        self.going: dict[str, Holding] = {}
        self.unsettled: dict[int, dict[str, Holding]] = {}
        self.at_rest: set[int] = set()
        self.direct = [0] * len(tree.ids)
        self.ledger = Ledger(tree, quota, 0, self.direct)
        self.class_use: dict[tuple[int, str], int] = {}
        #: How many are of a class that nobody knows.
        self.unclassed = 0
        self.on_node: dict[Node, dict[str, int]] = {}
        self.ends: list[tuple[int, str, Holding]] = []
        self.free: FreeDevices | None = None
        self.stale: set[Node] = set()
        self._tree = tree
        self._classes = classes
        self._rooms = rooms
        #: With rooms.
        self._offered = {
            cluster: {**nodes, **rooms.offered.get(cluster, _NOTHING)}
            for cluster, nodes in offered.items()
        }
        self.offered_mgpu = sum(sum(nodes.values()) for nodes in offered.values())
        #: What is in use of nodes beyond what they offer, as last settled.
        self._beyond: dict[Node, int] = {}
        self._capped = {cls.id for cls in classes.values() if cls.team_cap_mgpu is not None}
        #: As of the last cycle, and the teams of which something changed since.
        self._protection = Protection.of_nobody(tree, quota)
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
                self._note_end(run.started_at + run.time_limit_s, holding)
        if is_going or team == ROOT or run.guaranteed_mgpu != holding.mgpu:
            self.unsettled.setdefault(team, {})[run.attempt] = holding
        self.at_rest.discard(team)

    def remove(self, attempt: str) -> None:
        """The attempt is gone."""
        holding = self.all.pop(attempt)
        self._count(holding, -1)
        unsettled = self.unsettled.get(holding.team, {})
        if unsettled.pop(attempt, None) is not None and not unsettled:
            del self.unsettled[holding.team]
        self.at_rest.discard(holding.team)
        if self.going.pop(attempt, None) is None and holding.team != ROOT:
            line = self.teams[holding.team]
            line.remove(holding.turn)
            if not line.jobs:
                del self.teams[holding.team]
            self._changed.add(holding.team)

    def has(self, holding: Holding) -> bool:
        """Whether it is not gone."""
        return self.all.get(holding.run.attempt) is holding

    def _note_end(self, end: int, holding: Holding) -> None:
        ends, attempt = self.ends, holding.run.attempt
        if len(ends) - len(self.all) > len(ends) // _GONE_PART:
            ends = self.ends = [one for one in ends if self.has(one[2])]
        at = bisect_left(ends, (end, attempt))
        if at < len(ends) and ends[at][:2] == (end, attempt):
            ends[at] = end, attempt, holding
        else:
            ends.insert(at, (end, attempt, holding))

    def protect(self, teams: Mapping[int, TeamJobs], besides: Collection[int]) -> Protection:
        """Class all attempts for a cycle, and mark them. `teams` are theirs with what else is to be
        classed of those `besides`.

        What nothing came to or left since stays as it is.
        """
        protection = self._protection
        before, now = protection.unprotected.copy(), protection.unprotected
        marked: dict[Holding, None] = {}
        for node in protection.redo(teams, self._changed.union(besides)):
            was, others = before.get(node, []), now.get(node, [])
            if was != others:
                bit = 1 << self._tree.depths[node]
                was, others = _apart(was, others)
                known, left = {job.what for job in was}, {job.what for job in others}
                for job in was:
                    holding = job.what
                    if holding not in left:
                        assert isinstance(holding, Holding)
                        holding.protected |= bit
                        marked[holding] = None
                for job in others:
                    holding = job.what
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

    def used_on(self, at: Node) -> int:
        """What is in use of a node or room."""
        held = self.on_node.get(at)
        return 0 if held is None else sum(held.values())

    def left_of(self, offered: Mapping[str, Mapping[str, int]]) -> dict[str, dict[str, int]]:
        """What of the `offered`, by cluster and node or room, they leave."""
        return {
            cluster: {room: most - self.used_on((cluster, room)) for room, most in rooms.items()}
            for cluster, rooms in offered.items()
        }

    def settle(self) -> None:
        """Look at what is stale: what is free of it, and what is in use beyond what it offers."""
        free, beyond, on_node = self.free, self._beyond, self.on_node
        for at in self.stale:
            cluster, room = at
            left, held = self._offered.get(cluster, _NOTHING).get(room, 0), on_node.get(at)
            if held is not None:
                left -= sum(held.values())
            if left < 0 and not is_beside(room):
                beyond[at] = -left
            elif beyond:
                beyond.pop(at, None)
            if free is not None:
                free.leave(cluster, room, left)
        self.stale.clear()

    def capacity(self, without: Mapping[str, Mapping[str, int]] | None = None) -> int:
        """Device by device, what it offers or what is in use on it `without` some, whichever is
        more; as last settled."""
        beyond = self._beyond
        back = sum(
            min(mgpu, beyond.get((cluster, room), 0))
            for cluster, rooms in (without or {}).items()
            for room, mgpu in rooms.items()
        )
        return self.offered_mgpu + sum(beyond.values()) - back

    def _count(self, holding: Holding, sign: int) -> None:
        run, team, mgpu = holding.run, holding.team, sign * holding.mgpu
        self.ledger.charge(team, mgpu)
        if team != ROOT:
            self.direct[team] += mgpu
        width = len(run.slots)
        if width > 1:
            self.widths[width] += sign
            if not self.widths[width]:
                del self.widths[width]
        if run.priority_class not in self._classes:
            self.unclassed += sign
        if run.priority_class in self._capped:
            key = team, run.priority_class
            self.class_use[key] = self.class_use.get(key, 0) + mgpu
            if not self.class_use[key]:
                del self.class_use[key]
        on_node, attempt = self.on_node, run.attempt
        for slot in run.slots:
            at = run.cluster, slot.node
            self.stale.add(at)
            held = on_node.get(at)
            if sign < 0:
                assert held is not None
                del held[attempt]
                if not held:
                    del on_node[at]
            elif held is None:
                on_node[at] = {attempt: slot.mgpu}
            else:
                held[attempt] = slot.mgpu

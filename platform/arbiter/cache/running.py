"""Attempts of one pool, updated from cycle to cycle as they start and end."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from arbiter.api.snapshot import Phase, PriorityClass, RunningJob
from arbiter.cache.victim_order import VictimKey
from arbiter.placement.free_devices import FreeDevices
from arbiter.placement.resources import HostResources, is_cpu_or_memory
from arbiter.quota.entitlement import Contender, Protection, ProtectionKey, TeamJobs
from arbiter.quota.ledger import Ledger
from arbiter.quota.tree import ROOT, PoolQuota, Tree

#: A node of a cluster, or the CPU or memory of one.
Node = tuple[str, str]

#: At most one in so many entries of `Holdings.ends` belongs to an attempt that is gone.
_GONE_PART = 4

_NOTHING: Mapping[str, int] = {}


@dataclass(slots=True, eq=False)
class Holding:
    """An attempt that holds GPUs.

    `team` is ROOT when its team is not in the tree. The slots of `run` include its CPU and memory,
    where these count (see `arbiter.placement.resources`).

    - `is_going`: it is being stopped.
    - `is_coming_back`: its GPUs can be counted on within its grace.
    - `protected` has a bit for each depth (bit 0: its organization) at which it is protected.
    - `everywhere` has all these bits set.
    - `claim_of` and `claim_key` are set where it represents a claim, that is a job that does not
      run yet. They are the job, and the sort key by which the claim is dropped.
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
    def protection_key(self) -> ProtectionKey:
        """Return its sort key in the order of protection."""
        run = self.run
        return -self.order, run.started_at, run.job, run.attempt

    def contender(self) -> Contender:
        """Return it as a job to be classed."""
        run = self.run
        return Contender(
            -self.order, run.started_at, run.job, run.attempt, self.team, self.mgpu, self
        )

    def is_protected_at(self, depth: int) -> bool:
        """Return whether it is protected at the node of that depth on its path."""
        return bool(self.protected >> depth & 1)


def _apart(one: list[Contender], other: list[Contender]) -> tuple[list[Contender], list[Contender]]:
    """Return both lists without their common beginning and end: mostly one job came or left."""
    first, most = 0, min(len(one), len(other))
    while first < most and one[first] is other[first]:
        first += 1
    last = 0
    while last < most - first and one[~last] is other[~last]:
        last += 1
    return one[first : len(one) - last], other[first : len(other) - last]


def use_by_node(holdings: Iterable[Holding]) -> dict[str, dict[str, int]]:
    """Return the amounts that `holdings` hold, by cluster and node (or its CPU or memory)."""
    use: dict[str, dict[str, int]] = {}
    for holding in holdings:
        nodes = use.setdefault(holding.run.cluster, {})
        for slot in holding.run.slots:
            nodes[slot.node] = nodes.get(slot.node, 0) + slot.mgpu
    return use


class Borrowed:
    """Attempts that are not protected everywhere and may be stopped, updated as that changes.

    `alike` groups them by team and by the bits of where they are protected; `of` has both for each
    attempt. `by_node` is what they hold, by cluster and node (or its CPU or memory).
    """

    __slots__ = ("alike", "by_node", "of")

    def __init__(self, holdings: Iterable[Holding]) -> None:
        self.alike: dict[tuple[int, int], dict[Holding, None]] = {}
        self.by_node: dict[str, dict[str, int]] = {}
        self.of: dict[Holding, tuple[int, int]] = {}
        for holding in holdings:
            self.note(holding)

    def note(self, holding: Holding) -> None:
        """Add, move or remove an attempt whose protection changed or that is new."""
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
        """Remove it from its group. Return whether it was in one."""
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
    """All attempts of one pool, and their sums by team, node and end.

    - `teams` has the attempts that are not being stopped, by team; `going` has the others.
    - `unsettled`, by team, are attempts that the last cycle left not entirely guaranteed.
    - `at_rest` are teams with no change of guaranteed parts to report, until an attempt starts,
      ends or is stopped.
    - `class_use` is by team and class, for classes with a cap.
    - `on_node` is the amount of each attempt on a node (or of its CPU or memory).
    - `ends` has every end by a time limit, in order. It may include ends of some attempts that are
      gone (see `has`).
    - `free` are the free devices, once there was a cycle.
    - `stale` are the nodes that `settle` has to look at. An attempt that ends, and one that takes
      its place before that, are one change.
    - `ledger` is the state of quota; its capacity has no meaning.
    """

    def __init__(
        self,
        tree: Tree,
        quota: PoolQuota,
        classes: Mapping[str, PriorityClass],
        offered: Mapping[str, Mapping[str, int]],
        resources: HostResources,
    ) -> None:
        self.all: dict[str, Holding] = {}
        #: The number of gangs by their number of nodes.
        self.widths: Counter[int] = Counter()
        self.teams: dict[int, TeamJobs] = {}
        self.going: dict[str, Holding] = {}
        self.unsettled: dict[int, dict[str, Holding]] = {}
        self.at_rest: set[int] = set()
        self.direct = [0] * len(tree.ids)
        self.ledger = Ledger(tree, quota, 0, self.direct)
        self.class_use: dict[tuple[int, str], int] = {}
        #: The number of attempts of an unknown class.
        self.unclassed = 0
        self.on_node: dict[Node, dict[str, int]] = {}
        self.ends: list[tuple[int, str, Holding]] = []
        self.free: FreeDevices | None = None
        self.stale: set[Node] = set()
        self._tree = tree
        self._classes = classes
        self._resources = resources
        #: Nodes, and their CPU and memory.
        self._offered = {
            cluster: {**nodes, **resources.offered.get(cluster, _NOTHING)}
            for cluster, nodes in offered.items()
        }
        self.offered_mgpu = sum(sum(nodes.values()) for nodes in offered.values())
        #: The use of nodes beyond what they offer, as of the last `settle`.
        self._beyond: dict[Node, int] = {}
        self._capped = {cls.id for cls in classes.values() if cls.team_cap_mgpu is not None}
        #: The protection as of the last cycle, and the teams that changed since.
        self._protection = Protection.of_nobody(tree, quota)
        self._changed: set[int] = set()
        #: Set when first needed.
        self._borrowed: Borrowed | None = None

    def add(self, run: RunningJob) -> None:
        """Add `run`, which holds GPUs from now on."""
        team = self._tree.index.get(run.team, ROOT)
        cls = self._classes.get(run.priority_class)
        is_going = run.phase is Phase.STOPPING or run.beneficiary is not None
        everywhere = 0 if team == ROOT else (1 << len(self._tree.paths[team])) - 1
        holding = Holding(
            self._resources.with_resources(run),
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
                jobs_of_team = self.teams.get(team)
                if jobs_of_team is None:
                    jobs_of_team = self.teams[team] = TeamJobs()
                jobs_of_team.add(holding.contender())
                self._changed.add(team)
            if run.time_limit_s is not None:
                self._note_end(run.started_at + run.time_limit_s, holding)
        if is_going or team == ROOT or run.guaranteed_mgpu != holding.mgpu:
            self.unsettled.setdefault(team, {})[run.attempt] = holding
        self.at_rest.discard(team)

    def remove(self, attempt: str) -> None:
        """Remove an attempt that is gone."""
        holding = self.all.pop(attempt)
        self._count(holding, -1)
        unsettled = self.unsettled.get(holding.team, {})
        if unsettled.pop(attempt, None) is not None and not unsettled:
            del self.unsettled[holding.team]
        self.at_rest.discard(holding.team)
        if self.going.pop(attempt, None) is None and holding.team != ROOT:
            jobs_of_team = self.teams[holding.team]
            jobs_of_team.remove(holding.protection_key)
            if not jobs_of_team.jobs:
                del self.teams[holding.team]
            self._changed.add(holding.team)

    def has(self, holding: Holding) -> bool:
        """Return whether it still holds GPUs."""
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
        """Class all attempts for a cycle, and mark them.

        `teams` has the jobs to be classed by team. For the teams `besides` these include further
        ones, such as claims. Teams without a change are not classed again.
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
        """Return the attempts that are not protected everywhere, as marked last.

        It must be called before any attempt is stopped in a cycle.
        """
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
        """Return the amount in use on a node, or of its CPU or memory."""
        use = self.on_node.get(at)
        return 0 if use is None else sum(use.values())

    def left_of(self, offered: Mapping[str, Mapping[str, int]]) -> dict[str, dict[str, int]]:
        """Return what the attempts leave of the `offered` amounts, by cluster and node."""
        return {
            cluster: {
                resource: most - self.used_on((cluster, resource))
                for resource, most in resources.items()
            }
            for cluster, resources in offered.items()
        }

    def settle(self) -> None:
        """Update the free amount of stale nodes, and the use beyond what they offer."""
        free, beyond, on_node = self.free, self._beyond, self.on_node
        for at in self.stale:
            cluster, resource = at
            left, use = self._offered.get(cluster, _NOTHING).get(resource, 0), on_node.get(at)
            if use is not None:
                left -= sum(use.values())
            if left < 0 and not is_cpu_or_memory(resource):
                beyond[at] = -left
            elif beyond:
                beyond.pop(at, None)
            if free is not None:
                free.leave(cluster, resource, left)
        self.stale.clear()

    def capacity(self, without: Mapping[str, Mapping[str, int]] | None = None) -> int:
        """Return the sum over devices of what is offered or in use, whichever is more.

        The amounts of `without` do not count as use. It is as of the last `settle`.
        """
        beyond = self._beyond
        back = sum(
            min(mgpu, beyond.get((cluster, resource), 0))
            for cluster, resources in (without or {}).items()
            for resource, mgpu in resources.items()
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
            use = on_node.get(at)
            if sign < 0:
                assert use is not None
                del use[attempt]
                if not use:
                    del on_node[at]
            elif use is None:
                on_node[at] = {attempt: slot.mgpu}
            else:
                use[attempt] = slot.mgpu

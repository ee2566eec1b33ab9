"""A recorded cycle in review: its decisions about one job, with their numbers.

It also compares the recorded plan with what the same snapshot would give today.

All numbers are of the snapshot, taken before the plan. A plan may contain changes of rows that had
changed meanwhile, and these were never made. The jobs' timelines show what really happened.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from arbiter.api.decisions import Kind, Right
from arbiter.api.plan import Plan, Reclaim, Start, Victim
from arbiter.api.snapshot import Phase, PriorityClass, QueuedJob, RunningJob, Snapshot, TreeNode
from arbiter.quota.entitlement import Contender, Guarantees, Protection, TeamJobs
from arbiter.quota.tree import pool_quota, tree_of
from arbiter.replay.record import Record


@dataclass(frozen=True, slots=True)
class NodeUse:
    """A tree node's guarantee in the job's pool, and the use below it, in milli-GPU."""

    node: str
    guaranteed_mgpu: int
    in_use_mgpu: int


@dataclass(frozen=True, slots=True)
class EntitlingNode:
    """The node whose guarantee gave a job the right to reclaim GPUs.

    `protected_mgpu` of its use was protected there, and the job fitted in the rest. `is_team`: it
    is the job's own team. Otherwise `is_top` says whether it is the organization.
    """

    use: NodeUse
    protected_mgpu: int
    is_team: bool
    is_top: bool


@dataclass(frozen=True, slots=True)
class Stopped:
    """A job that was stopped, and the `right` by which it was.

    `unsaved_s` is the work since its last known checkpoint, or its start without one, in seconds.
    """

    victim: Victim
    run: RunningJob
    right: Right
    unsaved_s: int

    @property
    def guaranteed_mgpu(self) -> int:
        """Return the part that was inside its team's guarantee, in milli-GPU."""
        return self.run.guaranteed_mgpu or 0


@dataclass(frozen=True, slots=True)
class Decided:
    """The action of a cycle on `job`.

    `queued` is set for a job that waited. `reclaim` is the claim that was made for the job or for
    which it was stopped. `stopped` are the victims of its claim, or the job itself. `beneficiary`
    is the job for which it was stopped. `starts`: its claim was dropped because it started
    elsewhere in the same cycle.
    """

    kind: Kind
    job: str
    queued: QueuedJob | None = None
    start: Start | None = None
    reclaim: Reclaim | None = None
    beneficiary: QueuedJob | None = None
    stopped: tuple[Stopped, ...] = ()
    starts: bool = False


class Replayed:
    """A record with indexes of its jobs."""

    def __init__(self, record: Record) -> None:
        self.record = record
        snapshot = record.snapshot
        self._queued = {job.id: job for job in snapshot.queued}
        self._running = {run.attempt: run for run in snapshot.running}
        self._orders = {cls.id: cls.order for cls in snapshot.priority_classes}
        self._parents = {node.id: node.parent for node in snapshot.nodes}
        self._guaranteed = {
            (quota.node, quota.pool): quota.guaranteed_mgpu for quota in snapshot.quotas
        }
        #: By pool, when first needed.
        self._protected: dict[str, Guarantees] = {}

    @cached_property
    def _in_use(self) -> dict[tuple[str, str], int]:
        return _in_use(self.record.snapshot, self._parents)

    def decided(self) -> list[Decided]:
        """Return all actions of the cycle, claims with their victims, in the order of the plan."""
        plan = self.record.plan
        found = [
            Decided(Kind.STARTED, start.job, self._asked(start), start) for start in plan.starts
        ]
        found += [self._claimed(reclaim) for reclaim in plan.reclaims]
        started = {start.job for start in plan.starts}
        found += [
            Decided(Kind.CLAIM_DROPPED, job, self._queued.get(job), starts=job in started)
            for job in plan.dropped_claims
        ]
        return found

    def decided_about(self, job: str) -> list[Decided]:
        """Return the actions of the cycle on one job; empty if it left the job unchanged."""
        found = [one for one in self.decided() if one.job == job]
        for reclaim in self.record.plan.reclaims:
            found += [
                Decided(
                    Kind.STOPPED,
                    job,
                    reclaim=reclaim,
                    beneficiary=self._asked(reclaim),
                    stopped=(self._stopped(victim, self._asked(reclaim)),),
                )
                for victim in reclaim.victims
                if victim.job == job
            ]
        return found

    def _asked(self, one: Start | Reclaim) -> QueuedJob:
        """Return the waiting job of a start or claim, in the pool where that was made."""
        job = self._queued[one.job]
        return job if one.pool is None else job.in_pool(one.pool)

    def node_uses(self, team: str, pool: str) -> list[NodeUse]:
        """Return the guarantee and use of the team and every node above it, in one pool."""
        found = []
        node: str | None = team
        while node is not None:
            found.append(
                NodeUse(
                    node, self._guaranteed.get((node, pool), 0), self._in_use.get((node, pool), 0)
                )
            )
            node = self._parents.get(node)
        return found

    def entitling_node(self, job: QueuedJob, victims: Iterable[RunningJob]) -> EntitlingNode:
        """Return the lowest node from the team up in whose guarantee the job fitted.

        It has to fit in what protected jobs left. The search ends at the child, on the job's side,
        of the highest common ancestor with any of its `victims` (R-53). That node is also returned
        if the job fitted in none before attempts below it were stopped.
        """
        protected = self._protection(job.pool)
        tree = protected.tree
        path = tree.paths[tree.index[job.team]]
        theirs = [set(tree.paths[tree.index[run.team]]) for run in victims if run.team != job.team]
        most = max((sum(node not in one for node in path) for one in theirs), default=1)
        asked = path[: max(1, most)]
        fitted = (node for node in asked if protected.fits(node, path[0], job.mgpu))
        at = next(fitted, asked[-1])
        use = self.node_uses(tree.ids[at], job.pool)[0]
        return EntitlingNode(use, protected.used_mgpu[at], at == path[0], at == path[-1])

    def _protection(self, pool: str) -> Guarantees:
        """Return the protected use of the guarantees in `pool`."""
        known = self._protected.get(pool)
        if known is None:
            snapshot = self.record.snapshot
            tree = tree_of(snapshot.nodes)
            quota = pool_quota(tree, [one for one in snapshot.quotas if one.pool == pool])
            teams: dict[int, TeamJobs] = {}
            for run in snapshot.running:
                is_going = run.phase is Phase.STOPPING or run.beneficiary is not None
                if run.pool == pool and run.team in tree.index and not is_going:
                    order = self._orders.get(run.priority_class, 0)
                    team = tree.index[run.team]
                    contender = Contender(
                        *(-order, run.started_at, run.job, run.attempt),
                        *(team, run.mgpu, run.attempt),
                    )
                    teams.setdefault(team, TeamJobs()).add(contender)
            protection = Protection.of_nobody(tree, quota)
            protection.redo(teams, range(len(tree.ids)))
            known = self._protected[pool] = protection.taken
        return known

    def _claimed(self, reclaim: Reclaim) -> Decided:
        job = self._asked(reclaim)
        return Decided(
            Kind.CLAIMED,
            job.id,
            job,
            reclaim=reclaim,
            stopped=tuple(self._stopped(victim, job) for victim in reclaim.victims),
        )

    def _stopped(self, victim: Victim, job: QueuedJob) -> Stopped:
        run = self._running[victim.attempt]
        saved_at = max(run.started_at, run.checkpoint_at or run.started_at)
        unsaved_s = max(0, self.record.snapshot.taken_at - saved_at)
        return Stopped(victim, run, self._right(run, job), unsaved_s)

    def _right(self, run: RunningJob, job: QueuedJob) -> Right:
        if run.team == job.team:
            return Right.PRIORITY
        if run.is_preemptible:
            return Right.PREEMPTIBLE
        if (run.guaranteed_mgpu or 0) < run.mgpu:
            return Right.BORROWED
        crosses = {
            cls.id for cls in self.record.snapshot.priority_classes if cls.preempts_across_teams
        }
        is_lower = self._orders.get(run.priority_class, 0) < self._orders.get(job.priority_class, 0)
        if job.priority_class in crosses and is_lower:
            return Right.PRIORITY
        return Right.BORROWED_ABOVE


def _in_use(snapshot: Snapshot, parents: Mapping[str, str | None]) -> dict[tuple[str, str], int]:
    """Return the use below each node, by (node, pool), including starting and stopping attempts."""
    found: dict[tuple[str, str], int] = {}
    for run in snapshot.running:
        node: str | None = run.team
        while node is not None:
            found[node, run.pool] = found.get((node, run.pool), 0) + run.mgpu
            node = parents.get(node)
    return found


@dataclass(frozen=True, slots=True)
class Fate:
    """The action of a plan on one job.

    `other` are the jobs for which it is stopped, with `grace_s`, or the jobs that are stopped for
    it. `code` is why it waits.
    """

    kind: Kind
    cluster: str | None = None
    nodes: tuple[str, ...] = ()
    other: tuple[str, ...] = ()
    code: str | None = None
    grace_s: int | None = None


@dataclass(frozen=True, slots=True)
class Difference:
    """A job on which two plans act differently."""

    job: str
    then: Fate
    now: Fate


def differences(then: Plan, now: Plan) -> list[Difference]:
    """Return the jobs that the plans start, claim for, stop or drop a claim of differently, by id.

    The reason to wait is included if the other plan acts on the job.
    """
    before, after = _fates(then), _fates(now)
    waiting = {id(plan): {one.job: one.code.value for one in plan.waiting} for plan in (then, now)}
    found = []
    for job in sorted(before.keys() | after.keys()):
        fates = [
            fates.get(job, Fate(Kind.WAITS, code=waiting[id(plan)].get(job)))
            for plan, fates in ((then, before), (now, after))
        ]
        if fates[0] != fates[1]:
            found.append(Difference(job, *fates))
    return found


def by_rules_of(
    snapshot: Snapshot, nodes: Iterable[TreeNode], classes: Iterable[PriorityClass]
) -> Snapshot:
    """Return the same snapshot with the rules of `nodes` and with these `classes`.

    Every recorded node and class that is among these gets its rank and rules from them. Nodes keep
    their recorded position in the tree. Nodes and classes that are missing here keep their recorded
    values, and recent use keeps its recorded decay.
    """
    rules = {node.id: node for node in nodes}
    known = {cls.id: cls for cls in classes}
    return replace(
        snapshot,
        nodes=tuple(
            replace(rules.get(node.id, node), parent=node.parent) for node in snapshot.nodes
        ),
        priority_classes=tuple(known.get(cls.id, cls) for cls in snapshot.priority_classes),
    )


def _fates(plan: Plan) -> dict[str, Fate]:
    """Return the action of a plan on every job that it changes.

    A dropped claim comes first, because its job may start or claim again.
    """
    fates = {job: Fate(Kind.CLAIM_DROPPED) for job in plan.dropped_claims}
    for start in plan.starts:
        nodes = tuple(slot.node for slot in start.slots)
        fates[start.job] = Fate(Kind.STARTED, start.cluster, nodes)
    for reclaim in plan.reclaims:
        nodes = tuple(slot.node for slot in reclaim.slots)
        victims = tuple(sorted(victim.job for victim in reclaim.victims))
        fates[reclaim.job] = Fate(Kind.CLAIMED, reclaim.cluster, nodes, victims)
        for victim in reclaim.victims:
            fates[victim.job] = Fate(Kind.STOPPED, other=(reclaim.job,), grace_s=victim.grace_s)
    return fates

"""One cycle: `decide(snapshot, policy) -> Plan`, pure and deterministic."""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter

from arbiter import waiting
from arbiter.decisions import Classed, Code, NodeUse, Plan, Reclaim, Start, Waiting
from arbiter.estimate import free_by_time_limits
from arbiter.placement import Place, Shape
from arbiter.policy import Policy
from arbiter.pool import Earmark, Pool, PoolInput, open_pool
from arbiter.queue_order import (
    NOWHERE,
    Agenda,
    JobClass,
    Reason,
    Standing,
    TeamQueue,
    service_order,
)
from arbiter.quota_tree import ROOT, Ledger, tree_of
from arbiter.reclaim import Reclaimer
from arbiter.snapshot import QueuedJob, Snapshot
from arbiter.standing import NewStart, outcome, starts_of

#: Codes of jobs that a time limit's end may start.
_WAITS_FOR_DEVICES = frozenset(
    (Code.WAITING_FOR_FREE_GPUS, Code.TOPOLOGY_FRAGMENTED, Code.WAITING_FOR_GUARANTEE)
)


def decide(snapshot: Snapshot, policy: Policy) -> Plan:
    """Start every queued job that quota and devices allow, in the order of service, and take
    back lent GPUs for those that a guarantee entitles to them.

    Pure: time is `snapshot.taken_at`; equal snapshots give equal plans, whatever the order of
    their parts. Pools do not know each other, except that `policy.starts_max` and
    `policy.reclaims_max` are for all of them, in order of their names. A job of an unknown team
    never fits; an unknown priority class has order 0 and the policy's grace.

    Raises ValueError for a tree that is none (see `tree_of`).
    """
    tree = tree_of(snapshot.nodes)
    classes = {cls.id: cls for cls in snapshot.priority_classes}
    starts: list[Start] = []
    reclaims: list[Reclaim] = []
    dropped: list[str] = []
    classed: list[Classed] = []
    reasons: list[Waiting] = []
    use: list[NodeUse] = []
    for given in _by_pool(snapshot):
        pool = open_pool(
            given,
            tree=tree,
            policy=policy,
            taken_at=snapshot.taken_at,
            clusters=snapshot.clusters,
            classes=classes,
        )
        cycle = _PoolCycle(
            pool,
            given.queued,
            starts_left=policy.starts_max - len(starts),
            reclaims_left=policy.reclaims_max - len(reclaims),
        )
        cycle.run()
        result = outcome(pool, cycle.starts, cycle.waiting_mgpu())
        starts.extend(starts_of(cycle.starts, result.guaranteed_mgpu))
        reclaims.extend(cycle.reclaims)
        dropped.extend(pool.dropped)
        classed.extend(result.classed)
        reasons.extend(cycle.explain())
        use.extend(result.use)
    return Plan(
        taken_at=snapshot.taken_at,
        starts=tuple(starts),
        reclaims=tuple(reclaims),
        dropped_claims=tuple(sorted(dropped)),
        classed=tuple(classed),
        waiting=tuple(reasons),
        use=tuple(use),
    )


def _by_pool(snapshot: Snapshot) -> list[PoolInput]:
    """The snapshot's parts by pool, in order of the pools' names.

    A claim belongs to its job's pool; one whose job is gone belongs to a pool of no name, only
    to be dropped there.
    """
    pools: dict[str, PoolInput] = {}

    def of(name: str) -> PoolInput:
        found = pools.get(name)
        if found is None:
            found = pools[name] = PoolInput(name)
        return found

    for quota in snapshot.quotas:
        of(quota.pool).quotas.append(quota)
    for device in snapshot.devices:
        of(device.pool).devices.append(device)
    for run in snapshot.running:
        of(run.pool).running.append(run)
    for job in snapshot.queued:
        of(job.pool).queued.append(job)
    if snapshot.claims:
        claimed = {claim.job for claim in snapshot.claims}
        pool_of = {job.id: job.pool for job in snapshot.queued if job.id in claimed}
        for claim in snapshot.claims:
            of(pool_of.get(claim.job, "")).claims.append(claim)
    return [pools[name] for name in sorted(pools)]


class _PoolCycle:
    """The decisions of one cycle in one pool."""

    def __init__(
        self, pool: Pool, queued: Iterable[QueuedJob], *, starts_left: int, reclaims_left: int
    ) -> None:
        self.pool = pool
        self.starts: list[NewStart] = []
        self.reclaims: list[Reclaim] = []
        self._starts_left = starts_left
        self._reclaims_left = reclaims_left
        self._jobs = sorted(queued, key=attrgetter("submitted_at", "id"))
        self._reclaimer = Reclaimer(pool)
        self._queues: dict[int, TeamQueue] = {}
        self._homeless: list[QueuedJob] = []
        self._agenda = Agenda()
        self._not_again = set(pool.dropped)

    def run(self) -> None:
        """Start what is claimed, then serve the queues in order."""
        self._use_claims()
        self._line_up()
        for team in sorted(self._queues):
            self._enlist(self._queues[team])
        while (served := self._agenda.pop()) is not None:
            source, team = served
            self._serve(source, self._queues[team])

    # -- claims ---------------------------------------------------------------------------

    def _use_claims(self) -> None:
        """Start every claimed job whose GPUs are free, here or elsewhere; give up a claim
        that only quota still refuses (it was lowered since)."""
        pool = self.pool
        for earmark in sorted(
            pool.earmarks.values(), key=lambda one: (one.claim.grace_until, one.job.id)
        ):
            if self._starts_left <= 0:
                return
            job = earmark.job
            pool.settle(earmark)
            place = self._claimed_place(earmark)
            allowed = pool.blocker(earmark.team, job.mgpu) is None
            if place is not None and allowed:
                if place.nodes != tuple(sorted(slot.node for slot in earmark.claim.slots)) or (
                    place.cluster != earmark.claim.cluster
                ):
                    pool.dropped.append(job.id)
                pool.occupy(job, earmark.team, place)
                self._note_start(job, earmark.team, place)
                del pool.earmarks[job.id]
            elif not allowed and not earmark.victims and not earmark.coming_back_mgpu:
                pool.dropped.append(job.id)
                del pool.earmarks[job.id]
            else:
                pool.restore(earmark)

    def _claimed_place(self, earmark: Earmark) -> Place | None:
        """The claimed slots when all are free, else any other place that is."""
        job, claim = earmark.job, earmark.claim
        if earmark.coming_back_mgpu == 0:
            return Place(claim.cluster, tuple(sorted(slot.node for slot in claim.slots)))
        return self.pool.free.find(Shape(job.mgpu_per_node, job.node_count, job.cluster))

    # -- queues ---------------------------------------------------------------------------

    def _line_up(self) -> None:
        """Sort the waiting jobs into team queues, and set aside what cannot start anyway."""
        pool, index = self.pool, self.pool.tree.index
        started = {start.job.id for start in self.starts}
        by_kind: dict[tuple[str, int, int, str | None, str], JobClass | None] = {}
        for i, job in enumerate(self._jobs):
            if job.id in pool.earmarks or job.id in started:
                continue
            kind = (job.team, job.mgpu_per_node, job.node_count, job.cluster, job.priority_class)
            try:
                cls = by_kind[kind]
            except KeyError:
                team = index.get(job.team)
                cls = by_kind[kind] = None if team is None else self._new_class(team, job)
            if cls is None:
                self._homeless.append(job)
            else:
                cls.jobs.append(i)
        empty = Ledger(pool.tree, pool.quota, pool.layout.capacity_mgpu, [0] * len(pool.tree.ids))
        for queue in self._queues.values():
            most = empty.available(queue.team)
            if not pool.quota.admits(pool.tree.paths[queue.team]):
                most = 0
            for cls in queue.classes:
                cls.reason = self._hopeless(cls, most)
            queue.open()

    def _new_class(self, team: int, job: QueuedJob) -> JobClass:
        queue = self._queues.get(team)
        if queue is None:
            queue = self._queues[team] = TeamQueue(team)
        priority = self.pool.classes.get(job.priority_class)
        cls = JobClass(
            shape=Shape(job.mgpu_per_node, job.node_count, job.cluster),
            mgpu=job.mgpu,
            priority_class=job.priority_class,
            order=0 if priority is None else priority.order,
            preempts=priority is not None and priority.preempts_within_team,
        )
        queue.classes.append(cls)
        return cls

    def _hopeless(self, cls: JobClass, most_mgpu: int) -> Reason | None:
        """Why the class cannot start in this cycle whatever the others do, if so."""
        pool, shape = self.pool, cls.shape
        if shape.mgpu <= 0 or shape.count <= 0:
            return waiting.never(cls, 0)
        if pool.layout.is_empty or (
            shape.cluster is not None and shape.cluster not in pool.accepting
        ):
            return waiting.no_cluster(cls)
        if cls.mgpu > most_mgpu:
            return waiting.never(cls, most_mgpu)
        priority = pool.classes.get(cls.priority_class)
        cap = None if priority is None else priority.team_cap_mgpu
        if cap is not None and cls.mgpu > cap:
            return waiting.never(cls, cap)
        if not pool.layout.holds(shape):
            return waiting.never(cls, pool.layout.most_mgpu(shape))
        if not pool.free.free:
            return waiting.no_cluster(cls)
        return None

    # -- service --------------------------------------------------------------------------

    def _standing(self, team: int, source: int) -> Standing:
        tree = self.pool.tree
        level = tree.level(source, team)
        rank = tree.ranks[team] if level else 0
        return Standing(level, self.pool.ratio(source), -rank)

    def _enlist(self, queue: TeamQueue) -> None:
        """Put the team's next job on the agenda; jobs that have no chance any more fail here."""
        team = queue.team
        while (cls := queue.head()) is not None:
            source = self.pool.source(team, cls.mgpu)
            standing = self._standing(team, source)
            if source == ROOT and not cls.preempts:
                reason = self._obstacle(queue, cls, standing, source)
                if reason is not None:
                    self._fail(queue, cls, reason)
                    continue
            self._agenda.enlist(source, standing, cls.jobs[cls.at], team)
            return

    def _serve(self, source: int, queue: TeamQueue) -> None:
        """Settle the team's next job, unless it lost the guarantee it was enlisted for."""
        pool, team = self.pool, queue.team
        cls = queue.head()
        if cls is None:
            return
        if pool.source(team, cls.mgpu) != source:
            self._enlist(queue)
            return
        standing = self._standing(team, source)
        reason = self._obstacle(queue, cls, standing, source)
        if reason is None:
            self._start(queue, cls)
        elif not self._reclaim(queue, cls, reason, source):
            if source == team and reason.code not in (
                Code.CLASS_CAP_REACHED,
                Code.BEHIND_HIGHER_PRIORITY,
            ):
                queue.blocked_mgpu += cls.mgpu
            self._fail(queue, cls, reason)
        self._enlist(queue)

    def _obstacle(
        self, queue: TeamQueue, cls: JobClass, standing: Standing, source: int
    ) -> Reason | None:
        """Why the next job of `cls` cannot start now, or None when it can."""
        pool, team = self.pool, queue.team
        room = pool.cap_room(team, cls.priority_class)
        if room is not None and cls.mgpu > room:
            return waiting.capped(pool, team, cls, standing, room)
        if queue.blocked_mgpu:
            kept = pool.protected[team] + queue.blocked_mgpu
            if kept + cls.mgpu > pool.quota.guaranteed[team]:
                return waiting.behind_own(pool, team, cls, standing)
        if not pool.free.fits(cls.shape) or pool.blocker(team, cls.mgpu) is not None:
            return waiting.blocked(pool, team, cls, standing, source)
        if self._starts_left <= 0:
            return waiting.next_cycle(pool, team, cls, standing)
        return None

    def _start(self, queue: TeamQueue, cls: JobClass) -> None:
        job = self._jobs[cls.jobs[cls.at]]
        place = self.pool.free.find(cls.shape)
        assert place is not None
        self.pool.start(job, queue.team, place)
        self._note_start(job, queue.team, place)
        queue.advance()
        self._refresh(queue.team)

    def _note_start(self, job: QueuedJob, team: int, place: Place) -> None:
        priority = self.pool.classes.get(job.priority_class)
        order = 0 if priority is None else priority.order
        self.starts.append(NewStart(job, team, order, place))
        self._starts_left -= 1

    def _reclaim(self, queue: TeamQueue, cls: JobClass, reason: Reason, source: int) -> bool:
        """Take GPUs back for the next job of `cls`, if it may; False when nothing was decided."""
        pool, team = self.pool, queue.team
        job = self._jobs[cls.jobs[cls.at]]
        if (
            (source == ROOT and not cls.preempts)
            or self._reclaims_left <= 0
            or reason.code
            in (Code.CLASS_CAP_REACHED, Code.BEHIND_HIGHER_PRIORITY, Code.BEHIND_FAIR_SHARE)
            or job.id in self._not_again
        ):
            return False
        taking = self._reclaimer.find(team, cls.mgpu, cls.shape, cls.order, preempts=cls.preempts)
        if taking is None:
            return False
        self.reclaims.append(pool.reclaim(job, team, taking.place, taking.victims))
        self._reclaims_left -= 1
        queue.advance()
        self._refresh(team)
        for victim in taking.victims:
            self._refresh(victim.team)
        return True

    def _refresh(self, team: int) -> None:
        """The protected use on the team's path changed: renew the standing of its groups."""
        tree = self.pool.tree
        for node in tree.paths[team]:
            self._agenda.refresh(node, tree.level(node, team), self.pool.ratio(node))

    def _fail(self, queue: TeamQueue, cls: JobClass, reason: Reason) -> None:
        """Nobody of `cls` starts in this cycle; in a strict queue nobody behind it either."""
        queue.fail(reason)
        if self.pool.policy.skips_blocked_within_team or reason.code is Code.CLASS_CAP_REACHED:
            return
        while (other := queue.head()) is not None:
            queue.fail(waiting.behind_own(self.pool, queue.team, other, reason.standing))

    # -- account --------------------------------------------------------------------------

    def waiting_mgpu(self) -> dict[int, int]:
        """What is still queued, by team, in milli-GPU."""
        waits: dict[int, int] = {}
        for team, queue in self._queues.items():
            waits[team] = sum(cls.mgpu * (len(cls.jobs) - cls.at) for cls in queue.classes)
        for earmark in self.pool.earmarks.values():
            waits[earmark.team] = waits.get(earmark.team, 0) + earmark.job.mgpu
        return waits

    def explain(self) -> list[Waiting]:
        """Why each job still waits: claimed jobs first, then in the order of service, then
        those that are in no order because they cannot start at all."""
        claimed = sorted(
            self.pool.earmarks.values(), key=lambda one: (one.claim.grace_until, one.job.id)
        )
        explained = [self._explain_claimed(earmark, i) for i, earmark in enumerate(claimed)]
        class_of: dict[int, JobClass] = {}
        lines = []
        places = {
            standing: i
            for i, standing in enumerate(
                sorted(
                    {
                        cls.reason.standing
                        for queue in self._queues.values()
                        for cls in queue.classes
                        if cls.reason is not None
                    }
                )
            )
        }
        hopeless: list[int] = []
        for team in sorted(self._queues):
            line: list[tuple[int, int, int]] = []
            for cls in self._queues[team].classes:
                if cls.reason is None:
                    continue
                jobs = cls.jobs[cls.at :]
                class_of.update(dict.fromkeys(jobs, cls))
                if cls.reason.standing is NOWHERE:
                    hopeless.extend(jobs)
                    continue
                place = places[cls.reason.standing]
                line.extend([(-cls.order, job, place) for job in jobs])
            line.sort()
            lines.append(line)
        ahead = len(explained)
        for job in service_order(lines):
            explained.append(self._explain(job, class_of[job], ahead))
            ahead += 1
        explained.extend(self._explain(job, class_of[job], 0) for job in sorted(hopeless))
        explained.extend(
            Waiting(job.id, Code.NEVER_FITS, {"need_mgpu": job.mgpu, "could_ever_mgpu": 0})
            for job in self._homeless
        )
        return explained

    def _explain_claimed(self, earmark: Earmark, ahead: int) -> Waiting:
        return Waiting(
            earmark.job.id,
            Code.WAITING_FOR_RECLAIM,
            waiting.reclaiming(self.pool, earmark),
            jobs_ahead=ahead,
            earliest=self.pool.taken_at,
            latest=max(self.pool.taken_at, earmark.claim.grace_until),
            method="reclaim",
        )

    def _explain(self, job: int, cls: JobClass, ahead: int) -> Waiting:
        reason = cls.reason
        assert reason is not None
        latest = None
        if ahead == 0 and reason.code in _WAITS_FOR_DEVICES:
            latest = free_by_time_limits(self.pool, cls.shape)
        return Waiting(
            self._jobs[job].id,
            reason.code,
            reason.numbers,
            reason.node,
            ahead,
            None,
            latest,
            None if latest is None else "time_limits",
        )

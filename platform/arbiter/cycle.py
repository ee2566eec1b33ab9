"""One cycle: `decide(snapshot, policy) -> Plan`, pure and deterministic."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from operator import attrgetter

from arbiter.decisions import Classed, Code, NodeUse, Plan, Reclaim, Start, Waiting
from arbiter.estimate import free_by_time_limits
from arbiter.placement import Place, Shape
from arbiter.policy import Policy
from arbiter.pool import Earmark, Pool, PoolInput, in_turn, open_pool
from arbiter.queue_order import Agenda, JobClass, Priority, ServiceOrder, Standing, TeamQueue
from arbiter.quota_tree import ROOT, Ledger, tree_of
from arbiter.reclaim import Reclaimer
from arbiter.snapshot import QueuedJob, Snapshot
from arbiter.standing import NewStart, outcome, starts_of
from arbiter.waiting import Reason, Reasons, of_claimed

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
        self._priorities = {
            cls.id: Priority(cls.id, cls.order, cls.preempts_within_team, cls.team_cap_mgpu)
            for cls in pool.classes.values()
        }
        self._queues: dict[int, TeamQueue] = {}
        self._homeless: list[QueuedJob] = []
        self._agenda = Agenda()
        self._fleet_words: dict[Shape, tuple[Code | None, int]] = {}
        self._not_again = frozenset(pool.dropped)

    def run(self) -> None:
        """Start what is claimed, then serve the queues in order."""
        self._use_claims()
        self._reclaimer = Reclaimer(self.pool)
        self._line_up()
        for team in sorted(self._queues):
            self._enlist(self._queues[team])
        while (served := self._agenda.pop()) is not None:
            source, team = served
            self._serve(source, self._queues[team])

    # -- claims ---------------------------------------------------------------------------

    def _use_claims(self) -> None:
        """Start every claimed job whose GPUs are free, there or elsewhere; give up a claim
        that only quota still refuses (it was lowered since)."""
        pool = self.pool
        for earmark in in_turn(pool.earmarks.values()):
            if self._starts_left <= 0:
                return
            job = earmark.job
            pool.settle(earmark)
            claimed = Place(
                earmark.claim.cluster, tuple(sorted(slot.node for slot in earmark.claim.slots))
            )
            is_ready = earmark.coming_back_mgpu == 0
            place = claimed if is_ready else pool.free.find(pool.shape_of(job))
            is_allowed = pool.blocker(earmark.team, job.mgpu) is None
            if place is not None and is_allowed:
                if place != claimed:
                    pool.dropped.append(job.id)
                pool.occupy(job, earmark.team, place)
                self._note_start(job, earmark.team, place)
                del pool.earmarks[job.id]
            elif is_ready and not earmark.victims and not is_allowed:
                pool.dropped.append(job.id)
                del pool.earmarks[job.id]
            else:
                pool.restore(earmark)

    # -- queues ---------------------------------------------------------------------------

    def _line_up(self) -> None:
        """Sort the waiting jobs into team queues, and set aside what cannot start anyway."""
        pool, index = self.pool, self.pool.tree.index
        settled = {start.job.id for start in self.starts}.union(pool.earmarks)
        shapes: dict[tuple[int, int, frozenset[str] | None, frozenset[str] | None], Shape] = {}
        kinds: dict[tuple[str, Shape, str], JobClass | None] = {}
        for i, job in enumerate(self._jobs):
            if job.id in settled:
                continue
            ask = (job.mgpu_per_node, job.node_count, job.clusters, job.features)
            shape = shapes.get(ask)
            if shape is None:
                shape = shapes[ask] = pool.shape_of(job)
            kind = (job.team, shape, job.priority_class)
            if kind not in kinds:
                team = index.get(job.team)
                kinds[kind] = None if team is None else self._new_class(team, job, shape)
            cls = kinds[kind]
            if cls is None:
                self._homeless.append(job)
            else:
                cls.jobs.append(i)
        empty = Ledger(pool.tree, pool.quota, pool.layout.capacity_mgpu, [0] * len(index))
        for queue in self._queues.values():
            most_mgpu = 0
            if pool.quota.admits(pool.tree.paths[queue.team]):
                most_mgpu = empty.available(queue.team)
            for cls in queue.classes:
                self._judge(cls, most_mgpu)
            queue.open()

    def _new_class(self, team: int, job: QueuedJob, shape: Shape) -> JobClass:
        queue = self._queues.get(team)
        if queue is None:
            queue = self._queues[team] = TeamQueue(team)
        priority = self._priorities.get(job.priority_class)
        if priority is None:
            priority = self._priorities[job.priority_class] = Priority(job.priority_class)
        cls = JobClass(shape, priority)
        queue.classes.append(cls)
        return cls

    def _judge(self, cls: JobClass, most_mgpu: int) -> None:
        """Mark a class that cannot start in this cycle whatever the others do; `most_mgpu` is
        what quota could ever give its team."""
        shape, cap = cls.shape, cls.priority.cap_mgpu
        cls.code, cls.could_ever_mgpu = self._fleet_word(shape)
        if cls.code is not Code.CLUSTER_UNAVAILABLE:
            most_mgpu = most_mgpu if cap is None else min(most_mgpu, cap)
            if shape.total_mgpu > most_mgpu:
                cls.code, cls.could_ever_mgpu = Code.NEVER_FITS, most_mgpu

    def _fleet_word(self, shape: Shape) -> tuple[Code | None, int]:
        """Why no fleet could start `shape` in this cycle, and the most it could ever give."""
        known = self._fleet_words.get(shape)
        if known is not None:
            return known
        pool = self.pool
        word: tuple[Code | None, int] = (None, 0)
        if shape.mgpu <= 0 or shape.node_count <= 0:
            word = (Code.NEVER_FITS, 0)
        elif pool.layout.is_empty or (
            shape.clusters is not None and shape.clusters.isdisjoint(pool.accepting)
        ):
            word = (Code.CLUSTER_UNAVAILABLE, 0)
        elif not pool.layout.holds(shape):
            word = (Code.NEVER_FITS, pool.layout.most_mgpu(shape))
        elif not pool.free.free:
            word = (Code.CLUSTER_UNAVAILABLE, 0)
        self._fleet_words[shape] = word
        return word

    # -- service --------------------------------------------------------------------------

    def _enlist(self, queue: TeamQueue) -> None:
        """Put the team's next job on the agenda; what has no chance any more fails here.

        That is exact, and spares most jobs of a full pool the agenda: room only shrinks
        within a cycle.
        """
        pool, team = self.pool, queue.team
        while (cls := queue.head()) is not None:
            source = pool.source(team, cls.shape.total_mgpu)
            code = self._obstacle(queue, cls)
            if code is None or self._may_reclaim(queue, cls, code, source):
                standing = self._standing(team, source)
                self._agenda.enlist(source, standing, cls.jobs[cls.at], team)
                return
            self._fail(queue, cls, code, source)

    def _serve(self, source: int, queue: TeamQueue) -> None:
        """Settle the team's next job, unless it lost the guarantee it was enlisted for."""
        pool, team = self.pool, queue.team
        cls = queue.head()
        if cls is not None and pool.source(team, cls.shape.total_mgpu) == source:
            code = self._obstacle(queue, cls)
            if code is None:
                self._start(queue, cls)
            elif not self._may_reclaim(queue, cls, code, source) or not self._reclaim(queue, cls):
                self._fail(queue, cls, code, source)
        self._enlist(queue)

    def _standing(self, team: int, source: int) -> Standing:
        tree = self.pool.tree
        level = tree.level(source, team)
        return Standing(level, self.pool.ratio(source), -tree.ranks[team] if level else 0)

    def _obstacle(self, queue: TeamQueue, cls: JobClass) -> Code | None:
        """Why the next job of `cls` cannot start now, or None when it can.

        WAITING_FOR_FREE_GPUS stands for all that quota and devices refuse.
        """
        pool, team, mgpu = self.pool, queue.team, cls.shape.total_mgpu
        cap = cls.priority.cap_mgpu
        if cap is not None and mgpu > cap - pool.class_use.get((team, cls.priority.id), 0):
            return Code.CLASS_CAP_REACHED
        if (
            queue.blocked_mgpu
            and pool.protected[team] + queue.blocked_mgpu + mgpu > pool.quota.guaranteed[team]
        ):
            return Code.BEHIND_HIGHER_PRIORITY
        if not pool.free.fits(cls.shape) or pool.blocker(team, mgpu) is not None:
            return Code.WAITING_FOR_FREE_GPUS
        if self._starts_left <= 0:
            return Code.BEHIND_FAIR_SHARE
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
        priority = self._priorities.get(job.priority_class)
        self.starts.append(NewStart(job, team, 0 if priority is None else priority.order, place))
        self._starts_left -= 1

    def _may_reclaim(self, queue: TeamQueue, cls: JobClass, code: Code, source: int) -> bool:
        """Whether the next job of `cls`, which cannot start, may look for victims."""
        return (
            code is Code.WAITING_FOR_FREE_GPUS
            and self._reclaims_left > 0
            and (source != ROOT or cls.priority.preempts)
            and self._reclaimer.may_find(queue.team, preempts=cls.priority.preempts)
            and self._jobs[cls.jobs[cls.at]].id not in self._not_again
        )

    def _reclaim(self, queue: TeamQueue, cls: JobClass) -> bool:
        """Take GPUs back for the next job of `cls`; False when no victims make room for it."""
        pool, team = self.pool, queue.team
        taking = self._reclaimer.find(team, cls.shape, cls.priority)
        if taking is None:
            return False
        job = self._jobs[cls.jobs[cls.at]]
        self.reclaims.append(pool.reclaim(job, team, taking.place, taking.victims))
        self._reclaims_left -= 1
        queue.advance()
        self._refresh(team)
        self._put_back({one.claim_of for one in taking.victims if one.claim_of is not None})
        for victim in taking.victims:
            self._refresh(victim.team)
        return True

    def _put_back(self, jobs: set[str]) -> None:
        """Jobs whose claim was given up for another one wait without it."""
        if not jobs:
            return
        for i, job in enumerate(self._jobs):
            if job.id in jobs:
                team = self.pool.tree.index[job.team]
                cls = self._new_class(team, job, self.pool.shape_of(job))
                cls.jobs.append(i)
                cls.code = Code.WAITING_FOR_FREE_GPUS

    def _refresh(self, team: int) -> None:
        """The protected use on the team's path changed: renew the standing of its groups."""
        tree = self.pool.tree
        for node in tree.paths[team]:
            ratio = self.pool.ratio(node)
            self._agenda.refresh(node, 0, ratio)
            self._agenda.refresh(node, tree.level(node, ROOT), ratio)

    def _fail(self, queue: TeamQueue, cls: JobClass, code: Code, source: int) -> None:
        """Nobody of `cls` starts in this cycle; in a strict queue nobody behind it either.

        A job that fits in its team's guarantee keeps its place in it.
        """
        queue.fail(code)
        if code is Code.CLASS_CAP_REACHED:
            return
        if source == queue.team and code is not Code.BEHIND_HIGHER_PRIORITY:
            queue.blocked_mgpu += cls.shape.total_mgpu
        if not self.pool.policy.skips_blocked_within_team:
            while queue.head() is not None:
                queue.fail(Code.BEHIND_HIGHER_PRIORITY)

    # -- account --------------------------------------------------------------------------

    def waiting_mgpu(self) -> dict[int, int]:
        """What is still queued, by team, in milli-GPU."""
        waits: dict[int, int] = {}
        for team, queue in self._queues.items():
            waits[team] = sum(
                cls.shape.total_mgpu * (len(cls.jobs) - cls.at) for cls in queue.classes
            )
        for earmark in self.pool.earmarks.values():
            waits[earmark.team] = waits.get(earmark.team, 0) + earmark.job.mgpu
        return waits

    def explain(self) -> list[Waiting]:
        """Why each job still waits: claimed jobs first, then in the order of service, then
        those that are in no order because they cannot start at all."""
        pool = self.pool
        explained = [
            self._explain_claimed(earmark, i)
            for i, earmark in enumerate(in_turn(pool.earmarks.values()))
        ]
        reasons = Reasons(pool)
        reason_of: dict[int, Reason] = {}
        shape_at: dict[int, Shape] = {}
        order = ServiceOrder()
        hopeless: list[int] = []
        for team in sorted(self._queues):
            for cls in self._queues[team].classes:
                jobs = cls.jobs[cls.at :]
                if not jobs:
                    continue
                source = pool.source(team, cls.shape.total_mgpu)
                reason = reasons.of(team, cls, source)
                reason_of.update(dict.fromkeys(jobs, reason))
                if cls.code is Code.NEVER_FITS or cls.code is Code.CLUSTER_UNAVAILABLE:
                    hopeless.extend(jobs)
                    continue
                shape_at[jobs[0]] = cls.shape
                stand = (source, 0 if source == team else -1 - pool.tree.ranks[team])
                if stand not in order.standings:
                    order.standings[stand] = self._standing(team, source)
                order.add(cls.priority.order, jobs, stand)
            order.end_line()
        in_order = order.merged()
        first = len(explained)
        for ahead, place in enumerate(in_order, first):
            code, numbers, node = reason_of[place]
            explained.append(Waiting(self._jobs[place].id, code, numbers, node, ahead))
        if first == 0 and in_order and explained[0].code in _WAITS_FOR_DEVICES:
            latest = free_by_time_limits(pool, shape_at[in_order[0]])
            if latest is not None:
                explained[0] = replace(explained[0], latest=latest, method="time_limits")
        for job in sorted(hopeless):
            explained.append(Waiting(self._jobs[job].id, *reason_of[job]))
        explained.extend(
            Waiting(job.id, Code.NEVER_FITS, {"need_mgpu": job.mgpu, "could_ever_mgpu": 0})
            for job in self._homeless
        )
        return explained

    def _explain_claimed(self, earmark: Earmark, ahead: int) -> Waiting:
        reason = of_claimed(self.pool, earmark)
        return Waiting(
            earmark.job.id,
            reason.code,
            reason.numbers,
            jobs_ahead=ahead,
            earliest=self.pool.taken_at,
            latest=max(self.pool.taken_at, earmark.claim.grace_until),
            method="reclaim",
        )

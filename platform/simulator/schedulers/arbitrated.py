"""Our own policy: the real arbiter, fed with the changes of the simulated world."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from arbiter.api.plan import Code, Plan, Waiting
from arbiter.api.snapshot import Balance, PriorityClass, QueuedJob, RunningJob, Slot, Usage
from arbiter.cycle.scheduler import Core
from arbiter.placement.free_devices import Shape
from arbiter.quota.ledger import Ledger
from arbiter.quota.tree import pool_quota, tree_of
from simulator.accounts import Bank, RecentUse
from simulator.book import Book
from simulator.fleet import CLUSTER, Fleet, device_of
from simulator.idle import Cause, Refused
from simulator.scene import POOL, Scene
from simulator.workload import Settings
from simulator.world import Task, World

_CLASS = PriorityClass("normal", 10, grace_period_s=86_400)


#: The key of equal waiting jobs: team, user, nodes, request per node, features.
Kind = tuple[str, str, int, int, int | None, int | None, frozenset[str] | None]

#: The cause that refused a job which the free nodes could hold. Any other code, or none, means that
#: its place came free after the latest cycle.
_CAUSES = {
    Code.WAITING_FOR_GUARANTEE: Cause.QUOTA,
    Code.BORROW_LIMIT_REACHED: Cause.QUOTA,
    Code.PARENT_LIMIT_REACHED: Cause.QUOTA,
    Code.CLASS_CAP_REACHED: Cause.QUOTA,
    Code.BEHIND_HIGHER_PRIORITY: Cause.PLACE,
    Code.RESERVED_FOR_LARGER_JOB: Cause.RESERVATION,
    Code.BEHIND_CREDITS: Cause.ORDER,
    Code.BEHIND_FAIR_SHARE: Cause.ORDER,
}


class _Accounts:
    """Use, credits and checkpoints of the simulated world, computed on request."""

    def __init__(self, scene: Scene, settings: Settings, tasks: Mapping[str, Task]) -> None:
        self._tasks = tasks
        self._interval_s = settings.checkpoint_interval_s
        self._use = RecentUse(scene.policy.fair_share_half_life_s)
        self._bank: Bank | None = None
        if settings.has_credits:
            lends = {
                quota.node: quota.lend_limit_mgpu
                for quota in scene.quotas
                if quota.lend_limit_mgpu is not None
            }
            self._bank = Bank(scene.teams, floor_s=scene.policy.credit_floor_s, lends=lends)

    def hold(self, run: RunningJob, mgpu: int, now: int) -> None:
        """Add `mgpu` to the GPUs in use by the attempt from `now` on."""
        self._use.hold(run.team, run.user, mgpu, now)
        if self._bank is not None:
            self._bank.hold(run.team, mgpu, now)

    def usage(self, team: str, now: int) -> list[Usage]:
        return self._use.of_team(team, now)

    def balances(self, now: int) -> tuple[Balance, ...]:
        return () if self._bank is None else self._bank.balances(now)

    def checkpoint_at(self, run: RunningJob, now: int) -> int | None:
        return self._tasks[run.job].saved_s(now, self._interval_s)


class Arbitrated:
    """Reports changes to the arbiter's core and carries out its plans.

    A cycle without effect is left out. That is the case after a cycle without decisions, if only
    jobs arrive that equal jobs already waiting. They queue behind the earlier ones, whose obstacles
    have not changed. The order of a team's users also changes with time alone; the next change
    takes it into account.
    """

    name: ClassVar[str] = "tidegate"

    def __init__(self, scene: Scene, fleet: Fleet, settings: Settings) -> None:
        self._fleet = fleet
        self._devices = {machine.name: device_of(machine) for machine in scene.machines}
        self._tree = tree_of(scene.nodes)
        quota = pool_quota(self._tree, scene.quotas)
        self._empty = Ledger(self._tree, quota, scene.capacity_mgpu, [0] * len(self._tree.ids))
        self._tasks: dict[str, Task] = {}
        self._accounts = _Accounts(scene, settings, self._tasks)
        core = Core(scene.policy, self._accounts)
        core.set_tree(scene.nodes, scene.quotas, (_CLASS,), ())
        core.set_devices(self._devices.values(), frozenset({CLUSTER}))
        self._book = Book(_kind, core)
        self._has_news = True
        self._down: frozenset[str] = frozenset()
        #: Why the jobs of each kind waited after the latest cycle, in the order of service. It is
        #: empty if the free nodes could hold none of them.
        self._causes: dict[Kind, Cause] = {}

    def admits(self, task: Task) -> bool:
        """Return whether quota could let the job start if no other job ran.

        The portal refuses the job otherwise.
        """
        return task.mgpu <= self._empty.available(self._tree.index[task.team])

    def arrive(self, task: Task, now: int) -> None:
        """Queue the job with its original submit time."""
        job = task.work.job
        name = task.name
        self._tasks[name] = task
        queued = QueuedJob(
            id=name,
            team=task.team,
            user=job.user,
            pool=POOL,
            mgpu_per_node=job.mgpu_per_node,
            node_count=job.node_count,
            priority_class=_CLASS.id,
            submitted_at=job.submit_s,
            time_limit_s=task.work.limit_s,
            features=job.features or None,
            cpu_milli=job.cpu_milli,
            memory_mib=job.memory_mib,
        )
        self._has_news |= self._book.queue(queued)

    def leave(self, task: Task, nodes: tuple[str, ...], now: int) -> None:
        """End the attempt."""
        run = self._book.release(task.name)
        self._accounts.hold(run, -run.mgpu, now)
        self._has_news = True

    def fail(self, node: str, now: int) -> None:
        """Do nothing: the next cycle reads the failed nodes of the world."""

    def tick(self, world: World) -> int | None:
        """Run one cycle; another one follows as long as cycles decide something."""
        if self._down != world.down.keys():
            self._down = frozenset(world.down)
            self._has_news = True
            # A node that is down offers nothing.
            devices = (
                replace(device, capacity_mgpu=0) if name in self._down else device
                for name, device in self._devices.items()
            )
            self._book.core.set_devices(devices, frozenset({CLUSTER}))
        if not self._has_news or not self._book.queued:
            return None
        decided = self._book.core.decide(world.now, parts=False)
        plan = decided.plan
        for start in plan.starts:
            world.start(self._tasks[start.job], tuple(slot.node for slot in start.slots))
        # An explanation takes as long as the decision, and is needed only if a waiting job fits.
        self._note_causes(decided.explained().waiting if world.has_fitting else ())
        self._apply(plan, world)
        self._has_news = bool(plan.starts or plan.reclaims or plan.dropped_claims)
        return world.now + 1 if self._has_news else None

    def claimed(self) -> Iterable[tuple[Shape, Sequence[Slot]]]:
        """Return the jobs that wait for claimed GPUs, with these GPUs, free or not."""
        for job, claim in self._book.claims.items():
            yield self._shape_of(job), claim.slots

    def refused(self) -> Iterable[Refused]:
        """Return the other waiting jobs, in the order of service of the latest cycle.

        A job that came later counts as the equal jobs before it. Jobs without such equals come
        last.
        """
        lines = {kind: (job, count) for kind, job, count in self._book.waiting()}
        for kind, cause in self._causes.items():
            if (line := lines.pop(kind, None)) is not None:
                yield Refused(self._shape_of(line[0]), line[1], cause)
        for job, count in lines.values():
            yield Refused(self._shape_of(job), count, Cause.CYCLE)

    def _note_causes(self, waiting: Iterable[Waiting]) -> None:
        self._causes = {}
        for one in waiting:
            if one.job not in self._book.claims:
                kind = _kind(self._book.queued[one.job])
                self._causes.setdefault(kind, _CAUSES.get(one.code, Cause.CYCLE))

    def _shape_of(self, job: str) -> Shape:
        return self._fleet.shape_of(self._tasks[job].work.job)

    def _apply(self, plan: Plan, world: World) -> None:
        for job in plan.dropped_claims:
            self._book.give_up(job)
        for start in plan.starts:
            task = self._tasks[start.job]
            queued = self._book.start(start, world.now, task.preemptions)
            self._accounts.hold(self._book.running[start.job], queued.mgpu, world.now)
        for reclaim in plan.reclaims:
            self._book.reclaim(reclaim, world.now)
            for victim in reclaim.victims:
                world.stop(self._tasks[victim.job], victim.grace_s)


def _kind(job: QueuedJob) -> Kind:
    return (
        job.team,
        job.user,
        job.node_count,
        job.mgpu_per_node,
        job.cpu_milli,
        job.memory_mib,
        job.features,
    )

"""Our own policy: the real arbiter, told of what happens in the simulated world."""

from __future__ import annotations

from dataclasses import replace
from heapq import heappop, heappush

from arbiter.core import Core
from arbiter.decisions import Plan
from arbiter.snapshot import Device, PriorityClass, QueuedJob, RunningJob
from simulator.accounts import Bank, RecentUse
from simulator.book import Book
from simulator.fleet import CLUSTER
from simulator.scene import POOL, Scene
from simulator.workload import Settings
from simulator.world import Task, World

_CLASS = PriorityClass("normal", 10, grace_period_s=86_400)


#: What makes waiting jobs alike: team, user, nodes, milli-GPU on each, features.
Kind = tuple[str, str, int, int, frozenset[str] | None]


class Arbitrated:
    """Tells the arbiter's core what changes and does what the plans say.

    A cycle is left out where it would decide nothing: after one that decided nothing, as long as
    all that happens is that jobs come which are like jobs that waited in vain then. These stand
    behind the earlier ones, and what the earlier ones wait for has not changed.
    Time alone changes the order of a team's users too; that is looked at with the next news.
    """

    name = "tidegate"

    def __init__(self, scene: Scene, settings: Settings) -> None:
        self._scene = scene
        self._settings = settings
        self._devices = {
            machine.name: Device(
                CLUSTER, machine.name, POOL, machine.mgpu, features=machine.features
            )
            for machine in scene.machines
        }
        self._tasks: dict[str, Task] = {}
        core = Core(scene.policy)
        core.set_tree(scene.nodes, scene.quotas, (_CLASS,), ())
        core.set_devices(self._devices.values(), frozenset({CLUSTER}))
        self._book = Book(_kind, core)
        self._saves: list[tuple[int, str, int]] = []
        self._has_news = True
        self._down: frozenset[str] = frozenset()
        self._use = RecentUse(scene.policy.fair_share_half_life_s)
        self._bank: Bank | None = None
        if settings.has_credits:
            lends = {
                quota.node: quota.lend_limit_mgpu
                for quota in scene.quotas
                if quota.lend_limit_mgpu is not None
            }
            self._bank = Bank(scene.teams, floor_s=scene.policy.credit_floor_s, lends=lends)

    def admits(self, task: Task) -> bool:
        """What never fits waits for ever, as it does in the product."""
        return True

    def arrive(self, task: Task, now: int) -> None:
        """The job is queued, with its original submit time."""
        job = task.work.job
        name = _name(task)
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
        )
        self._has_news |= self._book.queue(queued)

    def leave(self, task: Task, nodes: tuple[str, ...], now: int) -> None:
        """The attempt is over."""
        run = self._book.release(_name(task))
        self._hold(run, -run.mgpu, now)
        self._has_news = True

    def fail(self, node: str, now: int) -> None:
        """The next snapshot says so."""

    def tick(self, world: World) -> int | None:
        """One cycle; another one follows as long as cycles decide something."""
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
        self._note_checkpoints(world.now)
        core = self._book.core
        core.set_usage(self._use.usage(world.now))
        if self._bank is not None:
            core.set_balances(self._bank.balances(world.now))
        plan = core.cycle(world.now, explains=False)
        self._apply(plan, world)
        self._has_news = bool(plan.starts or plan.reclaims or plan.dropped_claims)
        return world.now + 1 if self._has_news else None

    def _hold(self, run: RunningJob, mgpu: int, now: int) -> None:
        """`mgpu` more of the attempt are in use from now on."""
        self._use.hold(run.team, run.user, mgpu, now)
        if self._bank is not None:
            self._bank.hold(run.team, mgpu, now)

    def _note_checkpoints(self, now: int) -> None:
        """Bring `checkpoint_at` of what runs up to date."""
        interval_s = self._settings.checkpoint_interval_s
        while self._saves and self._saves[0][0] <= now:
            _, name, attempt = heappop(self._saves)
            task = self._tasks[name]
            if task.attempt == attempt and task.is_running:
                saved_s = task.saved_s(now, interval_s)
                self._book.hold(replace(self._book.running[name], checkpoint_at=saved_s))
                heappush(self._saves, (saved_s + interval_s, name, attempt))

    def _apply(self, plan: Plan, world: World) -> None:
        for start in plan.starts:
            task = self._tasks[start.job]
            queued = self._book.start(start, world.now, task.preemptions)
            world.start(task, tuple(slot.node for slot in start.slots))
            self._hold(self._book.running[start.job], queued.mgpu, world.now)
            if task.work.is_checkpointable:
                first_s = task.works_from_s + self._settings.checkpoint_interval_s
                heappush(self._saves, (first_s, start.job, task.attempt))
        for reclaim in plan.reclaims:
            self._book.reclaim(reclaim, world.now)
            for victim in reclaim.victims:
                world.stop(self._tasks[victim.job], victim.grace_s)
        for job in plan.dropped_claims:
            self._book.give_up(job)


def _kind(job: QueuedJob) -> Kind:
    return job.team, job.user, job.node_count, job.mgpu_per_node, job.features


def _name(task: Task) -> str:
    """An id whose order is the order of the trace."""
    return f"{task.number:09d}"

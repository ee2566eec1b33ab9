"""Virtual time: jobs arrive, run, are stopped and end; a scheduler decides in between.

All events of one second are one instant. The order is: ends of jobs, ends of grace, failures and
repairs of nodes, arrivals. At multiples of the cycle the scheduler comes last.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Protocol

from arbiter.api.snapshot import Slot
from simulator.fleet import Fleet
from simulator.idle import Cause, IdleTime, ReportsCauses
from simulator.observer import Observer
from simulator.workload import Settings, Work

_END = 0
_GONE = 1
_FAIL = 2
_REPAIR = 3

#: After this many node failures without any new safe work a job is given up. Otherwise a job that
#: outlasts its nodes would restart for ever.
VAIN_MAX = 100


@dataclass(slots=True, eq=False)
class Task:
    """A job on its way through the simulation.

    `number` is the job's place in the trace, by submit time; `name` is the same as a word with the
    same sort order. `submit_s` keeps its place in the queue. `saved_work_s` is its safe work.

    While the job runs it holds `nodes`, and `slots` of them, since `started_s`. The attempt works
    from `works_from_s`. After a notice at `noticed_s` it is gone by `stop_s`. `vain` counts the
    attempts that a failed node ended without any safe work.
    """

    work: Work
    team: str
    mgpu: int
    attempt: int = 0
    saved_work_s: int = 0
    nodes: tuple[str, ...] = ()
    slots: Sequence[Slot] = ()
    started_s: int = 0
    works_from_s: int = 0
    noticed_s: int = 0
    stop_s: int | None = None
    first_start_s: int | None = None
    finish_s: int | None = None
    preemptions: int = 0
    vain: int = 0
    number: int = field(init=False)
    name: str = field(init=False)
    submit_s: int = field(init=False)

    def __post_init__(self) -> None:
        self.number = self.work.number
        self.name = f"{self.number:09d}"
        self.submit_s = self.work.job.submit_s

    @property
    def is_running(self) -> bool:
        """Return whether the job holds GPUs, including while it is being stopped."""
        return bool(self.nodes)

    def end_s(self) -> int:
        """Return when the running attempt ends."""
        return self.works_from_s + self.work.job.duration_s - self.saved_work_s

    def limit_end_s(self) -> int:
        """Return when the running attempt reaches its time limit."""
        return self.works_from_s + self.work.limit_s - self.saved_work_s

    def saved_s(self, now: int, interval_s: int) -> int:
        """Return the second up to which the running attempt's work is safe, or its start."""
        worked = now - self.works_from_s
        if not self.work.is_checkpointable or worked < interval_s:
            return self.started_s
        return self.works_from_s + worked // interval_s * interval_s


class Scheduler(Protocol):
    """A policy that starts and stops jobs. The world reports every change to it."""

    def admits(self, task: Task) -> bool:
        """Return whether the job could ever start; otherwise it is refused on arrival."""
        ...

    def arrive(self, task: Task, now: int) -> None:
        """Handle that `task` waits; it is new, or queues again."""
        ...

    def leave(self, task: Task, nodes: tuple[str, ...], now: int) -> None:
        """Handle that `task` released `nodes`: it ended, or was stopped and arrives next."""
        ...

    def fail(self, node: str, now: int) -> None:
        """Handle that `node` goes down; the jobs on it have left.

        GPUs that were kept free on it are lost.
        """
        ...

    def tick(self, world: World) -> int | None:
        """Decide now by calling `world.start` and `world.stop`.

        Return when the scheduler wants the next call even without a change, or None.
        """
        ...


@dataclass(slots=True)
class Outcome:
    """The results of a run. GPU time is in milli-GPU-seconds.

    `saved` and `idle` are within the horizon, the rest is of the whole run. `log` is a digest of
    every start and stop in order.
    """

    tasks: list[Task]
    refused: int
    observer: Observer
    horizon_s: int
    ended_s: int
    saved_mgpu_s: int
    idle_mgpu_s: Mapping[Cause, int]
    useful_mgpu_s: int
    lost_mgpu_s: int
    overhead_mgpu_s: int
    preemptions: int
    failures: int
    events: int
    ticks: int
    waiting_max: int
    log: str


@dataclass(slots=True)
class _Sums:
    saved: int = 0
    useful: int = 0
    lost: int = 0
    overhead: int = 0
    preemptions: int = 0
    failures: int = 0
    events: int = 0
    ticks: int = 0
    waiting_max: int = 0


class World:
    """One run of a workload under one scheduler.

    `teams` gives the tree's id for each team of the trace. Every action is checked: no GPU is taken
    twice, gangs are whole, only waiting jobs start and only running jobs are stopped.
    """

    def __init__(
        self,
        works: Sequence[Work],
        fleet: Fleet,
        scheduler: Scheduler,
        settings: Settings,
        observer: Observer,
        teams: Mapping[str, str],
    ) -> None:
        self.now = 0
        self.fleet = fleet
        self.settings = settings
        self._scheduler = scheduler
        self._reporter = scheduler if isinstance(scheduler, ReportsCauses) else None
        self._observer = observer
        self._tasks = [Task(work, teams[work.job.team], work.job.mgpu) for work in works]
        self.horizon_s = works[-1].job.submit_s if works else 0
        self._idle = IdleTime(fleet, self.horizon_s)
        self._heap: list[tuple[int, int, int, int]] = []
        self._waiting: set[int] = set()
        self._to_come = len(self._tasks)
        self._running = 0
        self._refused = 0
        self.down: dict[str, int] = {}
        self._on_node: dict[str, set[int]] = {name: set() for name in fleet.sizes}
        self._names = sorted(fleet.sizes)
        self._sums = _Sums()
        self._log = hashlib.sha256()
        self._dice = random.Random(f"failures {settings.seed}")

    # -- what a scheduler may ask and do ----------------------------------------------------

    @property
    def has_waiting(self) -> bool:
        """Return whether any job waits."""
        return bool(self._waiting)

    @property
    def has_fitting(self) -> bool:
        """Return whether the free nodes could hold any waiting job."""
        return self._idle.has_fitting()

    def start(self, task: Task, nodes: tuple[str, ...]) -> None:
        """Start the whole `task` on `nodes`. Raises ValueError for an impossible start."""
        job = task.work.job
        if task.number not in self._waiting:
            raise ValueError(f"job {job.id} does not wait and cannot start")
        count = len(nodes) if len(nodes) == 1 else len(set(nodes))
        if count != job.node_count:
            raise ValueError(f"job {job.id} needs {job.node_count} nodes, not {count}")
        slots = self.fleet.slots(job, nodes)
        self.fleet.take(slots)
        self._waiting.remove(task.number)
        self._running += 1
        task.attempt += 1
        task.nodes, task.slots = nodes, slots
        task.started_s = self.now
        task.works_from_s = self.now + (self.settings.restart_s if task.attempt > 1 else 0)
        task.stop_s = None
        if task.first_start_s is None:
            task.first_start_s = self.now
        for node in nodes:
            self._on_node[node].add(task.number)
        heappush(self._heap, (task.end_s(), _END, task.number, task.attempt))
        self._observer.started(task, self.now)
        self._idle.started(self.fleet.shape_of(job))
        self._log.update(b"+%d %d %s;" % (self.now, task.number, ",".join(nodes).encode()))

    def stop(self, task: Task, grace_s: int) -> None:
        """Give `task` notice: it is gone after `grace_s`, or earlier by itself.

        Raises ValueError if the task does not run or already has notice.
        """
        if not task.is_running or task.stop_s is not None:
            raise ValueError(f"job {task.work.job.id} does not run and cannot be stopped")
        task.noticed_s = self.now
        task.stop_s = self.now + grace_s
        task.preemptions += 1
        self._sums.preemptions += 1
        heappush(self._heap, (task.stop_s, _GONE, task.number, task.attempt))
        self._log.update(b"-%d %d %d;" % (self.now, task.number, grace_s))

    # -- the loop ---------------------------------------------------------------------------

    def run(self, progress: Callable[[int, int], None] | None = None) -> Outcome:
        """Run until every job is done or given up, or until no waiting job can ever start.

        Nodes stop failing once all jobs have arrived and none runs. When all nodes are back, the
        last cycle shows whether a waiting job can start. `progress` is called now and then with the
        number of arrived jobs and of all jobs.
        """
        cycle_s, arrivals, heap = self.settings.cycle_s, self._tasks, self._heap
        total = len(arrivals)
        tick_s: int | None = None
        if self.settings.failure_interval_s:
            for i in range(len(self._names)):
                heappush(heap, (self._lifetime(), _FAIL, i, 0))
        while True:
            at = total - self._to_come
            due_s = arrivals[at].submit_s if at < total else tick_s
            if heap and (self._running or self._waiting or at < total):
                due_s = heap[0][0] if due_s is None else min(due_s, heap[0][0])
            if due_s is None:
                break
            self.now = now = due_s if tick_s is None else min(due_s, tick_s)
            changed = False
            while heap and heap[0][0] == now:
                _, kind, number, attempt = heappop(heap)
                changed |= self._happen(kind, number, attempt)
            while at < total and arrivals[at].submit_s == now:
                self._come(arrivals[at])
                at += 1
                self._to_come -= 1
                changed = True
                if progress is not None and at % 500 == 0:
                    progress(at, total)
            if changed:
                due = -(-now // cycle_s) * cycle_s
                tick_s = due if tick_s is None else min(tick_s, due)
            if tick_s == now:
                self._sums.ticks += 1
                before = self._sums.events, self._running, self._sums.preemptions
                wake = self._scheduler.tick(self)
                is_idle = before == (self._sums.events, self._running, self._sums.preemptions)
                tick_s = None
                if wake is not None and not (is_idle and self._is_over()):
                    tick_s = max(-(-wake // cycle_s) * cycle_s, now + cycle_s)
                if self._waiting and is_idle and self._is_over():
                    break
            if len(self._waiting) > self._sums.waiting_max:
                self._sums.waiting_max = len(self._waiting)
            self._observer.settle(now)
            self._idle.settle(now, self._reporter)
        if progress is not None:
            progress(total, total)
        self._observer.close()
        self._idle.close()
        sums = self._sums
        return Outcome(
            tasks=self._tasks,
            refused=self._refused,
            observer=self._observer,
            horizon_s=self.horizon_s,
            ended_s=self.now,
            saved_mgpu_s=sums.saved,
            idle_mgpu_s=self._idle.mgpu_s,
            useful_mgpu_s=sums.useful,
            lost_mgpu_s=sums.lost,
            overhead_mgpu_s=sums.overhead,
            preemptions=sums.preemptions,
            failures=sums.failures,
            events=sums.events,
            ticks=sums.ticks,
            waiting_max=sums.waiting_max,
            log=self._log.hexdigest(),
        )

    def _is_at_rest(self) -> bool:
        """Return whether no job runs and none is still to arrive."""
        return not self._to_come and not self._running

    def _is_over(self) -> bool:
        """Return whether the state cannot change any more by itself."""
        return self._is_at_rest() and not self.down

    def _come(self, task: Task) -> None:
        self._sums.events += 1
        shape = self.fleet.shape_of(task.work.job)
        if not self.fleet.could_hold(shape) or not self._scheduler.admits(task):
            self._refused += 1
            return
        self._wait(task)

    def _wait(self, task: Task) -> None:
        self._waiting.add(task.number)
        self._observer.queued(task, self.now)
        self._idle.queued(self.fleet.shape_of(task.work.job))
        self._scheduler.arrive(task, self.now)

    def _happen(self, kind: int, number: int, attempt: int) -> bool:
        """Handle one event; return False if it is out of date."""
        if kind == _FAIL:
            return self._fail(number)
        if kind == _REPAIR:
            name = self._names[number]
            self.fleet.give_back([(name, self.down.pop(name))])
            heappush(self._heap, (self.now + self._lifetime(), _FAIL, number, 0))
            return True
        task = self._tasks[number]
        if task.attempt != attempt or not task.is_running:
            return False
        self._sums.events += 1
        if kind == _END:
            self._release(task, self.now, is_done=True)
        else:
            self._release(task, self._saved_on_notice(task), is_done=False)
        return True

    def _saved_on_notice(self, task: Task) -> int:
        """Return the second up to which the work of a task is safe at the end of its grace.

        The job saves in the last `save_s` seconds, if its grace is long enough for that.
        """
        saved_s = task.saved_s(self.now, self.settings.checkpoint_interval_s)
        begins_s = self.now - self.settings.save_s
        if task.work.is_checkpointable and begins_s >= task.noticed_s:
            return max(saved_s, begins_s)
        return saved_s

    def _fail(self, number: int) -> bool:
        if self._is_at_rest():
            heappush(self._heap, (self.now + self._lifetime(), _FAIL, number, 0))
            return False
        name = self._names[number]
        self._sums.events += 1
        self._sums.failures += 1
        for victim in sorted(self._on_node[name]):
            task = self._tasks[victim]
            saved_s = task.saved_s(self.now, self.settings.checkpoint_interval_s)
            if saved_s <= task.works_from_s:
                task.vain += 1
            self._release(task, saved_s, is_done=False)
        self._scheduler.fail(name, self.now)
        self.down[name] = self.fleet.sizes[name]
        self.fleet.take([(name, self.down[name])])
        heappush(self._heap, (self.now + self.settings.repair_s, _REPAIR, number, 0))
        return True

    def _lifetime(self) -> int:
        return 1 + int(self._dice.expovariate(1 / self.settings.failure_interval_s))

    def _release(self, task: Task, saved_until: int, *, is_done: bool) -> None:
        """End the running attempt; its work up to `saved_until` counts."""
        now, sums = self.now, self._sums
        works_from = min(task.works_from_s, now)
        saved = max(0, saved_until - works_from)
        sums.overhead += task.mgpu * (works_from - task.started_s)
        sums.useful += task.mgpu * saved
        sums.lost += task.mgpu * (now - works_from - saved)
        horizon = self.horizon_s
        sums.saved += task.mgpu * (min(works_from + saved, horizon) - min(works_from, horizon))
        task.saved_work_s += saved
        nodes, task.nodes = task.nodes, ()
        for node in nodes:
            self._on_node[node].remove(task.number)
        self.fleet.give_back(task.slots)
        task.slots = ()
        self._running -= 1
        self._observer.released(task, now)
        self._scheduler.leave(task, nodes, now)
        if is_done:
            task.finish_s = now
        elif task.vain < VAIN_MAX:
            self._wait(task)

"""Cohorts as in Kueue with default settings: one head per queue and round, no preemption."""

from __future__ import annotations

from typing import ClassVar

from arbiter.placement.free_devices import Shape
from simulator.schedulers.queues import QueueScheduler
from simulator.world import Task, World


class Cohorts(QueueScheduler):
    """Every team is a ClusterQueue with its guarantee as nominal quota, all in one cohort.

    Each round takes the head of every queue. Heads that need not borrow come first, then the order
    is by submit time (`BestEffortFIFO`, no fair sharing). A job that cannot start is set aside
    until the next change. The next job of its queue is the head of the next round. GPUs are placed
    on admission, as with topology-aware scheduling.
    """

    name: ClassVar[str] = "cohorts"

    def key(self, queue: str, head: Task, now: int) -> tuple[int, ...]:
        """Order heads that fit in the nominal quota before heads that borrow."""
        return (int(self.use[queue] + head.mgpu > self.guaranteed[queue]),)

    def tick(self, world: World) -> int | None:
        """Run rounds until the heads of all queues are set aside."""
        aside: set[Shape] = set()
        served: dict[str, Task] = {}
        while self.fleet.total_free:
            heads = []
            for name, queue in self.queues.items():
                found = queue.head(aside, after=served.get(name))
                if found is not None:
                    head, shape = found
                    key = (self.key(name, head, world.now), head.submit_s, head.number)
                    heads.append((key, name, shape, head))
            if not heads:
                break
            heads.sort(key=lambda entry: entry[0])
            for _, name, shape, head in heads:
                served[name] = head
                nodes = self.fleet.find(shape)
                if nodes is None:
                    aside.add(shape)
                    continue
                self.queues[name].pop(shape)
                self.use[name] += head.mgpu
                world.start(head, nodes)
        return None

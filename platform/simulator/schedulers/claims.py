"""GPUs that come back for a certain job: the choice of victims, and the GPUs kept for the job.

For baselines that preempt. The arbiter has its own, stricter rules (`arbiter.preemption.reclaim`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from arbiter.placement.free_devices import Shape
from simulator.fleet import Fleet
from simulator.world import Task


@dataclass(slots=True)
class Claim:
    """The `nodes` kept for `task`; `missing` is the part of them that other jobs still hold."""

    task: Task
    nodes: tuple[str, ...]
    missing: dict[str, int]


class Claims:
    """All claims of one fleet, in the order of their creation."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._claims: list[Claim] = []
        self._coming: dict[str, int] = {}

    def add(self, task: Task, nodes: tuple[str, ...]) -> None:
        """Keep `nodes` for `task`: the free part now, the rest as it comes free."""
        missing = {}
        for name, wanted in self._fleet.slots(task.work.job, nodes):
            missing[name] = wanted - self._take(name, wanted)
        self._claims.append(Claim(task, nodes, missing))

    def notice(self, victim: Task) -> None:
        """Count on the GPUs of `victim`, which is being stopped."""
        for name, amount in self._fleet.slots(victim.work.job, victim.nodes):
            self._coming[name] = self._coming.get(name, 0) + amount

    def returned(self, victim: Task, nodes: tuple[str, ...]) -> None:
        """Stop counting on the GPUs of a victim, which are free now."""
        for name, amount in self._fleet.slots(victim.work.job, nodes):
            self._coming[name] -= amount

    def ready(self) -> list[Claim]:
        """Remove and return the claims that are complete; their nodes are free then."""
        done: list[Claim] = []
        for claim in self._claims:
            for name, amount in claim.missing.items():
                if amount:
                    claim.missing[name] = amount - self._take(name, amount)
            if not any(claim.missing.values()):
                done.append(claim)
        for claim in done:
            self._claims.remove(claim)
            self._fleet.give_back(self._fleet.slots(claim.task.work.job, claim.nodes))
        return done

    def fail(self, node: str) -> list[Task]:
        """Drop the claims on a node that goes down; return the jobs that must queue again."""
        dropped = [claim for claim in self._claims if node in claim.missing]
        for claim in dropped:
            self._claims.remove(claim)
            slots = self._fleet.slots(claim.task.work.job, claim.nodes)
            self._fleet.give_back((name, wanted - claim.missing[name]) for name, wanted in slots)
        return [claim.task for claim in dropped]

    def _take(self, name: str, amount: int) -> int:
        """Keep up to `amount` of the free part of a node, its CPU or its memory."""
        taken = min(amount, self._fleet.free[name])
        if taken:
            self._fleet.take([(name, taken)])
        return taken

    def choose(
        self, shape: Shape, candidates: Iterable[Task], may_stop: Callable[[Task], bool]
    ) -> tuple[tuple[str, ...], list[Task]] | None:
        """Return nodes for `shape` and the victims to be stopped there, or None.

        Candidates are added in their order until the shape fits, if `may_stop` allows it.
        `may_stop` may count the jobs that it allowed. Unnecessary victims are removed at the end.
        """
        fleet, left = self._fleet, self._unclaimed()
        among = {node for node in fleet.sizes if fleet.is_of(shape, node)}
        ready = sum(1 for node in among if fleet.fits_on(shape, node, left))
        victims: list[Task] = []
        for task in candidates:
            if ready >= shape.node_count:
                break
            if among.isdisjoint(task.nodes) or not may_stop(task):
                continue
            victims.append(task)
            ready += self._give(task, 1, left, among, shape)
        if ready < shape.node_count:
            return None
        for task in victims[::-1]:
            change = self._give(task, -1, left, among, shape)
            if ready + change >= shape.node_count:
                victims.remove(task)
                ready += change
            else:
                self._give(task, 1, left, among, shape)
        fitting = sorted((left[node], node) for node in among if fleet.fits_on(shape, node, left))
        if victims:
            fitting.sort(key=lambda one: (not any(one[1] in task.nodes for task in victims), one))
        return tuple(sorted(node for _, node in fitting[: shape.node_count])), victims

    def _give(
        self, task: Task, sign: int, left: dict[str, int], among: set[str], shape: Shape
    ) -> int:
        """Add (or subtract) a victim's resources to `left`; return the change in fitting nodes."""
        fleet = self._fleet
        here = [node for node in task.nodes if node in among]
        before = sum(fleet.fits_on(shape, node, left) for node in here)
        for name, amount in fleet.slots(task.work.job, task.nodes):
            left[name] += sign * amount
        return sum(fleet.fits_on(shape, node, left) for node in here) - before

    def _unclaimed(self) -> dict[str, int]:
        """Return the free and returning resources that no claim covers, by node, CPU and memory."""
        left = dict(self._fleet.free)
        for name, amount in self._coming.items():
            left[name] += amount
        for claim in self._claims:
            for name, amount in claim.missing.items():
                left[name] -= amount
        return left

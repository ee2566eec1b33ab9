"""GPUs that come back for a certain job: victims to choose, and what is kept for it meanwhile.

For policies that stop jobs. The arbiter has its own, stricter, ways (`arbiter.preemption.reclaim`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from arbiter.placement.free_devices import Shape
from simulator.fleet import Fleet
from simulator.world import Task


@dataclass(slots=True)
class Claim:
    """`nodes` are kept for `task`; `missing` is what others still hold of each and its rooms."""

    task: Task
    nodes: tuple[str, ...]
    missing: dict[str, int]


class Claims:
    """All claims of one fleet, in the order in which they were made."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._claims: list[Claim] = []
        self._coming: dict[str, int] = {}

    def add(self, task: Task, nodes: tuple[str, ...]) -> None:
        """Keep `nodes` for `task`: what is free of them now, the rest as it comes free."""
        missing = {}
        for name, wanted in self._fleet.slots(task.work.job, nodes):
            missing[name] = wanted - self._take(name, wanted)
        self._claims.append(Claim(task, nodes, missing))

    def notice(self, victim: Task) -> None:
        """`victim` is being stopped: count on what it holds."""
        for name, amount in self._fleet.slots(victim.work.job, victim.nodes):
            self._coming[name] = self._coming.get(name, 0) + amount

    def returned(self, victim: Task, nodes: tuple[str, ...]) -> None:
        """A victim's GPUs are free."""
        for name, amount in self._fleet.slots(victim.work.job, nodes):
            self._coming[name] -= amount

    def ready(self) -> list[Claim]:
        """The claims that now have all they wait for; their nodes are free, and they are gone."""
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
        """Drop the claims on a node that goes down; returns the jobs that have to queue again."""
        dropped = [claim for claim in self._claims if node in claim.missing]
        for claim in dropped:
            self._claims.remove(claim)
            kept = self._fleet.slots(claim.task.work.job, claim.nodes)
            self._fleet.give_back((name, wanted - claim.missing[name]) for name, wanted in kept)
        return [claim.task for claim in dropped]

    def _take(self, name: str, amount: int) -> int:
        """Keep up to `amount` of what is free of a node or a room."""
        taken = min(amount, self._fleet.free[name])
        if taken:
            self._fleet.take([(name, taken)])
        return taken

    def choose(
        self, shape: Shape, candidates: Iterable[Task], may_stop: Callable[[Task], bool]
    ) -> tuple[tuple[str, ...], list[Task]] | None:
        """Nodes for `shape` and the victims that make room there, or None.

        Candidates are taken in their order, if `may_stop` (which may count them), until there
        is room; then those that turn out not to be needed are spared.
        """
        fleet, left = self._fleet, self._unclaimed()
        among = {node for node in fleet.sizes if fleet.is_of(shape, node)}
        ready = sum(1 for node in among if fleet.has_room(shape, node, left))
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
        fitting = sorted((left[node], node) for node in among if fleet.has_room(shape, node, left))
        if victims:
            fitting.sort(key=lambda one: (not any(one[1] in task.nodes for task in victims), one))
        return tuple(sorted(node for _, node in fitting[: shape.node_count])), victims

    def _give(
        self, task: Task, sign: int, left: dict[str, int], among: set[str], shape: Shape
    ) -> int:
        """Count what a victim holds as free, or no longer; returns how many more nodes fit."""
        fleet = self._fleet
        here = [node for node in task.nodes if node in among]
        before = sum(fleet.has_room(shape, node, left) for node in here)
        for name, amount in fleet.slots(task.work.job, task.nodes):
            left[name] += sign * amount
        return sum(fleet.has_room(shape, node, left) for node in here) - before

    def _unclaimed(self) -> dict[str, int]:
        """What is free or coming back, by node and room, and nobody has claimed."""
        left = dict(self._fleet.free)
        for name, amount in self._coming.items():
            left[name] += amount
        for claim in self._claims:
            for name, amount in claim.missing.items():
                left[name] -= amount
        return left

"""GPUs that come back for a certain job: victims to choose, and what is kept for it meanwhile.

For policies that stop jobs. The arbiter has its own, stricter, ways (`arbiter.reclaim`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from arbiter.placement import Shape
from simulator.fleet import Fleet
from simulator.world import Task


@dataclass(slots=True)
class Claim:
    """`nodes` are kept for `task`; `missing` is what others still hold of each."""

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
        for node in nodes:
            wanted = task.work.job.mgpu_per_node
            missing[node] = wanted - self._take(node, wanted)
        self._claims.append(Claim(task, nodes, missing))

    def notice(self, victim: Task) -> None:
        """`victim` is being stopped: count on what it holds."""
        for node in victim.nodes:
            self._coming[node] = self._coming.get(node, 0) + victim.work.job.mgpu_per_node

    def returned(self, victim: Task, nodes: tuple[str, ...]) -> None:
        """A victim's GPUs are free."""
        for node in nodes:
            self._coming[node] -= victim.work.job.mgpu_per_node

    def ready(self) -> list[Claim]:
        """The claims that now have all they wait for; their nodes are free, and they are gone."""
        done: list[Claim] = []
        for claim in self._claims:
            for node, mgpu in claim.missing.items():
                if mgpu:
                    claim.missing[node] = mgpu - self._take(node, mgpu)
            if not any(claim.missing.values()):
                done.append(claim)
        for claim in done:
            self._claims.remove(claim)
            self._fleet.take(claim.nodes, -claim.task.work.job.mgpu_per_node)
        return done

    def fail(self, node: str) -> list[Task]:
        """Drop the claims on a node that goes down; returns the jobs that have to queue again."""
        dropped = [claim for claim in self._claims if node in claim.missing]
        for claim in dropped:
            self._claims.remove(claim)
            for name, mgpu in claim.missing.items():
                self._fleet.take((name,), mgpu - claim.task.work.job.mgpu_per_node)
        return [claim.task for claim in dropped]

    def _take(self, node: str, mgpu: int) -> int:
        """Keep up to `mgpu` of what is free on a node."""
        taken = min(mgpu, self._fleet.free[node])
        if taken:
            self._fleet.take((node,), taken)
        return taken

    def choose(
        self, shape: Shape, candidates: Iterable[Task], may_stop: Callable[[Task], bool]
    ) -> tuple[tuple[str, ...], list[Task]] | None:
        """Nodes for `shape` and the victims that make room there, or None.

        Candidates are taken in their order, if `may_stop` (which may count them), until there
        is room; then those that turn out not to be needed are spared.
        """
        extra = self._unclaimed()
        free, wanted = self._fleet.free, shape.mgpu
        usable = [node for node in free if self._fleet.is_of(shape, node)]
        ready = sum(1 for node in usable if free[node] + extra.get(node, 0) >= wanted)
        among = set(usable)
        victims: list[Task] = []
        for task in candidates:
            if ready >= shape.node_count:
                break
            if among.isdisjoint(task.nodes) or not may_stop(task):
                continue
            victims.append(task)
            ready += self._give(task, 1, extra, among, wanted)
        if ready < shape.node_count:
            return None
        for task in victims[::-1]:
            change = self._give(task, -1, extra, among, wanted)
            if ready + change >= shape.node_count:
                victims.remove(task)
                ready += change
            else:
                self._give(task, 1, extra, among, wanted)
        fitting = sorted(
            (free[node] + extra.get(node, 0), node)
            for node in usable
            if free[node] + extra.get(node, 0) >= wanted
        )
        if victims:
            fitting.sort(key=lambda one: (not any(one[1] in task.nodes for task in victims), one))
        return tuple(sorted(node for _, node in fitting[: shape.node_count])), victims

    def _give(
        self, task: Task, sign: int, extra: dict[str, int], among: set[str], wanted: int
    ) -> int:
        """Count what a victim holds as free, or no longer; returns how many more nodes fit."""
        change, mgpu = 0, sign * task.work.job.mgpu_per_node
        for node in task.nodes:
            if node in among:
                before = self._fleet.free[node] + extra.get(node, 0)
                extra[node] = extra.get(node, 0) + mgpu
                change += (before + mgpu >= wanted) - (before >= wanted)
        return change

    def _unclaimed(self) -> dict[str, int]:
        """What is coming back, by node, and nobody has claimed."""
        extra = {node: mgpu for node, mgpu in self._coming.items() if mgpu}
        for claim in self._claims:
            for node, mgpu in claim.missing.items():
                if mgpu:
                    extra[node] = extra.get(node, 0) - mgpu
        return extra

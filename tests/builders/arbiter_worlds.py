"""Small worlds for the laws of the arbiter, and its tree written out the slow way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from hypothesis import strategies as st

from arbiter.api.snapshot import (
    NOWHERE,
    Device,
    Domains,
    Phase,
    PriorityClass,
    QueuedJob,
    Quota,
    RunningJob,
    Snapshot,
    TreeNode,
)
from builders.arbiter_builders import GPU, NOW

FEATURES = [frozenset[str](), frozenset("a"), frozenset("b"), frozenset("ab")]
PLACES = [NOWHERE, Domains(rack="r"), Domains(rack="r"), Domains(rack="s")]
CLASSES = (PriorityClass("hi", 9, preempts_within_team=True), PriorityClass("lo", 1))


class Tree:
    """Parents, quotas and the contract's classes, written out the slow way, for assertions."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.parents = {node.id: node.parent for node in snapshot.nodes}
        self.quotas = {quota.node: quota for quota in snapshot.quotas}
        self.orders = {cls.id: cls.order for cls in snapshot.priority_classes}

    def path(self, node: str | None) -> list[str]:
        return [] if node is None else [node, *self.path(self.parents[node])]

    def guaranteed(self, node: str) -> int:
        quota = self.quotas.get(node)
        return 0 if quota is None else quota.guaranteed_mgpu

    def children(self, node: str | None) -> list[str]:
        return sorted(child for child, parent in self.parents.items() if parent == node)

    def held(self, node: str | None, use: dict[str, int]) -> int:
        below = sum(self.held(child, use) for child in self.children(node))
        if node is None:
            return below
        quota = self.quotas.get(node)
        lend = None if quota is None else quota.lend_limit_mgpu
        kept = 0 if lend is None else self.guaranteed(node) - lend
        return max(use.get(node, 0) + below, kept)

    def standing(self) -> list[RunningJob]:
        """What runs and is not being stopped, and claims as jobs that started when made."""
        jobs = {job.id: job for job in self.snapshot.queued}
        claims = [
            RunningJob(
                job=claim.job,
                attempt=claim.job,
                team=jobs[claim.job].team,
                user="u",
                pool="p",
                cluster=claim.cluster,
                slots=claim.slots,
                priority_class=jobs[claim.job].priority_class,
                submitted_at=0,
                started_at=claim.claimed_at or 0,
            )
            for claim in self.snapshot.claims
        ]
        return claims + [run for run in self.snapshot.running if run.phase is not Phase.STOPPING]

    def protected(self, node: str) -> list[RunningJob]:
        """What of `standing` is protected at `node`."""
        below = [run for run in self.standing() if node in self.path(run.team)]
        lower = [run.job for child in self.children(node) for run in self.protected(child)]
        below.sort(
            key=lambda run: (
                run.job not in lower,
                -self.orders[run.priority_class],
                run.started_at,
                run.job,
            )
        )
        chosen: list[RunningJob] = []
        for run in below:
            if self.fits(node, [*chosen, run]):
                chosen.append(run)
        return chosen

    def fits(self, node: str, jobs: Sequence[RunningJob | QueuedJob]) -> bool:
        """Whether `node` holds no more than it is guaranteed with these `jobs` below it alone."""
        use: Counter[str] = Counter()
        for job in jobs:
            use[job.team] += job.mgpu
        return self.held(node, use) <= self.guaranteed(node)


@st.composite
def empty_worlds(
    draw: st.DrawFn, *, nodes_max: int = 4, node_gpus_max: int = 4, clusters_max: int = 2
) -> Snapshot:
    """Organizations, departments and teams with guarantees inside the envelope and capacity.

    Half of the worlds lend and borrow without limits, so that much is borrowed and reclaimed.
    """
    is_open = draw(st.booleans())
    clusters = draw(st.integers(1, clusters_max))
    devices = tuple(
        Device(
            f"c{i % clusters}",
            f"n{i}",
            "p",
            draw(st.integers(1, node_gpus_max)) * GPU,
            features=draw(st.sampled_from(FEATURES)),
            domains=draw(st.sampled_from(PLACES)),
        )
        for i in range(draw(st.integers(1, nodes_max)))
    )
    capacity = sum(device.capacity_mgpu for device in devices) // GPU
    nodes: list[TreeNode] = []
    quotas: list[Quota] = []

    def grow(name: str, parent: str | None, most: int, depth: int) -> int:
        guaranteed = draw(st.just(most) | st.integers(0, most))
        limits = st.none() if is_open else st.none() | st.integers(0, 3)
        lend, borrow = draw(limits), draw(limits)
        nodes.append(TreeNode(name, parent, draw(st.integers(0, 2))))
        quotas.append(
            Quota(
                name,
                "p",
                guaranteed * GPU,
                None if lend is None else lend * GPU,
                None if borrow is None else borrow * GPU,
            )
        )
        if depth:
            left = guaranteed
            for i in range(draw(st.integers(2, 3))):
                share = draw(st.sampled_from([left, left // 2]))
                left -= grow(f"{name}/{i}", name, share, depth - 1)
        return guaranteed

    left = capacity
    for i in range(draw(st.integers(1, 2))):
        left -= grow(f"o{i}", None, left, draw(st.integers(1, 2)))
    return Snapshot(
        taken_at=NOW,
        nodes=tuple(nodes),
        quotas=tuple(quotas),
        priority_classes=CLASSES,
        devices=devices,
        clusters=frozenset(device.cluster for device in devices),
        running=(),
        queued=(),
    )


def teams(snapshot: Snapshot) -> list[str]:
    parents = {node.parent for node in snapshot.nodes}
    return sorted(node.id for node in snapshot.nodes if node.id not in parents)

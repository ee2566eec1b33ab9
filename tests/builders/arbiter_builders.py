"""Snapshots for the arbiter's tests: functions with defaults, one pool, whole GPUs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from arbiter.snapshot import (
    Claim,
    Device,
    Phase,
    PriorityClass,
    QueuedJob,
    Quota,
    RunningJob,
    Slot,
    Snapshot,
    TreeNode,
)

NOW = 1_000_000
GPU = 1_000
CLASSES = (
    PriorityClass("critical", 1000, preempts_within_team=True),
    PriorityClass("high", 100, preempts_within_team=True),
    PriorityClass("normal", 10),
    PriorityClass("low", 1, grace_period_s=60),
)


def a_node(path: str, *, rank: int = 0) -> TreeNode:
    """A tree node whose id is its path; the parent is what stands before the last slash."""
    parent, _, _ = path.rpartition("/")
    return TreeNode(path, parent or None, rank)


def a_quota(
    node: str, gpus: int, *, lend: int | None = None, borrow: int | None = None, pool: str = "h100"
) -> Quota:
    """A quota in whole GPUs."""
    return Quota(
        node,
        pool,
        gpus * GPU,
        None if lend is None else lend * GPU,
        None if borrow is None else borrow * GPU,
    )


def devices(
    count: int, *, gpus: int = 8, cluster: str = "alpha", pool: str = "h100"
) -> tuple[Device, ...]:
    """`count` equal nodes of a cluster, named after it."""
    return tuple(Device(cluster, f"{cluster}-{i:03d}", pool, gpus * GPU) for i in range(count))


def slots(first: int, count: int, *, gpus: int = 8, cluster: str = "alpha") -> tuple[Slot, ...]:
    """`gpus` on each of `count` nodes from number `first` on."""
    return tuple(Slot(f"{cluster}-{i:03d}", gpus * GPU) for i in range(first, first + count))


def a_queued(
    id: str,
    team: str,
    *,
    nodes: int = 1,
    gpus: int = 1,
    priority: str = "normal",
    submitted_at: int = NOW - 100,
    pool: str = "h100",
    cluster: str | None = None,
    time_limit_s: int | None = None,
) -> QueuedJob:
    """A waiting job of `nodes` x `gpus`."""
    return QueuedJob(
        id=id,
        team=team,
        user="alice",
        pool=pool,
        mgpu_per_node=gpus * GPU,
        node_count=nodes,
        priority_class=priority,
        submitted_at=submitted_at,
        time_limit_s=time_limit_s,
        cluster=cluster,
    )


def a_running(
    job: str,
    team: str,
    on: Sequence[Slot],
    *,
    priority: str = "normal",
    started_at: int = NOW - 50,
    cluster: str = "alpha",
    pool: str = "h100",
    **more: object,
) -> RunningJob:
    """A running attempt; `more` are fields of RunningJob."""
    fields: dict[str, object] = {
        "job": job,
        "attempt": f"{job}.1",
        "team": team,
        "user": "alice",
        "pool": pool,
        "cluster": cluster,
        "slots": tuple(on),
        "priority_class": priority,
        "submitted_at": started_at - 10,
        "started_at": started_at,
        **more,
    }
    return RunningJob(**fields)  # type: ignore[arg-type]


def a_victim(
    job: str,
    team: str,
    on: Sequence[Slot],
    *,
    of: str,
    grace_until: int = NOW + 300,
    **more: object,
) -> RunningJob:
    """An attempt that is being stopped for job `of`."""
    return a_running(
        job,
        team,
        on,
        phase=Phase.STOPPING,
        beneficiary=of,
        grace_until=grace_until,
        **more,  # type: ignore[arg-type]
    )


def a_claim(
    job: str, on: Sequence[Slot], *, cluster: str = "alpha", grace_until: int = NOW + 300
) -> Claim:
    """A claim on `on`."""
    return Claim(job, cluster, tuple(on), grace_until)


def a_snapshot(
    *,
    quotas: Mapping[str, int] | Iterable[Quota],
    devices: Sequence[Device],
    running: Sequence[RunningJob] = (),
    queued: Sequence[QueuedJob] = (),
    claims: Sequence[Claim] = (),
    ranks: Mapping[str, int] | None = None,
    nodes: Sequence[TreeNode] | None = None,
    clusters: Iterable[str] | None = None,
    classes: Sequence[PriorityClass] = CLASSES,
    taken_at: int = NOW,
) -> Snapshot:
    """A snapshot; the tree is made of the quotas' nodes (ids are paths) and their ancestors."""
    rows = (
        tuple(a_quota(node, gpus) for node, gpus in quotas.items())
        if isinstance(quotas, Mapping)
        else tuple(quotas)
    )
    if nodes is None:
        paths = {row.node for row in rows}
        for path in sorted(paths):
            while "/" in path:
                path = path.rpartition("/")[0]
                paths.add(path)
        nodes = [a_node(path, rank=(ranks or {}).get(path, 0)) for path in sorted(paths)]
    return Snapshot(
        taken_at=taken_at,
        nodes=tuple(nodes),
        quotas=rows,
        priority_classes=tuple(classes),
        devices=tuple(devices),
        clusters=frozenset(
            {device.cluster for device in devices} if clusters is None else clusters
        ),
        running=tuple(running),
        queued=tuple(queued),
        claims=tuple(claims),
    )


#: The worked example: 1,000 GPUs of one company, 125 nodes of 8.
COMPANY = {
    "ai": 1000,
    "ai/research": 400,
    "ai/research/nlp": 200,
    "ai/research/vision": 120,
    "ai/research/speech": 80,
    "ai/production": 400,
    "ai/production/inference": 280,
    "ai/production/training": 120,
    "ai/exploration": 200,
    "ai/exploration/sandbox": 200,
}
COMPANY_RANKS = {"ai/production": 3, "ai/research": 2, "ai/exploration": 1}

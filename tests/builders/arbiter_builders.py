"""Snapshots for the arbiter's tests: functions with defaults, one pool, whole GPUs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from arbiter.api.plan import NodeUse, Plan, Waiting
from arbiter.api.policy import DAY_S, Policy
from arbiter.api.snapshot import (
    Balance,
    Claim,
    Device,
    Maintenance,
    OtherPool,
    Phase,
    PriorityClass,
    QueuedJob,
    Quota,
    RunningJob,
    Slot,
    Snapshot,
    TreeNode,
    Usage,
)
from arbiter.cycle.decide import decide

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
    node: str,
    gpus: int,
    *,
    lend: int | None = None,
    borrow: int | None = None,
    pool: str = "h100",
    weight: int = 100,
) -> Quota:
    """A quota in whole GPUs."""
    return Quota(
        node,
        pool,
        gpus * GPU,
        None if lend is None else lend * GPU,
        None if borrow is None else borrow * GPU,
        weight,
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
    user: str = "alice",
    others: Sequence[str] = (),
) -> QueuedJob:
    """A waiting job of `nodes` x `gpus`; `others` are the further pools that it accepts."""
    return QueuedJob(
        id=id,
        team=team,
        user=user,
        pool=pool,
        mgpu_per_node=gpus * GPU,
        node_count=nodes,
        priority_class=priority,
        submitted_at=submitted_at,
        time_limit_s=time_limit_s,
        clusters=None if cluster is None else frozenset({cluster}),
        others=tuple(OtherPool(other) for other in others),
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
    used: Mapping[tuple[str, str], int] | None = None,
    credits: Mapping[str, int] | None = None,
    maintenance: Sequence[Maintenance] = (),
) -> Snapshot:
    """A snapshot; the tree is made of the quotas' nodes (ids are paths) and their ancestors.

    `used`: decayed GPU-seconds by (team, user). `credits`: GPU-days by team.
    """
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
        usage=tuple(
            Usage(team, user, "h100", gpu_s * GPU, taken_at)
            for (team, user), gpu_s in (used or {}).items()
        ),
        balances=tuple(
            Balance(team, "h100", gpu_days * GPU * 1_000 * DAY_S)
            for team, gpu_days in (credits or {}).items()
        ),
        maintenance=tuple(maintenance),
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


class World:
    """A cluster in virtual time that does what plans say: for tests over many cycles.

    Victims hold their GPUs until `step` reaches the end of their grace or the test lets them
    go with `leave`; then they are queued again with their original submit time.
    """

    def __init__(self, snapshot: Snapshot, policy: Policy | None = None) -> None:
        self.policy = policy or Policy()
        self.base = snapshot
        self.now = snapshot.taken_at
        self.running = {run.job: run for run in snapshot.running}
        self.queued = {job.id: job for job in snapshot.queued}
        self.claims = {claim.job: claim for claim in snapshot.claims}
        self.shapes: dict[str, QueuedJob] = dict(self.queued)
        self.attempts: dict[str, int] = {}
        self.plan = Plan(self.now)

    def snapshot(self) -> Snapshot:
        """What the arbiter would see now."""
        return replace(
            self.base,
            taken_at=self.now,
            running=tuple(self.running.values()),
            queued=tuple(self.queued.values()),
            claims=tuple(self.claims.values()),
        )

    def submit(self, job: QueuedJob) -> None:
        """Queue a job; it must not have been seen before."""
        assert job.id not in self.shapes
        self.shapes[job.id] = job
        self.queued[job.id] = job

    def step(self, now: int | None = None) -> Plan:
        """Stop what is past its grace, decide at `now`, and do what the plan says."""
        if now is not None:
            assert now >= self.now
            self.now = now
        for run in list(self.running.values()):
            if run.grace_until is not None and run.grace_until <= self.now:
                self.leave(run.job)
        self.plan = decide(self.snapshot(), self.policy)
        self.apply(self.plan)
        return self.plan

    def apply(self, plan: Plan) -> None:
        """Carry out a plan."""
        for job in plan.dropped_claims:
            del self.claims[job]
        for start in plan.starts:
            ask = self.queued.pop(start.job)
            self.claims.pop(start.job, None)
            self.attempts[start.job] = self.attempts.get(start.job, 0) + 1
            self.running[start.job] = RunningJob(
                job=ask.id,
                attempt=f"{ask.id}.{self.attempts[start.job]}",
                team=ask.team,
                user=ask.user,
                pool=start.pool or ask.pool,
                cluster=start.cluster,
                slots=start.slots,
                priority_class=ask.priority_class,
                submitted_at=ask.submitted_at,
                started_at=self.now,
                time_limit_s=ask.time_limit_s,
                guaranteed_mgpu=start.guaranteed_mgpu,
                cpu_milli=ask.cpu_milli,
                memory_mib=ask.memory_mib,
            )
        for reclaim in plan.reclaims:
            assert reclaim.job not in self.claims
            self.claims[reclaim.job] = Claim(
                reclaim.job,
                reclaim.cluster,
                reclaim.slots,
                reclaim.grace_until,
                self.now,
                reclaim.pool,
            )
            for victim in reclaim.victims:
                run = self.running[victim.job]
                assert run.attempt == victim.attempt
                assert run.beneficiary is None
                self.running[victim.job] = replace(
                    run,
                    phase=Phase.STOPPING,
                    beneficiary=reclaim.job,
                    grace_until=self.now + victim.grace_s,
                )
        by_attempt = {run.attempt: run for run in self.running.values()}
        for classed in plan.classed:
            run = by_attempt[classed.attempt]
            self.running[run.job] = replace(
                self.running[run.job], guaranteed_mgpu=classed.guaranteed_mgpu
            )

    def leave(self, job: str) -> None:
        """An attempt is gone; one that was being stopped for another is queued again."""
        run = self.running.pop(job)
        if run.beneficiary is not None and job in self.shapes:
            self.queued[job] = self.shapes[job]

    def waiting(self, job: str) -> Waiting:
        """Why `job` waits, by the last plan."""
        return next(one for one in self.plan.waiting if one.job == job)

    def use(self, node: str, pool: str = "h100") -> NodeUse:
        """How a node stands, by the last plan."""
        return next(one for one in self.plan.use if (one.node, one.pool) == (node, pool))

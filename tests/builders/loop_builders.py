"""The whole loop in one process, step by step: real database, real processes, no threads."""

from __future__ import annotations

from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path
from typing import Any

from clusters.models import Cluster, Pool
from clusters.node_requests import node_shard
from clusters.observation import record_inventory
from connectors.protocol import ClusterConnector
from jobs.arbitration.arbitration import CycleReport, Cycles
from jobs.execution.connecting import connector_of
from jobs.execution.dispatch import handlers
from jobs.execution.observation import apply_listing
from jobs.execution.settling import settle
from jobs.intentions import start_shard, stop_shard
from jobs.leadership import fence
from jobs.models import Job, JobState, JobType, Leadership
from outbox.delivery import deliver_due
from primitives.clock import SystemClock
from quotas.models import PriorityClass
from tenants.models import Node, User


class Fenced:
    """A leader without a connection of its own: just the epoch and its fence."""

    def __init__(self, role: str, epoch: int = 1) -> None:
        self.role = role
        self.epoch = epoch
        Leadership.objects.update_or_create(role=role, defaults={"epoch": epoch})

    def fence(self) -> AbstractContextManager[None]:
        return fence(self.role, self.epoch)


def a_job(
    team: Node,
    user: User,
    pool: Pool,
    *,
    gpus: int = 1,
    nodes: int = 1,
    script: str = "exit 0",
    name: str = "job",
    priority_class: str = "normal",
    now: datetime | None = None,
    state: JobState = JobState.QUEUED,
    **values: Any,
) -> Job:
    """A job as submission leaves it: `nodes` nodes with `gpus` GPUs each."""
    return Job.objects.create(
        organization_id=team.organization_id,
        team=team,
        user=user,
        name=name,
        type=JobType.DISTRIBUTED if nodes > 1 else JobType.TRAINING,
        pool=pool,
        priority_class=PriorityClass.objects.get(
            organization_id=team.organization_id, name=priority_class
        ),
        mgpu_per_node=gpus * 1000,
        node_count=nodes,
        script=script,
        state=state,
        submitted_at=now or SystemClock().now(),
        **values,
    )


class LoopOn:
    """The steps that the product's loops make, on one cluster."""

    def __init__(self, cluster: Cluster) -> None:
        cluster.seen_at = None
        cluster.save()
        self.cluster = cluster
        self.arbiter = Fenced("arbiter")
        self.observer = Fenced("observer")
        self.cycles = Cycles(self.arbiter)  # type: ignore[arg-type]
        self.clock = SystemClock()
        self.listed_at: datetime | None = None
        self.take_inventory()

    @property
    def connector(self) -> ClusterConnector:
        return connector_of(self.cluster)

    def take_inventory(self) -> None:
        record_inventory(self.cluster, self.connector.inventory(), now=self.clock.now())
        self.cluster.refresh_from_db()

    def cycle(self, now: datetime | None = None) -> CycleReport:
        self.take_inventory()
        return self.cycles.run(now or self.clock.now())

    def deliver(self) -> int:
        return sum(
            deliver_due(
                handlers(
                    self.observer,  # type: ignore[arg-type]
                    self.clock.now,
                    lambda cluster: self.connector,
                ),
                shard=shard,
                clock=self.clock.now,
                fence=self.observer.fence,
            )
            for shard in (
                start_shard(self.cluster.pk),
                stop_shard(self.cluster.pk),
                node_shard(self.cluster.pk),
            )
        )

    def observe(self) -> int:
        connector = self.connector
        listing = connector.observe()
        changed = apply_listing(
            self.cluster,
            listing,
            connector=connector,
            previous_at=self.listed_at,
            leadership=self.observer,  # type: ignore[arg-type]
            now=self.clock.now(),
        )
        settle(self.cluster, connector, listing, leadership=self.observer)  # type: ignore[arg-type]
        return changed

    def turn(self) -> None:
        """One turn of everything."""
        self.cycle()
        self.deliver()
        self.observe()

    def until(self, job: Job, *states: str) -> Job:
        """Turn until `job` is in one of `states`. Fails after 60 s."""
        from builders.connector_builders import eventually

        def look() -> Job | None:
            self.turn()
            job.refresh_from_db()
            return job if job.state in states else None

        def told() -> object:
            attempts = job.attempts.order_by("number")
            found = attempts.values(
                "number", "state", "native_state", "outcome", "message", "grace_until"
            )
            return job.state, list(found)

        return eventually(look, told=told)


class Loop(LoopOn):
    """The steps on a cluster of real processes below `root`."""

    def __init__(self, cluster: Cluster, root: Path, *, nodes: int = 4, gpus: int = 8) -> None:
        cluster.options = {
            "root": str(root),
            "nodes": [{"count": nodes, "gpus": gpus, "pool": "h100", "prefix": "node-"}],
            "use_real_gpus": False,
            # What jobs write, tests look at.
            "isolation": "off",
        }
        super().__init__(cluster)

"""A cluster on which what people give to it waits for the arbiter, and the product's steps around
it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

import pytest

from billing.models import UsageSegment
from builders.connector_builders import change_kind
from builders.gated_cluster import AGatedCluster
from builders.loop_builders import Fenced
from builders.native_builders import T0
from builders.portal_builders import NOW, Company, a_company, a_grant, a_user
from clusters.observation import record_inventory
from clusters.outside import OutsideUse, record_outside_use
from connectors.protocol import Inventory, NodeCapacity
from jobs.arbitration.arbitration import Cycles
from jobs.execution.dispatch import handlers
from jobs.intentions import start_shard, stop_shard
from jobs.models import Attempt, Job, JobEvent
from jobs.natives.asking_natives import Memory
from jobs.natives.waiting_natives import apply_waiting_natives
from outbox.delivery import deliver_due
from tenants.models import User
from tenants.roles import Role


@dataclass
class Story:
    """The product's steps around one gated cluster, on its clock."""

    company: Company
    cluster: AGatedCluster
    memory: Memory = field(default_factory=Memory)
    complaints: list[str] = field(default_factory=list)
    previous_s: int = -1

    def __post_init__(self) -> None:
        self.arbiter = Cycles(Fenced("arbiter"))  # type: ignore[arg-type]
        self.observer = Fenced("observer")

    @property
    def now(self) -> datetime:
        return NOW + timedelta(seconds=self.cluster.now_s)

    def at(self, seconds: int) -> Story:
        self.cluster.now_s = seconds
        return self

    def look(self) -> OutsideUse:
        """The observer's step."""
        nodes = tuple(
            NodeCapacity(f"ai-company-{n:03}", "h100", 8000, is_schedulable=True, state="Ready")
            for n in range(4)
        )
        inventory = Inventory(T0 + self.cluster.now_s, nodes)
        record_inventory(self.company.cluster, inventory, now=self.now)
        use = apply_waiting_natives(
            self.company.cluster,
            self.cluster.listing(),
            control=self.cluster,
            starter=self.cluster,
            previous_at=NOW + timedelta(seconds=self.previous_s),
            leadership=self.observer,  # type: ignore[arg-type]
            now=self.now,
            memory=self.memory,
            complain=self.complaints.append,
        )
        self.previous_s = self.cluster.now_s
        record_outside_use(self.company.cluster, use)
        return use

    def decide(self) -> None:
        """The arbiter's step."""
        self.arbiter.run(self.now)

    def deliver(self) -> None:
        """What was decided is carried out."""
        for shard in (start_shard(self.company.cluster.pk), stop_shard(self.company.cluster.pk)):
            deliver_due(
                handlers(self.observer, lambda: self.now, lambda _: self.cluster),  # type: ignore[arg-type,return-value]
                shard=shard,
                clock=lambda: self.now,
                fence=self.observer.fence,
            )

    def turn(self, seconds: int) -> OutsideUse:
        """Everything once, at this second."""
        use = self.at(seconds).look()
        self.decide()
        self.deliver()
        return use

    def job(self) -> Job:
        """The native job, as it is now."""
        return Job.objects.get(origin="native")

    def states(self) -> list[tuple[int, str, str | None]]:
        """Number, state and outcome of its attempts."""
        return list(
            Attempt.objects.filter(job=self.job())
            .order_by("number")
            .values_list("number", "state", "outcome")
        )


def a_story(monkeypatch: pytest.MonkeyPatch) -> Story:
    """A company and its one gated cluster, of which the product's own steps know."""
    company = a_company()
    company.cluster.kind = "kubernetes"
    company.cluster.save(update_fields=["kind"])
    cluster = AGatedCluster()
    change_kind(monkeypatch, "kubernetes", control_natives=lambda _: cluster)
    return Story(company, cluster)


def segments() -> list[tuple[int, int | None, int, int]]:
    """What is metered: from and to in seconds of the story, guaranteed and borrowed."""
    return [
        (
            int(row.start.timestamp()) - T0,
            None if row.end is None else int(row.end.timestamp()) - T0,
            row.guaranteed_mgpu,
            row.borrowed_mgpu,
        )
        for row in UsageSegment.objects.order_by("start")
    ]


def events() -> list[str]:
    """The timeline of all jobs."""
    return list(JobEvent.objects.order_by("id").values_list("event", flat=True))


def lead_of(story: Story) -> User:
    """A new administrator of the organization."""
    lead = a_user(story.company.organization, "lead")
    a_grant(lead, Role.ORGANIZATION_ADMIN, story.company.organization)
    return lead

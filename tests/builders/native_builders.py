"""Listings of a cluster on which people also submit beside the portal, built by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from billing.models import UsageSegment
from builders.loop_builders import Fenced
from builders.portal_builders import NOW, Company
from clusters.models import Cluster
from clusters.outside import OutsideUse, record_outside_use
from connectors.errors import ClusterUnavailable
from connectors.natives import NativeRef, NativeStarter
from connectors.protocol import Listing, NativeWorkload, Outcome, RankSlot, WorkloadPhase
from connectors.slurm.naming import team_path
from jobs.arbitration.arbitration import CycleReport, Cycles
from jobs.execution.dispatch import handlers
from jobs.intentions import stop_shard
from jobs.natives.natives import apply_natives
from outbox.delivery import deliver_due

T0 = int(NOW.timestamp())
RUNNING = WorkloadPhase.RUNNING


def a_native(
    native_id: str = "7",
    *,
    submitted_s: int = 0,
    started_s: int | None = 0,
    name: str = "train.sh",
    account: str = "ai-company_research_nlp",
    user: str = "tg-bob",
    gpus: int = 8,
    nodes: tuple[str, ...] = ("ai-company-000",),
    phase: WorkloadPhase = RUNNING,
    ended_s: int | None = None,
    outcome: Outcome | None = None,
    is_preemptible: bool = False,
    time_limit_s: int | None = 3600,
) -> NativeWorkload:
    """Somebody's job with `gpus` on each of `nodes`; times count from NOW."""
    is_over = ended_s is not None
    return NativeWorkload(
        native_id=native_id,
        submitted_at=T0 + submitted_s,
        name=name,
        account=account,
        user=user,
        pool="h100",
        mgpu=gpus * 1000 * max(1, len(nodes)),
        native_state="COMPLETED" if is_over else phase.value.upper(),
        phase=WorkloadPhase.ENDED if is_over else phase,
        is_preemptible=is_preemptible,
        started_at=None if started_s is None else T0 + started_s,
        ended_at=None if ended_s is None else T0 + ended_s,
        is_released=is_over,
        outcome=outcome or (Outcome.SUCCEEDED if is_over else None),
        time_limit_s=time_limit_s,
        slots=tuple(RankSlot(node, gpus * 1000) for node in nodes),
    )


def a_waiting_native(
    native_id: str = "8", *, gpus: int = 8, user: str = "tg-bob"
) -> NativeWorkload:
    """Somebody's job that the cluster's own scheduler has not started."""
    return NativeWorkload(
        native_id=native_id,
        submitted_at=T0,
        name="waits.sh",
        account="ai-company_research_nlp",
        user=user,
        pool="h100",
        mgpu=gpus * 1000,
        native_state="PENDING",
        phase=WorkloadPhase.STARTING,
    )


@dataclass
class AControl:
    """Answers what it was given and remembers what it was asked; also the opener of itself.

    `accounting` of None does not answer; `away` makes every notice and stop fail.
    """

    accounting: Mapping[NativeRef, NativeWorkload] | None = field(default_factory=dict)
    away: bool = False
    starter: NativeStarter | None = None
    tool: str = "scontrol"
    asked: list[NativeRef] = field(default_factory=list)
    notified: list[NativeRef] = field(default_factory=list)
    stopped: list[NativeRef] = field(default_factory=list)

    def team_of(self, account: str) -> str | None:
        """As on a Slurm cluster without a prefix."""
        return team_path(account)

    def notify(self, ref: NativeRef) -> None:
        """Remember it."""
        self._answer(self.notified, ref)

    def stop(self, ref: NativeRef) -> None:
        """Remember it."""
        self._answer(self.stopped, ref)

    def find_ended(self, ref: NativeRef) -> NativeWorkload | None:
        """The account of an ended workload."""
        if self.accounting is None:
            raise ClusterUnavailable("accounting is away")
        self.asked.append(ref)
        return self.accounting.get(ref)

    def _answer(self, calls: list[NativeRef], ref: NativeRef) -> None:
        if self.away:
            raise ClusterUnavailable("away")
        calls.append(ref)


def a_slurm(cluster: Cluster) -> Cluster:
    """The cluster as one of Slurm's, which may have natives."""
    cluster.kind = "slurm"
    cluster.save(update_fields=["kind"])
    return cluster


def at(seconds: int) -> datetime:
    """So many seconds after NOW."""
    return NOW + timedelta(seconds=seconds)


def look(
    company: Company,
    control: AControl,
    *natives: NativeWorkload,
    at_s: int = 1,
    previous_s: int | None = -1,
) -> OutsideUse:
    """One look at the cluster, on which `natives` are listed."""
    use = apply_natives(
        company.cluster,
        Listing(T0 + at_s, {}, natives=natives),
        control=control,
        previous_at=None if previous_s is None else at(previous_s),
        leadership=Fenced("observer"),  # type: ignore[arg-type]
        now=at(at_s),
    )
    record_outside_use(company.cluster, use)
    return use


def decide(now: datetime = NOW) -> CycleReport:
    """One cycle of the arbiter."""
    return Cycles(Fenced("arbiter")).run(now)  # type: ignore[arg-type]


def deliver(company: Company, now: datetime = NOW) -> int:
    """Tell the cluster what is due to end; returns how many messages were delivered."""
    observer = Fenced("observer")
    return deliver_due(
        handlers(observer, lambda: now, lambda cluster: None),  # type: ignore[arg-type,return-value]
        shard=stop_shard(company.cluster.pk),
        clock=lambda: now,
        fence=observer.fence,
    )


def segments() -> list[tuple[int, int | None, int, int]]:
    """Every usage segment: its seconds since NOW, guaranteed and borrowed milli-GPU."""
    return [
        (
            int(row.start.timestamp()) - T0,
            None if row.end is None else int(row.end.timestamp()) - T0,
            row.guaranteed_mgpu,
            row.borrowed_mgpu,
        )
        for row in UsageSegment.objects.order_by("start")
    ]


def reasons(use: OutsideUse) -> list[tuple[str, int]]:
    """Why GPUs are held outside, and how many milli-GPU."""
    return [(holder.reason, holder.mgpu) for holder in use.holders]

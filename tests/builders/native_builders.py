"""Listings of a cluster on which people also submit beside the portal, built by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from builders.portal_builders import NOW
from clusters.models import Cluster
from connectors.errors import ClusterUnavailable
from connectors.natives import NativeRef, NativeStarter
from connectors.protocol import NativeWorkload, Outcome, RankSlot, WorkloadPhase
from connectors.slurm.naming import team_path

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

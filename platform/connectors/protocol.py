"""The one interface between Tidegate and a cluster. Times are the cluster's own epoch seconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol


class WorkloadPhase(StrEnum):
    """Where a workload stands on its cluster."""

    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    ENDED = "ended"


class Outcome(StrEnum):
    """How an ended workload ended, by the cluster's own word."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    STOPPED = "stopped"
    NODE_FAILED = "node_failed"
    START_FAILED = "start_failed"


@dataclass(frozen=True, slots=True)
class RankSlot:
    """One rank of a workload: `mgpu` milli-GPU on one node of the cluster."""

    node: str
    mgpu: int


@dataclass(frozen=True, slots=True)
class Workload:
    """What a cluster is asked to run: one attempt of one job.

    `key` is ours and unique for ever; it is how the workload is found again. `slots` has one
    entry per rank, in rank order. `environment` is already checked (reliability rules);
    the connector adds the rendezvous and GPU variables. `time_limit_s` of None is no limit.
    `notice_signal` is sent to every rank's process group by `notify` and `grace_s` before the
    time limit; at the limit the group is killed.
    """

    key: str
    name: str
    pool: str
    user: str
    script: str
    slots: tuple[RankSlot, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    time_limit_s: int | None = None
    notice_signal: str = "TERM"
    grace_s: int = 30


@dataclass(frozen=True, slots=True)
class Observation:
    """What the cluster says of one workload.

    `is_released` is True only when none of its processes or Pods is left, so that its GPUs are
    free; `released_at` says since when. `exit_codes` are by rank (negative: killed by
    that signal); a missing rank is unknown.
    """

    key: str
    native_id: str
    native_state: str
    phase: WorkloadPhase
    started_at: int | None = None
    ended_at: int | None = None
    released_at: int | None = None
    is_released: bool = False
    outcome: Outcome | None = None
    exit_codes: Mapping[int, int] = field(default_factory=dict)
    message: str = ""


@dataclass(frozen=True, slots=True)
class Listing:
    """Every workload of ours that the cluster knows, as one complete answer.

    There is no partial listing: a connector that cannot list everything raises
    ClusterUnavailable. A key that is absent here is unknown to the cluster, never finished.
    """

    observed_at: int
    observations: Mapping[str, Observation]


@dataclass(frozen=True, slots=True)
class NodeCapacity:
    """One node: `capacity_mgpu` of `pool` on it, and whether new work may start there."""

    name: str
    pool: str
    capacity_mgpu: int
    is_schedulable: bool
    state: str


@dataclass(frozen=True, slots=True)
class Inventory:
    """All nodes of the cluster, as one complete answer."""

    observed_at: int
    nodes: tuple[NodeCapacity, ...]


@dataclass(frozen=True, slots=True)
class LogChunk:
    """Bytes `[offset, next_offset)` of one stream of one rank.

    `is_final` says that the stream has ended and `next_offset` is its end; `is_truncated`
    that the size cap cut it.
    """

    data: bytes
    offset: int
    next_offset: int
    is_final: bool
    is_truncated: bool


class ClusterConnector(Protocol):
    """Every method may raise ClusterUnavailable; then nothing is known to have happened.

    State lives in our database and on the cluster, never in the connector object, so any
    process may open one at any time.
    """

    def submit(self, workload: Workload) -> str:
        """Start `workload` once and return the cluster's id for it.

        A second call with the same key changes nothing and returns the same id. Raises
        WorkloadRejected when the cluster will never accept this workload.
        """
        ...

    def observe(self) -> Listing:
        """Every workload of ours that the cluster knows."""
        ...

    def notify(self, key: str) -> None:
        """Tell the workload that it will be stopped: its notice signal, to every rank.

        Idempotent; a workload that has ended or is unknown is left alone.
        """
        ...

    def stop(self, key: str) -> None:
        """End all of the workload's processes now, by force. Idempotent; also for unknown keys:
        a key that was stopped before it was submitted never starts."""
        ...

    def inventory(self) -> Inventory:
        """All nodes with what they offer now."""
        ...

    def read_log(self, key: str, *, rank: int, stream: str, offset: int, limit: int) -> LogChunk:
        """At most `limit` bytes of `stream` ("stdout" or "stderr") of one rank from `offset`.

        A negative offset counts from the end. Raises LogUnavailable when there is none.
        """
        ...

    def forget(self, key: str) -> None:
        """Drop the cluster's record of an ended workload; its logs may go. Idempotent."""
        ...

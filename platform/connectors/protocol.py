"""The one interface between Tidegate and a cluster. Times are the cluster's own epoch seconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from threading import Event
from typing import Protocol, runtime_checkable

from primitives.units import DeviceKind

#: The levels of the places of nodes, from the widest on, by the names that `NodeCapacity.domains`
#: and the topology of a `Workload` have for them.
TOPOLOGY_LEVELS = ("block", "rack", "nvlink")
#: How long a `submit` that is held may take, all that it asks its cluster together: meanwhile
#: nobody else submits the same, see `jobs.execution.dispatch`.
SUBMITTED_WITHIN_S = 20


class WorkloadPhase(StrEnum):
    """Where a workload stands on its cluster. One that is held waits for `release`."""

    HELD = "held"
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
    PREEMPTED = "preempted"
    START_FAILED = "start_failed"


@dataclass(frozen=True, slots=True)
class RankSlot:
    """One rank of a workload: `mgpu` milli-GPU on one node of the cluster."""

    node: str
    mgpu: int


@dataclass(frozen=True, slots=True)
class Workload:
    """What a cluster is asked to run: one attempt of one job.

    `key` is ours and unique for ever; it is how the workload is found again. `team` is the path
    of the team that it counts for, and `is_borrowed` says that it uses more than the team's
    guarantee. One that is not `is_requeueable` ends for good when its cluster pushes it aside.
    `user` is the portal's name of its owner and `cluster_user` the cluster's, where
    the cluster has users. `slots` has one entry per rank, in rank order; a cluster with a
    scheduler of its own takes their number and size and chooses the nodes itself. `environment`
    is already checked (reliability rules); the connector adds the rendezvous and GPU variables.
    `time_limit_s` of None is no limit. `notice_signal` is sent to every rank's process group by
    `notify` and `grace_s` before the time limit; at the limit the group is killed. Every node has
    all of `features`. `image` is the container image that the script runs in, where the cluster
    runs images. All nodes are in one domain of `required_topology`, or are to be as close together
    as `preferred_topology` where there is room (levels of `TOPOLOGY_LEVELS`, or "node"). Each rank
    gets the CPUs and the memory that are given; None is what comes with so many GPUs there.
    """

    key: str
    name: str
    pool: str
    user: str
    script: str
    slots: tuple[RankSlot, ...]
    team: str = ""
    is_borrowed: bool = False
    is_requeueable: bool = True
    cluster_user: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    time_limit_s: int | None = None
    notice_signal: str = "TERM"
    grace_s: int = 30
    features: tuple[str, ...] = ()
    image: str | None = None
    required_topology: str | None = None
    preferred_topology: str | None = None
    cpus_per_node: int | None = None
    memory_mib_per_node: int | None = None


@dataclass(frozen=True, slots=True)
class Observation:
    """What the cluster says of one workload.

    `is_released` is True only when none of its processes or Pods is left, so that its GPUs are
    free; `released_at` says since when. `exit_codes` are by rank (negative: killed by
    that signal); a missing rank is unknown. `submitted_at` tells two holders of one id apart.
    `slots` are where the ranks really are, or None where the cluster keeps to what was asked; they
    may hold more or less than that, since `resized_at` or, without it, since the start.
    `is_stuck` says that it will not start before somebody changes something on the cluster, and
    `is_held_by_others` that it is because somebody there holds it: it is not ours to release;
    `never_starts` that it is because of what it asks for. What waits and `is_altered` asks for
    something else than what was submitted, and `restarts` is how often the cluster itself queued it
    anew after it ran. `is_only_run` says that by the cluster's own word there was no run before
    this one: an earlier start that it told of the same workload it has forgotten, or moved.
    `user`, `account`, `pool`, and of the rest what a native workload has, are told where the
    cluster has users.
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
    submitted_at: int | None = None
    slots: tuple[RankSlot, ...] | None = None
    resized_at: int | None = None
    is_stuck: bool = False
    is_held_by_others: bool = False
    never_starts: bool = False
    is_altered: bool = False
    restarts: int = 0
    is_only_run: bool = False
    user: str = ""
    account: str = ""
    pool: str = ""
    is_preemptible: bool = False
    is_mixed: bool = False
    time_limit_s: int | None = None


@dataclass(frozen=True, slots=True)
class NativeWorkload:
    """A workload that somebody gave to the cluster beside the portal.

    `native_id` with `submitted_at` is unique on its cluster. `account` and `user` are the
    cluster's names; `slots` are empty until it runs, `mgpu` is what it asks for in all.
    `resized_at` is when what it holds was last changed. One that `is_mixed` holds GPUs of several
    pools, and each of its parts is told alone. What came by no account may have a `place` where an
    administrator finds it: nobody is told of it but they, and no team is taken from it.

    One that is held waits for `natives.NativeStarter.start`; `ranks_mgpu` is what each of its
    ranks asks for, `ended_at` when its last run was ended, where it had one, and `message` what its
    cluster says of why it does not run though it was started. One that was started and `is_stuck`
    will not run before somebody changes something there.
    """

    native_id: str
    submitted_at: int
    name: str
    account: str
    user: str
    pool: str
    mgpu: int
    native_state: str
    phase: WorkloadPhase
    is_preemptible: bool = False
    started_at: int | None = None
    ended_at: int | None = None
    is_released: bool = False
    outcome: Outcome | None = None
    time_limit_s: int | None = None
    slots: tuple[RankSlot, ...] = ()
    resized_at: int | None = None
    is_mixed: bool = False
    ranks_mgpu: tuple[int, ...] = ()
    message: str = ""
    is_stuck: bool = False
    place: str = ""


@dataclass(frozen=True, slots=True)
class Unread:
    """A workload in a listing of which the cluster said what makes no sense, and `why`.

    `native_id` is None where not even that can be told.
    """

    native_id: str | None
    why: str


@dataclass(frozen=True, slots=True)
class Listing:
    """Every workload that the cluster knows, as one complete answer.

    There is no partial listing: a connector that cannot list everything raises
    ClusterUnavailable. A key that is absent here is unknown to the cluster, never finished.

    Where one key was accepted more than once, `copies` has all of them and `observations` the
    oldest; `seen` finds the one that was recorded. `natives` are not ours. What is `unread` is
    there, and nothing else is known of it.
    """

    observed_at: int
    observations: Mapping[str, Observation]
    copies: Mapping[str, tuple[Observation, ...]] = field(default_factory=dict)
    natives: tuple[NativeWorkload, ...] = ()
    unread: tuple[Unread, ...] = ()

    def may_have(self, native_id: str | None) -> bool:
        """Whether something that could not be read may be the workload of `native_id`."""
        return any(one.native_id is None or one.native_id == native_id for one in self.unread)

    def seen(self, key: str, native_id: str | None) -> Observation | None:
        """What the cluster says of `key` under the recorded `native_id`, or under any id while
        none is recorded."""
        for observation in self.all_of(key):
            if native_id is None or observation.native_id == native_id:
                return observation
        return None

    def all_of(self, key: str) -> tuple[Observation, ...]:
        """Everything that the cluster accepted under `key`."""
        if key in self.copies:
            return self.copies[key]
        observation = self.observations.get(key)
        return () if observation is None else (observation,)


@dataclass(frozen=True, slots=True)
class NodeCapacity:
    """One node: `capacity_mgpu` of `pool` on it, and whether new work may start there. It offers
    `device`s of the pool, which decides what is counted: a core is 1000 as a GPU is. What is free
    of it must be there for whoever may ask for that much, as the arbiter counts no devices: GPUs
    that are cut into parts of any size are a node each.

    `state` is the cluster's word, `reason` what its administrators wrote beside it, `features`
    what it says that the node has. `domains` says by level in which block, rack and NVLink domain
    the node is (`TOPOLOGY_LEVELS`), as far as the cluster tells and can keep a gang there.
    `cpu_milli` and `memory_mib` are what workloads may have of it in all (None: the cluster does
    not say, or sets no bounds), and those `per_gpu` what one of ours gets with each GPU that does
    not say what it wants.
    """

    name: str
    pool: str
    capacity_mgpu: int
    is_schedulable: bool
    state: str
    reason: str = ""
    features: tuple[str, ...] = ()
    domains: Mapping[str, str] = field(default_factory=dict)
    cpu_milli: int | None = None
    memory_mib: int | None = None
    cpu_milli_per_gpu: int = 0
    memory_mib_per_gpu: int = 0
    device: DeviceKind = DeviceKind.GPU


@dataclass(frozen=True, slots=True)
class Inventory:
    """All nodes of the cluster, as one complete answer.

    `api_version` is what was spoken with it, where there is more than one. `complaints` are about
    nodes of which the cluster said what makes no sense; they are left out. `identity` is what
    tells the cluster from others, as far as it says it now. `time_limits_s` are by pool the longest
    that a job may be given there; without one there is none. `isolation` is how far jobs are kept
    from the machine and from each other, where the portal itself runs them (`local.isolation`), and
    `isolation_reason` what refuses more.
    """

    observed_at: int
    nodes: tuple[NodeCapacity, ...]
    api_version: str = ""
    complaints: tuple[str, ...] = ()
    identity: Mapping[str, str] = field(default_factory=dict)
    time_limits_s: Mapping[str, int] = field(default_factory=dict)
    isolation: str = ""
    isolation_reason: str = ""


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


class LogReader(Protocol):
    """Who can read the outputs of a cluster's workloads."""

    def read_log(
        self,
        key: str,
        *,
        rank: int,
        stream: str,
        offset: int,
        limit: int,
        cluster_user: str | None = None,
    ) -> LogChunk:
        """See `ClusterConnector.read_log`."""
        ...


class ClusterConnector(Protocol):
    """Every method may raise ClusterUnavailable; then nothing is known to have happened.

    State lives in our database and on the cluster, never in the connector object, so any
    process may open one at any time.

    A cluster that can itself take one submission for two (a lost answer, a controller that
    forgets) `submits_held`: what it accepts does not run before `release`, and only the
    recorded id is ever released, once it has been listed `settle_s` seconds after its submit
    time. Elsewhere `submit` starts the workload, and twice the same key is one workload.

    `native_id` in the methods below is the cluster's id as recorded. It saves a look-up; the
    connector still makes sure that it belongs to `key` before it acts.
    """

    @property
    def submits_held(self) -> bool:
        """Whether a submission waits for `release`."""
        ...

    @property
    def settle_s(self) -> int:
        """Seconds after its submit time from which a held workload can no longer be forgotten
        by its cluster, so that its id is its own for good."""
        ...

    def prepare(self) -> None:
        """Make the cluster ready to be used by us, before its first answer and never after.

        Idempotent. From then on a cluster that is not the same any more must raise
        ClusterUnavailable: what ran on it would be taken for lost.
        """
        ...

    def submit(self, workload: Workload, *, is_first: bool = False) -> str:
        """Give `workload` to the cluster and return the cluster's id for it.

        A second call with the same key changes nothing and returns the same id; where
        `submits_held`, calls at the same moment may leave held copies with ids of their own.
        `is_first` promises that nobody has submitted the key before, which saves a look-up.
        Raises WorkloadRejected when the cluster will never accept this workload.
        """
        ...

    def release(self, key: str, native_id: str) -> None:
        """Let a held workload run. Idempotent; one that is not held is left alone."""
        ...

    def remove_copy(self, key: str, native_id: str) -> None:
        """Take a held workload off the cluster; one that is not held is left alone."""
        ...

    def observe(self) -> Listing:
        """Every workload that the cluster knows."""
        ...

    def find_ended(self, key: str, native_id: str) -> Observation | None:
        """What the cluster's accounting says of a released workload that is listed no more.

        None when the accounting answers and does not know it, or when there is none. Raises
        ClusterUnavailable while it cannot answer, or may be late.
        """
        ...

    def notify(self, key: str, *, native_id: str | None = None) -> None:
        """Tell the workload that it will be stopped: its notice signal, to every rank.

        Idempotent; a workload that has ended or is unknown is left alone.
        """
        ...

    def stop(self, key: str, *, native_id: str | None = None) -> None:
        """End all of the workload's processes now, by force. Idempotent; also for unknown keys:
        a key that was stopped before it was submitted never starts."""
        ...

    def inventory(self) -> Inventory:
        """All nodes with what they offer now."""
        ...

    def read_log(
        self,
        key: str,
        *,
        rank: int,
        stream: str,
        offset: int,
        limit: int,
        cluster_user: str | None = None,
    ) -> LogChunk:
        """At most `limit` bytes of `stream` ("stdout" or "stderr") of one rank from `offset`.

        A negative offset counts from the end. `cluster_user` is the workload's. Raises
        LogUnavailable when there is none.
        """
        ...

    def forget(self, key: str, *, native_id: str | None = None) -> None:
        """Drop the cluster's record of an ended workload; its logs may go. Idempotent."""
        ...


@runtime_checkable
class TellsNews(Protocol):
    """A connector that hears from its cluster when something happens there.

    Others are looked at again and again; this one may be looked at as soon as there is news.
    """

    @property
    def news(self) -> Event:
        """Set when a look would show something new. Whoever waits for it clears it before the
        look."""
        ...

"""The one interface between Tidegate and a cluster. Times are the cluster's own epoch seconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from threading import Event
from typing import NamedTuple, Protocol, runtime_checkable

from batch.file_names import has_task
from primitives.units import DeviceKind

#: The topology levels, widest first, as `NodeCapacity.domains` and `Workload` name them.
TOPOLOGY_LEVELS = ("block", "rack", "nvlink")
#: Seconds for a `submit` to a cluster that holds submissions, all its calls together. Meanwhile no
#: other process submits the same workload, see `jobs.execution.dispatch`.
SUBMITTED_WITHIN_S = 20


class WorkloadPhase(StrEnum):
    """The phase of a workload on its cluster. A held workload waits for `release`."""

    HELD = "held"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    ENDED = "ended"


class Outcome(StrEnum):
    """How an ended workload ended, as the cluster reports it."""

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


#: The most seconds between TERM and KILL for what is ended without a notice: the other ranks of one
#: that failed, and what a script leaves behind.
ENDING_S = 30


def ahead_ms(time_limit_s: int | None, signal_ahead_s: int | None, grace_s: int) -> int:
    """Return the milliseconds from the notice to the time limit; 0 without a limit."""
    wanted_s = grace_s if signal_ahead_s is None else signal_ahead_s
    return min(1_000 * wanted_s, 500 * (time_limit_s or 0))


@dataclass(frozen=True, slots=True)
class BatchLaunch:
    """How the script of a batch job runs: once, on the first node, as `sbatch` runs it.

    `number` stands for the job where Slurm has a number, `array_number` for its array, and
    `restarts` counts earlier attempts. `qos` is the name of its priority class. `tasks` and the
    fields after it are what the script's `#SBATCH` lines say about its tasks.
    """

    number: int
    qos: str = ""
    restarts: int = 0
    array_number: int | None = None
    tasks: int | None = None
    tasks_per_node: int | None = None
    cpus_per_task: int | None = None
    gpus_per_task: int | None = None


@dataclass(frozen=True, slots=True)
class JobFiles:
    """The folder of a script and the files of its output, as its author names them.

    `folder` is where the script starts; a relative one is made below the job's own folder.
    `output` and `error` are file names with Slurm's patterns, relative to that folder. Without
    `error`, errors go where the output goes. None means the log alone. A file is emptied at the
    start, unless the job `appends`. Logs have the same text.

    Without a field for its node (%N, %n, %t), a name is for the first rank alone. `values` are
    those of the patterns that are the same on every cluster, by their letter.
    """

    folder: str | None = None
    output: str | None = None
    error: str | None = None
    appends: bool = False
    values: Mapping[str, str] = field(default_factory=dict)

    def of_rank(self, rank: int) -> tuple[str | None, str | None]:
        """Return the patterns of the rank's output and of its errors; None for the log alone.

        Equal texts mean one file for both.
        """
        output, error = self.output, self.error or self.output
        return (
            output if rank == 0 or has_task(output or "") else None,
            error if rank == 0 or has_task(error or "") else None,
        )


@dataclass(frozen=True, slots=True)
class Workload:
    """The request to a cluster to run one attempt of one job.

    `key` is ours and unique for ever; it identifies the workload on the cluster.

    - `team` is the path of the team that the workload counts for. `is_borrowed` says that it uses
      more than the team's guarantee.
    - A workload that is not `is_requeueable` ends for good when its cluster preempts it.
    - `user` is the owner's name in the portal, and `cluster_user` the name on a cluster that has
      users.
    - `slots` has one entry per rank, in rank order. A cluster with its own scheduler uses only
      their number and size and chooses the nodes itself.
    - `environment` is already checked (reliability rules). The connector adds the rendezvous and
      GPU variables.
    - `private_environment` has further variables of the script, which nobody but the owner may
      read. Only a cluster that shows `environment` to others gets any. Its connector hands them
      over in another way, or leaves them out.
    - `time_limit_s` of None means no limit. At the limit every rank's process group is killed.
    - `notice_signal` is the notice, on `notify` and `ahead_ms` before the time limit. It goes once
      to each process of every rank. A script's own shell gets it only if it handles it. With
      `signals_shell_only`, it goes to that shell alone, in any case.
    - After a notice nothing is killed for `grace_s`, not even what outlives the script. After that,
      what a script left behind is killed. `signal_ahead_s` says how long before the time limit the
      notice comes; None means `grace_s`.
    - Every node must have all of `features`, and none may be one of `closed_nodes`. A cluster that
      runs the workload on the nodes of its `slots` needs neither.
    - `image` is the container image for the script, on a cluster that runs images.
    - `required_topology` confines all nodes to one domain of that level. `preferred_topology` asks
      for nodes as close together as possible. Both are levels of `TOPOLOGY_LEVELS`, or "node".
    - Each rank gets `cpus_per_node` CPUs and `memory_mib_per_node` MiB. None means the cluster's
      default for that many GPUs.
    - `arguments` follow the script on its command line.
    - `files` says where the script starts, and where its output goes beside the logs.
    - With `is_manifest` the script is a Kubernetes manifest. Its Pods with GPUs have the GPUs of
      the `slots`, several perhaps of one. Its own images, commands and requests count.
    - With `batch` the script runs once, on the node of the first slot, and starts tasks on the
      others itself. Without, it runs once on every node.
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
    private_environment: Mapping[str, str] = field(default_factory=dict)
    time_limit_s: int | None = None
    notice_signal: str = "TERM"
    grace_s: int = 30
    signal_ahead_s: int | None = None
    signals_shell_only: bool = False
    features: tuple[str, ...] = ()
    closed_nodes: tuple[str, ...] = ()
    image: str | None = None
    required_topology: str | None = None
    preferred_topology: str | None = None
    cpus_per_node: int | None = None
    memory_mib_per_node: int | None = None
    arguments: tuple[str, ...] = ()
    files: JobFiles = JobFiles()
    batch: BatchLaunch | None = None
    is_manifest: bool = False

    @property
    def ranks(self) -> int:
        """Return how many times the script runs."""
        return 1 if self.batch is not None else len(self.slots)

    @property
    def wanted_ahead_s(self) -> int:
        """Return the seconds from the notice to the time limit, of a limit that is long enough."""
        return self.grace_s if self.signal_ahead_s is None else self.signal_ahead_s

    @property
    def ahead_ms(self) -> int:
        """Return the milliseconds from the notice to the time limit, at most half of it (R-106)."""
        return ahead_ms(self.time_limit_s, self.signal_ahead_s, self.grace_s)


@dataclass(frozen=True, slots=True)
class Observation:
    """One workload as the cluster reports it.

    - `is_released` is True only when no process or Pod of the workload is left, so that its GPUs
      are free. `released_at` is the time of that.
    - `exit_codes` are by rank. A negative code is the signal that killed the rank; a missing rank
      is unknown.
    - `submitted_at` distinguishes two workloads that had the same id.
    - `slots` are the actual places of the ranks, or None on a cluster that never departs from the
      request. They may be larger or smaller than requested, since `resized_at` or else since the
      start.
    - `is_stuck` says that the workload cannot start until somebody changes something on the
      cluster.
    - `is_held_by_others` says that it is stuck because a person there holds it. We must not release
      it.
    - `never_starts` says that it is stuck because of its own request.
    - `is_altered` says that the waiting workload no longer asks for what we submitted.
    - `restarts` is how often the cluster itself requeued it after a run.
    - `is_only_run` says that, by the cluster, this is the workload's first run. The cluster has
      then forgotten or moved any earlier start that it reported.
    - `user`, `account`, `pool` and the fields after them are set only on a cluster that has users.
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
    """A workload that somebody submitted to the cluster without the portal.

    `native_id` with `submitted_at` is unique on its cluster. `account` and `user` are the cluster's
    names. `mgpu` is the size of the whole request. `slots` are empty until it runs, and
    `resized_at` is when their size last changed.

    A workload that `is_mixed` holds GPUs of several pools; each pool's part is listed separately. A
    workload without an account may have a `place` where an administrator finds it. Only
    administrators see such a workload, and no team is derived from it.

    A held workload waits for `natives.NativeStarter.start`. `ranks_mgpu` is the request of each
    rank. `ended_at` is the end of its last run, if it had one. `message` is the cluster's
    explanation why a started workload does not run. A started workload that `is_stuck` cannot run
    until somebody changes something there.
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
    """A workload in a listing whose data from the cluster is invalid, and `why`.

    `native_id` is None where not even the id is readable.
    """

    native_id: str | None
    why: str


@dataclass(frozen=True, slots=True)
class Listing:
    """Every workload that the cluster knows, as one complete answer.

    There is no partial listing: a connector that cannot list everything raises ClusterUnavailable.
    A key that is absent here is unknown to the cluster, never finished.

    Where the cluster accepted one key more than once, `copies` has all of them and `observations`
    the oldest; `seen` finds the recorded one. `natives` are not ours. A workload in `unread` exists
    on the cluster, but nothing else is known about it.
    """

    observed_at: int
    observations: Mapping[str, Observation]
    copies: Mapping[str, tuple[Observation, ...]] = field(default_factory=dict)
    natives: tuple[NativeWorkload, ...] = ()
    unread: tuple[Unread, ...] = ()

    def may_have(self, native_id: str | None) -> bool:
        """Return whether an unreadable entry may be the workload with `native_id`."""
        return any(one.native_id is None or one.native_id == native_id for one in self.unread)

    def seen(self, key: str, native_id: str | None) -> Observation | None:
        """Return the observation of `key` under the recorded `native_id`; None when there is none.

        A `native_id` of None, while none is recorded, matches any id.
        """
        for observation in self.all_of(key):
            if native_id is None or observation.native_id == native_id:
                return observation
        return None

    def all_of(self, key: str) -> tuple[Observation, ...]:
        """Return everything that the cluster accepted under `key`."""
        if key in self.copies:
            return self.copies[key]
        observation = self.observations.get(key)
        return () if observation is None else (observation,)


@dataclass(frozen=True, slots=True)
class NodeCapacity:
    """One node: `capacity_mgpu` of `pool` on it, and whether new work may start there.

    `device` is the unit of the pool. One CPU core counts 1000, like one GPU. The arbiter does not
    count devices, so a single request must be able to take all free capacity of a node. GPUs that
    are split into parts of any size therefore appear as one node each.

    `state` is the cluster's word, and `reason` the text of its administrators. `features` are the
    node's features as the cluster lists them. `domains` names by level (`TOPOLOGY_LEVELS`) the
    block, rack and NVLink domain of the node. It has only levels that the cluster reports and can
    confine a gang to.

    `cpu_milli` and `memory_mib` are the total for workloads on the node; None means that the
    cluster reports none, or sets no bounds. `cpu_milli_per_gpu` and `memory_mib_per_gpu` are what
    our workloads get with each GPU when they do not ask for an amount.
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

    `api_version` is the API version in use, where there are several. `complaints` concern nodes
    with invalid data, which are left out. `identity` holds what distinguishes the cluster from
    others, as far as it reports it now.

    `time_limits_s` is the longest time limit of a job by pool; a pool without an entry has none.
    `isolation` is how strictly jobs are separated from the machine and from each other, where the
    portal itself runs them (`local.isolation`). `isolation_reason` is why they are not separated
    further. `portal_refusal` is why jobs get no `Workload.private_environment`; "" if they do.
    """

    observed_at: int
    nodes: tuple[NodeCapacity, ...]
    api_version: str = ""
    complaints: tuple[str, ...] = ()
    identity: Mapping[str, str] = field(default_factory=dict)
    time_limits_s: Mapping[str, int] = field(default_factory=dict)
    isolation: str = ""
    isolation_reason: str = ""
    portal_refusal: str = ""


class LogTime(NamedTuple):
    """The time when the bytes of a log from the mark before to `until` were written.

    `at_ms` is in epoch milliseconds, at most two seconds late; None if unknown.
    """

    until: int
    at_ms: int | None


@dataclass(frozen=True, slots=True)
class LogChunk:
    """Bytes `[offset, next_offset)` of one stream of one rank.

    `is_final` says that the stream has ended and `next_offset` is its end. `is_truncated` says that
    the size cap cut it. `times` are the marks of these bytes, in order, on a cluster that has them.
    """

    data: bytes
    offset: int
    next_offset: int
    is_final: bool
    is_truncated: bool
    times: tuple[LogTime, ...] = ()


class LogReader(Protocol):
    """Reads the outputs of a cluster's workloads."""

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
    """A connection to one cluster.

    Every method may raise ClusterUnavailable; then nothing is known to have happened. State lives
    in our database and on the cluster, never in the connector object, so any process may open one
    at any time.

    A cluster may take one submission for two, after a lost answer or when its controller forgets.
    The connector of such a cluster `submits_held`: an accepted workload does not run before
    `release`. Only the recorded id is ever released, once it has been listed `settle_s` seconds
    after its submit time. On other clusters `submit` starts the workload, and submitting a key
    twice makes one workload.

    `native_id` in the methods below is the cluster's id as recorded. It saves a look-up; the
    connector still verifies that it belongs to `key` before it acts.
    """

    @property
    def submits_held(self) -> bool:
        """Return whether a submission waits for `release`."""
        ...

    @property
    def settle_s(self) -> int:
        """Seconds after a submission until the cluster can no longer forget the held workload.

        From then on the id belongs to this workload for good.
        """
        ...

    def prepare(self) -> None:
        """Prepare the cluster for our use, before its first answer and never after.

        Idempotent. From then on, a cluster that is no longer the same one must raise
        ClusterUnavailable. Otherwise its workloads would be taken for lost.
        """
        ...

    def submit(self, workload: Workload, *, is_first: bool = False) -> str:
        """Submit `workload` to the cluster and return the cluster's id for it.

        A second call with the same key changes nothing and returns the same id. Where
        `submits_held`, concurrent calls may leave held copies with ids of their own. `is_first`
        promises that nobody has submitted the key before, which saves a look-up. Raises
        WorkloadRejected when the cluster will never accept this workload.
        """
        ...

    def release(self, key: str, native_id: str) -> None:
        """Let a held workload run. Idempotent; a workload that is not held is left alone."""
        ...

    def remove_copy(self, key: str, native_id: str) -> None:
        """Remove a held workload from the cluster; a workload that is not held is left alone."""
        ...

    def observe(self) -> Listing:
        """Return every workload that the cluster knows."""
        ...

    def find_ended(self, key: str, native_id: str) -> Observation | None:
        """Look up in the cluster's accounting a released workload that is no longer listed.

        None when the accounting does not know it, or when the cluster has no accounting. Raises
        ClusterUnavailable while the accounting cannot answer, or may be late.
        """
        ...

    def notify(self, key: str, *, native_id: str | None = None) -> None:
        """Warn the workload that it will be stopped: send its notice signal to every rank.

        Idempotent; a workload that has ended or is unknown is left alone.
        """
        ...

    def stop(self, key: str, *, native_id: str | None = None) -> None:
        """Kill all of the workload's processes now. Idempotent.

        This works for unknown keys too: a key that is stopped before it is submitted never starts.
        """
        ...

    def set_time_limit(self, key: str, time_limit_s: int, *, native_id: str | None = None) -> None:
        """Let the workload run for `time_limit_s` from its start, longer than submitted.

        `time_limit_s` is in whole minutes, and has a minute more than the earlier limit rounded up.
        Idempotent; a workload that has ended or is unknown is left alone. So is one that has had
        the notice of its earlier limit. Raises
        NotOffered where this workload's limit cannot change.
        """
        ...

    def inventory(self) -> Inventory:
        """Return all nodes with their current capacity."""
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
        """Return at most `limit` bytes of one rank's `stream` ("stdout" or "stderr") from `offset`.

        A negative offset counts from the end. `cluster_user` is the workload's. Raises
        LogUnavailable when there is no log.
        """
        ...

    def forget(self, key: str, *, native_id: str | None = None) -> None:
        """Drop the cluster's record of an ended workload; its logs may go. Idempotent."""
        ...


@runtime_checkable
class ReportsNews(Protocol):
    """A connector that its cluster notifies of changes.

    Other clusters are polled; this one can be observed as soon as there is news.
    """

    @property
    def news(self) -> Event:
        """An event that is set when the next observation would differ.

        The waiter clears it before it observes.
        """
        ...

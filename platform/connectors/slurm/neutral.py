"""The objects of a Slurm cluster, independent of the version of its REST API.

All times are the cluster's epoch seconds; None means unknown or not yet. GPU counts are by type in
the cluster's spelling ("h100"). The type "" holds the GPUs of unknown type. An object without GPUs
has its CPUs under the type `tres.CORES`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from connectors.slurm.tres import CORES


@dataclass(frozen=True, slots=True)
class Submission:
    """A batch job to submit. The cluster never requeues it.

    `name` identifies the job. It asks for `gpus_per_node` GPUs of `gres_type` on each of
    `node_count` nodes; for the type `tres.CORES`, for as many CPUs and no GPUs. Only the variables
    in `environment` reach the job; it must not be empty. `hold` keeps the job pending until its
    release. The job gets none of `excluded_nodes`, all of which the cluster must know.
    """

    name: str
    comment: str
    account: str
    partition: str
    qos: str
    gres_type: str
    gpus_per_node: int
    script: str
    working_directory: str
    standard_output: str
    standard_error: str
    environment: Mapping[str, str]
    node_count: int = 1
    tasks_per_node: int = 1
    #: None: `tasks_per_node` on each node.
    tasks: int | None = None
    cpus_per_task: int | None = None
    memory_mb_per_node: int | None = None
    time_limit_minutes: int | None = None
    constraint: str | None = None
    excluded_nodes: tuple[str, ...] = ()
    hold: bool = True

    @property
    def all_tasks(self) -> int:
        """Return the number of its tasks."""
        return self.node_count * self.tasks_per_node if self.tasks is None else self.tasks

    @property
    def has_gpus(self) -> bool:
        """Return whether it asks for GPUs, and not for cores alone."""
        return self.gres_type != CORES


@dataclass(frozen=True, slots=True)
class SlurmJob:
    """One job in the list of the controller.

    `state` is its base state ("PENDING", "RUNNING", "COMPLETED", ...). `state_flags` are additional
    states ("COMPLETING", "SIGNALING", "REQUEUED", ...). v0.0.38 shows only one of them: there a
    COMPLETING job is RUNNING.

    `end_time` of a running job is the expected end. `exit_code` and `exit_signal` are None until it
    ended. `gpus_by_node` is empty while the job does not run, and where the cluster does not report
    GPUs by node. `types_by_node` is also empty where it does not report their types. `resize_time`
    is the last change of its resources while it ran. `restarts` is how often the cluster requeued
    it.
    """

    job_id: int
    name: str
    user: str
    account: str
    partition: str
    qos: str
    comment: str
    state: str
    state_flags: frozenset[str]
    reason: str
    is_held: bool
    submit_time: int
    start_time: int | None
    end_time: int | None
    exit_code: int | None
    exit_signal: int | None
    node_count: int
    nodes: tuple[str, ...]
    gpus_requested: Mapping[str, int]
    gpus_allocated: Mapping[str, int]
    gpus_by_node: Mapping[str, int]
    time_limit_s: int | None
    resize_time: int | None = None
    restarts: int = 0
    types_by_node: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class UnreadJob:
    """An invalid job record, and `why`. `job_id` is None where not even that is readable."""

    job_id: int | None
    why: str


@dataclass(frozen=True, slots=True)
class JobList:
    """Every job that the controller knew at `observed_at`; `unread` are the invalid records."""

    observed_at: int
    jobs: tuple[SlurmJob, ...]
    unread: tuple[UnreadJob, ...] = ()


@dataclass(frozen=True, slots=True)
class SlurmNode:
    """One node.

    `state` is its base state ("IDLE", "MIXED", "ALLOCATED", "DOWN", "UNKNOWN", ...). `state_flags`
    are additional states ("DRAIN", "NOT_RESPONDING", ...). `has_shards` says that it offers shares
    of its GPUs. `cpus` and `memory_mb` (MiB, in Slurm's terms) are available to jobs; None where
    the cluster reports none.
    """

    name: str
    state: str
    state_flags: frozenset[str]
    reason: str
    partitions: tuple[str, ...]
    features: tuple[str, ...]
    gpus: Mapping[str, int]
    has_shards: bool = False
    cpus: int | None = None
    memory_mb: int | None = None

    @property
    def takes_work(self) -> bool:
        """Return whether the scheduler may start a job here now, or when a running job ends."""
        return self.state in {"IDLE", "MIXED", "ALLOCATED"} and not self.state_flags & _NO_WORK


_NO_WORK = frozenset(
    {
        *("DRAIN", "DRAINED", "DRAINING", "FAIL", "FAILING", "INVALID", "INVALID_REG", "DOWN"),
        *("NOT_RESPONDING", "MAINTENANCE", "RESERVED", "REBOOT_ISSUED", "POWERING_DOWN"),
        *("BLOCKED", "FUTURE"),
    }
)


@dataclass(frozen=True, slots=True)
class SlurmPartition:
    """One partition. `state` is "UP", "DOWN", "DRAIN" or "INACTIVE". None means no limit."""

    name: str
    state: str
    nodes: tuple[str, ...]
    max_time_limit_s: int | None
    gpus: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class HistoryJob:
    """One run of a job in the accounting. A requeued job has one record per run.

    (cluster, job_id, submit_time) identifies a run. An `end_time` of None means that the run goes
    on. `exit_code` is None where it is unknown; v0.0.38 reports only 0. `before` holds its earlier
    sizes, oldest first: pairs of end time and GPUs by type (see `resizing`).
    """

    job_id: int
    name: str
    user: str
    account: str
    cluster: str
    partition: str
    qos: str
    comment: str
    state: str
    state_flags: frozenset[str]
    reason: str
    submit_time: int
    eligible_time: int | None
    start_time: int | None
    end_time: int | None
    nodes: tuple[str, ...]
    gpus: Mapping[str, int]
    exit_code: int | None
    exit_signal: int | None
    time_limit_s: int | None
    before: tuple[tuple[int, Mapping[str, int]], ...] = ()


@dataclass(frozen=True, slots=True)
class StepUse:
    """The use of a step of a run: a call of `srun`, or the batch script. None: not recorded.

    `memory_bytes` is the sum of its tasks' peaks. `gpu_percent` is the utilisation of all its GPUs
    together, which is 100 for each that works all the time.
    """

    is_batch: bool
    cpu_time_ms: int
    memory_bytes: int | None
    gpu_percent: int | None
    gpu_memory_bytes: int | None


@dataclass(frozen=True, slots=True)
class RunUse:
    """A run of a job in the accounting, with its cores, memory (MB) and steps."""

    run: HistoryJob
    cpus: int
    memory_mb: int
    steps: tuple[StepUse, ...]


@dataclass(frozen=True, slots=True)
class Diag:
    """The state of the controller at `observed_at`, by its clock.

    `accounting_backlog` messages have not reached the accounting yet. While it is above 0, the
    history is incomplete.
    """

    observed_at: int
    accounting_backlog: int


@dataclass(frozen=True, slots=True)
class Account:
    """An account of the accounting. Its association defines its place in the tree."""

    name: str
    description: str
    organization: str


@dataclass(frozen=True, slots=True)
class Association:
    """An account on a cluster or, with a `user`, that user's membership in it.

    `group_tres` are limits on all running jobs together ("gres/gpu": 16, "cpu": 64). When written,
    a limit of None is cleared, and a missing one stays as it is. An empty `qos` is inherited.
    """

    account: str
    cluster: str
    user: str = ""
    partition: str = ""
    parent_account: str = ""
    group_tres: Mapping[str, int | None] = field(default_factory=dict)
    qos: tuple[str, ...] = ()
    default_qos: str | None = None
    is_default: bool = False
    shares: int | None = None


@dataclass(frozen=True, slots=True)
class Qos:
    """A quality of service. It is always written whole: a limit that is missing here is cleared.

    `group_tres` limits all its running jobs together, `user_tres` those of each user, and
    `job_tres` each job. `preempts` are the qualities of service that its jobs may preempt.
    `preempt_mode` is what happens to its own preempted jobs ("REQUEUE", "CANCEL"); empty means the
    cluster's own mode.
    """

    name: str
    description: str = ""
    priority: int = 0
    flags: tuple[str, ...] = ()
    preempts: tuple[str, ...] = ()
    preempt_mode: tuple[str, ...] = ()
    grace_s: int = 0
    group_tres: Mapping[str, int] = field(default_factory=dict)
    user_tres: Mapping[str, int] = field(default_factory=dict)
    job_tres: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class User:
    """A user of the accounting.

    `admin_level` is "None", "Operator" or "Administrator". When written, None and "" change
    nothing.
    """

    name: str
    default_account: str = ""
    admin_level: str | None = None

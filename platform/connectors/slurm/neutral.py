"""What a Slurm cluster holds, in words that know no version of its REST API.

All times are the cluster's epoch seconds; None is a time that is not known or not yet. GPU counts
are by type as the cluster spells it ("h100"); the type "" holds the GPUs whose type is not said,
and what has no GPUs has its CPUs under the type `tres.CORES`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from connectors.slurm.tres import CORES


@dataclass(frozen=True, slots=True)
class Submission:
    """A batch job to submit. It is never requeued by the cluster.

    `name` is how the job is found again. `gpus_per_node` GPUs of `gres_type` are asked for on each
    of `node_count` nodes; where that is `tres.CORES`, no GPUs but as many CPUs. Only the variables
    in `environment` reach the job, which must not be empty. `hold` keeps the job pending until it
    is released.
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
    cpus_per_task: int | None = None
    memory_mb_per_node: int | None = None
    time_limit_minutes: int | None = None
    constraint: str | None = None
    hold: bool = True

    @property
    def has_gpus(self) -> bool:
        """Whether it asks for GPUs, and not for cores alone."""
        return self.gres_type != CORES


@dataclass(frozen=True, slots=True)
class SlurmJob:
    """One job as the controller lists it.

    `state` is its base state ("PENDING", "RUNNING", "COMPLETED", ...) and `state_flags` what else
    is true of it ("COMPLETING", "SIGNALING", "REQUEUED", ...). v0.0.38 shows only one
    of them: there a job that is COMPLETING is RUNNING. `end_time` of a job that runs is the end
    that is expected. `exit_code` and `exit_signal` are None until it ended. `gpus_by_node` is
    empty while the job does not run, and where the cluster does not say who has how many, and
    `types_by_node` where it does not say of which types besides. `resize_time` is when what it has
    was last changed while it ran, `restarts` how often the cluster queued it anew.
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
    """A record of a job that makes no sense, and `why`. `job_id` is None where even that."""

    job_id: int | None
    why: str


@dataclass(frozen=True, slots=True)
class JobList:
    """Every job that the controller knew at `observed_at`, `unread` those that make no sense."""

    observed_at: int
    jobs: tuple[SlurmJob, ...]
    unread: tuple[UnreadJob, ...] = ()


@dataclass(frozen=True, slots=True)
class SlurmNode:
    """One node. `state` is its base state ("IDLE", "MIXED", "ALLOCATED", "DOWN", "UNKNOWN", ...)
    and `state_flags` what else is true of it ("DRAIN", "NOT_RESPONDING", ...). `has_shards` says
    that parts of its GPUs are given out. `cpus` and `memory_mb` (MiB, by Slurm's word) are what
    jobs may have of it; None where it does not say."""

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
        """Whether the scheduler may start something here now or when a running job ends."""
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
    """One partition. `state` is "UP", "DOWN", "DRAIN" or "INACTIVE"; a limit of None is none."""

    name: str
    state: str
    nodes: tuple[str, ...]
    max_time_limit_s: int | None
    gpus: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class HistoryJob:
    """One run of a job by the accounting: a requeued job has one record for each of its runs.

    (cluster, job_id, submit_time) tells runs apart. `end_time` None is a run that goes on.
    `exit_code` is None where it is not known; v0.0.38 knows none but 0. `before` is what it held
    until it was changed (until when, GPUs by type), oldest first (see `resizing`).
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
class Diag:
    """How the controller fares, at `observed_at` by its clock. `accounting_backlog` messages have
    not reached the accounting yet: while it is above 0, the history is late."""

    observed_at: int
    accounting_backlog: int


@dataclass(frozen=True, slots=True)
class Account:
    """An account of the accounting. Its place in the tree is its association."""

    name: str
    description: str
    organization: str


@dataclass(frozen=True, slots=True)
class Association:
    """An account on a cluster, or with `user` not "" one user's membership in it.

    `group_tres` are limits on all running jobs together ("gres/gpu": 16, "cpu": 64); when written,
    one of None is cleared, one that is left out stays as it is. `qos` empty is inherited.
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
    """A quality of service. It is always written whole: a limit that is left out here is cleared.

    `group_tres` limits all its running jobs together, `user_tres` those of each user, `job_tres`
    each job. `preempts` are the qualities whose jobs its own may push aside; `preempt_mode` is
    what happens to its jobs then ("REQUEUE", "CANCEL"; none is the cluster's own).
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
    """A user of the accounting. `admin_level` is "None", "Operator" or "Administrator"; when
    written, None and "" leave what there is."""

    name: str
    default_account: str = ""
    admin_level: str | None = None

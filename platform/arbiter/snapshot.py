"""What one cycle knows: frozen, complete, without a clock. All times are epoch seconds."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class TreeNode:
    """A node of the organization tree: organization, department or team.

    `parent` is None for an organization. `rank` orders who gets spare GPUs first
    (higher first); it is the organization's policy, inherited from the nearest ranked ancestor.
    """

    id: str
    parent: str | None
    rank: int = 0


@dataclass(frozen=True, slots=True)
class Quota:
    """One node's quota in one pool. A limit of None is "no limit of its own"."""

    node: str
    pool: str
    guaranteed_mgpu: int
    lend_limit_mgpu: int | None = None
    borrow_limit_mgpu: int | None = None
    weight: int = 100


@dataclass(frozen=True, slots=True)
class Device:
    """A node of a cluster and what it offers now to one pool (0 when drained or unhealthy).

    `outside_mgpu` more are there, and held by workloads that nobody here knows. `features` are
    what the node has that a job may ask for.
    """

    cluster: str
    node: str
    pool: str
    capacity_mgpu: int
    outside_mgpu: int = 0
    features: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class PriorityClass:
    """See semantics section 4. `team_cap_mgpu` of None is no cap."""

    id: str
    order: int
    preempts_within_team: bool = False
    grace_period_s: int = 300
    team_cap_mgpu: int | None = None


@dataclass(frozen=True, slots=True)
class Slot:
    """`mgpu` of one cluster node, held by or meant for one rank of a job."""

    node: str
    mgpu: int


class Phase(StrEnum):
    """Where an attempt that holds GPUs stands."""

    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"


@dataclass(frozen=True, slots=True)
class RunningJob:
    """An attempt that holds GPUs: starting, running, or being stopped.

    `started_at` is the cluster's start, or the grant while it is still starting.
    `guaranteed_mgpu` is how much of it the last cycle classed as guaranteed (None: not yet).
    `beneficiary` is the job for which it is being stopped, if any. `grace_until` is by when
    a stopping attempt should be gone; without one its GPUs are not counted on.
    """

    job: str
    attempt: str
    team: str
    user: str
    pool: str
    cluster: str
    slots: tuple[Slot, ...]
    priority_class: str
    submitted_at: int
    started_at: int
    phase: Phase = Phase.RUNNING
    is_preemptible: bool = False
    time_limit_s: int | None = None
    checkpoint_at: int | None = None
    grace_until: int | None = None
    beneficiary: str | None = None
    guaranteed_mgpu: int | None = None

    @property
    def mgpu(self) -> int:
        """What the attempt holds in all, in milli-GPU."""
        return sum(slot.mgpu for slot in self.slots)


@dataclass(frozen=True, slots=True)
class QueuedJob:
    """A job that waits: `node_count` nodes with `mgpu_per_node` each, all or nothing.

    `clusters` are those that may run it (one if it is pinned); None is any. Each of its nodes must
    have all of `features`; None is no such wish. `has_image` says that it runs in a container
    image, which `clusters` has regard to.
    """

    id: str
    team: str
    user: str
    pool: str
    mgpu_per_node: int
    node_count: int
    priority_class: str
    submitted_at: int
    time_limit_s: int | None = None
    clusters: frozenset[str] | None = None
    features: frozenset[str] | None = None
    has_image: bool = False

    @property
    def mgpu(self) -> int:
        """What the job asks for in all, in milli-GPU."""
        return self.mgpu_per_node * self.node_count


@dataclass(frozen=True, slots=True)
class Claim:
    """GPUs being freed for one queued job: its victims' and what was free, on these slots.

    Stored until the job starts or the claim is dropped; at most one per job. Victims are
    the running attempts whose `beneficiary` is `job`. `claimed_at` is the `taken_at` of the plan
    that made it: what the team starts later comes after it in the guarantee. None counts
    it after all that runs.
    """

    job: str
    cluster: str
    slots: tuple[Slot, ...]
    grace_until: int
    claimed_at: int | None = None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything a decision may depend on.

    `clusters` lists the clusters that answer and accept starts; a device of another cluster
    counts as capacity only through what still runs on it.
    """

    taken_at: int
    nodes: tuple[TreeNode, ...]
    quotas: tuple[Quota, ...]
    priority_classes: tuple[PriorityClass, ...]
    devices: tuple[Device, ...]
    clusters: frozenset[str]
    running: tuple[RunningJob, ...]
    queued: tuple[QueuedJob, ...]
    claims: tuple[Claim, ...] = ()

"""What one cycle knows: frozen, complete, without a clock. All times are epoch seconds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

from arbiter.api.policy import SpareOrder


@dataclass(frozen=True, slots=True)
class TreeNode:
    """A node of the organization tree: organization, department or team.

    `parent` is None for an organization. `rank` orders who gets spare GPUs first
    (higher first); it is the organization's policy, inherited from the nearest ranked ancestor,
    and orders nodes of one organization alone (see `Tree.ranks`).
    `half_life_s` of an organization is that of its fair-share; None is the policy's. So are
    `spare_order`, `min_run_s`, `preemptions_max` and `skips_blocked_within_team`.
    """

    id: str
    parent: str | None
    rank: int = 0
    half_life_s: int | None = None
    spare_order: SpareOrder | None = None
    min_run_s: int | None = None
    preemptions_max: int | None = None
    skips_blocked_within_team: bool | None = None


@dataclass(frozen=True, slots=True)
class Quota:
    """One node's quota in one pool. A limit of None is "no limit of its own"."""

    node: str
    pool: str
    guaranteed_mgpu: int
    lend_limit_mgpu: int | None = None
    borrow_limit_mgpu: int | None = None
    weight: int = 100


class Level(StrEnum):
    """How close together nodes are that share a domain of it, from the closest on.

    An NVLink domain is taken for narrower than a rack; it may be as large, or larger.
    """

    NODE = "node"
    NVLINK = "nvlink"
    RACK = "rack"
    BLOCK = "block"


@dataclass(frozen=True, slots=True, order=True)
class Domains:
    """Where a node stands in its cluster: the names of its block, of its rack in the block, and of
    its NVLink domain; empty where it is in none, or nobody knows."""

    block: str = ""
    rack: str = ""
    nvlink: str = ""


NOWHERE = Domains()


class Topology(NamedTuple):
    """That the nodes of a job are to be in one domain of a level: all of them or it waits
    (`is_required`), or as close to that as there is room for."""

    level: Level
    is_required: bool


@dataclass(frozen=True, slots=True)
class Device:
    """A node of a cluster and what it offers now to one pool (0 when drained or unhealthy). What
    is free of it is one sum, of which a rank may have any part that jobs there may ask for.

    `outside_mgpu` more are there, and held by workloads that nobody here knows. `features` are
    what the node has that a job may ask for, `domains` where it stands. `cpu_milli` and
    `memory_mib` are what all workloads on the node together may have, None where nobody knows, and
    those `per_gpu` what a job gets with each GPU that does not say how much it wants: the same for
    all nodes of a cluster in a pool, or where they differ the most of them.
    """

    cluster: str
    node: str
    pool: str
    capacity_mgpu: int
    outside_mgpu: int = 0
    features: frozenset[str] = frozenset()
    domains: Domains = NOWHERE
    cpu_milli: int | None = None
    memory_mib: int | None = None
    cpu_milli_per_gpu: int = 0
    memory_mib_per_gpu: int = 0


@dataclass(frozen=True, slots=True)
class PriorityClass:
    """See R-34 to R-37. `team_cap_mgpu` of None is no cap.

    `preempts_across_teams`: its jobs may stop lower classes of other teams of the same
    organization, protected or not; only up to the cap, so without a cap never.
    """

    id: str
    order: int
    preempts_within_team: bool = False
    grace_period_s: int = 300
    team_cap_mgpu: int | None = None
    preempts_across_teams: bool = False


class Slot(NamedTuple):
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
    a stopping attempt should be gone; without one its GPUs are not counted on. `preemptions`
    tells how many earlier attempts of its job were stopped for others. Several `slots` on one node,
    as Pods beside each other hold them, are summed. `cpu_milli` and `memory_mib` are what its job
    asked for on each node (None: what comes with the GPUs).
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
    preemptions: int = 0
    cpu_milli: int | None = None
    memory_mib: int | None = None

    def __post_init__(self) -> None:
        if len(self.slots) == 1:
            return
        held: dict[str, int] = {}
        for slot in self.slots:
            held[slot.node] = held.get(slot.node, 0) + slot.mgpu
        if len(held) < len(self.slots):
            slots = tuple(Slot(node, mgpu) for node, mgpu in held.items())
            object.__setattr__(self, "slots", slots)

    @property
    def mgpu(self) -> int:
        """What the attempt holds in all, in milli-GPU."""
        if len(self.slots) == 1:
            return self.slots[0].mgpu
        return sum(slot.mgpu for slot in self.slots)

    def queued_again(self) -> QueuedJob:
        """The job as it queues once the attempt is stopped, as far as that tells: on the same
        cluster, as many nodes, on each what its largest slot has."""
        return QueuedJob(
            id=self.job,
            team=self.team,
            user=self.user,
            pool=self.pool,
            mgpu_per_node=max((slot.mgpu for slot in self.slots), default=0),
            node_count=len(self.slots),
            priority_class=self.priority_class,
            submitted_at=self.submitted_at,
            time_limit_s=self.time_limit_s,
            clusters=frozenset({self.cluster}),
            cpu_milli=self.cpu_milli,
            memory_mib=self.memory_mib,
        )


@dataclass(frozen=True, slots=True)
class OtherPool:
    """A further pool that a job accepts, and the clusters that may run it there (None: any)."""

    pool: str
    clusters: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class QueuedJob:
    """A job that waits: `node_count` nodes with `mgpu_per_node` each, all or nothing.

    It waits in `pool`, and in `others` too where there are some: it starts in one of them, and
    rather in one that it names earlier (see `arbiter.cycle.multi_pool`). No pool is named twice.

    `clusters` are those that may run it (one if it is pinned); None is any. Each of its nodes must
    have all of `features`; None is no such wish. `has_image` says that it runs in a container
    image, which `clusters` has regard to. Its nodes are all in one domain of `required_topology`,
    or as close together as `preferred_topology` where there is room; at most one of the two is set.
    An elastic job takes up to `node_count_max` nodes when it starts (see `arbiter.cycle.elastic`),
    and `node_count` are the least. `cpu_milli` and `memory_mib` are what it wants of each node
    besides; None is what comes with the GPUs there.
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
    required_topology: Level | None = None
    preferred_topology: Level | None = None
    node_count_max: int | None = None
    others: tuple[OtherPool, ...] = ()
    cpu_milli: int | None = None
    memory_mib: int | None = None

    @property
    def pools(self) -> tuple[str, ...]:
        """All pools that the job accepts, the one it would like best first."""
        return (self.pool, *(other.pool for other in self.others))

    def in_pool(self, pool: str) -> QueuedJob:
        """The job as it waits in one of its pools. In one that is not its first `others` has the
        first too: jobs are of one kind only where they accept the same pools in the same order."""
        if pool == self.pool:
            return self
        other = next(other for other in self.others if other.pool == pool)
        others = OtherPool(self.pool, self.clusters), *self.others
        return replace(self, pool=pool, clusters=other.clusters, others=others)

    @property
    def mgpu(self) -> int:
        """What the job asks for in all, in milli-GPU; of an elastic one the least."""
        return self.mgpu_per_node * self.node_count

    @property
    def topology(self) -> Topology | None:
        """How close together its nodes are to be, where there are several."""
        if self.node_count == 1:
            return None
        if self.required_topology is not None:
            return Topology(self.required_topology, is_required=True)
        if self.preferred_topology is not None:
            return Topology(self.preferred_topology, is_required=False)
        return None


@dataclass(frozen=True, slots=True)
class Claim:
    """GPUs being freed for one queued job: its victims' and what was free, on these slots.

    Stored until the job starts or the claim is dropped; at most one per job. Victims are
    the running attempts whose `beneficiary` is `job`. `claimed_at` is the `taken_at` of the plan
    that made it: what the team starts later comes after it in the guarantee. None counts
    it after all that runs. `pool` is that of the slots; None is the first that the job accepts.
    """

    job: str
    cluster: str
    slots: tuple[Slot, ...]
    grace_until: int
    claimed_at: int | None = None
    pool: str | None = None


@dataclass(frozen=True, slots=True)
class PoolWeight:
    """What a GPU of a pool is worth against the reference GPU, per mille. Raises ValueError below
    1: credits would be divided by it."""

    pool: str
    permille: int

    def __post_init__(self) -> None:
        if self.permille < 1:
            raise ValueError(f"pool {self.pool!r} weighs {self.permille}; choose 1 or more")


@dataclass(frozen=True, slots=True)
class Usage:
    """What a user's attempts in a team held of a pool until `as_of`, running ones included:
    milli-GPU-seconds, decayed until then by the organization's half-life (`Decay.used`)."""

    team: str
    user: str
    pool: str
    decayed_mgpu_s: int
    as_of: int


@dataclass(frozen=True, slots=True)
class Balance:
    """The credits of a team in a pool, in millionths of a GPU-second of the reference GPU.

    `held` of them, never negative, is what its borrowed attempts hold for the time to come.
    """

    team: str
    pool: str
    credits: int
    held: int = 0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything a decision may depend on.

    `clusters` lists the clusters that answer and accept starts; a device of another cluster
    counts as capacity only through what still runs on it. A pool without a weight is worth the
    reference. In a pool without any balance there is no credit bank: nobody is richer
    than another, and nothing is unpaid; in one with some, a team without one has 0.
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
    pool_weights: tuple[PoolWeight, ...] = ()
    usage: tuple[Usage, ...] = ()
    balances: tuple[Balance, ...] = ()

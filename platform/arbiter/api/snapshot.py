"""The input of one cycle: immutable, complete, without a clock. All times are epoch seconds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

from arbiter.api.policy import SpareOrder


@dataclass(frozen=True, slots=True)
class TreeNode:
    """A node of the organization tree: organization, department or team.

    `parent` is None for an organization. `rank` orders nodes for spare GPUs (higher first). It is
    set by the organization and inherited from the nearest ancestor that has one. Ranks compare only
    nodes of one organization (see `Tree.ranks`).

    `half_life_s` is set on an organization and applies to its fair-share; None means the policy's.
    The same holds for `spare_order`, `min_run_s`, `preemptions_max` and
    `skips_blocked_within_team`.
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
    """The quota of one node in one pool. A limit of None means that the node sets none itself."""

    node: str
    pool: str
    guaranteed_mgpu: int
    lend_limit_mgpu: int | None = None
    borrow_limit_mgpu: int | None = None
    weight: int = 100


class Level(StrEnum):
    """A topology level, from the closest to the widest.

    An NVLink domain ranks as narrower than a rack, although it may be as large, or larger.
    """

    NODE = "node"
    NVLINK = "nvlink"
    RACK = "rack"
    BLOCK = "block"


@dataclass(frozen=True, slots=True, order=True)
class Domains:
    """The position of a node in its cluster: its block, its rack in the block, its NVLink domain.

    A name is empty where the node is in no such domain or the domain is unknown.
    """

    block: str = ""
    rack: str = ""
    nvlink: str = ""


NOWHERE = Domains()


class Topology(NamedTuple):
    """The requirement that all nodes of a job are in one domain of a level.

    If it `is_required`, the job waits until one domain has space for it. Otherwise it takes nodes
    as close together as possible.
    """

    level: Level
    is_required: bool


class NodeName(NamedTuple):
    """A node of a cluster."""

    cluster: str
    node: str


@dataclass(frozen=True, slots=True)
class Device:
    """The GPUs of one cluster node in one pool, as one sum from which each rank takes its share.

    `capacity_mgpu` is offered now; it is 0 when the node is drained or unhealthy. `outside_mgpu`
    exist in addition, but workloads that Tidegate does not manage hold them. A job may require
    `features`. `domains` is the position of the node in the topology.

    `cpu_milli` and `memory_mib` are the total for all workloads on the node; None means unknown.
    `cpu_milli_per_gpu` and `memory_mib_per_gpu` are the share per GPU of a job that requests no
    amount. They are equal on all nodes of a cluster in a pool; if nodes differ, they are the
    largest share.
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
    """A priority class, see R-34 to R-37. `team_cap_mgpu` of None is no cap.

    `preempts_across_teams`: its jobs may preempt lower classes of other teams of the same
    organization, even protected jobs. They may do so only up to the cap, so never without a cap.

    `use_factor_percent` of the use of its jobs counts for fair-share.
    """

    id: str
    order: int
    preempts_within_team: bool = False
    grace_period_s: int = 300
    team_cap_mgpu: int | None = None
    preempts_across_teams: bool = False
    use_factor_percent: int = 100


class Slot(NamedTuple):
    """`mgpu` of one cluster node for one rank of a job, held or planned."""

    node: str
    mgpu: int


class Phase(StrEnum):
    """The phase of an attempt that holds GPUs."""

    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"


@dataclass(frozen=True, slots=True)
class RunningJob:
    """An attempt that holds GPUs: starting, running, or being stopped.

    `started_at` is the start on the cluster, or the grant while the attempt is still starting.
    `guaranteed_mgpu` is the part that the last cycle classed as guaranteed (None: not classed yet).
    `beneficiary` is the job for which it is being stopped, if any. `grace_until` is when a stopping
    attempt should be gone; without it nothing counts on its GPUs coming back. `preemptions` counts
    the earlier attempts of the job that were stopped for other jobs.

    Several `slots` on one node, such as several Pods there, are summed up. `cpu_milli` and
    `memory_mib` are the amounts that the job requested per node (None: the share of its GPUs).
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
        by_node: dict[str, int] = {}
        for slot in self.slots:
            by_node[slot.node] = by_node.get(slot.node, 0) + slot.mgpu
        if len(by_node) < len(self.slots):
            slots = tuple(Slot(node, mgpu) for node, mgpu in by_node.items())
            object.__setattr__(self, "slots", slots)

    @property
    def mgpu(self) -> int:
        """Return the GPUs of the attempt, in milli-GPU."""
        if len(self.slots) == 1:
            return self.slots[0].mgpu
        return sum(slot.mgpu for slot in self.slots)

    def queued_again(self) -> QueuedJob:
        """Return the job as it would queue if the attempt was stopped.

        It is an approximation from the attempt: the same cluster, as many nodes, and on each node
        the size of the attempt's largest slot.
        """
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

    It waits in `pool` and in all pools of `others`, and starts in one of them. It prefers earlier
    pools (see `arbiter.cycle.multi_pool`). No pool occurs twice.

    - `clusters` may run it (one if it is pinned); None is any.
    - `features`: each of its nodes needs all of them; None requires nothing.
    - `has_image`: it runs in a container image. `clusters` takes that into account.
    - `required_topology`: all its nodes are in one domain of this level.
    - `preferred_topology`: its nodes are in one domain of this level if possible. At most one of
      the two is set.
    - `node_count_max` is set for an elastic job, which takes up to so many nodes when it starts
      (see `arbiter.cycle.elastic`). `node_count` is its minimum.
    - `cpu_milli` and `memory_mib` are requested per node in addition; None is the share that comes
      with the GPUs.
    - `closed_clusters` and `closed_nodes` are kept from it by maintenance. The core sets them in
      each cycle; a snapshot leaves them empty.
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
    closed_clusters: frozenset[str] = frozenset()
    closed_nodes: frozenset[NodeName] = frozenset()

    @property
    def pools(self) -> tuple[str, ...]:
        """Return all pools that the job accepts, in its order of preference."""
        return (self.pool, *(other.pool for other in self.others))

    def in_pool(self, pool: str) -> QueuedJob:
        """Return the job as it waits in one of its pools.

        In another pool than its first, `others` includes the first one too. So two jobs are of the
        same kind only if they accept the same pools in the same order.
        """
        if pool == self.pool:
            return self
        other = next(other for other in self.others if other.pool == pool)
        others = OtherPool(self.pool, self.clusters), *self.others
        return replace(self, pool=pool, clusters=other.clusters, others=others)

    @property
    def mgpu(self) -> int:
        """Return the GPUs that the job requests, in milli-GPU; for an elastic job the minimum."""
        return self.mgpu_per_node * self.node_count

    @property
    def topology(self) -> Topology | None:
        """Return the topology of the job's nodes; None without one, or for a single node."""
        if self.node_count == 1:
            return None
        if self.required_topology is not None:
            return Topology(self.required_topology, is_required=True)
        if self.preferred_topology is not None:
            return Topology(self.preferred_topology, is_required=False)
        return None


@dataclass(frozen=True, slots=True)
class Claim:
    """GPUs that are being freed for one queued job: those of its victims and free ones.

    It is stored until the job starts or the claim is dropped; at most one per job. Its victims are
    the running attempts whose `beneficiary` is `job`.

    `claimed_at` is `taken_at` of the plan that made the claim. Later starts of the team rank behind
    the claim in the team's guarantee. With None it ranks behind everything that runs. `pool` is the
    pool of the slots; None is the first pool that the job accepts.
    """

    job: str
    cluster: str
    slots: tuple[Slot, ...]
    grace_until: int
    claimed_at: int | None = None
    pool: str | None = None


@dataclass(frozen=True, slots=True)
class PoolWeight:
    """The value of a GPU of a pool relative to the reference GPU, per mille.

    Raises ValueError below 1, because credits are divided by it.
    """

    pool: str
    permille: int

    def __post_init__(self) -> None:
        if self.permille < 1:
            raise ValueError(f"pool {self.pool!r} weighs {self.permille}; choose 1 or more")


@dataclass(frozen=True, slots=True)
class Usage:
    """The use of a pool by a user's attempts in one team until `as_of`, running ones included.

    The unit is milli-GPU-seconds, decayed until then by the organization's half-life
    (`Decay.used`).
    """

    team: str
    user: str
    pool: str
    decayed_mgpu_s: int
    as_of: int


@dataclass(frozen=True, slots=True)
class Balance:
    """The credits of a team in a pool, in millionths of a GPU-second of the reference GPU.

    `held`, never negative, is the part that is on hold for the further run of its borrowed
    attempts. `epoch` is the number of the change of balances that made it. It decides nothing, but
    it tells which balances a recorded cycle saw.
    """

    team: str
    pool: str
    credits: int
    held: int = 0
    epoch: int = 0


@dataclass(frozen=True, slots=True)
class Maintenance:
    """A window [start_at, end_at) in which no job may run on `cluster`, or in one `pool` of it.

    Nothing is stopped for it. A job starts there only if its time limit ends before the window
    (R-118). `pool` None is all pools of the cluster. `nodes` None is all nodes of these pools.
    """

    cluster: str
    start_at: int
    end_at: int
    pool: str | None = None
    nodes: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that a decision may depend on.

    `clusters` are the clusters that respond and accept starts. A device of another cluster counts
    as capacity only as far as attempts still run on it. A pool without a weight has the weight of
    the reference GPU.

    A team without a balance has no credit bank: it counts with 0 credits, and nothing that it
    borrows is unpaid.
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
    maintenance: tuple[Maintenance, ...] = ()

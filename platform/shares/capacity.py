"""The capacity of a pool now: free blocks by size, fragmentation, and who starves."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db.models import Min, Q

from arbiter.api.snapshot import Device, RunningJob
from clusters.models import Cluster, Pool
from clusters.queries import read_fleet
from jobs.arbitration.snapshots import one_instant, running_attempts, starting_clusters
from jobs.models import Job, JobState, Reclaim
from primitives.units import MGPU_PER_GPU
from quotas.models import NodeUse, Quota
from shares.lending import Loan, loans_in
from tenants.access import Actor, visible_node
from tenants.models import Node, NodeKind

#: The most rows of loans and of starved teams.
ROWS_MAX = 100


@dataclass(frozen=True, slots=True)
class FreeBlocks:
    """The jobs of `devices` on one node that fit side by side on the free devices."""

    devices: int
    blocks: int


@dataclass(frozen=True, slots=True)
class ClusterCapacity:
    """The free devices of a pool on a cluster, in milli-GPU.

    `whole_mgpu` is free on nodes that are free as a whole. `largest_mgpu` is the most that is free
    on one node. `claimed_mgpu` is free, but kept for jobs with a claim. A cluster that
    `is_accepting` starts jobs now.
    """

    cluster: str
    is_accepting: bool
    nodes: int
    free_nodes: int
    capacity_mgpu: int
    free_mgpu: int
    whole_mgpu: int
    largest_mgpu: int
    claimed_mgpu: int
    blocks: Sequence[FreeBlocks]

    @property
    def fragmented_permille(self) -> int:
        """The part of the free devices on nodes that are used in part, rounded down."""
        return 1_000 * (self.free_mgpu - self.whole_mgpu) // (self.free_mgpu or 1)


@dataclass(frozen=True, slots=True)
class StarvedTeam:
    """A team that waits for GPUs inside of its guarantee.

    `missing_mgpu` is the part of the waiting GPUs that fits in the guarantee, beside the protected
    use. `waiting_since` is the submission of its oldest queued job.
    """

    team: str
    missing_mgpu: int
    waiting_mgpu: int
    waiting_since: datetime | None


@dataclass(frozen=True, slots=True)
class PoolCapacity:
    """The capacity of a pool, and what an organization's nodes borrow, lend and miss."""

    pool: Pool
    as_of: datetime
    organization: Node
    clusters: Sequence[ClusterCapacity]
    loans: Sequence[Loan]
    starved: Sequence[StarvedTeam]


def capacity_of(path: str, pool: Pool, *, actor: Actor, now: datetime) -> PoolCapacity:
    """Return the capacity of `pool`, for the organization of the visible node at `path`.

    Free devices are the same for all organizations; names of others are not in it. Raises NotFound
    for an invisible node.
    """
    organization = visible_node(actor, path).organization
    with one_instant():
        fleet = read_fleet()
        running = [run for run in running_attempts() if run.pool == str(pool.pk)]
        names = {str(pk): name for pk, name in Cluster.objects.values_list("pk", "name")}
        return PoolCapacity(
            pool=pool,
            as_of=now,
            organization=organization,
            clusters=cluster_capacities(
                [device for device in fleet.devices if device.pool == str(pool.pk)],
                running,
                _claimed_slots(pool),
                names,
                starting_clusters(now),
            ),
            loans=loans_in(organization, pool).rows[:ROWS_MAX],
            starved=_starved(organization, pool)[:ROWS_MAX],
        )


def cluster_capacities(
    devices: Iterable[Device],
    running: Iterable[RunningJob],
    claims: Iterable[tuple[str, str, int]],
    names: Mapping[str, str],
    starting: Collection[str],
) -> list[ClusterCapacity]:
    """Return the capacity of each cluster by its name.

    `claims` are slots that are kept for jobs: cluster, node and milli-GPU. GPUs that victims still
    hold are not free, so they are not taken off twice. `names` are of clusters, and
    `starting` are the clusters that start jobs now.
    """
    sizes: dict[str, dict[str, int]] = {}
    for device in devices:
        nodes = sizes.setdefault(device.cluster, {})
        nodes[device.node] = nodes.get(device.node, 0) + device.capacity_mgpu
    free = {cluster: dict(nodes) for cluster, nodes in sizes.items()}
    for run in running:
        for slot in run.slots:
            if slot.node in free.get(run.cluster, {}):
                free[run.cluster][slot.node] -= slot.mgpu
    claimed: dict[str, int] = {}
    for cluster, node, mgpu in claims:
        left_mgpu = max(0, free.get(cluster, {}).get(node, 0))
        claimed_here_mgpu = min(mgpu, left_mgpu)
        if claimed_here_mgpu:
            free[cluster][node] -= claimed_here_mgpu
            claimed[cluster] = claimed.get(cluster, 0) + claimed_here_mgpu
    found = []
    for cluster, nodes in sizes.items():
        left_by_node = [max(0, free[cluster][node]) for node in nodes]
        whole = [mgpu for node, mgpu in nodes.items() if mgpu and free[cluster][node] == mgpu]
        found.append(
            ClusterCapacity(
                cluster=names[cluster],
                is_accepting=cluster in starting,
                nodes=len(nodes),
                free_nodes=len(whole),
                capacity_mgpu=sum(nodes.values()),
                free_mgpu=sum(left_by_node),
                whole_mgpu=sum(whole),
                largest_mgpu=max(left_by_node, default=0),
                claimed_mgpu=claimed.get(cluster, 0),
                blocks=free_blocks(left_by_node, max(nodes.values(), default=0)),
            )
        )
    return sorted(found, key=lambda one: one.cluster)


def free_blocks(free_mgpu: Sequence[int], node_mgpu: int) -> list[FreeBlocks]:
    """Return the free blocks of each size that has any, on nodes with so much free each.

    Sizes are powers of two. A block that is larger than a node of `node_mgpu` takes equal parts of
    several nodes, each the largest size that a node has.
    """
    found: list[FreeBlocks] = []
    part = 1
    while 2 * part * MGPU_PER_GPU <= node_mgpu:
        part *= 2
    parts = sum(mgpu // (part * MGPU_PER_GPU) for mgpu in free_mgpu)
    size = 1
    while True:
        if size <= part:
            blocks = sum(mgpu // (size * MGPU_PER_GPU) for mgpu in free_mgpu)
        else:
            blocks = parts // (size // part)
        if not blocks:
            return found
        found.append(FreeBlocks(size, blocks))
        size *= 2


def _starved(organization: Node, pool: Pool) -> list[StarvedTeam]:
    """Return the teams that wait inside of their guarantee, those that miss the most first."""
    uses = NodeUse.objects.filter(
        node__organization=organization, node__kind=NodeKind.TEAM, pool=pool, waiting_mgpu__gt=0
    ).select_related("node")
    guaranteed: dict[UUID, int] = dict(
        Quota.objects.filter(pool=pool, node__organization=organization).values_list(
            "node", "guaranteed_mgpu"
        )
    )
    missing = {
        use: min(use.waiting_mgpu, guaranteed.get(use.node_id, 0) - use.protected_mgpu)
        for use in uses
    }
    since: dict[UUID, datetime] = dict(
        Job.objects.filter(
            team__in=[use.node_id for use in missing], pool=pool, state=JobState.QUEUED
        )
        .values_list("team")
        .annotate(Min("submitted_at"))
    )
    teams = [
        StarvedTeam(use.node.display_path, mgpu, use.waiting_mgpu, since.get(use.node_id))
        for use, mgpu in missing.items()
        if mgpu > 0
    ]
    return sorted(teams, key=lambda one: (-one.missing_mgpu, one.team))


def _claimed_slots(pool: Pool) -> list[tuple[str, str, int]]:
    """Return the slots of open claims in the pool: cluster, node and milli-GPU."""
    claims = Reclaim.objects.filter(closed_at=None).filter(
        Q(pool=pool) | Q(pool=None, job__pool=pool)
    )
    return [
        (str(cluster), slot["node"], slot["mgpu"])
        for cluster, slots in claims.values_list("cluster", "slots")
        for slot in slots
    ]

"""Rarely changing data of a pool and everything derived from them, reused over many cycles."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from arbiter.api.plan import Code
from arbiter.api.policy import Policy
from arbiter.api.snapshot import Device, Maintenance, PriorityClass, QueuedJob, Quota
from arbiter.fairshare.fair_tree import Parts
from arbiter.placement.capacity import Layout
from arbiter.placement.free_devices import Shape
from arbiter.placement.maintenance import Windows
from arbiter.placement.node_sets import NodeKinds
from arbiter.placement.resources import Demand, HostResources
from arbiter.placement.topology import TopologyPlans
from arbiter.queue.order import Priority
from arbiter.queue.pending import Group
from arbiter.quota.ledger import Ledger
from arbiter.quota.tree import Tree, pool_quota


class PoolConfig:
    """The tree, quotas, devices and rules of one pool.

    Its capacity is the sum over devices. A schedulable device counts with what it offers. Another
    one (drained, lost, on a cluster that does not respond) counts with what still runs on it. So
    that use takes nothing away from the remaining devices.

    Answers about jobs are cached as long as this object lives, here and in its parts (kinds,
    topology plans). `remembered` is their number. The owner has to build a new object when
    there are too many.
    """

    def __init__(
        self,
        name: str,
        quotas: Iterable[Quota],
        devices: Iterable[Device],
        *,
        tree: Tree,
        policy: Policy,
        clusters: frozenset[str],
        classes: Mapping[str, PriorityClass],
        weight: int,
        half_lives_s: tuple[int, ...],
        demands: Iterable[Demand] = (),
        maintenance: Iterable[Maintenance] = (),
    ) -> None:
        """Build all that follows from these data; for `demands` see `HostResources`."""
        self.name = name
        self.tree = tree
        self.policy = policy
        self.classes = classes
        self.accepting = clusters
        self.weight = weight
        self.quota = pool_quota(tree, quotas)
        self.windows = Windows(maintenance, policy.reservation_horizon_s)
        capacities: dict[str, dict[str, int]] = {}
        sizes: dict[str, dict[str, int]] = {}
        devices = tuple(devices)
        for device in devices:
            nodes = capacities.setdefault(device.cluster, {})
            nodes[device.node] = nodes.get(device.node, 0) + device.capacity_mgpu
            # GPUs held by other workloads come back some day, so they never make a job impossible.
            whole = sizes.setdefault(device.cluster, {})
            mgpu = device.capacity_mgpu + device.outside_mgpu
            whole[device.node] = whole.get(device.node, 0) + mgpu
        #: All working GPUs, whoever holds them and whether or not their cluster responds.
        self.healthy_mgpu = sum(sum(nodes.values()) for nodes in sizes.values())
        self._clusters = frozenset(sizes)
        self.offered = {c: nodes for c, nodes in capacities.items() if c in clusters}
        self.kinds = NodeKinds(devices)
        self.plans = TopologyPlans(devices, self.kinds)
        self.resources = HostResources(devices, demands)
        self.resources_offered = {
            c: left for c, left in self.resources.offered.items() if c in clusters
        }
        self.layout = Layout(sizes, self.kinds, self.plans, self.resources)
        self.parts = Parts(tree, self.quota.weights, half_lives_s)
        self.priorities = {
            cls.id: Priority(
                cls.id,
                cls.order,
                cls.preempts_within_team,
                cls.team_cap_mgpu,
                cls.preempts_across_teams and cls.team_cap_mgpu is not None,
            )
            for cls in classes.values()
        }
        #: Whether attempts of some class are not reclaimed for a lower class of their organization.
        self.has_shields = any(one.preempts_others for one in self.priorities.values())
        self._empty = Ledger(tree, self.quota, self.layout.capacity_mgpu, [0] * len(tree.ids))
        self._most: dict[int, int] = {}
        self._fleet_words: dict[Shape, tuple[Code | None, int]] = {}

    @property
    def remembered(self) -> int:
        """Return the number of cached answers: the size of all caches is bounded by it."""
        unknown = len(self.priorities) - len(self.classes)
        return len(self._fleet_words) + unknown + self.kinds.asked_count

    def offered_of(self, cluster: str, resource: str) -> int:
        """Return what a node, or the CPU or memory of one, offers; 0 for an unknown one."""
        nodes = self.offered[cluster]
        if resource in nodes:
            return nodes[resource]
        return self.resources_offered.get(cluster, {}).get(resource, 0)

    def shape_of(self, job: QueuedJob) -> Shape:
        """Return the request of `job` to the devices."""
        clusters, closed = job.clusters, job.closed_clusters
        if closed:
            clusters = (self._clusters if clusters is None else clusters) - closed
        return Shape(
            job.mgpu_per_node,
            job.node_count,
            clusters,
            job.mgpu,
            self.kinds.having(job.features, job.closed_nodes),
            job.topology,
            job.cpu_milli,
            job.memory_mib,
            closed,
            job.closed_nodes,
            self.kinds.having(job.features),
        )

    def priority(self, name: str) -> Priority:
        """Return the priority class of that id; an unknown one has the defaults."""
        found = self.priorities.get(name)
        if found is None:
            found = self.priorities[name] = Priority(name)
        return found

    def group_of(self, job: QueuedJob) -> Group:
        """Return the properties of a waiting job in this pool."""
        team, shape = self.tree.index.get(job.team), self.shape_of(job)
        priority = self.priority(job.priority_class)
        word = (None, 0) if team is None else self.verdict(team, shape, priority.cap_mgpu)
        if team is not None and word[0] is not None and (shape.closed or shape.closed_nodes):
            whole = shape.with_closed_nodes._replace(clusters=job.clusters, closed=frozenset())
            word = self.verdict(team, whole, priority.cap_mgpu)
            if word[0] is not Code.NEVER_FITS:
                word = Code.MAINTENANCE, 0
        return Group(team, shape, priority, *word)

    def verdict(self, team: int, shape: Shape, cap_mgpu: int | None) -> tuple[Code | None, int]:
        """Return why jobs of `team` can never start, whatever the others do, or None.

        It holds until this configuration changes. The second value is the most that quota or fleet
        could ever give them, in milli-GPU.
        """
        code, could_ever_mgpu = self._fleet_word(shape)
        if code is not Code.CLUSTER_UNAVAILABLE:
            most_mgpu = self._most_of(team)
            if cap_mgpu is not None:
                most_mgpu = min(most_mgpu, cap_mgpu)
            if shape.total_mgpu > most_mgpu:
                return Code.NEVER_FITS, most_mgpu
        return code, could_ever_mgpu

    def _most_of(self, team: int) -> int:
        """Return the most that quota could ever give a team."""
        most = self._most.get(team)
        if most is None:
            admits = self.quota.admits(self.tree.paths[team])
            most = self._most[team] = self._empty.available(team) if admits else 0
        return most

    def _fleet_word(self, shape: Shape) -> tuple[Code | None, int]:
        """Return why no fleet could start `shape` now, or None, and the most it could ever give."""
        known = self._fleet_words.get(shape)
        if known is not None:
            return known
        word: tuple[Code | None, int] = (None, 0)
        if shape.mgpu <= 0 or shape.node_count <= 0:
            word = (Code.NEVER_FITS, 0)
        elif self.layout.is_empty or (
            shape.clusters is not None and shape.clusters.isdisjoint(self.accepting)
        ):
            word = (Code.CLUSTER_UNAVAILABLE, 0)
        elif not self.layout.holds(shape):
            word = (Code.NEVER_FITS, self.layout.most_mgpu(shape))
        elif not self.offered:
            word = (Code.CLUSTER_UNAVAILABLE, 0)
        self._fleet_words[shape] = word
        return word

"""What of a pool seldom changes, and what follows from it alone: laid out once for many cycles."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from arbiter.api.plan import Code
from arbiter.api.policy import Policy
from arbiter.api.snapshot import Device, PriorityClass, QueuedJob, Quota
from arbiter.fairshare.fair_tree import Parts
from arbiter.placement.capacity import Layout
from arbiter.placement.free_devices import Shape
from arbiter.placement.node_sets import NodeKinds
from arbiter.placement.resources import Demand, Rooms
from arbiter.placement.topology import GroundPlans
from arbiter.queue.order import Priority
from arbiter.queue.pending import Group
from arbiter.quota.ledger import Ledger
from arbiter.quota.tree import Tree, pool_quota


class Ground:
    """The tree, quotas, devices and rules of one pool.

    Its capacity is what schedulable devices offer plus what still runs on devices that are
    not (drained, lost, on a cluster that does not answer), device by device, so that such use
    takes no room away from the devices that are left.

    What jobs asked for once is remembered as long as the ground lives, here and in all that it
    lays out (kinds, plans, shelves); `remembered` says how much, and who keeps the ground has to
    lay it out anew when that is too much.
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
    ) -> None:
        """`demands`: see `Rooms`."""
        self.name = name
        self.tree = tree
        self.policy = policy
        self.classes = classes
        self.accepting = clusters
        self.weight = weight
        self.quota = pool_quota(tree, quotas)
        capacities: dict[str, dict[str, int]] = {}
        sizes: dict[str, dict[str, int]] = {}
        devices = tuple(devices)
        for device in devices:
            nodes = capacities.setdefault(device.cluster, {})
            nodes[device.node] = nodes.get(device.node, 0) + device.capacity_mgpu
            # What others hold comes back some day: "never" must not be said because of it.
            whole = sizes.setdefault(device.cluster, {})
            mgpu = device.capacity_mgpu + device.outside_mgpu
            whole[device.node] = whole.get(device.node, 0) + mgpu
        #: What works, whoever holds it and whether its cluster answers or not.
        self.healthy_mgpu = sum(sum(nodes.values()) for nodes in sizes.values())
        self.offered = {c: nodes for c, nodes in capacities.items() if c in clusters}
        self.kinds = NodeKinds(devices)
        self.plans = GroundPlans(devices, self.kinds)
        self.rooms = Rooms(devices, demands)
        self.rooms_offered = {c: left for c, left in self.rooms.offered.items() if c in clusters}
        self.layout = Layout(sizes, self.kinds, self.plans, self.rooms)
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
        #: Whether what runs in some class is not taken back for a lower one of its organization.
        self.has_shields = any(one.preempts_others for one in self.priorities.values())
        self._empty = Ledger(tree, self.quota, self.layout.capacity_mgpu, [0] * len(tree.ids))
        self._most: dict[int, int] = {}
        self._fleet_words: dict[Shape, tuple[Code | None, int]] = {}

    @property
    def remembered(self) -> int:
        """How many different questions have been asked: nothing here grows by more than these."""
        unknown = len(self.priorities) - len(self.classes)
        return len(self._fleet_words) + unknown + self.kinds.asked_count

    def offered_of(self, cluster: str, room: str) -> int:
        """What a node, or a room that is counted, offers; 0 for one that is not known."""
        nodes = self.offered[cluster]
        if room in nodes:
            return nodes[room]
        return self.rooms_offered.get(cluster, {}).get(room, 0)

    def shape_of(self, job: QueuedJob) -> Shape:
        """What `job` asks of the devices."""
        return Shape(
            job.mgpu_per_node,
            job.node_count,
            job.clusters,
            job.mgpu,
            self.kinds.having(job.features),
            job.topology,
            job.cpu_milli,
            job.memory_mib,
        )

    def priority(self, name: str) -> Priority:
        """The priority class of that id."""
        found = self.priorities.get(name)
        if found is None:
            found = self.priorities[name] = Priority(name)
        return found

    def group_of(self, job: QueuedJob) -> Group:
        """What a job that waits is to the pool."""
        team, shape = self.tree.index.get(job.team), self.shape_of(job)
        priority = self.priority(job.priority_class)
        word = (None, 0) if team is None else self.verdict(team, shape, priority.cap_mgpu)
        return Group(team, shape, priority, *word)

    def verdict(self, team: int, shape: Shape, cap_mgpu: int | None) -> tuple[Code | None, int]:
        """Why jobs of `team` cannot start in any cycle as things are laid out, whatever the others
        do, and the most that quota or fleet could ever give them."""
        code, could_ever_mgpu = self._fleet_word(shape)
        if code is not Code.CLUSTER_UNAVAILABLE:
            most_mgpu = self._most_of(team)
            if cap_mgpu is not None:
                most_mgpu = min(most_mgpu, cap_mgpu)
            if shape.total_mgpu > most_mgpu:
                return Code.NEVER_FITS, most_mgpu
        return code, could_ever_mgpu

    def _most_of(self, team: int) -> int:
        """What quota could ever give a team."""
        most = self._most.get(team)
        if most is None:
            admits = self.quota.admits(self.tree.paths[team])
            most = self._most[team] = self._empty.available(team) if admits else 0
        return most

    def _fleet_word(self, shape: Shape) -> tuple[Code | None, int]:
        """Why no fleet could start `shape` now, and the most it could ever give."""
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

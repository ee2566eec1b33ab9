"""The nodes and what is free on them, placed as the arbiter places: best fit, all or nothing."""

from __future__ import annotations

from collections.abc import Sequence

from arbiter.layout import Layout
from arbiter.node_kinds import NodeKinds
from arbiter.placement import FreeDevices, Shape
from arbiter.snapshot import Device
from simulator.scene import POOL
from simulator.traces import Machine
from simulator.workload import TraceJob

CLUSTER = "simulated"


class Fleet:
    """Free milli-GPU by node. `sizes` are of whole nodes, also of those that are down.

    Nodes stand in order from the first search on: a scheduler that places by itself searches none.
    """

    __slots__ = (
        "_could_hold",
        "_kinds",
        "_layout",
        "_shapes",
        "_sorted",
        "capacity_mgpu",
        "free",
        "sizes",
        "total_free",
    )

    def __init__(self, machines: Sequence[Machine]) -> None:
        self.sizes = {machine.name: machine.mgpu for machine in machines}
        self._kinds = NodeKinds(
            tuple(
                Device(CLUSTER, machine.name, POOL, machine.mgpu, features=machine.features)
                for machine in machines
            )
        )
        self._sorted: FreeDevices | None = None
        self._layout = Layout({CLUSTER: self.sizes}, self._kinds)
        self._shapes: dict[tuple[int, int, frozenset[str]], Shape] = {}
        self._could_hold: dict[Shape, bool] = {}
        self.free = dict(self.sizes)
        self.capacity_mgpu = self.total_free = sum(self.sizes.values())

    def shape_of(self, job: TraceJob) -> Shape:
        """What `job` asks of the nodes; the same object for the same wish."""
        ask = (job.mgpu_per_node, job.node_count, job.features)
        shape = self._shapes.get(ask)
        if shape is None:
            kinds = self._kinds.having(job.features)
            shape = Shape(job.mgpu_per_node, job.node_count, None, job.mgpu, kinds)
            self._shapes[ask] = shape
        return shape

    def could_hold(self, shape: Shape) -> bool:
        """Whether the fleet, empty, has a place for `shape`."""
        found = self._could_hold.get(shape)
        if found is None:
            found = self._could_hold[shape] = self._layout.holds(shape)
        return found

    def is_of(self, shape: Shape, node: str) -> bool:
        """Whether `node` is of a kind that `shape` may use."""
        return shape.kinds is None or self._kinds.has(shape.kinds, CLUSTER, node)

    def find(self, shape: Shape) -> tuple[str, ...] | None:
        """The tightest nodes for the whole gang now, or None."""
        if shape.total_mgpu > self.total_free:
            return None
        if self._sorted is None:
            self._sorted = FreeDevices({CLUSTER: self.free}, self._kinds)
            self.free = self._sorted.free[CLUSTER]
        place = self._sorted.find(shape)
        return None if place is None else place.nodes

    def take(self, nodes: Sequence[str], mgpu: int) -> None:
        """Use up `mgpu` of each node; a negative amount gives it back.

        Raises ValueError where a node has not got that much.
        """
        free, sizes, in_order = self.free, self.sizes, self._sorted
        for node in nodes:
            left = free[node] - mgpu
            if not 0 <= left <= sizes[node]:
                raise ValueError(f"{node} has {free[node]} of {sizes[node]} free, not {mgpu}")
            if in_order is None:
                free[node] = left
            else:
                in_order.take(CLUSTER, node, mgpu)
        self.total_free -= mgpu * len(nodes)

"""The nodes and what is free on them, placed as the arbiter places: best fit, all or nothing."""

from __future__ import annotations

from collections.abc import Sequence

from arbiter.node_kinds import NodeKinds
from arbiter.placement import FreeDevices, Layout, Shape
from arbiter.snapshot import Device
from simulator.scene import POOL
from simulator.traces import Machine
from simulator.workload import TraceJob

CLUSTER = "simulated"


class Fleet:
    """Free milli-GPU by node. `sizes` are of whole nodes, also of those that are down."""

    __slots__ = (
        "_free",
        "_kinds",
        "_layout",
        "_shapes",
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
        self._free = FreeDevices({CLUSTER: self.sizes}, self._kinds)
        self._layout = Layout({CLUSTER: self.sizes}, self._kinds)
        self._shapes: dict[tuple[int, int, frozenset[str]], Shape] = {}
        self.free = self._free.free[CLUSTER]
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
        return self._layout.holds(shape)

    def is_of(self, shape: Shape, node: str) -> bool:
        """Whether `node` is of a kind that `shape` may use."""
        return self._free.is_of(shape.kinds, CLUSTER, node)

    def find(self, shape: Shape) -> tuple[str, ...] | None:
        """The tightest nodes for the whole gang now, or None."""
        if shape.total_mgpu > self.total_free:
            return None
        place = self._free.find(shape)
        return None if place is None else place.nodes

    def take(self, nodes: Sequence[str], mgpu: int) -> None:
        """Use up `mgpu` of each node; a negative amount gives it back.

        Raises ValueError where a node has not got that much.
        """
        for node in nodes:
            if not mgpu <= self.free[node] <= self.sizes[node] + min(0, mgpu):
                raise ValueError(
                    f"{node} has {self.free[node]} of {self.sizes[node]} free, not {mgpu}"
                )
            self._free.take(CLUSTER, node, mgpu)
        self.total_free -= mgpu * len(nodes)

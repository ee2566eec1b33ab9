"""The nodes and what is free on them, placed as the arbiter places: best fit, all or nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from arbiter.api.snapshot import Device, Slot
from arbiter.placement.capacity import Layout
from arbiter.placement.free_devices import FreeDevices, Shape
from arbiter.placement.node_sets import NodeKinds
from arbiter.placement.resources import Demand, HostResources, Wants, has_resources
from simulator.scene import POOL
from simulator.traces import Machine
from simulator.workload import TraceJob, Work

CLUSTER = "simulated"

#: A job's demand per node; the last two are CPU and memory, None where they are not counted.
_Ask = tuple[int, int, frozenset[str], int | None, int | None]


def device_of(machine: Machine) -> Device:
    """Return a node of the fleet in the form that the arbiter reads."""
    return Device(
        CLUSTER,
        machine.name,
        POOL,
        machine.mgpu,
        features=machine.features,
        cpu_milli=machine.cpu_milli,
        memory_mib=machine.memory_mib,
    )


def counted(works: Sequence[Work], machines: Sequence[Machine]) -> Sequence[Work]:
    """Return the same jobs without the CPU and memory that need no counting.

    That is a resource that no node can run short of, or of which no node states its capacity. The
    result is the same as if the trace had no such column.
    """
    if all(work.job.cpu_milli is None and work.job.memory_mib is None for work in works):
        return works
    has_cpu = any(machine.cpu_milli is not None for machine in machines)
    has_memory = any(machine.memory_mib is not None for machine in machines)
    if not Fleet(machines, [work.job for work in works]).counts_resources:
        has_cpu = has_memory = False
    if has_cpu and has_memory:
        return works
    return [
        replace(
            work,
            job=replace(
                work.job,
                cpu_milli=work.job.cpu_milli if has_cpu else None,
                memory_mib=work.job.memory_mib if has_memory else None,
            ),
        )
        for work in works
    ]


class Fleet:
    """The free milli-GPU of every node, and its free CPU and memory where they are counted.

    `free` maps a node to milli-GPU and a CPU or memory resource to milli-CPU or MiB
    (`arbiter.placement.resources`). CPU and memory are counted where `jobs` could run short of
    them. `sizes` are the capacities of whole nodes, including nodes that are down.

    The nodes are kept sorted from the first search on. A scheduler with its own placement never
    searches, so it pays nothing for the order.
    """

    __slots__ = (
        "_could_hold",
        "_kinds",
        "_layout",
        "_resources",
        "_shapes",
        "_sorted",
        "_wants",
        "_whole",
        "capacity_mgpu",
        "free",
        "sizes",
        "total_free",
    )

    def __init__(self, machines: Sequence[Machine], jobs: Iterable[TraceJob] = ()) -> None:
        self.sizes = {machine.name: machine.mgpu for machine in machines}
        devices = tuple(device_of(machine) for machine in machines)
        demands = {Demand(job.mgpu_per_node, job.cpu_milli, job.memory_mib) for job in jobs}
        self._resources = HostResources(devices, demands)
        self._kinds = NodeKinds(devices)
        self._sorted: FreeDevices | None = None
        self._layout = Layout({CLUSTER: self.sizes}, self._kinds, resources=self._resources)
        self._shapes: dict[_Ask, Shape] = {}
        self._wants: dict[Shape, Wants] = {}
        self._could_hold: dict[Shape, bool] = {}
        self._whole = self.sizes | self._resources.offered.get(CLUSTER, {})
        self.free = dict(self._whole)
        self.capacity_mgpu = self.total_free = sum(self.sizes.values())

    def shape_of(self, job: TraceJob) -> Shape:
        """Return the demand of `job` per node; equal demands return the same object."""
        wants = (job.cpu_milli, job.memory_mib) if self._resources.is_counted else (None, None)
        ask = (job.mgpu_per_node, job.node_count, job.features, *wants)
        shape = self._shapes.get(ask)
        if shape is None:
            kinds = self._kinds.having(job.features)
            shape = Shape(job.mgpu_per_node, job.node_count, None, job.mgpu, kinds, None, *wants)
            self._shapes[ask] = shape
        return shape

    def slots(self, job: TraceJob, nodes: Iterable[str]) -> list[Slot]:
        """Return what `job` holds of each of `nodes`, including their CPU and memory."""
        return self.slots_of(self.shape_of(job), nodes)

    def slots_of(self, shape: Shape, nodes: Iterable[str]) -> list[Slot]:
        """Return what a job of that `shape` holds of each of `nodes`, including CPU and memory."""
        return self._resources.slots_on(
            CLUSTER, nodes, shape.mgpu, shape.cpu_milli, shape.memory_mib
        )

    @property
    def counts_resources(self) -> bool:
        """Return whether CPU and memory are counted."""
        return self._resources.is_counted

    def could_hold(self, shape: Shape) -> bool:
        """Return whether `shape` fits in the empty fleet."""
        found = self._could_hold.get(shape)
        if found is None:
            found = self._could_hold[shape] = self._layout.holds(shape)
        return found

    def lacks_resources(self, shape: Shape) -> bool:
        """Return whether only a lack of CPU or memory keeps `shape` out of the empty fleet."""
        return not self.could_hold(shape) and self.could_hold(shape.gpus_alone)

    def is_of(self, shape: Shape, node: str) -> bool:
        """Return whether `node` is of a kind that `shape` may use."""
        return shape.kinds is None or self._kinds.has(shape.kinds, CLUSTER, node)

    def fits_on(self, shape: Shape, node: str, left: Mapping[str, int]) -> bool:
        """Return whether one rank of `shape` fits on `node` if `left` were free there.

        The kind of the node is not checked.
        """
        return left[node] >= shape.mgpu and (
            not self._resources.is_counted or has_resources(left, node, self._wants_of(shape))
        )

    def find(self, shape: Shape) -> tuple[str, ...] | None:
        """Return the tightest free nodes for the whole gang, or None."""
        if shape.total_mgpu > self.total_free:
            return None
        if self._sorted is None:
            left = {name: self.free[name] for name in self.sizes}
            self._sorted = FreeDevices({CLUSTER: left}, self._kinds)
        if not self._resources.is_counted or not any(self._wants_of(shape)):
            place = self._sorted.find(shape)
            return None if place is None else place.nodes
        # A trace may have as many demands as jobs: a sorted list of nodes for each would not pay.
        found: list[str] = []
        for _, node in self._sorted.nodes_for(CLUSTER, shape):
            if has_resources(self.free, node, self._wants_of(shape)):
                found.append(node)
                if len(found) == shape.node_count:
                    return tuple(sorted(found))
        return None

    def take(self, slots: Iterable[tuple[str, int]]) -> None:
        """Take these amounts from the free part of each node, CPU or memory.

        Raises ValueError where less than that is free.
        """
        self._take(slots, 1)

    def give_back(self, slots: Iterable[tuple[str, int]]) -> None:
        """Return these amounts to the free part of each node, CPU or memory.

        Raises ValueError where that is more than was taken.
        """
        self._take(slots, -1)

    def _take(self, slots: Iterable[tuple[str, int]], sign: int) -> None:
        free, whole, sizes, in_order = self.free, self._whole, self.sizes, self._sorted
        for name, amount in slots:
            taken = sign * amount
            left = free[name] - taken
            if not 0 <= left <= whole[name]:
                raise ValueError(f"{name} has {free[name]} of {whole[name]} free, not {taken}")
            free[name] = left
            if name in sizes:
                self.total_free -= taken
                if in_order is not None:
                    in_order.take(CLUSTER, name, taken)

    def _wants_of(self, shape: Shape) -> Wants:
        found = self._wants.get(shape)
        if found is None:
            found = self._wants[shape] = self._resources.wants(CLUSTER, shape.demand)
        return found

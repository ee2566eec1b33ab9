"""CPU and memory of a pool's nodes, counted with their GPUs where they could run short (R-44).

On each of its nodes a job gets the CPU and memory that it requests. Without a request it gets the
*share* that its cluster gives with so many GPUs. No node runs short as long as no job has more CPU
or memory per GPU than any node has per GPU. Then CPU and memory are not counted: the pool is
decided by GPUs alone, with the same outcome and at no cost.

Otherwise CPU and memory of a node are *host resources*, with names of their own. All tables of the
pool by node (free, held, coming back, reserved) contain them like further nodes, in milli-CPU or
MiB instead of milli-GPU. Only the search for a place combines a node with its host resources.
Unknown amounts of a node are not counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from arbiter.api.snapshot import Device, QueuedJob, RunningJob, Slot
from arbiter.quota.tree import UNLIMITED

#: Separates the name of a node from the suffix of its resources; no node name contains it.
_SEPARATOR = "\0"
_CPU = _SEPARATOR + "cpu"
_MEMORY = _SEPARATOR + "memory"


class Demand(NamedTuple):
    """The request of one rank on its node; None is the share that comes with so many GPUs."""

    mgpu: int
    cpu_milli: int | None = None
    memory_mib: int | None = None


class Wants(NamedTuple):
    """The CPU and the memory of a rank on a node of one cluster."""

    cpu_milli: int = 0
    memory_mib: int = 0


def demand_of(job: QueuedJob | RunningJob) -> Demand | None:
    """Return the request of each rank of a job, or None if it requests only GPUs."""
    if job.cpu_milli is None and job.memory_mib is None:
        return None
    mgpu = (
        job.mgpu_per_node
        if isinstance(job, QueuedJob)
        else min((slot.mgpu for slot in job.slots), default=0)
    )
    return Demand(mgpu, job.cpu_milli, job.memory_mib)


def cpu_and_memory_of(node: str) -> tuple[str, str]:
    """Return the names of a node's CPU and memory, whether or not they are counted."""
    return node + _CPU, node + _MEMORY


def node_of(resource: str) -> str:
    """Return the node of a host resource; for a node, the node itself."""
    return resource.partition(_SEPARATOR)[0]


def is_cpu_or_memory(resource: str) -> bool:
    """Return whether a name is that of a node's CPU or memory, and not of a node."""
    return _SEPARATOR in resource


def has_resources(amounts: Mapping[str, int], node: str, wants: Wants) -> bool:
    """Return whether CPU and memory of a node are enough; `amounts` has what is left, by name.

    A rank that wants none of a resource has enough even of an overdrawn one.
    """
    cpu_milli, memory_mib = wants
    return (not cpu_milli or amounts.get(node + _CPU, cpu_milli) >= cpu_milli) and (
        not memory_mib or amounts.get(node + _MEMORY, memory_mib) >= memory_mib
    )


class _Size(NamedTuple):
    """A node's milli-GPU, and its milli-CPU or MiB."""

    mgpu: int
    amount: int

    def is_enough(self, mgpu: int, amount: int) -> bool:
        """Return whether jobs with at most this ratio use up the node's GPUs first."""
        return amount * self.mgpu <= self.amount * mgpu


class HostResources:
    """CPU and memory of one pool's nodes, by cluster: in total (`sizes`) and on offer (`offered`).

    Both are filled only if CPU and memory are counted (`is_counted`).
    """

    __slots__ = ("_least", "_shares", "is_counted", "offered", "sizes")

    def __init__(self, devices: Sequence[Device], demands: Iterable[Demand] = ()) -> None:
        """Decide whether CPU and memory are counted.

        `demands` are those of the waiting and running jobs of the pool that request CPU or memory.
        """
        self._shares: dict[str, Wants] = {}
        for device in devices:
            # They are equal on all nodes of a cluster, except briefly while they are changed.
            share = Wants(device.cpu_milli_per_gpu, device.memory_mib_per_gpu)
            known = self._shares.get(device.cluster, share)
            if known != share:
                share = Wants(*map(max, known, share))
            self._shares[device.cluster] = share
        self.sizes: dict[str, dict[str, int]] = {}
        self.offered: dict[str, dict[str, int]] = {}
        self._least = self._find_least(devices)
        self.is_counted = False
        if not self.suffices((Demand(1_000), *demands)):
            self.is_counted = True
            self._count(devices)

    def suffices(self, demands: Iterable[Demand]) -> bool:
        """Return whether the current counting is enough for jobs with these `demands`."""
        if self.is_counted:
            return True
        return all(
            self._is_within(cluster, demand) for demand in demands for cluster in self._least
        )

    def wants(self, cluster: str, demand: Demand) -> Wants:
        """Return the CPU and memory of a rank on a node of a cluster."""
        share = self._shares.get(cluster, Wants())
        mgpu, cpu_milli, memory_mib = demand
        return Wants(
            share.cpu_milli * mgpu // 1_000 if cpu_milli is None else cpu_milli,
            share.memory_mib * mgpu // 1_000 if memory_mib is None else memory_mib,
        )

    def wants_at_most(self, clusters: Iterable[str], demand: Demand) -> Wants:
        """Return the CPU and memory of a rank on that of `clusters` which gives it most."""
        wants = [self.wants(cluster, demand) for cluster in clusters]
        return Wants(
            max((one.cpu_milli for one in wants), default=0),
            max((one.memory_mib for one in wants), default=0),
        )

    def slots_on(
        self,
        cluster: str,
        nodes: Iterable[str],
        mgpu: int,
        cpu_milli: int | None,
        memory_mib: int | None,
    ) -> list[Slot]:
        """Return the slots of a gang's ranks on `nodes`, one on each, with CPU and memory."""
        slots = [Slot(node, mgpu) for node in nodes]
        if self.is_counted:
            wants = self.wants(cluster, Demand(mgpu, cpu_milli, memory_mib))
            slots += [
                one for slot in slots for one in self._resource_slots(cluster, slot.node, wants)
            ]
        return slots

    def with_resources(self, run: RunningJob) -> RunningJob:
        """Return an attempt with the CPU and memory that it uses among its slots."""
        if not self.is_counted:
            return run
        slots = list(run.slots)
        for slot in run.slots:
            demand = Demand(slot.mgpu, run.cpu_milli, run.memory_mib)
            slots += self._resource_slots(run.cluster, slot.node, self.wants(run.cluster, demand))
        return replace(run, slots=tuple(slots))

    def _resource_slots(self, cluster: str, node: str, wants: Wants) -> Iterator[Slot]:
        known = self.sizes.get(cluster, {})
        for resource, amount in zip(cpu_and_memory_of(node), wants, strict=True):
            if amount and resource in known:
                yield Slot(resource, amount)

    def _is_within(self, cluster: str, demand: Demand) -> bool:
        """Return whether no node of a cluster runs out of CPU or memory before its GPUs.

        It assumes that no job has more of them per GPU than `demand`.
        """
        least_cpu, least_memory = self._least[cluster]
        wants = self.wants(cluster, demand)
        return (least_cpu is None or least_cpu.is_enough(demand.mgpu, wants.cpu_milli)) and (
            least_memory is None or least_memory.is_enough(demand.mgpu, wants.memory_mib)
        )

    def _find_least(
        self, devices: Sequence[Device]
    ) -> dict[str, tuple[_Size | None, _Size | None]]:
        """Return by cluster the nodes with the least CPU and the least memory per GPU.

        Both the offered and the total amounts count, as `Layout` counts them. A node that offers no
        GPUs now could come back with as many as the largest has.
        """
        whole: dict[tuple[str, str], int] = {}
        for device in devices:
            at = device.cluster, device.node
            whole[at] = whole.get(at, 0) + device.capacity_mgpu + device.outside_mgpu
        largest_mgpu = max(whole.values(), default=0) or UNLIMITED
        found: dict[str, tuple[set[_Size], set[_Size]]] = {}
        for device in devices:
            whole_mgpu = whole[device.cluster, device.node] or largest_mgpu
            of_cluster = found.setdefault(device.cluster, (set(), set()))
            of_all = device.cpu_milli, device.memory_mib
            for sizes, left, amount in zip(
                of_cluster, self._offered_by(device), of_all, strict=True
            ):
                if left is not None and amount is not None:
                    sizes.add(_Size(whole_mgpu, amount))
                    if device.capacity_mgpu > 0:
                        sizes.add(_Size(device.capacity_mgpu, left))
        return {cluster: (_least(cpu), _least(memory)) for cluster, (cpu, memory) in found.items()}

    def _offered_by(self, device: Device) -> tuple[int | None, int | None]:
        """Return CPU and memory of a node without the share of GPUs held by other workloads."""
        outside = self.wants(device.cluster, Demand(device.outside_mgpu))
        cpu, memory = device.cpu_milli, device.memory_mib
        return (
            None if cpu is None else max(0, cpu - outside.cpu_milli),
            None if memory is None else max(0, memory - outside.memory_mib),
        )

    def _count(self, devices: Iterable[Device]) -> None:
        for device in devices:
            sizes = self.sizes.setdefault(device.cluster, {})
            offered = self.offered.setdefault(device.cluster, {})
            cpu, memory = self._offered_by(device)
            if device.cpu_milli is not None and cpu is not None:
                sizes[device.node + _CPU] = device.cpu_milli
                offered[device.node + _CPU] = cpu
            if device.memory_mib is not None and memory is not None:
                sizes[device.node + _MEMORY] = device.memory_mib
                offered[device.node + _MEMORY] = memory


def _least(sizes: Iterable[_Size]) -> _Size | None:
    found: _Size | None = None
    for one in sizes:
        if found is None or one.amount * found.mgpu < found.amount * one.mgpu:
            found = one
    return found

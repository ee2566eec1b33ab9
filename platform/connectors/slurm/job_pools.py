"""The pool of a job's GPUs, found by their type, its nodes, or its partition."""

from __future__ import annotations

from collections.abc import Mapping

from connectors.protocol import RankSlot
from connectors.slurm.hardware import Hardware, Kept
from connectors.slurm.neutral import SlurmJob, SlurmNode
from connectors.slurm.observing import MGPU_PER_GPU, slots_of, spread
from connectors.slurm.options import SlurmPool
from connectors.slurm.tres import CORES


def is_of_cores(node: SlurmNode, pools: Mapping[str, SlurmPool]) -> bool:
    """Return whether the node's cores are devices of a pool."""
    return CORES in node.gpus and any(
        pool.gres_type == CORES and pool.partition in node.partitions for pool in pools.values()
    )


class JobPools:
    """The pools of one cluster. Reads the cluster's hardware for GPUs without a type."""

    def __init__(self, pools: Mapping[str, SlurmPool], hardware: Kept[Hardware]) -> None:
        self._pools = pools
        self._hardware = hardware

    def of_gpus(self, gpus: Mapping[str, int]) -> str | None:
        """Return the pool of GPUs by type; None when no pool has the type."""
        return next((name for name, pool in self._pools.items() if gpus.get(pool.gres_type)), None)

    def of_job(self, job: SlurmJob) -> str | None:
        """Return the pool of the GPUs that a job holds or waits for; None when it is not ours."""
        gpus = job.gpus_allocated or job.gpus_requested
        if CORES in gpus:
            return self._of_cores(job)
        return self.of_gpus(gpus) or self._of_untyped(job, gpus)

    def parts(self, job: SlurmJob) -> dict[str, tuple[RankSlot, ...]]:
        """Return the resources of `job` by pool; {} when it has one GPU type or does not run.

        The cluster's record of GPUs by node decides. Where it is missing, the GPU type of each node
        decides.
        """
        gpus = job.gpus_allocated or job.gpus_requested
        if not job.nodes or (len(gpus) == 1 and "" not in gpus):
            return {}
        parts: dict[str, list[RankSlot]] = {}
        for slot in slots_of(job) or spread(job.nodes, sum(gpus.values())):
            types = job.types_by_node.get(slot.node, {})
            if not types or "" in types:
                types = {self._type_of(slot.node): slot.mgpu // MGPU_PER_GPU}
            for kind, count in types.items():
                pool = self.of_gpus({kind: count})
                if pool is not None:
                    parts.setdefault(pool, []).append(RankSlot(slot.node, count * MGPU_PER_GPU))
        return {pool: tuple(part) for pool, part in parts.items()}

    def _type_of(self, node: str) -> str:
        """Return the GPU type of a node; of several types, the first that belongs to a pool."""
        nodes = self._hardware.get().nodes
        pool = self.of_gpus(nodes[node].gpus) if node in nodes else None
        return "" if pool is None else self._pools[pool].gres_type

    def cores_of(self, job: SlurmJob) -> tuple[RankSlot, ...]:
        """Return the cores of the CPU pool that a job without GPUs holds, by node.

        Only the pool's nodes count, whatever partition the job was submitted to. Its cores on GPU
        nodes do not count.
        """
        nodes = self._hardware.get().nodes
        return tuple(
            slot
            for slot in slots_of(job)
            if slot.node in nodes and is_of_cores(nodes[slot.node], self._pools)
        )

    def _of_cores(self, job: SlurmJob) -> str | None:
        """Return the CPU pool if a job without GPUs holds or awaits its cores; else None."""
        found = next(
            ((name, pool) for name, pool in self._pools.items() if pool.gres_type == CORES), None
        )
        if found is None:
            return None
        name, pool = found
        if job.state == "PENDING" or not job.nodes:
            return name if job.partition == pool.partition else None
        return name if self.cores_of(job) else None

    def _of_untyped(self, job: SlurmJob, gpus: Mapping[str, int]) -> str | None:
        """Return the pool of a job without a GPU type: by its nodes, else by its partition."""
        if not gpus.get(""):
            return None
        if job.nodes:
            return next(iter(self.parts(job)), None)
        of_partition = [
            name for name, pool in self._pools.items() if pool.partition == job.partition
        ]
        return of_partition[0] if len(of_partition) == 1 else None

"""Metrics of the attempts on this machine."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from connectors.local.allocations import MGPU_PER_DEVICE, allocated_devices
from connectors.local.attempt_files import (
    CorruptRecord,
    integer,
    integer_or_none,
    is_locked,
    read_json,
)
from connectors.local.attempt_spec import AttemptSpec, Slot, read_spec
from connectors.local.connector import LocalConnector
from connectors.local.limits import cgroup_folder, cgroup_name
from connectors.local.nvidia import NvidiaGpu, nvidia_gpus
from connectors.local.usage import Memory, TreeUse, cgroup_memory, tree_uses
from connectors.metrics import FinalMetrics, GpuSample, MetricSample
from connectors.protocol import ClusterConnector


def open_metrics(connector: ClusterConnector) -> LocalMetrics:
    """Return the metrics of the local cluster of `connector`."""
    assert isinstance(connector, LocalConnector)
    return LocalMetrics(connector)


@dataclass(frozen=True, slots=True)
class _Running:
    """An attempt with ranks that run: the keeper of each, by rank."""

    spec: AttemptSpec
    keepers: Mapping[int, int]


class LocalMetrics:
    """Implements `connectors.metrics.MetricReader`."""

    def __init__(self, connector: LocalConnector) -> None:
        self._connector = connector

    def running(self, keys: Sequence[str]) -> Sequence[MetricSample]:
        """See the protocol. One look at all processes of the machine, whatever the keys."""
        with self._connector.reading("read the processes of its attempts"):
            found = [each for key in keys if (each := self._find(key)) is not None]
            uses = tree_uses({keeper for each in found for keeper in each.keepers.values()})
            has_gpus = any(each.spec.uses_real_gpus for each in found)
            gpus = nvidia_gpus() if has_gpus else {}
            now = int(time.time())
            return [self._sample(each, uses, gpus, now) for each in found]

    def ended(self, key: str, native_id: str) -> FinalMetrics | None:
        """See the protocol. A rank whose keeper was killed has no figures, nor has its attempt."""
        files = self._connector.files_of(key)
        cpu_time_ms = peak_bytes = 0
        with self._connector.reading(f"read the end of {key}"):
            try:
                spec = read_spec(files.spec)
                for rank in range(spec.ranks):
                    record = read_json(files.rank(rank, "gone"))
                    # Records of earlier versions have no figures.
                    if integer_or_none(record, "cpu_time_ms") is None:
                        return None
                    cpu_time_ms += integer(record, "cpu_time_ms")
                    peak_bytes += integer(record, "memory_peak_bytes")
            except (FileNotFoundError, CorruptRecord):
                return None
        return FinalMetrics(cpu_time_ms=cpu_time_ms, memory_peak_bytes=peak_bytes)

    def _find(self, key: str) -> _Running | None:
        files = self._connector.files_of(key)
        try:
            spec = read_spec(files.spec)
        except (FileNotFoundError, CorruptRecord):
            return None
        keepers = {}
        for rank in range(spec.ranks):
            # A keeper has its lock before it writes that the rank is started.
            with contextlib.suppress(FileNotFoundError, CorruptRecord):
                # A number whose process is not the keeper any more would be somebody else's.
                if is_locked(files.rank(rank, "lock")):
                    record = read_json(files.rank(rank, "started"))
                    keepers[rank] = integer(record, "keeper")
        return _Running(spec, keepers) if keepers else None

    def _sample(
        self,
        running: _Running,
        uses: Mapping[int, TreeUse],
        gpus: Mapping[int, NvidiaGpu],
        now: int,
    ) -> MetricSample:
        spec = running.spec
        trees = {rank: uses[pid] for rank, pid in running.keepers.items() if pid in uses}
        memories = [
            cgroup_memory(cgroup_folder(spec.limits, cgroup_name(spec.trace, rank)))
            or Memory(tree.memory_bytes, None)
            for rank, tree in trees.items()
        ]
        peaks = [each.peak_bytes for each in memories if each.peak_bytes is not None]
        pids = frozenset().union(*(tree.pids for tree in trees.values()))
        return MetricSample(
            spec.key,
            now,
            cpu_time_ms=sum(tree.cpu_time_ms for tree in trees.values()),
            memory_bytes=sum(each.now_bytes for each in memories),
            memory_peak_bytes=sum(peaks) if len(peaks) == len(trees) else None,
            processes=len(pids),
            gpus=self._gpus(spec, gpus, pids) if spec.uses_real_gpus else None,
        )

    def _gpus(
        self, spec: AttemptSpec, gpus: Mapping[int, NvidiaGpu], pids: frozenset[int]
    ) -> tuple[GpuSample, ...]:
        if spec.is_of_cores:
            return ()
        devices = allocated_devices(self._connector.root, spec.key)
        return tuple(
            _gpu_sample(slot, index, gpus[index], pids)
            for slot, indices in zip(spec.slots, devices, strict=False)
            for index in indices
            if index in gpus
        )


def _gpu_sample(slot: Slot, index: int, gpu: NvidiaGpu, pids: frozenset[int]) -> GpuSample:
    """Return the sample of a GPU, or of the job's part of one that it shares.

    A whole GPU is the job's alone, so every process on it counts. nvidia-smi may know the
    processes by numbers of another namespace than ours.
    """
    if slot.mgpu >= MGPU_PER_DEVICE:
        return GpuSample(
            slot.node,
            index,
            gpu.utilisation_percent,
            gpu.memory_bytes,
            gpu.memory_total_bytes,
            has_process=None if gpu.processes is None else bool(gpu.processes),
        )
    if gpu.processes is None:
        return GpuSample(slot.node, index, memory_total_bytes=gpu.memory_total_bytes)
    own = [memory for pid, memory in gpu.processes.items() if pid in pids]
    known = [memory for memory in own if memory is not None]
    return GpuSample(
        slot.node,
        index,
        memory_bytes=sum(known) if len(known) == len(own) else None,
        memory_total_bytes=gpu.memory_total_bytes,
        has_process=True if own else False if not gpu.processes else None,
    )

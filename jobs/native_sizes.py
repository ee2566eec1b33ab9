"""What a native that waits asks for, and by what its cluster knows it."""

from __future__ import annotations

from connectors.natives import NativeRef, NativeSize, size_of
from connectors.protocol import NativeWorkload
from jobs.models import Job, JobType
from jobs.natives import RANKS_MAX
from primitives.units import MGPU_MAX


def ref_of_job(job: Job) -> NativeRef:
    """What a cluster knows the job of a native by."""
    return NativeRef(job.native_id or "", int(job.submitted_at.timestamp()), "")


def ref_of_native(native: NativeWorkload) -> NativeRef:
    """What its cluster knows it by."""
    return NativeRef(native.native_id, native.submitted_at, "")


def size_asked(native: NativeWorkload) -> NativeSize | None:
    """What it asks for now; None also where that is of several pools."""
    return None if native.is_mixed else size_of(native.pool, native.ranks_mgpu)


def size_of_job(job: Job) -> NativeSize:
    """What its job asks for."""
    return NativeSize(job.pool.name, job.mgpu_per_node, job.node_count)


def take_size(job: Job, size: NativeSize) -> None:
    """Let its job, which is not saved, ask for `size`."""
    job.mgpu_per_node, job.node_count = size.mgpu_per_rank, size.rank_count
    is_gang = size.rank_count > 1
    job.type = (JobType.DISTRIBUTED if is_gang else JobType.TRAINING).value


def may_become(native: NativeWorkload, pool: str) -> bool:
    """Whether a job of `pool` can ask for what the workload asks for now."""
    size = size_asked(native)
    return (
        size is not None
        and size.pool == pool
        and size.rank_count <= RANKS_MAX
        and size.mgpu_per_rank * size.rank_count <= MGPU_MAX
    )

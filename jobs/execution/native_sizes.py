"""The requested and granted size of a native job, and its reference on the cluster."""

from __future__ import annotations

from connectors.natives import NativeRef, NativeSize, size_of
from connectors.protocol import NativeWorkload
from jobs.models import Attempt, Job, JobType
from primitives.units import MGPU_MAX

RANKS_MAX = 100_000


def ref_of_job(job: Job) -> NativeRef:
    """Return the reference to a native job on its cluster."""
    return NativeRef(job.native_id or "", int(job.submitted_at.timestamp()), "")


def ref_of_native(native: NativeWorkload) -> NativeRef:
    """Return the reference to a listed native workload on its cluster."""
    return NativeRef(native.native_id, native.submitted_at, "")


def size_asked(native: NativeWorkload) -> NativeSize | None:
    """Return the size that the workload asks for now; None also if it spans several pools."""
    return None if native.is_mixed else size_of(native.pool, native.ranks_mgpu)


def size_of_job(job: Job) -> NativeSize:
    """Return the size that the job asks for."""
    return NativeSize(job.pool.name, job.mgpu_per_node, job.node_count)


def take_size(job: Job, size: NativeSize) -> None:
    """Set the size of the unsaved job to `size`."""
    job.mgpu_per_node, job.node_count = size.mgpu_per_rank, size.rank_count
    is_gang = size.rank_count > 1
    job.type = (JobType.DISTRIBUTED if is_gang else JobType.TRAINING).value


def may_become(native: NativeWorkload, pool: str) -> bool:
    """Return whether a job of `pool` can have the size that the workload asks for now."""
    size = size_asked(native)
    return (
        size is not None
        and size.pool == pool
        and size.rank_count <= RANKS_MAX
        and size.mgpu_per_rank * size.rank_count <= MGPU_MAX
    )


def ref_of(attempt: Attempt) -> NativeRef:
    """Return the reference to a native attempt on its cluster; its job must be loaded."""
    return NativeRef(
        attempt.native_id or attempt.job.native_id or "",
        int(attempt.job.submitted_at.timestamp()),
        attempt.cluster_user or "",
    )


def granted_to(attempt: Attempt) -> NativeSize | None:
    """Return the size granted to a waiting native job; its job and pool must be loaded."""
    return size_of(attempt.job.pool.name, [slot["mgpu"] for slot in attempt.slots])

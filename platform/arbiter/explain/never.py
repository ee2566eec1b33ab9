"""The question whether a job could ever start, which needs no cycle (R-85)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from arbiter.api.plan import Code, Waiting
from arbiter.api.policy import Policy
from arbiter.api.snapshot import Device, PriorityClass, QueuedJob, Quota, TreeNode
from arbiter.cache.pool_config import PoolConfig
from arbiter.fairshare.fair_tree import WEIGHT_OF_REFERENCE, half_lives_of
from arbiter.placement.free_devices import Shape
from arbiter.placement.resources import demand_of
from arbiter.quota.tree import tree_of


def why_never(
    job: QueuedJob,
    *,
    nodes: Sequence[TreeNode],
    quotas: Iterable[Quota],
    priority_classes: Iterable[PriorityClass],
    devices: Iterable[Device],
    clusters: frozenset[str],
) -> Waiting | None:
    """Return why `job` could never start in its pool, even if nothing else ran there, or None.

    The data are as in a `Snapshot`, and the answer is that of a cycle with the job alone. Quotas
    and devices are those of the job's pool. A job of an unknown team never starts.

    Pure. Raises ValueError for an invalid tree (see `tree_of`).
    """
    tree, policy = tree_of(nodes), Policy()
    if job.team not in tree.index:
        return Waiting(job.id, Code.NEVER_FITS, {"need_mgpu": job.mgpu, "could_ever_mgpu": 0})
    demand = demand_of(job)
    config = PoolConfig(
        job.pool,
        quotas,
        devices,
        tree=tree,
        policy=policy,
        clusters=clusters,
        classes={cls.id: cls for cls in priority_classes},
        weight=WEIGHT_OF_REFERENCE,
        half_lives_s=half_lives_of(tree, policy.fair_share_half_life_s),
        demands=() if demand is None else (demand,),
    )
    group = config.group_of(job)
    if group.code is not Code.NEVER_FITS:
        return None
    return Waiting(
        job.id, Code.NEVER_FITS, never_numbers(config, group.shape, group.could_ever_mgpu)
    )


def never_numbers(config: PoolConfig, shape: Shape, could_ever_mgpu: int) -> dict[str, int]:
    """Return the numbers of the reason NEVER_FITS of jobs of this shape."""
    layout = config.layout
    numbers = {
        "need_mgpu": shape.total_mgpu,
        "nodes_needed": shape.node_count,
        "mgpu_per_node": shape.mgpu,
        "could_ever_mgpu": could_ever_mgpu,
    }
    if shape.kinds is not None:
        numbers["nodes_with_features"] = layout.nodes_of_kinds(shape)
    if shape.is_bound:
        numbers["nodes_in_one_domain"] = layout.together(shape)
    large_enough = layout.nodes_with(shape)
    if large_enough < shape.node_count <= layout.nodes_with(shape.gpus_alone):
        numbers["nodes_large_enough"] = large_enough
        numbers.update(wants_numbers(config, shape))
    return numbers


def wants_numbers(config: PoolConfig, shape: Shape) -> dict[str, int]:
    """Return the CPU and memory that a rank of this shape wants on each node."""
    allowed = [name for name in config.offered if shape.clusters is None or name in shape.clusters]
    cpu_milli, memory_mib = config.resources.wants_at_most(allowed, shape.demand)
    return {"cpu_milli_per_node": cpu_milli, "memory_mib_per_node": memory_mib}

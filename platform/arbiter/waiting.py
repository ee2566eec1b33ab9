"""Why a job waits, as a code and numbers (semantics section 5)."""

from __future__ import annotations

from arbiter.decisions import Code
from arbiter.pool import Earmark, Pool
from arbiter.queue_order import NOWHERE, JobClass, Reason, Standing
from arbiter.quota_tree import ROOT


def never(cls: JobClass, could_ever_mgpu: int) -> Reason:
    """Quota or the fleet could not give this even if nothing else ran."""
    numbers = _needs(cls)
    numbers["could_ever_mgpu"] = could_ever_mgpu
    return Reason(Code.NEVER_FITS, numbers, None, NOWHERE)


def no_cluster(cls: JobClass) -> Reason:
    """No cluster that the job may use accepts starts now."""
    return Reason(Code.CLUSTER_UNAVAILABLE, _needs(cls), None, NOWHERE)


def capped(pool: Pool, team: int, cls: JobClass, standing: Standing, room_mgpu: int) -> Reason:
    """The team's cap in the priority class is reached."""
    numbers = _needs(cls)
    in_use = pool.class_use.get((team, cls.priority_class), 0)
    numbers["class_cap_mgpu"] = room_mgpu + in_use
    numbers["class_in_use_mgpu"] = in_use
    return Reason(Code.CLASS_CAP_REACHED, numbers, pool.tree.ids[team], standing)


def behind_own(pool: Pool, team: int, cls: JobClass, standing: Standing) -> Reason:
    """An earlier job of the same team keeps its place."""
    return Reason(Code.BEHIND_HIGHER_PRIORITY, _state(pool, team, cls), None, standing)


def next_cycle(pool: Pool, team: int, cls: JobClass, standing: Standing) -> Reason:
    """It could start, but others come first and this cycle's starts are used up."""
    numbers = _state(pool, team, cls)
    numbers["starts_max"] = pool.policy.starts_max
    return Reason(Code.BEHIND_FAIR_SHARE, numbers, None, standing)


def blocked(pool: Pool, team: int, cls: JobClass, standing: Standing, source: int) -> Reason:
    """Quota or placement refuses it; `source` is the guarantee that it fits in, or ROOT."""
    numbers = _state(pool, team, cls)
    at = pool.blocker(team, cls.mgpu)
    if at is not None and at != ROOT:
        ledger = pool.now
        if pool.later is not None and ledger.blocker(team, cls.mgpu) is None:
            ledger = pool.later
        numbers["held_mgpu"] = ledger.held[at]
        numbers["limit_mgpu"] = pool.quota.limits[at]
        if source == team:
            code = Code.WAITING_FOR_GUARANTEE
        elif at == team:
            code = Code.BORROW_LIMIT_REACHED
        else:
            code = Code.PARENT_LIMIT_REACHED
        return Reason(code, numbers, pool.tree.ids[at], standing)
    if at is None and numbers["largest_free_on_a_cluster_mgpu"] >= cls.mgpu:
        numbers["nodes_needed"] = cls.shape.count
        numbers["mgpu_per_node"] = cls.shape.mgpu
        numbers["nodes_fitting"] = pool.free.fitting_nodes(cls.shape)
        return Reason(Code.TOPOLOGY_FRAGMENTED, numbers, None, standing)
    code = Code.WAITING_FOR_GUARANTEE if source == team else Code.WAITING_FOR_FREE_GPUS
    return Reason(code, numbers, None, standing)


def reclaiming(pool: Pool, earmark: Earmark) -> dict[str, int]:
    """The numbers of a job whose GPUs are being given back."""
    job = earmark.job
    return {
        "need_mgpu": job.mgpu,
        "guaranteed_mgpu": pool.quota.guaranteed[earmark.team],
        "coming_back_mgpu": earmark.coming_back_mgpu,
        "earmarked_mgpu": job.mgpu - earmark.coming_back_mgpu,
        "victims": len(earmark.victims),
        "grace_left_s": max(0, earmark.claim.grace_until - pool.taken_at),
    }


def _needs(cls: JobClass) -> dict[str, int]:
    return {
        "need_mgpu": cls.mgpu,
        "nodes_needed": cls.shape.count,
        "mgpu_per_node": cls.shape.mgpu,
    }


def _state(pool: Pool, team: int, cls: JobClass) -> dict[str, int]:
    cluster = cls.shape.cluster
    return {
        "need_mgpu": cls.mgpu,
        "free_mgpu": pool.free.total_free(cluster),
        "largest_free_on_a_cluster_mgpu": pool.free.largest_free(cluster),
        "available_by_quota_mgpu": pool.available(team),
        "guaranteed_mgpu": pool.quota.guaranteed[team],
        "in_use_mgpu": pool.now.base[team],
        "protected_mgpu": pool.protected[team],
    }

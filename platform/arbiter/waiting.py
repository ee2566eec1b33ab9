"""Why a job class waits, in numbers, as things stand at the end of the cycle (semantics 5)."""

from __future__ import annotations

from typing import NamedTuple

from arbiter.decisions import Code
from arbiter.pool import Earmark, Pool
from arbiter.queue_order import JobClass
from arbiter.quota_tree import ROOT


class Reason(NamedTuple):
    """Code, numbers and binding node of a `Waiting`."""

    code: Code
    numbers: dict[str, int]
    node: str | None = None


class Reasons:
    """Tells the reasons of one pool's classes; what they share is looked up once."""

    __slots__ = ("_free", "_pool", "_team", "_team_available")

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._free: dict[tuple[frozenset[str] | None, int | None], tuple[int, int]] = {}
        self._team = ROOT
        self._team_available = 0

    def of(self, team: int, cls: JobClass, source: int) -> Reason:
        """Why `cls` waits; `source` is the node whose guarantee its jobs fit in, or ROOT."""
        pool, shape, code = self._pool, cls.shape, cls.code
        assert code is not None
        if code is Code.NEVER_FITS or code is Code.CLUSTER_UNAVAILABLE:
            numbers = {"need_mgpu": shape.total_mgpu}
            numbers["nodes_needed"] = shape.node_count
            numbers["mgpu_per_node"] = shape.mgpu
            if code is Code.NEVER_FITS:
                numbers["could_ever_mgpu"] = cls.could_ever_mgpu
                if shape.kinds is not None:
                    numbers["nodes_with_features"] = pool.layout.nodes_of_kinds(shape)
            return Reason(code, numbers)
        if code is Code.CLASS_CAP_REACHED:
            cap = cls.priority.cap_mgpu
            numbers = {
                "need_mgpu": shape.total_mgpu,
                "class_cap_mgpu": 0 if cap is None else cap,
                "class_in_use_mgpu": pool.class_use.get((team, cls.priority.id), 0),
            }
            return Reason(code, numbers, pool.tree.ids[team])
        if team != self._team:
            self._team, self._team_available = team, pool.available(team)
        usable = (shape.clusters, shape.kinds)
        free = self._free.get(usable)
        if free is None:
            free = self._free[usable] = (
                pool.free.total_free(*usable),
                pool.free.largest_free(*usable),
            )
        numbers = {
            "need_mgpu": shape.total_mgpu,
            "free_mgpu": free[0],
            "largest_free_on_a_cluster_mgpu": free[1],
            "available_by_quota_mgpu": self._team_available,
            "guaranteed_mgpu": pool.quota.guaranteed[team],
            "in_use_mgpu": pool.now.base[team],
            "protected_mgpu": pool.protected[team],
        }
        if code is Code.BEHIND_FAIR_SHARE:
            numbers["starts_max"] = pool.policy.starts_max
        if code is not Code.WAITING_FOR_FREE_GPUS:
            return Reason(code, numbers)
        return self._blocked(team, cls, source, numbers)

    def _blocked(self, team: int, cls: JobClass, source: int, numbers: dict[str, int]) -> Reason:
        """Tell apart what quota refuses and what the devices do.

        "Entitled" is said only to a team that uses less than its guarantee; one that holds large
        borrowed jobs has a right to reclaim by the contract, but no promise of when.
        """
        pool, shape = self._pool, cls.shape
        need = shape.total_mgpu
        is_entitled = source == team and pool.now.base[team] + need <= pool.quota.guaranteed[team]
        if shape.total_mgpu > numbers["available_by_quota_mgpu"]:
            ledger = pool.now
            at = ledger.blocker(team, shape.total_mgpu)
            if at is None and pool.later is not None:
                ledger = pool.later
                at = ledger.blocker(team, shape.total_mgpu)
            if at is not None and at != ROOT:
                numbers["held_mgpu"] = ledger.held[at]
                numbers["limit_mgpu"] = pool.quota.limits[at]
                if is_entitled:
                    code = Code.WAITING_FOR_GUARANTEE
                elif at == team:
                    code = Code.BORROW_LIMIT_REACHED
                else:
                    code = Code.PARENT_LIMIT_REACHED
                return Reason(code, numbers, pool.tree.ids[at])
        elif numbers["largest_free_on_a_cluster_mgpu"] >= shape.total_mgpu:
            numbers["nodes_needed"] = shape.node_count
            numbers["mgpu_per_node"] = shape.mgpu
            numbers["nodes_fitting"] = pool.free.fitting_nodes(shape)
            return Reason(Code.TOPOLOGY_FRAGMENTED, numbers)
        code = Code.WAITING_FOR_GUARANTEE if is_entitled else Code.WAITING_FOR_FREE_GPUS
        return Reason(code, numbers)


def of_claimed(pool: Pool, earmark: Earmark) -> Reason:
    """Why a job waits whose GPUs are being given back.

    It may take them by the guarantee of a node above its team, or from its own team's lower
    classes: only where it is protected in its team is the team itself entitled to them.
    """
    job = earmark.job
    is_protected = earmark.stand_in.protected >> pool.tree.depths[earmark.team] & 1
    numbers = {
        "need_mgpu": job.mgpu,
        "guaranteed_mgpu": pool.quota.guaranteed[earmark.team],
        "within_guarantee_mgpu": job.mgpu if is_protected or earmark.fits_guarantee else 0,
        "coming_back_mgpu": earmark.coming_back_mgpu,
        "earmarked_mgpu": job.mgpu - earmark.coming_back_mgpu,
        "victims": len(earmark.victims),
        "grace_left_s": max(0, earmark.claim.grace_until - pool.taken_at),
    }
    return Reason(Code.WAITING_FOR_RECLAIM, numbers)

"""The reason why a job class waits, with numbers as of the end of the cycle (R-85)."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

from arbiter.api.plan import Code
from arbiter.cache.claims import Earmark
from arbiter.cache.pool import Pool
from arbiter.explain.credit_order import Richer, SpareByCredits, credit_numbers
from arbiter.explain.never import never_numbers, wants_numbers
from arbiter.explain.usage import InUse
from arbiter.fairshare.fair_tree import FairShares, permille
from arbiter.placement.free_devices import Shape
from arbiter.placement.maintenance import Closed
from arbiter.queue.order import JobClass, Position
from arbiter.quota.tree import ROOT


class Reason(NamedTuple):
    """The code, numbers and binding node of a `Waiting`."""

    code: Code
    numbers: dict[str, int]
    node: str | None = None


@dataclass(slots=True, eq=False)
class _Taken:
    """The milli-GPU that teams below one node took of a tier, and the node's load before."""

    load: int
    mgpu: int = 0


class Before(NamedTuple):
    """The milli-GPU taken in the team's own organization and by others.

    `node` is the lowest node on the team's path with a sister that took some (ROOT: none).
    """

    inside_mgpu: int
    by_others_mgpu: int
    node: int


_NOTHING = Before(0, 0, ROOT)


class SpareTaken:
    """Spare GPUs taken by the starts of a cycle, in tiers by source, rank and credits.

    Within one tier fair-share decided the order. Add all starts, before they are charged, and
    before the first request.
    """

    __slots__ = ("_before", "_shares", "_sorted", "_sources", "_tiers", "_totals", "by_credits")

    def __init__(self, shares: FairShares) -> None:
        self._shares = shares
        self._tiers: dict[tuple[int, int, int], dict[int, _Taken]] = {}
        self._sources: set[int] = set()
        self._sorted: dict[tuple[tuple[int, int, int], int], tuple[list[int], list[int]]] = {}
        self._before: dict[tuple[tuple[int, int, int], int], Before] = {}
        self._totals: dict[int, tuple[int, int]] = {}
        self.by_credits = SpareByCredits(shares.tree)

    def add(self, source: int, position: Position, team: int, mgpu: int) -> None:
        """Note that a start of `team` takes `mgpu` of the spare GPUs of `source`."""
        tier = self._tiers.setdefault((source, position.minus_rank, position.minus_credits), {})
        for node in self._shares.tree.paths[team]:
            if node not in tier:
                tier[node] = _Taken(self._shares.loads[node])
            tier[node].mgpu += mgpu
        self._sources.add(source)
        self.by_credits.add(source, position, team, mgpu)

    def has_from(self, source: int) -> bool:
        """Return whether any start took spare GPUs of `source`."""
        return source in self._sources

    def before(self, source: int, position: Position, team: int) -> Before:
        """Return what teams took that fair-share puts before `team`.

        These are teams below sisters, of it or of a node above it, that had used less of their
        share.
        """
        tier = (source, position.minus_rank, position.minus_credits)
        if tier not in self._tiers:
            return _NOTHING
        if (tier, team) not in self._before:
            path = self._shares.tree.paths[team]
            by_sisters = [self._of_sisters(tier, node) for node in path]
            at = next((node for node, mgpu in zip(path, by_sisters, strict=True) if mgpu), ROOT)
            self._before[tier, team] = Before(sum(by_sisters[:-1]), by_sisters[-1], at)
        return self._before[tier, team]

    def _of_sisters(self, tier: tuple[int, int, int], node: int) -> int:
        """Return what was taken below sisters of `node` that had used less of their share."""
        shares, nodes = self._shares, self._tiers[tier]
        parent = shares.tree.parents[node]
        if (tier, parent) not in self._sorted:
            taken = sorted(
                (one.load, one.mgpu)
                for sister, one in nodes.items()
                if shares.tree.parents[sister] == parent
            )
            loads = [load for load, _ in taken]
            self._sorted[tier, parent] = loads, [0, *accumulate(mgpu for _, mgpu in taken)]
        loads, sums = self._sorted[tier, parent]
        own = nodes.get(node)
        less = sums[bisect_left(loads, shares.loads[node])]
        return less - (own.mgpu if own is not None and own.load < shares.loads[node] else 0)

    def permille(self, node: int) -> tuple[int, int]:
        """Return the part of `node` in the weight and in the use of its siblings, per mille."""
        shares = self._shares
        parent = shares.tree.parents[node]
        if parent not in self._totals:
            self._totals[parent] = shares.of_children(parent)
        weight, used = self._totals[parent]
        return permille(shares.weights[node], weight), permille(shares.used(node), used)


class Unlimited:
    """The running jobs without a time limit, of which nobody knows when they end at the latest.

    Nothing is computed before the first request.
    """

    __slots__ = ("_left", "_of_cluster", "_pool")

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        #: By cluster, the number and milli-GPU of these jobs; None until it is needed.
        self._of_cluster: dict[str, tuple[int, int]] | None = None
        #: By cluster, what the jobs leave to others on each node, in ascending order.
        self._left: dict[str, list[int]] = {}

    def numbers(self, shape: Shape) -> dict[str, int]:
        """Return how many there are and what they hold, if one must end before `shape` fits.

        Empty if other jobs' ends are enough.
        """
        if self._of_cluster is None:
            self._of_cluster = self._look()
        usable = [
            c for c in self._pool.config.offered if shape.clusters is None or c in shape.clusters
        ]
        found = [self._of_cluster.get(cluster, (0, 0)) for cluster in usable]
        jobs, mgpu = sum(one[0] for one in found), sum(one[1] for one in found)
        if not jobs or any(self._nodes(cluster, shape) >= shape.node_count for cluster in usable):
            return {}
        return {"unlimited_jobs": jobs, "unlimited_mgpu": mgpu}

    def _nodes(self, cluster: str, shape: Shape) -> int:
        """Return how many nodes have room for a rank beside the jobs without a time limit."""
        left = self._left.get(cluster)
        if left is None:
            left = self._left[cluster] = sorted(self._pool.config.offered[cluster].values())
        return len(left) - bisect_left(left, shape.mgpu)

    def _look(self) -> dict[str, tuple[int, int]]:
        found: dict[str, tuple[int, int]] = {}
        held: dict[str, dict[str, int]] = {}
        for holding in self._pool.holdings.all.values():
            run = holding.run
            if run.time_limit_s is not None or holding.is_going:
                continue
            jobs, mgpu = found.get(run.cluster, (0, 0))
            found[run.cluster] = jobs + 1, mgpu + holding.mgpu
            nodes = held.setdefault(run.cluster, {})
            for slot in run.slots:
                nodes[slot.node] = nodes.get(slot.node, 0) + slot.mgpu
        for cluster, nodes in held.items():
            offered = self._pool.config.offered.get(cluster, {})
            self._left[cluster] = sorted(
                mgpu - nodes.get(node, 0) for node, mgpu in offered.items()
            )
        return found


class Reasons:
    """Finds the reasons of one pool's classes; common values are looked up once.

    In the numbers, protected use is a part of the use in total. Claims of the team are in neither,
    and reported separately: they count against the guarantee like a start.
    """

    __slots__ = (
        *("_available", "_being_freed", "_free", "_is_overcommitted", "_leaving", "_pool"),
        *("_spare_taken", "_unlimited", "_used"),
    )

    def __init__(self, pool: Pool, spare_taken: SpareTaken, used: InUse) -> None:
        """Take the use after the cycle."""
        self._pool = pool
        self._spare_taken = spare_taken
        self._used = used
        self._unlimited = Unlimited(pool)
        #: The milli-GPU of claims, by the nodes at or above their teams.
        self._being_freed = Counter[int]()
        for earmark in pool.earmarks.values():
            for node in pool.tree.paths[earmark.team]:
                self._being_freed[node] += earmark.job.mgpu
        #: The milli-GPU of stopping attempts, by the nodes at or above their teams.
        self._leaving = Counter[int]()
        for one in (*pool.leaving, *pool.stopped):
            for node in () if one.team == ROOT else pool.tree.paths[one.team]:
                self._leaving[node] += one.mgpu
        organizations = pool.tree.children.get(ROOT, ())
        promised_mgpu = sum(pool.quota.guaranteed[node] for node in organizations)
        self._is_overcommitted = promised_mgpu > pool.config.healthy_mgpu
        self._available = pool.available()
        self._free: dict[tuple[frozenset[str] | None, int | None], tuple[int, int]] = {}

    def hopeless(self, cls: JobClass) -> Reason:
        """Return why `cls` waits, whose jobs cannot start at all, now or ever."""
        shape, code = cls.shape, cls.code
        assert code is not None
        if code is Code.NEVER_FITS:
            return Reason(code, never_numbers(self._pool.config, shape, cls.could_ever_mgpu))
        numbers = {
            "need_mgpu": shape.total_mgpu,
            "nodes_needed": shape.node_count,
            "mgpu_per_node": shape.mgpu,
        }
        if code is Code.MAINTENANCE:
            numbers = {"need_mgpu": shape.total_mgpu, **self._maintenance(shape)}
        return Reason(code, numbers)

    def _maintenance(self, shape: Shape) -> dict[str, int]:
        """Return the times of the maintenance that closes clusters or nodes to `shape`."""
        closed = Closed(shape.closed, shape.closed_nodes)
        return self._pool.config.windows.numbers(closed, self._pool.taken_at)

    def _waits_for_maintenance(self, shape: Shape) -> bool:
        """Return whether `shape` would fit but for the places that maintenance closes."""
        free = self._pool.free
        if shape.closed:
            there = shape.with_closed_nodes._replace(clusters=shape.closed, closed=frozenset())
            if free.fits(there):
                return True
        return (
            bool(shape.closed_nodes) and not free.fits(shape) and free.fits(shape.with_closed_nodes)
        )

    def of(self, team: int, cls: JobClass, source: int, position: Position) -> Reason:
        """Return why `cls` waits.

        `source` is the node whose guarantee its jobs fit in, or ROOT. `position` is the position of
        its team with that.
        """
        pool, shape, code = self._pool, cls.shape, cls.code
        if code is Code.RESERVED_FOR_LARGER_JOB:
            return self.reserved(cls)
        assert code is not None
        if code is Code.CLASS_CAP_REACHED:
            cap = cls.priority.cap_mgpu
            numbers = {
                "need_mgpu": shape.total_mgpu,
                "class_cap_mgpu": 0 if cap is None else cap,
                "class_in_use_mgpu": pool.class_use.get((team, cls.priority.id), 0),
            }
            return Reason(code, numbers, pool.tree.ids[team])
        free = self._free_for(shape)
        numbers = {
            "need_mgpu": shape.total_mgpu,
            "free_mgpu": free[0],
            "largest_free_on_a_cluster_mgpu": free[1],
            "available_by_quota_mgpu": self._available[team],
            "guaranteed_mgpu": pool.quota.guaranteed[team],
            "in_use_mgpu": self._used.mgpu[team],
            "protected_mgpu": self._used.protected_mgpu[team],
        }
        if being_freed_mgpu := self._being_freed[team]:
            numbers["being_freed_mgpu"] = being_freed_mgpu
        if code is Code.BEHIND_FAIR_SHARE:
            numbers["starts_max"] = pool.policy.starts_max
        if code is not Code.WAITING_FOR_FREE_GPUS:
            return Reason(code, numbers)
        return self._blocked(team, cls, source, position, numbers)

    def reserved(self, cls: JobClass) -> Reason:
        """Return why jobs of `cls` wait that would delay a reservation."""
        reserved_mgpu, start_at = cls.reserved
        numbers = {
            "need_mgpu": cls.shape.total_mgpu,
            "free_mgpu": self._free_for(cls.shape)[0],
            "reserved_mgpu": reserved_mgpu,
            "reserved_start_at": start_at,
        }
        return Reason(Code.RESERVED_FOR_LARGER_JOB, numbers)

    def behind(self, team: int, richer: Richer, numbers: Mapping[str, int]) -> Reason:
        """Return that `team` comes after a team with more credits; `numbers` say what it needs."""
        pool = self._pool
        of_credits = credit_numbers(pool.credits, pool.quota.guaranteed, team, richer)
        node = None if richer.team == ROOT else pool.tree.ids[richer.team]
        return Reason(Code.BEHIND_CREDITS, {**numbers, **of_credits}, node)

    def _free_for(self, shape: Shape) -> tuple[int, int]:
        """Return the free milli-GPU on all nodes for `shape`, and on the cluster that has most."""
        usable = (shape.clusters, shape.kinds)
        free = self._free.get(usable)
        if free is None:
            devices = self._pool.free
            free = self._free[usable] = (
                devices.total_free(*usable),
                devices.largest_free(*usable),
            )
        return free

    def _blocked(
        self, team: int, cls: JobClass, source: int, position: Position, numbers: dict[str, int]
    ) -> Reason:
        """Distinguish refusals by quota from refusals by devices.

        WAITING_FOR_GUARANTEE is used only for a team that uses less than its guarantee. A team with
        large borrowed jobs may reclaim by the contract, but has no promise of when.
        """
        pool, shape = self._pool, cls.shape
        need = shape.total_mgpu
        is_entitled = source == team and pool.now.base[team] + need <= pool.quota.guaranteed[team]
        if need > numbers["available_by_quota_mgpu"]:
            ledger = pool.now
            at = ledger.blocker(team, need)
            if at is None and pool.later is not None:
                ledger = pool.later
                at = ledger.blocker(team, need)
            if at is not None and at != ROOT:
                numbers["held_mgpu"] = ledger.held[at]
                numbers["limit_mgpu"] = pool.quota.limits[at]
                if ledger is pool.now and (leaving_mgpu := self._leaving[at]):
                    numbers["leaving_mgpu"] = leaving_mgpu
                if is_entitled:
                    code = Code.WAITING_FOR_GUARANTEE
                elif at == team:
                    code = Code.BORROW_LIMIT_REACHED
                else:
                    code = Code.PARENT_LIMIT_REACHED
                return Reason(code, numbers, pool.tree.ids[at])
        if not is_entitled and self._spare_taken.has_from(source):
            fair = {**numbers, **_use_factor(pool, cls)}
            inside, by_others, node = self._spare_taken.before(source, position, team)
            if inside >= need:
                fair["taken_mgpu"] = inside
                fair["weight_permille"], fair["used_permille"] = self._spare_taken.permille(node)
                return Reason(Code.BEHIND_FAIR_SHARE, fair, pool.tree.ids[node])
            if inside + by_others >= need:
                # Numbers of other organizations are never shown.
                return Reason(Code.BEHIND_FAIR_SHARE, fair)
            richer = self._spare_taken.by_credits.richer(source, position, team)
            if richer is not None and inside + by_others + richer.mgpu >= need:
                if (taken_mgpu := inside + richer.inside_mgpu) >= need:
                    numbers["taken_mgpu"] = taken_mgpu
                return self.behind(team, richer, numbers)
        if need <= numbers["available_by_quota_mgpu"] and self._waits_for_maintenance(shape):
            return Reason(Code.MAINTENANCE, {"need_mgpu": need, **self._maintenance(shape)})
        if need <= min(
            numbers["available_by_quota_mgpu"], numbers["largest_free_on_a_cluster_mgpu"]
        ):
            numbers["nodes_needed"] = shape.node_count
            numbers["mgpu_per_node"] = shape.mgpu
            fitting = numbers["nodes_fitting"] = pool.free.fitting_nodes(shape)
            by_gpus = pool.free.fitting_nodes(shape.gpus_alone)
            if by_gpus > fitting:
                numbers["nodes_fitting_by_gpus"] = by_gpus
                numbers.update(wants_numbers(pool.config, shape))
            if shape.is_bound:
                numbers["nodes_in_one_domain"] = pool.free.together(shape)
            numbers.update(self._unlimited.numbers(shape))
            return Reason(Code.TOPOLOGY_FRAGMENTED, numbers)
        if not is_entitled:
            numbers.update(self._unlimited.numbers(shape))
            return Reason(Code.WAITING_FOR_FREE_GPUS, numbers)
        if self._is_overcommitted:
            numbers["capacity_mgpu"] = pool.config.healthy_mgpu
        return Reason(Code.WAITING_FOR_GUARANTEE, numbers)


def _use_factor(pool: Pool, cls: JobClass) -> dict[str, int]:
    """Return how much of the use of a class counts for fair-share; empty if all of it does."""
    known = pool.config.classes.get(cls.priority.id)
    if known is None or known.use_factor_percent == 100:
        return {}
    return {"use_factor_percent": known.use_factor_percent}


def of_claimed(pool: Pool, earmark: Earmark) -> Reason:
    """Return why a job waits whose GPUs are being freed.

    It may reclaim by the guarantee of a node above its team, or from its own team's lower classes.
    So the team itself is entitled to them only if the job is protected in it.
    """
    job = earmark.job
    is_protected = earmark.stand_in.is_protected_at(pool.tree.depths[earmark.team])
    numbers = {
        "need_mgpu": job.mgpu,
        "guaranteed_mgpu": pool.quota.guaranteed[earmark.team],
        "within_guarantee_mgpu": job.mgpu if is_protected or earmark.fits_guarantee else 0,
        "coming_back_mgpu": earmark.coming_back_mgpu,
        "earmarked_mgpu": job.mgpu - earmark.coming_back_mgpu,
        "grace_left_s": max(0, earmark.claim.grace_until - pool.taken_at),
    }
    if (overdue_s := pool.taken_at - earmark.claim.grace_until) > 0:
        numbers["overdue_s"] = overdue_s
        numbers["given_up_in_s"] = max(0, pool.policy.claim_overdue_s - overdue_s)
    # Without own victims it waits for attempts stopped for other jobs, so "0 victims" would
    # mislead.
    if earmark.going:
        numbers["victims"] = len(earmark.going)
    if own := sum(holding.team == earmark.team for holding in earmark.going):
        numbers["victims_of_team"] = own
    return Reason(Code.WAITING_FOR_RECLAIM, numbers)

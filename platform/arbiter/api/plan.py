"""The decisions of one cycle, immutable, with the numbers behind each of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

from arbiter.api.snapshot import Slot


class Code(StrEnum):
    """The reason why a job waits (R-85)."""

    NEVER_FITS = "never_fits"
    WAITING_FOR_GUARANTEE = "waiting_for_guarantee"
    BORROW_LIMIT_REACHED = "borrow_limit_reached"
    PARENT_LIMIT_REACHED = "parent_limit_reached"
    WAITING_FOR_FREE_GPUS = "waiting_for_free_gpus"
    WAITING_FOR_RECLAIM = "waiting_for_reclaim"
    BEHIND_HIGHER_PRIORITY = "behind_higher_priority"
    BEHIND_CREDITS = "behind_credits"
    BEHIND_FAIR_SHARE = "behind_fair_share"
    RESERVED_FOR_LARGER_JOB = "reserved_for_larger_job"
    TOPOLOGY_FRAGMENTED = "topology_fragmented"
    CLASS_CAP_REACHED = "class_cap_reached"
    CLUSTER_UNAVAILABLE = "cluster_unavailable"
    MAINTENANCE = "maintenance"


#: Every name that `Waiting.numbers` may hold, and the quantity that it stands for.
NUMBERS: Mapping[str, str] = {
    "need_mgpu": "request of the job, in all",
    "nodes_needed": "nodes of one cluster that the job needs",
    "mgpu_per_node": "request on each of these nodes",
    "nodes_fitting": "nodes with that much free, on the cluster with the most of them",
    "nodes_fitting_by_gpus": "the same by GPUs alone, without CPU and memory",
    "nodes_large_enough": "nodes that are large enough, on the cluster with the most of them",
    "cpu_milli_per_node": "CPU request on each node, in thousandths of a CPU",
    "memory_mib_per_node": "memory request on each node, in MiB",
    "nodes_in_one_domain": "fitting nodes in the best domain of the required topology level",
    "nodes_with_features": "nodes with the features, on the cluster with the most of them",
    "free_mgpu": "free and not earmarked, on all nodes that the job may use",
    "largest_free_on_a_cluster_mgpu": "free on the cluster with the most",
    "available_by_quota_mgpu": "start limit that quota leaves to the team; negative when over",
    "guaranteed_mgpu": "guarantee of the team",
    "within_guarantee_mgpu": "part of the job within the team's guarantee: all or nothing",
    "in_use_mgpu": "use of the team: jobs that run, start or are being stopped",
    "protected_mgpu": "part of that use that the guarantee protects",
    "being_freed_mgpu": "claims of the team beside its use; absent if there are none",
    "limit_mgpu": "limit of the binding node: guarantee and borrow limit",
    "held_mgpu": "use of the binding node, and claims below it",
    "leaving_mgpu": "part of that in jobs that are being stopped; absent if there is none",
    "unlimited_jobs": "running jobs without a time limit, only where one of them has to end first",
    "unlimited_mgpu": "GPUs that they hold",
    "capacity_mgpu": "working capacity of the pool; only where more than that is guaranteed and no"
    " limit refuses a job within the guarantee",
    "could_ever_mgpu": "most that quota or the fleet could ever give such a job",
    "class_cap_mgpu": "cap of the team in the job's priority class",
    "class_in_use_mgpu": "part of the cap in use",
    "coming_back_mgpu": "part of the claimed GPUs that victims still hold",
    "earmarked_mgpu": "part of the claimed GPUs that is free and kept for the job",
    "victims": "attempts that are being stopped for the job; absent if there are none",
    "victims_of_team": "part of these in the job's own team; absent if there are none",
    "grace_left_s": "time until the last victim is gone, at most",
    "overdue_s": "time since the victims should have been gone",
    "given_up_in_s": "time until the claim is given up",
    "starts_max": "limit of starts in one cycle",
    "taken_mgpu": "GPUs beyond guarantees that this cycle gave to teams with more credits or with"
    " less recent use",
    "credits_tenths": "credits of the team less its holds, in tenths of a day of its guarantee",
    "ahead_credits_tenths": "the same of the named team, which comes first; absent if it belongs to"
    " another organization",
    "floor_tenths": "floor of credits, in tenths of a day of a guarantee; only where the team is at"
    " it, so that its borrowing is unpaid",
    "weight_permille": "weight of the named node among its siblings, per mille",
    "used_permille": "recent use of the named node among its siblings, per mille",
    "use_factor_percent": "how much of the use of its class counts; absent if all of it does",
    "reserved_mgpu": "request of the job that this one would delay",
    "reserved_start_at": "reserved start of that job, in epoch seconds",
    "maintenance_start_at": "begin of the maintenance by which a job must have ended to start"
    " before it, in epoch seconds; absent during the maintenance",
    "maintenance_nodes": "nodes that maintenance closes to the job; absent if it closes a cluster",
    "maintenance_end_at": "end of the maintenance after which starts resume, in epoch seconds",
}


class Start(NamedTuple):
    """Start `job` now, complete, on these slots of one cluster.

    `guaranteed_mgpu` of it is inside the team's guarantee, the rest is borrowed. `pool` is set for
    a job that accepts several pools. None means the only pool that the job accepts.
    `closed_nodes` are nodes of the cluster where the job would run into maintenance, sorted. A
    cluster that chooses the nodes itself must not choose one of them.
    """

    job: str
    cluster: str
    slots: tuple[Slot, ...]
    guaranteed_mgpu: int
    pool: str | None = None
    closed_nodes: tuple[str, ...] = ()


class ByCredits(NamedTuple):
    """The credits for which an attempt is stopped, in tenths of a day of the guarantee.

    `is_unpaid`: the team's credits are at the floor. `spared_team` has more credits, and its jobs
    would be stopped later. Balances of teams without a guarantee are None.
    """

    is_unpaid: bool
    tenths: int | None
    spared_team: str | None
    spared_tenths: int | None


@dataclass(frozen=True, slots=True)
class Victim:
    """An attempt to stop: notice now, forced stop `grace_s` seconds later.

    `by_credits` has one row where credits decided that it is stopped before others.
    """

    attempt: str
    job: str
    team: str
    mgpu: int
    grace_s: int
    by_credits: tuple[ByCredits, ...] = ()


@dataclass(frozen=True, slots=True)
class Reclaim:
    """Stop these victims so that `job` can start on these slots; at most one per job.

    `victims` may be empty. Then attempts that are being stopped already free the slots, and the
    claim only reserves them for `job`. By `grace_until` (epoch seconds) the last of them is gone at
    the latest. `pool` and `closed_nodes` are as in `Start`, for a start at `grace_until`.
    """

    job: str
    cluster: str
    slots: tuple[Slot, ...]
    victims: tuple[Victim, ...]
    grace_until: int = 0
    pool: str | None = None
    closed_nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Reservation:
    """A future start: `job` starts on these slots at `start_at` (epoch seconds) at the latest.

    Jobs earlier in the order of service may still take the slots. Later jobs must not delay the
    start. `pool` is as in `Start`.
    """

    job: str
    cluster: str
    slots: tuple[Slot, ...]
    start_at: int
    pool: str | None = None


class Classed(NamedTuple):
    """A running attempt whose guaranteed part changed, with the new part in milli-GPU."""

    attempt: str
    guaranteed_mgpu: int


@dataclass(frozen=True, slots=True)
class Obstacle:
    """The reason why a job that accepts several pools does not start in `pool`.

    All fields but `pool` are as in `Waiting`.
    """

    pool: str
    code: Code
    numbers: Mapping[str, int]
    node: str | None = None
    jobs_ahead: int = 0


class Waiting(NamedTuple):
    """The reason why `job` still waits.

    `numbers` are named quantities, all integers, with names out of `NUMBERS`. `node` is the tree
    node whose limit binds, or the team with more credits, if there is one. `jobs_ahead`
    counts the waiting jobs of the pool that come before it in the order of service.

    `earliest` and `latest` bound the start in epoch seconds; None means that no estimate can be
    made. `method` says how they were found:

    - `reclaim`: from the grace periods of the victims.
    - `time_limits`: from the time limits of running jobs, for a job that holds a reservation. The
      start may come sooner. It comes later only if new jobs are submitted or if fair-share puts
      another job first.

    A reservation gives no such time if waiting jobs may take its start: jobs that are served before
    it, now or by then (`arbiter.backfill.start_estimates`).

    For a job that accepts several pools these fields describe `pool`. That is the pool in which
    GPUs are being reclaimed for it, else the first accepted pool in which it could ever start.
    `in_pools` gives the reason for every pool in which the job queues: first for `pool`, then for
    the others in the job's order of preference.

    This is a named tuple because a cycle may create 100,000 of them.
    """

    job: str
    code: Code
    numbers: Mapping[str, int] = MappingProxyType({})
    node: str | None = None
    jobs_ahead: int = 0
    earliest: int | None = None
    latest: int | None = None
    method: str | None = None
    in_pools: tuple[Obstacle, ...] = ()

    @property
    def pool(self) -> str | None:
        """Return the pool that the reason describes; None is the only one that the job accepts."""
        return self.in_pools[0].pool if self.in_pools else None

    @property
    def elsewhere(self) -> tuple[Obstacle, ...]:
        """Return the reasons why the job does not start in the other pools in which it queues."""
        return self.in_pools[1:]


class NodeUse(NamedTuple):
    """Use of one tree node in one pool after the plan, in milli-GPU.

    - `in_use` runs, starts or is being stopped below the node.
    - `protected` is the part of that which is protected at this node.
    - `borrowed` is max(0, in_use - guaranteed).
    - `lent` is the part of its idle guarantee that jobs outside the node use.
    - `available` could still start here by quota (negative under over-admission).
    - `waiting` is requested by its queued jobs. A job that accepts several pools counts in each
      pool in which it queues.
    """

    node: str
    pool: str
    in_use_mgpu: int
    protected_mgpu: int
    borrowed_mgpu: int
    lent_mgpu: int
    available_mgpu: int
    waiting_mgpu: int


@dataclass(frozen=True, slots=True)
class Plan:
    """The complete decision of one cycle.

    `dropped_claims` are jobs whose claim is no longer valid. Drop these claims before you carry out
    the rest, because their jobs may start or claim again in the same plan. `reservations` are in
    the order in which they were made.
    """

    taken_at: int
    starts: tuple[Start, ...] = ()
    reclaims: tuple[Reclaim, ...] = ()
    dropped_claims: tuple[str, ...] = ()
    classed: tuple[Classed, ...] = ()
    waiting: tuple[Waiting, ...] = ()
    use: tuple[NodeUse, ...] = ()
    reservations: tuple[Reservation, ...] = ()

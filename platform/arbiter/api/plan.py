"""What one cycle decides: frozen, with the numbers behind every decision."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

from arbiter.api.snapshot import Slot


class Code(StrEnum):
    """Why a job waits (R-85)."""

    NEVER_FITS = "never_fits"
    WAITING_FOR_GUARANTEE = "waiting_for_guarantee"
    BORROW_LIMIT_REACHED = "borrow_limit_reached"
    PARENT_LIMIT_REACHED = "parent_limit_reached"
    WAITING_FOR_FREE_GPUS = "waiting_for_free_gpus"
    WAITING_FOR_RECLAIM = "waiting_for_reclaim"
    BEHIND_HIGHER_PRIORITY = "behind_higher_priority"
    BEHIND_FAIR_SHARE = "behind_fair_share"
    RESERVED_FOR_LARGER_JOB = "reserved_for_larger_job"
    TOPOLOGY_FRAGMENTED = "topology_fragmented"
    CLASS_CAP_REACHED = "class_cap_reached"
    CLUSTER_UNAVAILABLE = "cluster_unavailable"


#: Every name that `Waiting.numbers` may hold, and what it counts.
NUMBERS: Mapping[str, str] = {
    "need_mgpu": "what the job asks for in all",
    "nodes_needed": "how many nodes of one cluster it needs",
    "mgpu_per_node": "what it needs on each of them",
    "nodes_fitting": "nodes with that much free, on the cluster that has most of them",
    "nodes_fitting_by_gpus": "nodes with the GPUs free, be there the CPU and the memory or not",
    "nodes_large_enough": "nodes that have all it wants of one, on the cluster that has most",
    "cpu_milli_per_node": "what it wants of CPU on each node, in thousandths of one",
    "memory_mib_per_node": "what it wants of memory on each node, in MiB",
    "nodes_in_one_domain": "such nodes in one domain of the level that it requires, at most",
    "nodes_with_features": "nodes that have the features it asks for, on the cluster that has most",
    "free_mgpu": "free and not earmarked, on all nodes the job may use",
    "largest_free_on_a_cluster_mgpu": "the same on the cluster that has most",
    "available_by_quota_mgpu": "what quota still lets the team start; negative when over",
    "guaranteed_mgpu": "the guarantee of the team",
    "within_guarantee_mgpu": "what of the job is within the guarantee of its team: all or nothing",
    "in_use_mgpu": "what runs, starts or is being stopped of the team",
    "protected_mgpu": "what of that is protected by the team's guarantee",
    "being_freed_mgpu": "what claims of the team are for, beside what is in use; absent for none",
    "limit_mgpu": "the most that the binding node may hold: guarantee and borrow limit",
    "held_mgpu": "what the binding node holds, and what is kept for claims below it",
    "leaving_mgpu": "what of that jobs hold which are being stopped; absent for none",
    "capacity_mgpu": "what works in the pool, where no limit is in the way of a job within the"
    " guarantee and more is guaranteed than that; absent else",
    "could_ever_mgpu": "the most that quota or the fleet could ever give such a job",
    "class_cap_mgpu": "the team's cap in the job's priority class",
    "class_in_use_mgpu": "what of the cap is in use",
    "coming_back_mgpu": "what of the claimed GPUs victims still hold",
    "earmarked_mgpu": "what of the claimed GPUs is free already and kept for the job",
    "victims": "how many attempts are being stopped for the job; absent for none",
    "victims_of_team": "how many of these are of the job's own team; absent for none",
    "grace_left_s": "how long the victims may take at most",
    "overdue_s": "how long ago they should have given back",
    "given_up_in_s": "how long they are waited for yet",
    "starts_max": "the most jobs that one cycle starts",
    "taken_mgpu": "spare GPUs that this cycle gave to teams which fair-share puts first",
    "weight_permille": "what the named node has of the weight of all below its parent, per mille",
    "used_permille": "what it has of their recent use, per mille",
    "reserved_mgpu": "what the job asks for that this one would delay",
    "reserved_start_at": "by when that job is to start, in epoch seconds",
}


class Start(NamedTuple):
    """Start `job` now, whole, on these slots of one cluster. `guaranteed_mgpu` of it is
    inside the team's guarantee, the rest is borrowed. `pool` tells where a job starts that accepts
    several; None is the only one that it accepts."""

    job: str
    cluster: str
    slots: tuple[Slot, ...]
    guaranteed_mgpu: int
    pool: str | None = None


@dataclass(frozen=True, slots=True)
class Victim:
    """An attempt to stop: notice now, forced stop `grace_s` later."""

    attempt: str
    job: str
    team: str
    mgpu: int
    grace_s: int


@dataclass(frozen=True, slots=True)
class Reclaim:
    """Stop these victims so that `job` can start on these slots; at most one per job.

    There may be no victim: then the slots are coming back from attempts that are being
    stopped already, and the claim only keeps them for `job`. `grace_until` is when
    the last of them is gone at the latest (epoch seconds). `pool` is as in `Start`.
    """

    job: str
    cluster: str
    slots: tuple[Slot, ...]
    victims: tuple[Victim, ...]
    grace_until: int = 0
    pool: str | None = None


@dataclass(frozen=True, slots=True)
class Reservation:
    """`job` starts on these slots by `start_at` (epoch seconds) if nothing before it in the order
    of service takes them; what comes later may not delay it. `pool` is as in `Start`."""

    job: str
    cluster: str
    slots: tuple[Slot, ...]
    start_at: int
    pool: str | None = None


class Classed(NamedTuple):
    """How much of a running attempt is inside its team's guarantee from now on, when it changed."""

    attempt: str
    guaranteed_mgpu: int


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why a job that accepts several pools does not start in `pool`; the rest as in `Waiting`."""

    pool: str
    code: Code
    numbers: Mapping[str, int]
    node: str | None = None
    jobs_ahead: int = 0


class Waiting(NamedTuple):
    """Why `job` still waits.

    `numbers` are named quantities, all integers, with names out of `NUMBERS`; `node` is the tree
    node whose limit binds, where one does. `jobs_ahead` counts the waiting jobs that service
    order puts before it in its pool. `earliest` and `latest` are epoch seconds, or None where
    nothing honest can be said; `method` says how they came about: `reclaim` (the victims' grace)
    or `time_limits` (of what runs, for a job that holds a reservation; its start may come sooner,
    and later only if more is asked for or fair-share puts another one first). A reservation whose
    start others that wait may take, by having their turn first now or by then
    (`arbiter.backfill.start_estimates`), gives no such moment.

    Of a job that accepts several pools all this is told of `pool`: where GPUs are taken back for
    it, else the first that it accepts and in which it could ever start. `in_pools` says the same of
    every pool in which it stands, of that one first and of the others in its order.

    A named tuple, as a cycle may make 100,000 of them.
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
        """The pool of which all this is told; None is the only one that it accepts."""
        return self.in_pools[0].pool if self.in_pools else None

    @property
    def elsewhere(self) -> tuple[Obstacle, ...]:
        """Why it does not start in the other pools in which it stands."""
        return self.in_pools[1:]


class NodeUse(NamedTuple):
    """One tree node's standing in one pool after the plan, in milli-GPU.

    `in_use` is what runs, starts or is being stopped below it; `protected` of that is protected
    at this node; `borrowed` is max(0, in_use - guaranteed); `lent` is how much of its idle
    guarantee is in use by somebody outside it; `available` is what could still start here by
    quota (negative under over-admission); `waiting` is what its queued jobs ask for, of which
    those that accept several pools count in each in which they stand.
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
    """The whole decision of one cycle. `dropped_claims` are jobs whose claim no longer holds;
    whoever carries it out gives these up first, as their jobs may start or claim again in it.
    `reservations` are in the order in which they were made."""

    taken_at: int
    starts: tuple[Start, ...] = ()
    reclaims: tuple[Reclaim, ...] = ()
    dropped_claims: tuple[str, ...] = ()
    classed: tuple[Classed, ...] = ()
    waiting: tuple[Waiting, ...] = ()
    use: tuple[NodeUse, ...] = ()
    reservations: tuple[Reservation, ...] = ()

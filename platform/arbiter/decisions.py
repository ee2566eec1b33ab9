"""What one cycle decides: frozen, with the numbers behind every decision."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from arbiter.snapshot import Slot


class Code(StrEnum):
    """Why a job waits (semantics section 5)."""

    NEVER_FITS = "never_fits"
    WAITING_FOR_GUARANTEE = "waiting_for_guarantee"
    BORROW_LIMIT_REACHED = "borrow_limit_reached"
    PARENT_LIMIT_REACHED = "parent_limit_reached"
    WAITING_FOR_FREE_GPUS = "waiting_for_free_gpus"
    WAITING_FOR_RECLAIM = "waiting_for_reclaim"
    BEHIND_HIGHER_PRIORITY = "behind_higher_priority"
    BEHIND_FAIR_SHARE = "behind_fair_share"
    TOPOLOGY_FRAGMENTED = "topology_fragmented"
    CLASS_CAP_REACHED = "class_cap_reached"
    CLUSTER_UNAVAILABLE = "cluster_unavailable"


@dataclass(frozen=True, slots=True)
class Start:
    """Start `job` now, whole, on these slots of one cluster. `guaranteed_mgpu` of it is
    inside the team's guarantee, the rest is borrowed."""

    job: str
    cluster: str
    slots: tuple[Slot, ...]
    guaranteed_mgpu: int


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
    """Stop these victims so that `job` can start on these slots; at most one per job."""

    job: str
    cluster: str
    slots: tuple[Slot, ...]
    victims: tuple[Victim, ...]


@dataclass(frozen=True, slots=True)
class Classed:
    """How much of a running attempt is inside its team's guarantee from now on, when it changed."""

    attempt: str
    guaranteed_mgpu: int


@dataclass(frozen=True, slots=True)
class Waiting:
    """Why `job` still waits.

    `numbers` are named quantities, all integers: milli-GPU (`_mgpu`), seconds (`_s`) or counts;
    `node` is the tree node whose limit binds, where one does. `jobs_ahead` counts the jobs
    that service order puts before it in its pool. `earliest` and `latest` are epoch seconds, or
    None where nothing honest can be said; `method` says how they came about.
    """

    job: str
    code: Code
    numbers: Mapping[str, int] = field(default_factory=dict)
    node: str | None = None
    jobs_ahead: int = 0
    earliest: int | None = None
    latest: int | None = None
    method: str | None = None


@dataclass(frozen=True, slots=True)
class NodeUse:
    """One tree node's standing in one pool after the plan, in milli-GPU.

    `in_use` is what runs, starts or is being stopped below it; `protected` of that is protected
    at this node; `borrowed` is max(0, in_use - guaranteed); `lent` is how much of its idle
    guarantee is in use by somebody outside it; `available` is what could still start here by
    quota (negative under over-admission); `waiting` is what its queued jobs ask for.
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
    """The whole decision of one cycle. `dropped_claims` are jobs whose claim no longer holds."""

    taken_at: int
    starts: tuple[Start, ...] = ()
    reclaims: tuple[Reclaim, ...] = ()
    dropped_claims: tuple[str, ...] = ()
    classed: tuple[Classed, ...] = ()
    waiting: tuple[Waiting, ...] = ()
    use: tuple[NodeUse, ...] = ()

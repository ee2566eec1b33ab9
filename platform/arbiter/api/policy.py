"""Every setting of the arbiter, with its unit, range and default."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

DAY_S = 86_400
#: The default upper bound for the grace periods of organizations and their priority classes.
GRACE_PERIOD_S_MAX = 3_600

#: The lowest and the highest allowed value of each number.
RANGES = {
    "grace_period_s_default": (0, 86_400),
    "starts_max": (0, 1_000_000),
    "reclaims_max": (0, 1_000_000),
    "claim_overdue_s": (0, 86_400),
    "fair_share_half_life_s": (3_600, 3_650 * DAY_S),
    "credit_floor_s": (0, 365 * DAY_S),
    "reservations_max": (0, 1_000),
    "reservation_horizon_s": (0, 366 * DAY_S),
    "min_run_s": (0, DAY_S),
    "preemptions_max": (1, 1_000),
    "costly_loss_s": (0, 3_650 * DAY_S),
}


class SpareOrder(StrEnum):
    """The order of teams of equal rank that may both use spare GPUs."""

    CREDITS_THEN_FAIR_SHARE = "credits_then_fair_share"
    FAIR_SHARE_THEN_CREDITS = "fair_share_then_credits"
    FAIR_SHARE = "fair_share"


@dataclass(frozen=True, slots=True)
class Policy:
    """Settings for the decisions that the contract leaves open.

    `grace_period_s_default` (seconds, 0 to 86,400): the time of a victim between notice and forced
    stop. The victim's priority class may shorten it, but never extend it.

    `starts_max`, `reclaims_max` (count, 0 to 1,000,000): the most starts and the most new reclaims
    of one cycle, over all pools. They bound the work of one cycle; the rest follows in the next
    cycle.

    `claim_overdue_s` (seconds, 0 to 86,400): how long a victim may hold its GPUs after its grace
    period. After that the claim is dropped, and the job may claim other GPUs.

    `skips_blocked_within_team`: whether a job may start before a blocked earlier job of its own
    team. Organizations may override it. If it is off, a team's queue is strictly first in, first
    out within each priority. No lower priority passes a higher one then.

    With either value, a blocked job keeps its place in its team's guarantee if it fits in what is
    left of that. Jobs behind it never use up the guarantee that it waits for. This holds as long as
    the time is known at which its GPUs come free, or borrowers could give them back. A job that
    would fit only after other jobs of its team have ended does not keep its place, because it would
    wait until all of them have ended.

    `spare_order`: the order of teams of equal rank for spare GPUs. It is credits then fair-share,
    fair-share then credits, or fair-share alone. Organizations may override it.

    `fair_share_half_life_s` (seconds, 3,600 to 315,360,000): the time after which past use counts
    half. Organizations may override it.

    `credit_floor_s` (seconds of the team's guarantee, 0 to 31,536,000): the lowest balance of a
    team's credits, as a debt. Borrowing of a team at this floor is unpaid and is reclaimed first.

    `reservations_max` (count, 0 to 1,000): the number of blocked jobs per pool that hold a
    reservation, first in the order of service. 0 turns reservations off.

    `reservation_horizon_s` (seconds, 0 to 31,622,400): how far ahead known ends count. It also
    bounds how long GPUs are kept free for a job. A job that runs beyond the horizon counts as one
    without an end, like a job without a time limit. Set it no lower than the longest allowed time
    limit. Otherwise large jobs may wait without a bound behind a stream of long jobs.

    `min_run_s` (seconds, 0 to 86,400): a job that has run for less time since its start is spared.
    It is stopped only if the candidates that are not spared are not enough. Organizations may
    override it.

    `preemptions_max` (count, 1 to 1,000): a job that was preempted at least this often is spared
    too. Organizations may override it.

    `costly_loss_s` (seconds, 0 to 315,360,000): a job that would lose more work than this is
    costly. The loss counts from its last known checkpoint or its start. A costly job is stopped
    only if stopping all others is not enough, whatever its rank, its credits and whether its use is
    paid. If a smaller job needs the GPUs, the threshold shrinks in proportion. For example, a gang
    of 64 GPUs that has to free 8 is costly after an eighth of this time. With the largest value
    rank and credits alone decide, whatever the loss.

    Raises ValueError when a number is out of its range.
    """

    grace_period_s_default: int = 300
    starts_max: int = 1_000
    reclaims_max: int = 100
    claim_overdue_s: int = 600
    skips_blocked_within_team: bool = True
    spare_order: SpareOrder = SpareOrder.CREDITS_THEN_FAIR_SHARE
    fair_share_half_life_s: int = 7 * DAY_S
    credit_floor_s: int = 7 * DAY_S
    reservations_max: int = 8
    reservation_horizon_s: int = 7 * DAY_S
    min_run_s: int = 600
    preemptions_max: int = 100
    costly_loss_s: int = 4 * 3_600

    def __post_init__(self) -> None:
        for name, (low, high) in RANGES.items():
            value = getattr(self, name)
            if not low <= value <= high:
                raise ValueError(f"policy {name} is {value}; choose {low} to {high}")


@dataclass(slots=True)
class Budget:
    """The number of starts and of reclaims that a cycle may still make."""

    starts: int
    reclaims: int

    def does_as(self, other: Budget, starts: int, reclaims: int) -> bool:
        """Return whether this budget would have led to the same cycle as `other` did.

        `starts` and `reclaims` are how many the cycle with `other` made.
        """
        return _does_as(self.starts, other.starts, starts) and _does_as(
            self.reclaims, other.reclaims, reclaims
        )


def _does_as(mine: int, theirs: int, used: int) -> bool:
    return mine == theirs or used < min(mine, theirs)

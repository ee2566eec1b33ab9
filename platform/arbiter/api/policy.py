"""Every knob of the arbiter, with its unit, range and default."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

DAY_S = 86_400
#: The most that organizations and their classes may have, until an installation says otherwise.
GRACE_PERIOD_S_MAX = 3_600

#: From and up to where each number makes sense.
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
    """What decides between teams of equal rank that both may use spare GPUs."""

    CREDITS_THEN_FAIR_SHARE = "credits_then_fair_share"
    FAIR_SHARE_THEN_CREDITS = "fair_share_then_credits"
    FAIR_SHARE = "fair_share"


@dataclass(frozen=True, slots=True)
class Policy:
    """How the arbiter decides where the contract leaves a choice.

    `grace_period_s_default` (seconds, 0 to 86,400): what a victim gets between notice and
    forced stop; the victim's priority class may make it shorter, never longer.

    `starts_max`, `reclaims_max` (count, 0 to 1,000,000): most starts and most new reclaims
    of one cycle, all pools together, so that one cycle's work is bounded; the rest follows in
    the next cycle.

    `claim_overdue_s` (seconds, 0 to 86,400): how long after its grace a victim may still hold
    its GPUs before the claim on them is given up and the job may claim other ones.

    `skips_blocked_within_team`: whether a job may start before an earlier one of its own team
    that cannot, in organizations that say nothing else. Off, a team's queue is strictly first in,
    first out within each priority and no lower priority passes a higher one. A job that fits in
    what is left of its team's guarantee keeps its place either way: what is behind it never uses up
    the guarantee that it waits for, as long as it is known when its GPUs come free or those who
    borrow could give them back. One that would fit only once others of its team have ended does
    not: they would have to wait until all of them have.

    `spare_order`: who of equal rank comes first where spare GPUs are given out, in organizations
    that say nothing else: the richest in credits and then by fair-share, the other way round, or
    by fair-share alone.

    `fair_share_half_life_s` (seconds, 3,600 to 315,360,000): how long until what was used counts
    half, in organizations that have no half-life of their own.

    `credit_floor_s` (seconds of its guarantee, 0 to 31,536,000): how deep a team's credits may
    go; what a team borrows that has come down there is unpaid, and taken back first.

    `reservations_max` (count, 0 to 1,000): how many of the first blocked jobs of each pool hold a
    reservation at their earliest possible start; 0 is none.

    `reservation_horizon_s` (seconds, 0 to 31,622,400): how far ahead ends are counted on, and so
    for how long at most GPUs are kept free for a job. What runs for longer is taken to have no
    end, like a job without a time limit. Below the longest time limit that people may ask for,
    large jobs may wait behind a stream of such long ones without a bound.

    `min_run_s` (seconds, 0 to 86,400): a job that has run for less than that since its start is
    spared, in organizations that say nothing else: it is stopped only where all that are not
    spared would not do.

    `preemptions_max` (count, 1 to 1,000): so is a job that was stopped as often as that.

    `costly_loss_s` (seconds, 0 to 315,360,000): a job that would lose more than that of its work,
    since the last known checkpoint or its start, is stopped only where all others would not do,
    before rank and credits are looked at and unpaid or not. Where a smaller job asks it is costly
    sooner by as much: a gang of 64 GPUs that is asked for 8, after an eighth of that time. The
    largest leaves the order to rank and credits alone, whatever is lost.

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
    """How many jobs may still start in a cycle, and for how many GPUs may still be taken back."""

    starts: int
    reclaims: int

    def does_as(self, other: Budget, starts: int, reclaims: int) -> bool:
        """Whether a cycle that did so much with `other` would have done the same with this."""
        return _does_as(self.starts, other.starts, starts) and _does_as(
            self.reclaims, other.reclaims, reclaims
        )


def _does_as(mine: int, theirs: int, used: int) -> bool:
    return mine == theirs or used < min(mine, theirs)

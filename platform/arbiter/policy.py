"""Every knob of the arbiter, with its unit, range and default."""

from __future__ import annotations

from dataclasses import dataclass

_RANGES = {
    "grace_period_s_default": (0, 86_400),
    "starts_max": (0, 1_000_000),
    "reclaims_max": (0, 1_000_000),
    "claim_overdue_s": (0, 86_400),
}


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
    that cannot. Off, a team's queue is strictly first in, first out within each priority and
    no lower priority passes a higher one. A job that fits in its team's guarantee keeps its
    place either way: what is behind it never uses up the guarantee that it waits for.

    Raises ValueError when a number is out of its range.
    """

    grace_period_s_default: int = 300
    starts_max: int = 1_000
    reclaims_max: int = 100
    claim_overdue_s: int = 600
    skips_blocked_within_team: bool = True

    def __post_init__(self) -> None:
        for name, (low, high) in _RANGES.items():
            value = getattr(self, name)
            if not low <= value <= high:
                raise ValueError(f"policy {name} is {value}; choose {low} to {high}")

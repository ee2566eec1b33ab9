"""Prices of cumulative usage, so that no way of splitting a bill changes its total (R-99)."""

from __future__ import annotations

from primitives.units import MGPU_S_PER_GPU_HOUR, PPM, div_half_even

#: Milli-GPU-seconds x nano-currency per GPU-hour x ppm that make one nano-currency.
COST_DIVISOR = MGPU_S_PER_GPU_HOUR * PPM


def cost_nano(cumulative_mgpu_s: int, *, price_nano: int, multiplier_ppm: int) -> int:
    """Return the cost so far, in nano-currency, rounded half to even.

    `cumulative_mgpu_s` is the use of one attempt in one usage class under one rate line since its
    start. `price_nano` is per GPU-hour. A period from c0 to c1 costs `cost_nano(c1) -
    cost_nano(c0)`. So adjacent periods add up exactly, which separately rounded periods do not.
    """
    return div_half_even(cumulative_mgpu_s * price_nano * multiplier_ppm, COST_DIVISOR)


def shifted_sql(cumulative_mgpu_s: str, rate: str) -> str:
    """Return SQL for 2n + d, with the divisor d and n = usage x `rate` (price x multiplier)."""
    return f"(2 * {cumulative_mgpu_s} * {rate} + {COST_DIVISOR})"


def cost_of_shifted_sql(shifted: str) -> str:
    """Return SQL for `cost_nano`, from the column `shifted` made by `shifted_sql`.

    floor((2n + d) / 2d) rounds half up. If that divides evenly, there was a tie, which goes back to
    even.
    """
    half_up = f"div({shifted}, {2 * COST_DIVISOR})"
    is_odd_tie = f"mod({shifted}, {2 * COST_DIVISOR}) = 0 AND mod({half_up}, 2) = 1"
    return f"({half_up} - CASE WHEN {is_odd_tie} THEN 1 ELSE 0 END)"

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


def class_price_nano(price_nano: int, class_ppm: int) -> int:
    """Return a price times the multiplier of its usage class, rounded half to even."""
    return div_half_even(price_nano * class_ppm, PPM)


def shifted_sql(cumulative_mgpu_s: str, rate: str, divisor: int = COST_DIVISOR) -> str:
    """Return SQL for 2n + d, with the divisor d and n = usage x `rate` (price x multiplier)."""
    return f"(2 * {cumulative_mgpu_s} * {rate} + {divisor})"


def cost_of_shifted_sql(shifted: str, divisor: int = COST_DIVISOR) -> str:
    """Return SQL for `cost_nano`, from the column `shifted` made by `shifted_sql`.

    floor((2n + d) / 2d) rounds half up. If that divides evenly, there was a tie, which goes back to
    even.
    """
    half_up = f"div({shifted}, {2 * divisor})"
    is_odd_tie = f"mod({shifted}, {2 * divisor}) = 0 AND mod({half_up}, 2) = 1"
    return f"({half_up} - CASE WHEN {is_odd_tie} THEN 1 ELSE 0 END)"


def class_price_sql(price_nano: str, class_ppm: str) -> str:
    """Return SQL for `class_price_nano`."""
    return cost_of_shifted_sql(shifted_sql(f"{price_nano}::numeric", class_ppm, PPM), PPM)

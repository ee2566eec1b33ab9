"""Prices on cumulative usage, so that no way of splitting a bill changes its total."""

from __future__ import annotations

from primitives.units import MGPU_S_PER_GPU_HOUR, PPM, div_half_even

#: Milli-GPU-seconds x nano-currency per GPU-hour x ppm that make one nano-currency.
COST_DIVISOR = MGPU_S_PER_GPU_HOUR * PPM


def cost_nano(cumulative_mgpu_s: int, *, price_nano: int, multiplier_ppm: int) -> int:
    """Cost so far, in nano-currency, rounded half to even.

    `cumulative_mgpu_s` is everything that one attempt used in one usage class under one rate
    line since it started; `price_nano` is per GPU-hour. A period from c0 to c1 costs
    `cost_nano(c1) - cost_nano(c0)`: neighbouring periods add up to the cost of both, exactly,
    which sums of separately rounded periods do not.
    """
    return div_half_even(cumulative_mgpu_s * price_nano * multiplier_ppm, COST_DIVISOR)


def cost_nano_sql(cumulative_mgpu_s: str, price_nano: str, multiplier_ppm: str) -> str:
    """`cost_nano` as an SQL expression over numeric columns; the three are column names.

    With n the product and d the divisor, floor((2n + d) / 2d) rounds half up, and where 2n + d
    divides evenly there was a tie, which goes back to even.
    """
    shifted = f"(2 * ({cumulative_mgpu_s} * {price_nano} * {multiplier_ppm}) + {COST_DIVISOR})"
    half_up = f"div({shifted}, {2 * COST_DIVISOR})"
    is_odd_tie = f"mod({shifted}, {2 * COST_DIVISOR}) = 0 AND mod({half_up}, 2) = 1"
    return f"({half_up} - CASE WHEN {is_odd_tie} THEN 1 ELSE 0 END)"

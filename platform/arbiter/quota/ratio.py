"""Ratios of integers with an exact order."""

from __future__ import annotations

from functools import lru_cache

#: Scale of an exactly ordered ratio: above the product of any two guarantees (2^62 each).
_RATIO_BITS = 124


@lru_cache(maxsize=1 << 14)
def exact_ratio(numerator: int, denominator: int) -> int:
    """Return an integer that orders like `numerator / denominator`, equal for equal ratios.

    Two different fractions with denominators below 2^62 differ by more than 2^-124, so their scaled
    floors differ too. A denominator of 0 gives 0.
    """
    return (numerator << _RATIO_BITS) // denominator if denominator else 0

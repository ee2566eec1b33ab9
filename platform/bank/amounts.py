"""Amounts of credits as text."""

from __future__ import annotations

#: A tenth of a GPU-hour of the reference GPU.
_TENTH_OF_A_GPU_HOUR = 360_000_000


def hours_text(ugpu_s: int) -> str:
    """Return credits as GPU-hours with one decimal, rounded towards zero: "-1,234.5"."""
    tenths = abs(ugpu_s) // _TENTH_OF_A_GPU_HOUR
    sign = "-" if ugpu_s < 0 and tenths else ""
    return f"{sign}{tenths // 10:,}.{tenths % 10}"

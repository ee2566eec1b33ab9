"""Halving over time in whole numbers, the same on every machine."""

from __future__ import annotations

from math import isqrt

#: The fixed-point representation of 1.
ONE = 1 << 64
_STEPS = 32


def _roots() -> tuple[int, ...]:
    """ONE * 2^-(1/2), ONE * 2^-(1/4) ...: each is the root of the one before."""
    root, found = ONE >> 1, []
    for _ in range(_STEPS):
        root = isqrt(root << 64)
        found.append(root)
    return tuple(found)


_ROOTS = _roots()


def halving(numerator: int, denominator: int) -> int:
    """ONE * 2^-(numerator / denominator), to about 1 part in 10^9; 0 after 64 halvings."""
    whole, rest = divmod(numerator, denominator)
    if whole >= 64:
        return 0
    value = ONE >> whole
    fraction = (rest << _STEPS) // denominator
    for i, root in enumerate(_ROOTS):
        if fraction >> (_STEPS - 1 - i) & 1:
            value = value * root >> 64
    return value

"""Exponential decay of use, in integers.

Use decays by half in each half-life. A use of `mgpu` over [a, b) counts at T as `mgpu` times the
integral of 2^(-(T - s) / half-life) for s from a to b. The integral has a closed form, so there is
no sampling. The unit is millionths of a GPU-second of the reference GPU: milli-GPU-seconds times
the pool's weight per mille.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from math import isqrt

#: A start is charged for this long at once, so that no team can flood the pool between two updates.
CHARGED_AT_START_S = 3_600

FACTOR_BITS = 64
AREA_BITS = 32
_WORK_BITS = 128
_EXPONENT_BITS = 96
_DIGIT_BITS = 8
#: The most ages that are cached.
_AGES_MAX = 1 << 13
#: 2^64 / ln 2, to the nearest.
PER_LN2 = 26_613_026_195_688_644_983


def _powers() -> tuple[tuple[int, ...], ...]:
    """Return 2^-(digit / 256^place) for places from 1 on.

    The unit is 2^-128; values are at most 16 too small.
    """
    halvings = [isqrt(1 << (2 * _WORK_BITS - 1))]
    while len(halvings) < _EXPONENT_BITS:
        halvings.append(isqrt(halvings[-1] << _WORK_BITS))
    found = []
    for first in range(0, _EXPONENT_BITS, _DIGIT_BITS):
        powers = [1 << _WORK_BITS]
        for digit in range(1, 1 << _DIGIT_BITS):
            bit = digit.bit_length() - 1
            power = halvings[first + _DIGIT_BITS - 1 - bit]
            powers.append(powers[digit - (1 << bit)] * power >> _WORK_BITS)
        found.append(tuple(powers))
    return tuple(found)


_POWERS = _powers()


class Decay:
    """Halves use in every `half_life_s`; integers only, the same on every machine.

    It caches some thousand ages, because many requests at once are for few different ages.

    Raises ValueError for a half-life below 1 second.
    """

    __slots__ = ("_areas", "_factors", "half_life_s")

    def __init__(self, half_life_s: int) -> None:
        if half_life_s < 1:
            raise ValueError(f"a half-life is {half_life_s} s; choose 1 s or more")
        self.half_life_s = half_life_s
        self._areas: dict[int, int] = {}
        self._factors: dict[int, int] = {}

    def factor(self, age_s: int) -> int:
        """Return 2^(-age / half-life) in units of 2^-64, off by at most one.

        A negative age counts as 0.
        """
        known = self._factors.get(age_s)
        if known is None:
            if len(self._factors) >= _AGES_MAX:
                self._factors.clear()
            known = self._factors[age_s] = self._factor(age_s)
        return known

    def _factor(self, age_s: int) -> int:
        halvings, rest = divmod(max(0, age_s), self.half_life_s)
        exponent = (rest << _EXPONENT_BITS) // self.half_life_s
        value = 1 << _WORK_BITS
        shift = _EXPONENT_BITS
        for powers in _POWERS:
            shift -= _DIGIT_BITS
            digit = exponent >> shift & (1 << _DIGIT_BITS) - 1
            if digit:
                value = value * powers[digit] >> _WORK_BITS
        return value >> (_WORK_BITS - FACTOR_BITS) + halvings

    def area(self, age_s: int) -> int:
        """Return what one unit held always until `age_s` ago counts, in 2^-32 unit-seconds.

        It is off by less than two units for half-lives up to ten years. Use from `a` to `b` is the
        difference of two areas, so splitting it anywhere changes nothing at all.
        """
        known = self._areas.get(age_s)
        if known is None:
            if len(self._areas) >= _AGES_MAX:
                self._areas.clear()
            shift = 2 * FACTOR_BITS - AREA_BITS
            known = self._areas[age_s] = (self.half_life_s * self.factor(age_s) * PER_LN2) >> shift
        return known

    def used(self, intervals: Iterable[tuple[int, int, int]], at: int) -> int:
        """Return what `intervals` of (start, end, milli-GPU) count at `at`, in milli-GPU-seconds.

        Time after `at` counts nothing. The sum is rounded once, to the nearest: it is off by at
        most one half and 2^-30 of the sum of the milli-GPU.
        """
        total = sum(
            mgpu * (self.area(at - min(end, at)) - self.area(at - min(start, at)))
            for start, end, mgpu in intervals
        )
        return (total + (1 << (AREA_BITS - 1))) >> AREA_BITS

    def use_since(self, steps: Iterable[tuple[int, int]], at: int) -> int:
        """Return what (moment, milli-GPU) steps count at `at`, in the unit of `used`.

        Each amount is held from its moment on; a negative amount ends an earlier one.
        """
        total, now = 0, self.area(0)
        for start, mgpu in steps:
            total += mgpu * (now - self.area(at - start if start < at else 0))
        return (total + (1 << (AREA_BITS - 1))) >> AREA_BITS

    def use_of(self, mgpu: int, seconds: int) -> int:
        """Return what `mgpu` held for the last `seconds` count, in the unit of `used`."""
        total = mgpu * (self.area(0) - self.area(seconds))
        return (total + (1 << (AREA_BITS - 1))) >> AREA_BITS

    def at_start(self) -> int:
        """Return the charge of one unit at its start, in 2^-32 unit-seconds: the last hour."""
        return self.area(0) - self.area(CHARGED_AT_START_S)


@lru_cache(maxsize=64)
def decay_of(half_life_s: int) -> Decay:
    """Return the decay of a half-life, shared by all cycles and cores, which use the same ages."""
    return Decay(half_life_s)

"""Units of all quantities: milli-GPU, milli-GPU-seconds, nano-currency. Integers only.

A pool of CPU cores uses the same units. There, a milli-GPU is a thousandth of a core.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from decimal import Decimal
from enum import StrEnum
from typing import TypeVar

MGPU_PER_GPU = 1_000
MGPU_S_PER_GPU_HOUR = 1_000 * 3_600
NANO_PER_UNIT = 1_000_000_000
PPM = 1_000_000
BASIS_POINTS = 10_000

#: The largest amount that any column or request may name, in milli-GPU (ten million GPUs).
MGPU_MAX = 10_000_000 * MGPU_PER_GPU

Key = TypeVar("Key", bound=Hashable)


class DeviceKind(StrEnum):
    """The kind of devices in a pool."""

    GPU = "gpu"
    CPU = "cpu"

    @property
    def singular(self) -> str:
        """Return the name of one device. Words like "GPU-hours" begin with it."""
        return "GPU" if self is DeviceKind.GPU else "core"

    @property
    def plural(self) -> str:
        """Return the name of several devices."""
        return f"{self.singular}s"

    def text(self, milli: int) -> str:
        """Return `milli` thousandths of a device as text: "8 GPUs", "0.5 GPUs", "1 core"."""
        named = self.singular if milli == MGPU_PER_GPU else self.plural
        return f"{gpus_text(milli)} {named}"


def gpus_text(mgpu: int) -> str:
    """Return `mgpu` milli-GPU as text: 8000 is "8", 500 is "0.5", 1234567 is "1,234.567"."""
    whole, milli = divmod(abs(mgpu), MGPU_PER_GPU)
    sign = "-" if mgpu < 0 else ""
    fraction = f".{milli:03d}".rstrip("0") if milli else ""
    return f"{sign}{whole:,}{fraction}"


def gpu_hours(mgpu_s: int) -> str:
    """Return milli-GPU-seconds as GPU-hours with three decimals, halves rounded away from zero."""
    thousandths = (2 * abs(mgpu_s) + 3_600) // 7_200
    sign = "-" if mgpu_s < 0 and thousandths else ""
    return f"{sign}{thousandths // 1000:,}.{thousandths % 1000:03d}"


def mgpu_of(gpus: Decimal) -> int:
    """Return `gpus` in milli-GPU.

    Raises ValueError unless that is a whole number of milli-GPU.
    """
    scaled = gpus * MGPU_PER_GPU
    if scaled != scaled.to_integral_value():
        raise ValueError("GPUs are counted in thousandths; use at most three decimals")
    return int(scaled)


def div_half_even(numerator: int, denominator: int) -> int:
    """Return `numerator / denominator` rounded to the nearest integer, ties to even.

    `denominator` must be positive. Raises ZeroDivisionError where it is 0.
    """
    quotient, remainder = divmod(numerator, denominator)
    twice = 2 * remainder
    if twice > denominator or (twice == denominator and quotient % 2 == 1):
        return quotient + 1
    return quotient


def largest_remainder(total: int, weights: Mapping[Key, int], *, out_of: int) -> dict[Key, int]:
    """Split `total` units by `weights` parts `out_of`, exactly, with Hamilton's method.

    Each key gets the floor of `total * weight / out_of`. The units that are left go, one each, to
    the largest remainders. Ties go to the smallest key by its text. The result sums to `total *
    sum(weights) // out_of`. So weights that sum to `out_of` hand out all of `total`.
    """
    exact = {key: total * weight for key, weight in weights.items()}
    shares = {key: value // out_of for key, value in exact.items()}
    missing = sum(exact.values()) // out_of - sum(shares.values())
    by_remainder = sorted(exact, key=lambda key: (-(exact[key] % out_of), str(key)))
    for key in by_remainder[:missing]:
        shares[key] += 1
    return shares

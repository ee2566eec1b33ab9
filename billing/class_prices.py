"""The prices of a pool's usage classes at one moment, from its price list and its terms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from billing.models import PoolTerms, PriceMode, UsageClass
from billing.rating import class_price_nano


class ClassPrice(NamedTuple):
    """The price of a GPU-hour in nano-currency, with the multiplier of the class in it.

    `is_billed` is unset for showback, and for use that a commitment pays.
    """

    price_nano: int
    multiplier_ppm: int
    is_billed: bool

    @property
    def billed_nano(self) -> int:
        """Return what a GPU-hour of use is billed at."""
        return self.price_nano if self.is_billed else 0


def class_prices(
    listed_nano: Mapping[UsageClass, int], terms: PoolTerms
) -> dict[UsageClass, ClassPrice]:
    """Return the prices of all classes that have one.

    Unpaid use without a listed price has that of borrowed use, at its own multiplier.
    """
    listed = dict(listed_nano)
    if UsageClass.BORROWED in listed:
        listed.setdefault(UsageClass.UNPAID, listed[UsageClass.BORROWED])
    multipliers_ppm = {
        UsageClass.GUARANTEED: terms.guaranteed_ppm,
        UsageClass.BORROWED: terms.borrowed_ppm,
        UsageClass.UNPAID: terms.unpaid_ppm,
    }
    return {
        usage_class: ClassPrice(
            class_price_nano(listed[usage_class], multiplier_ppm),
            multiplier_ppm,
            _is_billed(terms, usage_class),
        )
        for usage_class, multiplier_ppm in multipliers_ppm.items()
        if usage_class in listed
    }


def _is_billed(terms: PoolTerms, usage_class: UsageClass) -> bool:
    if terms.mode == PriceMode.COMMITMENT:
        return usage_class != UsageClass.GUARANTEED
    return terms.mode == PriceMode.PAY_PER_USE

"""Amounts of use in the unit of a budget's measure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from billing.models import PRICED_CLASSES, UsageClass
from billing.queries import present_prices
from billing.rating import cost_nano
from budgets.models import Measure
from clusters.models import Pool
from primitives.units import DeviceKind


@dataclass(frozen=True, slots=True)
class Rates:
    """The weights and devices of pools, and an organization's present prices."""

    weights: Mapping[UUID, int]
    of_gpus: frozenset[UUID]
    prices_nano: Mapping[tuple[UUID, str], int]
    currency: str | None

    def spent(self, measure: str, pool: UUID, mgpu_s: int, cost: int) -> int:
        """Return metered use in the unit of `measure`; `cost` in nano-currency is rated already."""
        if measure == Measure.MONEY:
            return cost
        return self._weighed(measure, pool, mgpu_s)

    def on_hold(
        self,
        measure: str,
        pool: UUID,
        *,
        guaranteed_mgpu: int,
        borrowed_mgpu: int,
        multiplier_ppm: int,
        seconds: int,
    ) -> int:
        """Return what these GPUs use in `seconds` at present prices. Use without a price is 0."""
        if measure != Measure.MONEY:
            return self._weighed(measure, pool, (guaranteed_mgpu + borrowed_mgpu) * seconds)
        return sum(
            cost_nano(
                mgpu * seconds,
                price_nano=self.prices_nano.get((pool, usage_class.value), 0),
                multiplier_ppm=multiplier_ppm,
            )
            for usage_class, mgpu in (
                (UsageClass.GUARANTEED, guaranteed_mgpu),
                (UsageClass.BORROWED, borrowed_mgpu),
            )
        )

    def most(
        self, measure: str, pool: UUID, *, mgpu: int, multiplier_ppm: int, seconds: int
    ) -> int:
        """Return the most that a job may use in `seconds`, at the dearest class of use."""
        if measure != Measure.MONEY:
            return self._weighed(measure, pool, mgpu * seconds)
        price_nano = max(self.prices_nano.get((pool, one.value), 0) for one in PRICED_CLASSES)
        return cost_nano(mgpu * seconds, price_nano=price_nano, multiplier_ppm=multiplier_ppm)

    def counts(self, measure: str, pool: UUID) -> bool:
        """Return whether any use of the pool counts: it has such devices, a weight, or a price."""
        hour = {"mgpu": 1_000, "multiplier_ppm": 1_000_000, "seconds": 3_600}
        return self.most(measure, pool, **hour) > 0

    def _weighed(self, measure: str, pool: UUID, mgpu_s: int) -> int:
        if measure == Measure.CREDITS:
            return mgpu_s * self.weights[pool]
        return mgpu_s if pool in self.of_gpus else 0


def read_rates(organization: UUID, now: datetime) -> Rates:
    """Return the weights of all pools and the organization's prices at `now`. Three queries."""
    pools = list(Pool.objects.all())
    present = present_prices(organization, [pool.pk for pool in pools], now=now)
    return Rates(
        weights={pool.pk: pool.weight for pool in pools},
        of_gpus=frozenset(pool.pk for pool in pools if pool.kind is DeviceKind.GPU),
        prices_nano=present.billed_nano,
        currency=present.currency,
    )

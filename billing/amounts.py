"""Amounts of a chargeback report by usage class."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, fields, replace
from typing import NamedTuple

from billing.models import UsageClass
from primitives.units import DeviceKind


@dataclass(frozen=True, slots=True)
class Amounts:
    """Usage in milli-GPU-seconds, cost in nano-currency, and the number of jobs.

    The unpriced parts are included in the usage, at cost 0. Faults cost nothing. A job may have
    several classes, so the jobs of the classes may sum to more than `jobs`. Commitments and top-ups
    are billed beside the usage. Showback is not billed, so it is in no cost.
    """

    guaranteed_mgpu_s: int = 0
    borrowed_mgpu_s: int = 0
    unpaid_mgpu_s: int = 0
    fault_mgpu_s: int = 0
    guaranteed_cost_nano: int = 0
    borrowed_cost_nano: int = 0
    unpaid_cost_nano: int = 0
    unpriced_guaranteed_mgpu_s: int = 0
    unpriced_borrowed_mgpu_s: int = 0
    unpriced_unpaid_mgpu_s: int = 0
    jobs: int = 0
    guaranteed_jobs: int = 0
    borrowed_jobs: int = 0
    unpaid_jobs: int = 0
    fault_jobs: int = 0
    commitment_mgpu_s: int = 0
    commitment_cost_nano: int = 0
    top_up_mgpu_s: int = 0
    top_up_cost_nano: int = 0
    showback_guaranteed_nano: int = 0
    showback_borrowed_nano: int = 0
    showback_unpaid_nano: int = 0
    showback_top_up_nano: int = 0

    def __add__(self, other: Amounts) -> Amounts:
        """Return the sum, including the jobs.

        Teams in one pool have no job in common. For several pools, a job may count more than once.
        """
        return Amounts(
            *(getattr(self, item.name) + getattr(other, item.name) for item in fields(self))
        )

    @property
    def mgpu_s(self) -> int:
        """Return the usage of all classes."""
        return (
            self.guaranteed_mgpu_s + self.borrowed_mgpu_s + self.unpaid_mgpu_s + self.fault_mgpu_s
        )

    @property
    def unpriced_mgpu_s(self) -> int:
        """Return the usage of all classes without a price."""
        return (
            self.unpriced_guaranteed_mgpu_s
            + self.unpriced_borrowed_mgpu_s
            + self.unpriced_unpaid_mgpu_s
        )

    @property
    def use_cost_nano(self) -> int:
        """Return the cost of all classes."""
        return self.guaranteed_cost_nano + self.borrowed_cost_nano + self.unpaid_cost_nano

    @property
    def cost_nano(self) -> int:
        """Return the cost of all classes, commitments and top-ups."""
        return self.use_cost_nano + self.commitment_cost_nano + self.top_up_cost_nano

    @property
    def showback_nano(self) -> int:
        """Return what showback shows of all classes and top-ups. It is not billed."""
        return (
            self.showback_guaranteed_nano
            + self.showback_borrowed_nano
            + self.showback_unpaid_nano
            + self.showback_top_up_nano
        )

    def of_class(self, usage_class: UsageClass) -> ClassAmounts:
        """Return the amounts of one class."""
        match usage_class:
            case UsageClass.GUARANTEED:
                return ClassAmounts(
                    self.guaranteed_mgpu_s,
                    self.guaranteed_cost_nano,
                    self.unpriced_guaranteed_mgpu_s,
                    self.guaranteed_jobs,
                    self.showback_guaranteed_nano,
                )
            case UsageClass.BORROWED:
                return ClassAmounts(
                    self.borrowed_mgpu_s,
                    self.borrowed_cost_nano,
                    self.unpriced_borrowed_mgpu_s,
                    self.borrowed_jobs,
                    self.showback_borrowed_nano,
                )
            case UsageClass.UNPAID:
                return ClassAmounts(
                    self.unpaid_mgpu_s,
                    self.unpaid_cost_nano,
                    self.unpriced_unpaid_mgpu_s,
                    self.unpaid_jobs,
                    self.showback_unpaid_nano,
                )
            case UsageClass.FAULT:
                return ClassAmounts(self.fault_mgpu_s, 0, 0, self.fault_jobs, 0)


class ClassAmounts(NamedTuple):
    """The amounts of one usage class, as in `Amounts`."""

    mgpu_s: int
    cost_nano: int
    unpriced_mgpu_s: int
    jobs: int
    showback_nano: int


#: Number of bits by which the class bits are shifted for usage on each kind of devices.
SHIFTS = {kind: len(UsageClass) * place for place, kind in enumerate(DeviceKind)}


def total_of(
    rows: Iterable[Amounts], kinds: Collection[DeviceKind], counts: Collection[tuple[int, int]]
) -> Amounts:
    """Sum `rows`, which cover all these `kinds` of devices. Each job counts once.

    `counts` are how many jobs used the classes of a set of bits: that of the class, in the order of
    `UsageClass`, shifted by the `SHIFTS` of its devices.
    """

    def jobs(*classes: UsageClass) -> int:
        bits = sum(
            1 << SHIFTS[kind] + list(UsageClass).index(one) for kind in kinds for one in classes
        )
        return sum(count for used, count in counts if used & bits)

    return replace(
        sum(rows, Amounts()),
        jobs=jobs(*UsageClass),
        guaranteed_jobs=jobs(UsageClass.GUARANTEED),
        borrowed_jobs=jobs(UsageClass.BORROWED),
        unpaid_jobs=jobs(UsageClass.UNPAID),
        fault_jobs=jobs(UsageClass.FAULT),
    )

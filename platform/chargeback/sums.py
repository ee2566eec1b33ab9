"""Sums of a report, with the check against the segments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from billing.amounts import Amounts
from primitives.units import DeviceKind


@dataclass(frozen=True, slots=True)
class Sums:
    """Totals of some organizations, overall and for each kind of devices that they used.

    Hours of cores and GPUs have different units, so their sum has no meaning for a reader.
    `segments_mgpu_s` is summed from the segments, without rating and grouping, as a check.
    """

    totals: Amounts
    totals_by_device: Mapping[DeviceKind, Amounts]
    segments_mgpu_s: int


@dataclass(frozen=True, slots=True)
class CurrencySums(Sums):
    """Sums of the organizations (slugs) with one currency.

    `currency` is None if no rate card applies.
    """

    currency: str | None
    organizations: tuple[str, ...]

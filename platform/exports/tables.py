"""Tables of a file: columns, independent of the format."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from primitives.units import MGPU_S_PER_GPU_HOUR, div_half_even

Kind = Literal["text", "time", "whole", "decimal"]

#: Decimals of a currency amount in nano, of a ratio in millionths, and of hours.
NANO = 9
MICRO = 6


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a file. `value` returns the cell of a row, or None for an empty one.

    It is a str, an aware datetime or an int. A decimal is an int, of which the last `scale` digits
    are decimals.
    """

    name: str
    kind: Kind
    value: Callable[[Any], Any]
    scale: int = 0


def text(name: str, value: Callable[[Any], Any]) -> Column:
    """Return a column of texts."""
    return Column(name, "text", value)


def time(name: str, value: Callable[[Any], Any]) -> Column:
    """Return a column of times."""
    return Column(name, "time", value)


def whole(name: str, value: Callable[[Any], Any]) -> Column:
    """Return a column of whole numbers."""
    return Column(name, "whole", value)


def decimal(name: str, value: Callable[[Any], Any], scale: int = NANO) -> Column:
    """Return a column of exact decimals."""
    return Column(name, "decimal", value, scale)


def micro_hours(row: Any) -> int:
    """Return the hours of a row with `mgpu_s`, in millionths."""
    return div_half_even(row.mgpu_s * 1_000_000, MGPU_S_PER_GPU_HOUR)


#: New columns are added at the end. A column never changes its meaning. `gpu_hours` are rounded
#: half to even, `mgpu_seconds` are exact. If `device` is cpu, both count cores. Commitments and
#: top-ups are no use: `billed_mgpu_seconds` times the price and the priority multiplier is the list
#: cost. `price_per_hour` includes `class_multiplier`. Showback has no billed cost.
CHARGE_COLUMNS: Sequence[Column] = (
    time("charge_start", lambda row: row.start),
    time("charge_end", lambda row: row.end),
    text("organization", lambda row: row.organization),
    text("department", lambda row: row.department),
    text("team", lambda row: row.team),
    text("user", lambda row: row.user),
    text("cluster", lambda row: row.cluster),
    text("pool", lambda row: row.pool),
    text("device", lambda row: row.device),
    text("usage_class", lambda row: row.usage_class),
    text("priority_class", lambda row: row.priority_class),
    decimal("priority_multiplier", lambda row: row.multiplier_ppm, MICRO),
    text("job_id", lambda row: row.job_id),
    text("job_name", lambda row: row.job_name),
    text("attempt_id", lambda row: row.attempt_id),
    whole("attempt", lambda row: row.attempt),
    decimal("gpu_hours", micro_hours, MICRO),
    whole("mgpu_seconds", lambda row: row.mgpu_s),
    text("rate_line", lambda row: row.rate_line),
    decimal("price_per_hour", lambda row: row.price_nano),
    decimal("list_cost", lambda row: row.list_cost_nano),
    decimal("contracted_cost", lambda row: row.contracted_cost_nano),
    decimal("billed_cost", lambda row: row.billed_cost_nano),
    decimal("effective_cost", lambda row: row.effective_cost_nano),
    text("currency", lambda row: row.currency),
    text("mode", lambda row: row.mode),
    decimal("class_multiplier", lambda row: row.class_multiplier_ppm, MICRO),
    whole("billed_mgpu_seconds", lambda row: row.priced_mgpu_s),
)

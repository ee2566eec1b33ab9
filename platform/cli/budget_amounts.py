"""Amounts of budgets as text."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from cli.errors import CliError

#: The unit of an amount, by measure: what one of it is in the API's integers.
UNITS = {"gpu_hours": 3_600_000, "credits": 3_600_000_000, "money": 1_000_000_000}


def amount_text(budget: Mapping[str, Any], amount: int) -> str:
    """Return an amount with its unit: "1,234.5 GPU-hours"."""
    unit = {"gpu_hours": "GPU-hours", "credits": "credits"}.get(
        budget["measure"], budget["currency"] or ""
    )
    return f"{bare_amount(budget, amount)} {unit}".rstrip()


def bare_amount(budget: Mapping[str, Any], amount: int | None) -> str:
    """Return an amount without its unit, rounded towards zero; "-" for None."""
    if amount is None:
        return "-"
    digits = 2 if budget["measure"] == "money" else 1
    scaled = abs(amount) * 10**digits // UNITS[budget["measure"]]
    whole, rest = divmod(scaled, 10**digits)
    return f"{'-' if amount < 0 and scaled else ''}{whole:,}.{rest:0{digits}d}"


def left_of(effect: Mapping[str, Any], work: str) -> str:
    """Return what a budget has left after some work: "120.0 of 500.0 GPU-hours left after it"."""
    left, limit = bare_amount(effect, effect["left_after"]), amount_text(effect, effect["limit"])
    return f"{left} of {limit} left after {work}"


def integer_of(text: str, unit: int, option: str) -> int:
    """Return an amount in the API's integers. Raises CliError unless it is a number above 0."""
    try:
        scaled = Decimal(text.replace(",", "")) * unit
    except InvalidOperation:
        scaled = Decimal(0)
    if not scaled.is_finite() or scaled <= 0 or scaled != int(scaled):
        raise CliError(f"{option} must be a number above 0, such as 5000 or 12.5, not {text!r}.")
    return int(scaled)

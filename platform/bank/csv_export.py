"""A statement of credits as CSV: stable columns, exact amounts, safe in a spreadsheet."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

from bank.statements import Statement
from primitives.csv_text import csv_line, plain_text
from primitives.units import div_half_even

#: New columns are added at the end. A column never changes its meaning.
COLUMNS = (
    "team",
    "pool",
    "day",
    "kind",
    "other_team",
    "amount_gpu_hours",
    "balance_gpu_hours",
    "amount_ugpu_seconds",
    "balance_ugpu_seconds",
    "expires_on",
    "reason",
)
_UGPU_S_PER_GPU_HOUR = 3_600 * 1_000_000


def file_name(statement: Statement) -> str:
    """Return the name of the statement's file."""
    middle = statement.start + (statement.end - statement.start) / 2
    return f"credits-{statement.team.slug}-{statement.pool.name}-{middle:%Y-%m}.csv"


def csv_lines(statement: Statement) -> Iterator[str]:
    """Yield the header, the opening balance, then one line for each line of the statement.

    Hours are GPU-hours of the reference GPU, rounded half to even at six decimals. The amounts in
    millionths of a GPU-second are exact: the opening balance plus all of them is the last balance.
    """
    team, pool = plain_text(statement.team.display_path), plain_text(statement.pool.name)
    yield csv_line(COLUMNS)
    opening = statement.opening_ugpu_s
    yield csv_line((team, pool, "", "opening", "", "", _hours(opening), "", str(opening), "", ""))
    for line in statement.lines:
        yield csv_line(
            (
                team,
                pool,
                line.day.isoformat(),
                line.kind,
                plain_text(line.other),
                _hours(line.amount_ugpu_s),
                _hours(line.balance_ugpu_s),
                str(line.amount_ugpu_s),
                str(line.balance_ugpu_s),
                "" if line.expires_on is None else line.expires_on.isoformat(),
                plain_text(line.reason),
            )
        )


def _hours(ugpu_s: int) -> str:
    return f"{Decimal(div_half_even(ugpu_s * 1_000_000, _UGPU_S_PER_GPU_HOUR)).scaleb(-6):f}"

"""Reports of charges for people: sums by team, pool and usage class, as PDF."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self
from zoneinfo import ZoneInfo

from django.conf import settings

from exports.closed_tables import ClosedCharge
from exports.models import Export
from periods.documents import PDF_LINES_MAX, PdfUnavailable, pdf_of
from periods.statements import cents_of
from primitives.currencies import cents_text
from primitives.errors import Conflict
from primitives.units import MGPU_S_PER_GPU_HOUR, DeviceKind, div_half_even


class ReportLine(NamedTuple):
    """A line of a report, by what it sums up."""

    team: str
    pool: str
    usage_class: str
    kind: str
    device: str


class ReportWriter:
    """Sums up rows, and writes the report at the end. The lines with the largest costs fit."""

    def __init__(self, path: Path, export: Export) -> None:
        """Begin a report without lines."""
        self._path, self._export = path, export
        self._sums: dict[ReportLine, tuple[int, int]] = {}
        self._currency = ""

    def write(self, rows: Sequence[Any]) -> None:
        """Add rows of charges, or of charges of closed months."""
        for row in rows:
            self._currency = row.currency or self._currency
            line = _line(row)
            mgpu_s, cost_nano = self._sums.get(line, (0, 0))
            self._sums[line] = mgpu_s + row.mgpu_s, cost_nano + row.billed_cost_nano

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        if kind is None:
            try:
                self._path.write_bytes(pdf_of(self.document()))
            except PdfUnavailable as unavailable:
                raise Conflict("The PDF was not made in time. Try again, or choose CSV.") from (
                    unavailable
                )

    def document(self) -> dict[str, Any]:
        """Return the texts of the report, as in `periods.documents`."""
        lines = sorted(self._sums)
        costs = [self._sums[line][1] for line in lines]
        cents = dict(zip(lines, cents_of(costs, self._currency), strict=True))
        shown = lines
        if len(lines) > PDF_LINES_MAX:
            largest = sorted(lines, key=lambda line: (-abs(cents[line]), line))
            shown = sorted(largest[:PDF_LINES_MAX])
        export = self._export
        zone = ZoneInfo(export.time_zone)
        start, end, as_of = (
            f"{one.astimezone(zone):%Y-%m-%d %H:%M}"
            for one in (export.start, export.end, export.as_of)
        )
        facts = [
            ("Node", export.node_path.rstrip("/")),
            ("Period", f"{start} to {end} ({zone})"),
            ("As of", as_of),
        ]
        if export.pool:
            facts.append(("Pool", export.pool))
        if len(shown) < len(lines):
            facts.append(
                (
                    "Lines",
                    f"The {len(shown):,} lines with the largest costs of {len(lines):,}. The total "
                    "has all of them. Choose CSV for the others.",
                )
            )
        return {
            "title": f"Charges of {export.organization.name}",
            "provider": settings.PROVIDER_NAME,
            "facts": facts,
            "columns": [*_COLUMNS, f"Amount {self._currency}".rstrip()],
            "rows": [
                _cells(line, self._sums[line][0], cents_text(cents[line], self._currency))
                for line in shown
            ],
            "total": cents_text(sum(cents.values()), self._currency),
            "currency": self._currency,
            "totals": [],
        }


_COLUMNS = ("Team", "Pool", "Class", "Kind", "Hours")


def _line(row: Any) -> ReportLine:
    if isinstance(row, ClosedCharge):
        kind = "correction" if row.row.is_correction else "charge"
        stored = row.row
        return ReportLine(stored.team_path, stored.pool, stored.usage_class, kind, row.device)
    return ReportLine(row.team, row.pool, row.usage_class, "charge", row.device)


def _cells(line: ReportLine, mgpu_s: int, amount: str) -> list[str]:
    thousandths = div_half_even(mgpu_s * 1_000, MGPU_S_PER_GPU_HOUR)
    whole, rest = divmod(abs(thousandths), 1_000)
    sign = "-" if thousandths < 0 else ""
    hours = f"{sign}{whole:,}.{rest:03d} {DeviceKind(line.device).singular}-h"
    return [*line[:4], hours if mgpu_s else "", amount]

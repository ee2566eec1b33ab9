"""The manifest of a file: its rows, sums and hash."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from exports.models import Export
from exports.tables import Column

#: Corrections of a closed period are rows of a later one: a full reversal and the new charge.
CORRECTION_STYLE = "accounting"
_SUMMED = (
    "mgpu_s",
    "list_cost_nano",
    "contracted_cost_nano",
    "billed_cost_nano",
    "effective_cost_nano",
)


@dataclass(slots=True)
class Sums:
    """The number of rows and the exact sums of charges, by currency and kind of devices."""

    rows: int = 0
    _groups: dict[tuple[str, str], list[int]] = field(default_factory=dict)

    def add(self, rows: Sequence[Any]) -> None:
        """Count the rows, and add them up. None is a row without use and cost."""
        self.rows += len(rows)
        for row in rows:
            if row is None:
                continue
            key = (row.currency or "", row.device)
            sums = self._groups.get(key)
            if sums is None:
                sums = self._groups[key] = [0] * (1 + len(_SUMMED))
            sums[0] += 1
            for place, name in enumerate(_SUMMED, 1):
                sums[place] += getattr(row, name)

    def in_json(self) -> list[dict[str, Any]]:
        """Return one object for each currency and kind of devices, sorted."""
        return [
            {
                "currency": currency or None,
                "device": device,
                **dict(zip(("rows", *_SUMMED), sums, strict=True)),
            }
            for (currency, device), sums in sorted(self._groups.items())
        ]


def manifest_of(
    export: Export,
    columns: Sequence[Column],
    sums: Sums,
    *,
    size_bytes: int,
    sha256: str,
    now: datetime,
) -> Mapping[str, Any]:
    """Return the manifest, as JSON. Sums are in milli-GPU-seconds and nano-currency."""
    return {
        "manifest_version": 1,
        "export": str(export.pk),
        "dataset": export.dataset,
        "format": export.format,
        "file": export.file_name,
        "size_bytes": size_bytes,
        "sha256": sha256,
        "rows": sums.rows,
        "sums": sums.in_json(),
        "columns": [column.name for column in columns],
        "node": export.node_path.rstrip("/"),
        "pool": export.pool or None,
        "period": {
            "start": _text(export.start),
            "end": _text(export.end),
            "as_of": _text(export.as_of),
        },
        "users": export.users or None,
        "correction_style": CORRECTION_STYLE,
        "created_at": _text(now),
    }


def _text(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"

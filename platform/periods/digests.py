"""The digest of a closed month: SHA-256 over a JSON line per charge, then per adjustment."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any

from adjustments.adjusting import adjustments_in
from adjustments.models import Adjustment
from billing.models import PriceMode
from periods.models import BillingPeriod, ChargeRow


def canonical_line(row: ChargeRow) -> bytes:
    """Return the line of a charge. Its form never changes."""
    values = [
        row.number,
        row.is_correction,
        row.month.isoformat(),
        row.day.isoformat(),
        str(row.team_id),
        row.team_path,
        None if row.user_id is None else str(row.user_id),
        row.username,
        row.pool,
        row.device,
        row.cluster,
        row.usage_class,
        row.fault,
        row.priority_class,
        row.multiplier_ppm,
        row.job_type,
        None if row.rate_line_id is None else str(row.rate_line_id),
        row.price_nano,
        row.mgpu_s,
        row.cost_nano,
    ]
    # Months without such rows keep the digest that they had before there were any.
    codes = [row.cost_centre, row.project_code] if row.cost_centre or row.project_code else []
    if row.extra_mgpu_s or row.mode != PriceMode.PAY_PER_USE or codes:
        values += [row.mode, row.extra_mgpu_s, *codes]
    return _line(values)


def canonical_adjustment(adjustment: Adjustment) -> bytes:
    """Return the line of an adjustment. Its form never changes."""
    return _line(
        [
            "adjustment",
            str(adjustment.pk),
            adjustment.is_correction,
            adjustment.month.isoformat(),
            int(adjustment.effective_at.timestamp()),
            str(adjustment.team_id),
            None if adjustment.user_id is None else str(adjustment.user_id),
            None if adjustment.pool_id is None else str(adjustment.pool_id),
            None if adjustment.dispute_id is None else str(adjustment.dispute_id),
            adjustment.amount_nano,
            adjustment.currency,
            adjustment.reason,
        ]
    )


def _line(values: list[Any]) -> bytes:
    return json.dumps(values, ensure_ascii=True, separators=(",", ":")).encode() + b"\n"


class PeriodDigest:
    """The digest of a month, over its rows so far. `row_count` is their number."""

    def __init__(self, period: BillingPeriod) -> None:
        """Begin with the month itself."""
        head = [
            str(period.organization_id),
            period.month.isoformat(),
            int(period.start.timestamp()),
            int(period.end.timestamp()),
            period.time_zone,
            period.currency,
        ]
        self._digest = hashlib.sha256(json.dumps(head, separators=(",", ":")).encode() + b"\n")
        self.row_count = 0

    def add(self, rows: Iterable[ChargeRow]) -> None:
        """Add the next rows, in the order of their numbers."""
        for row in rows:
            self._digest.update(canonical_line(row))
            self.row_count += 1

    def add_adjustments(self, adjustments: Iterable[Adjustment]) -> None:
        """Add the adjustments of the month, after all rows, by moment and id."""
        for adjustment in adjustments:
            self._digest.update(canonical_adjustment(adjustment))

    def hexdigest(self) -> str:
        """Return the digest in hexadecimal digits."""
        return self._digest.hexdigest()


def digest_of(period: BillingPeriod, rows: Iterable[ChargeRow]) -> str:
    """Return the digest of `period` with `rows` in the order of their numbers.

    The adjustments are those of the database.
    """
    digest = PeriodDigest(period)
    digest.add(rows)
    digest.add_adjustments(adjustments_in(period.organization_id, period.month))
    return digest.hexdigest()
